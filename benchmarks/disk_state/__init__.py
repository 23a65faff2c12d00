"""Keyed state larger than memory: two designs of a backend on disk, side by side (decision 38)."""
