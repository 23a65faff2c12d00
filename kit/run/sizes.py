"""Sizes in bytes as people read them."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """A size with its unit, three digits at most."""
    for unit in ("B", "kB", "MB"):
        if size_bytes < 1000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} GB"
