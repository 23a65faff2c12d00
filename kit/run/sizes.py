"""Sizes in bytes and counts as people read them."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """Format a size with its unit and at most three digits."""
    for unit in ("B", "kB", "MB"):
        if size_bytes < 1000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} GB"


def counted(number: int, what: str) -> str:
    """Return a number with the noun that it counts, in the plural unless it is 1: `1 record`, `2,000 records`."""
    return f"{number:,} {what}{'s' * (number != 1)}"
