"""Checkpoints and savepoints opened for reading, ours and Flink's: their tables and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer

if TYPE_CHECKING:
    from kit.core.state.errors import CheckpointError
    from kit.snapshots.checkpoints.checkpoint import Checkpoint, open_checkpoint
    from kit.snapshots.checkpoints.directory import Checkpoints, open_checkpoints
    from kit.snapshots.checkpoints.outside import Outside

offer(
    __name__,
    {
        "kit.core.state.errors": ["CheckpointError"],
        "kit.snapshots.checkpoints.checkpoint": ["Checkpoint", "open_checkpoint"],
        "kit.snapshots.checkpoints.directory": ["Checkpoints", "open_checkpoints"],
        "kit.snapshots.checkpoints.outside": ["Outside"],
    },
)

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints", "Outside", "open_checkpoint", "open_checkpoints"]
