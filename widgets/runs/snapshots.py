"""The snapshots of a run so far, from which another run can start."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.trace.record_kinds import RecordKind
from kit.hosts.lab import Lab
from kit.run.durations import duration


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A savepoint, or an existing checkpoint: its number, its directory, and the step at which it was complete."""

    checkpoint_id: int
    kind: str
    path: str
    completed_at_ms: int
    position: int

    @property
    def label(self) -> str:
        """A short description."""
        return f"{self.kind.lower()} {self.checkpoint_id}, complete at {duration(self.completed_at_ms)}"


def snapshots_of(lab: Lab) -> list[TakenSnapshot]:
    """Return the complete snapshots whose `_metadata` is still on the lab's disk, newest first."""
    table = lab.checkpoints().query("status == 'COMPLETED' and not discarded")
    there = {int(row.id): row for row in table.itertuples() if f"{row.path}/_metadata" in lab.look.files.contents}
    found = []
    for number, record in enumerate(lab.trace if there else ()):
        row = there.get(record.checkpoint_id or 0) if record.kind == RecordKind.CHECKPOINT_COMPLETED else None
        if row is not None:
            step = max(1, lab.past.position_of(number + 1))
            found.append(TakenSnapshot(int(row.id), row.kind, row.path, record.at_ms, step))
    return found[::-1]
