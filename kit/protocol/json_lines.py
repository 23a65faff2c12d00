"""Files of JSON lines, as traces are saved: the one place of the protocol that touches the disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any


def write_lines(path: str | PathLike[str], lines: Iterable[Mapping[str, Any]]) -> Path:
    """Write each of these as one line, and return the path; the directory is made."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return target


def read_lines(path: str | PathLike[str]) -> Iterator[Any]:
    """What `write_lines` wrote, line by line."""
    with Path(path).open(encoding="utf-8") as file:
        yield from map(json.loads, file)
