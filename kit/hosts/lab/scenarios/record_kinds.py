"""The kinds of record that a trace of the lab may hold."""

from __future__ import annotations

from kit.run.kinds import KINDS


def record_kinds() -> tuple[str, ...]:
    """All kinds in alphabetical order: every word of the protocol, and what the machines note beside them."""
    return tuple(sorted(KINDS))
