"""The entries of a durable store: what it remembers of a checkpoint, and what it returns to a new driver.

The store holds no state: it points to `_metadata`, which describes everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol.properties import RecoveryClaimMode


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """One entry of the store.

    `claim_mode` is None for a checkpoint that the job took itself. For the snapshot that the job was restored from, it
    says who owns it.
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
        """True if the job may delete the checkpoint."""
        return self.claim_mode in (None, RecoveryClaimMode.CLAIM)


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job that has ended: its status, the checkpoints to `keep`, and the `shared` files that they need.

    `savepoint` is the path of the savepoint that stopped the job, or "".
    """

    status: str
    savepoint: str = ""
    keep: tuple[int, ...] = ()
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecoveredCheckpoint:
    """A store entry that an earlier driver wrote, with the bytes of its `_metadata`.

    The bytes are None if the file is gone, because the driver died while it was deleting the checkpoint.
    """

    stored: StoredCheckpoint
    metadata: bytes | None

    def __repr__(self) -> str:
        size = "no metadata" if self.metadata is None else f"{len(self.metadata)} B of metadata"
        return f"RecoveredCheckpoint({self.stored.checkpoint_id}, {size})"
