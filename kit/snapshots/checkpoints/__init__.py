"""Checkpoints and savepoints opened for reading, ours and Flink's: their tables and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.core.state.errors import CheckpointError as CheckpointError
    from kit.snapshots.checkpoints.checkpoint import Checkpoint as Checkpoint
    from kit.snapshots.checkpoints.checkpoint import open_checkpoint as open_checkpoint
    from kit.snapshots.checkpoints.directory import Checkpoints as Checkpoints
    from kit.snapshots.checkpoints.directory import open_checkpoints as open_checkpoints
    from kit.snapshots.checkpoints.outside import Outside as Outside

_offer(__name__)
