"""The splits that were assigned since the last completed checkpoint: what a restarted reader has to get again.

A reader that goes back to a checkpoint has the splits of that checkpoint. Those that it was assigned later are neither
in its state nor in the coordinator's, so the coordinator takes them back.

Follows Flink's `SplitAssignmentTracker`.
"""

from __future__ import annotations

from typing import Any

Split = dict[str, Any]


class SplitAssignmentTracker:
    """The assigned splits of each reader: since the last snapshot, and before each snapshot that may be restored."""

    def __init__(self) -> None:
        self._since: dict[int, list[Split]] = {}
        """The splits assigned since the last snapshot, by reader."""
        self._before: dict[int, dict[int, list[Split]]] = {}
        """The splits assigned between two snapshots, by the checkpoint of the second one."""

    def assigned(self, reader: int, split: Split) -> None:
        """Record a split that a reader was assigned (`recordSplitAssignment`)."""
        self._since.setdefault(reader, []).append(split)

    def on_checkpoint(self, checkpoint_id: int) -> None:
        """Record that the coordinator takes its snapshot for this checkpoint."""
        self._before[checkpoint_id], self._since = self._since, {}

    def on_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Forget what no restore can need: readers have these splits in this checkpoint or a later one."""
        self._before = {each: splits for each, splits in self._before.items() if each > checkpoint_id}

    def take_back(self, reader: int, checkpoint_id: int) -> list[Split]:
        """Remove and return the splits that a reader loses if it goes back to this checkpoint.

        Flink: `getAndRemoveUncheckpointedAssignment`.
        """
        lost = [splits for each, splits in sorted(self._before.items()) if each > checkpoint_id]
        return [split for splits in (*lost, self._since) for split in splits.pop(reader, ())]

    def __repr__(self) -> str:
        count = sum(len(splits) for readers in (self._since, *self._before.values()) for splits in readers.values())
        return f"SplitAssignmentTracker({count} splits assigned since the last completed checkpoint)"
