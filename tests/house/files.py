"""The files the house rules look at."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked() -> tuple[str, ...]:
    """List the files that git knows, relative to the root, as they are in the work tree."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return tuple(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def shipped() -> list[str]:
    """List the Python files of the wheel."""
    found = [
        path
        for top in ("kit", "widgets", "checkpoint_kit", "pyspark_checkpoint")
        for path in (ROOT / top).rglob("*.py")
    ]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def read(name: str) -> str:
    """Return the text of a file, named relative to the root."""
    return (ROOT / name).read_text(encoding="utf-8")
