"""Texts in parts, each a heading with its lines, that a test compares with a stored file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Part = tuple[str, list[str]]


def store(path: Path, parts: Iterable[Part]) -> None:
    """Write the parts to a file."""
    path.write_text(_text(parts), encoding="utf-8")


def compare(path: Path, parts: Iterable[Part]) -> None:
    """Fail at the first part that differs from the stored one."""
    module = ".".join(path.with_suffix("").parts[path.parts.index("tests") :])
    stored, found = path.read_text(encoding="utf-8").split("\n\n"), _text(parts).split("\n\n")
    for part, expected in zip(found, stored, strict=True):
        assert part.splitlines() == expected.splitlines(), f"if it is meant to differ: python -m {module}"


def _text(parts: Iterable[Part]) -> str:
    return "\n".join("\n".join([f"# {title}", *lines, ""]) for title, lines in parts)
