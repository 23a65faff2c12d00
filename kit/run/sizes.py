"""Sizes in bytes as people read them."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """Format a size with its unit and at most three digits."""
    for unit in ("B", "kB", "MB"):
        if size_bytes < 1000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} GB"
