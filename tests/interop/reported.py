"""The report at the end of a comparison with Flink."""

from __future__ import annotations

from collections.abc import Sequence


def reported(wrong: Sequence[str], done: str) -> int:
    """Print what differs, and what was done; return the exit code."""
    for line in wrong:
        print(line)
    print(f"{done}: {len(wrong) or 'no'} differences")
    return 1 if wrong else 0
