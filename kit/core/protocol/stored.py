"""What a durable store remembers of a completed checkpoint, and what it gives back to a new driver.

The store holds no state: it points to `_metadata`, which says all else.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol.properties import RecoveryClaimMode


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """One entry of the store.

    `claim_mode` is None for a checkpoint that the job took itself; for the snapshot that it was restored from it says
    whose that is.
    """

    checkpoint_id: int
    metadata_path: str
    claim_mode: RecoveryClaimMode | None = None

    @property
    def location(self) -> str:
        """The directory that holds the checkpoint."""
        return self.metadata_path.rpartition("/")[0]

    @property
    def is_owned(self) -> bool:
        """Whether the job may delete it."""
        return self.claim_mode in (None, RecoveryClaimMode.CLAIM)


@dataclass(frozen=True, slots=True)
class RecoveredCheckpoint:
    """An entry of the store that an earlier driver filled, with the bytes of its `_metadata`; None when that is gone:
    the driver died while it deleted the checkpoint.
    """

    stored: StoredCheckpoint
    metadata: bytes | None

    def __repr__(self) -> str:
        size = "no metadata" if self.metadata is None else f"{len(self.metadata)} B of metadata"
        return f"RecoveredCheckpoint({self.stored.checkpoint_id}, {size})"
