"""The kinds of record that a trace may have."""

from kit.hosts.lab.faults.faults import FAULTS
from kit.run.kinds import KINDS


def record_kinds() -> tuple[str, ...]:
    """Return the names of all commands, events, notes and faults."""
    return tuple(sorted({*KINDS, *FAULTS}))
