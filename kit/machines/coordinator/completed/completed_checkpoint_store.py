"""The completed checkpoints that the job could be restored from, oldest first.

At least one is retained. Adding one beyond `max_retained` subsumes the oldest, but never the newest of all and never
the newest that is not a savepoint, except after a stop-with-savepoint. What was subsumed is deleted as soon as no
retained checkpoint needs it.

The host makes a store durable (`StoreCheckpoint`, `RemoveStored`, `DiscardState.stored`): its entries are those of
`checkpoints` and `subsumed`. An entry is removed after the checkpoint's files, so that a new driver can continue the
deletion; it is removed at once if the files stay.

As in 2.x, a savepoint that the job completes does not enter the store, so no failure restores it; the snapshot that the
job started from does. A durable store records a savepoint that the job stops with. In 1.11 all savepoints enter the
store, and a failure may restore one (unless `isPreferCheckpointForRecovery`).

Follows Flink's `StandaloneCompletedCheckpointStore`, `DefaultCompletedCheckpointStore`, `CheckpointSubsumeHelper` and
`CheckpointsCleaner`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kit.core.protocol.commands import DiscardState, RemoveStored
from kit.core.state.handles import StreamStateHandle
from kit.machines.coordinator.completed.completed_checkpoint import GLOBALLY_TERMINAL, CompletedCheckpoint
from kit.machines.coordinator.completed.shared_state_registry import SharedStateRegistry

Removal = DiscardState | RemoveStored
"""The command that removes a checkpoint that is no longer retained."""

NO_CHECKPOINT = -1
"""The value of an id if there is no checkpoint."""
BEFORE_ALL_CHECKPOINTS = 0
"""The latest id before the first checkpoint, one less than its id."""


@dataclass(slots=True)
class CompletedCheckpointStore:
    """The retained checkpoints and the registry of what they share.

    `add` and `shut_down` return the resulting removals. Raises ValueError for a `max_retained` below 1.

    Follows Flink's `CompletedCheckpointStore`; the coordinator's is its `completedCheckpointStore`.
    """

    max_retained: int = 1
    is_durable: bool = False
    """True if a later driver finds the checkpoints again."""
    registry: SharedStateRegistry[StreamStateHandle] = field(default_factory=SharedStateRegistry)
    checkpoints: list[CompletedCheckpoint] = field(default_factory=list)
    subsumed: list[CompletedCheckpoint] = field(default_factory=list)
    """Checkpoints that are no longer retained but not deleted yet, because something in them is still in use."""
    stopped_with: int | None = None
    """The savepoint to stop with, which a durable store remembers until the job has ended; it is not retained here."""
    is_open: bool = True

    def __post_init__(self) -> None:
        if self.max_retained < 1:
            raise ValueError(f"max_retained is {self.max_retained}, expected at least 1: a job needs one checkpoint")

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """The checkpoint that a restore starts from.

        Flink: `getLatestCheckpoint`. Up to 1.13 `isPreferCheckpointForRecovery` can make it skip savepoints; since
        then, and here, the newest counts.
        """
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def latest_id(self) -> int:
        """The id of `latest`, `BEFORE_ALL_CHECKPOINTS` if there is none. Flink: `getLatestCheckpointId`."""
        return self.checkpoints[-1].checkpoint_id if self.checkpoints else BEFORE_ALL_CHECKPOINTS

    @property
    def in_use(self) -> frozenset[str]:
        """The directories of the checkpoints that the job may still restore, or of which it still needs files."""
        return frozenset(each.location for each in (*self.checkpoints, *self.subsumed))

    def recover(self, checkpoints: Iterable[CompletedCheckpoint]) -> None:
        """Retain what an earlier driver had retained, in order of ids; the next `add` subsumes those beyond the limit.

        Raises ValueError if there are checkpoints already.

        Flink: `CompletedCheckpointStore.recover`.
        """
        if self.checkpoints:
            raise ValueError(f"{self!r} is not empty: checkpoints are recovered before anything else")
        self.checkpoints = sorted(checkpoints, key=lambda each: each.checkpoint_id)

    def add(self, checkpoint: CompletedCheckpoint) -> tuple[CompletedCheckpoint | None, list[Removal]]:
        """Retain a checkpoint; return the newest one that it subsumed, and the removals.

        Raises ValueError after `shut_down`.

        Flink: `addCheckpoint`.
        """
        if not self.is_open:
            raise ValueError(f"{checkpoint!r} cannot be added: the store is shut down")
        self.checkpoints.append(checkpoint)
        subsumed = self._subsume()
        self.subsumed += subsumed
        last = max(subsumed, key=lambda each: each.checkpoint_id, default=None)
        lowest = next((each.checkpoint_id for each in self.checkpoints if not each.properties.is_savepoint), None)
        return last, [] if lowest is None else self._clean(lowest)

    def stop_with(self, checkpoint_id: int) -> None:
        """Record that the savepoint to stop with is in the durable store."""
        self.stopped_with = checkpoint_id

    def _subsume(self) -> list[CompletedCheckpoint]:
        newest = self.checkpoints[-1]
        newest_checkpoint = next(
            (each for each in reversed(self.checkpoints) if not each.properties.is_savepoint), None
        )
        subsumed: list[CompletedCheckpoint] = []
        for each in self.checkpoints:
            if len(self.checkpoints) - len(subsumed) <= self.max_retained:
                break
            if each is newest:
                continue
            if each.properties.is_savepoint or newest.properties.is_synchronous or each is not newest_checkpoint:
                subsumed.append(each)
        self.checkpoints = [each for each in self.checkpoints if all(each is not other for other in subsumed)]
        return subsumed

    def _clean(self, lowest: int) -> list[Removal]:
        unused, in_use = self.registry.unregister_unused(lowest)
        files = tuple(dict.fromkeys(file for handle in unused for file in handle.files()))
        discards: list[Removal] = [DiscardState(paths=files)] if files else []
        for each in list(self.subsumed):
            if each.checkpoint_id < lowest and each.checkpoint_id not in in_use:
                self.subsumed.remove(each)
                discards += self._remove(each, discard=each.properties.discard_subsumed)
        return discards

    def _remove(self, checkpoint: CompletedCheckpoint, *, discard: bool) -> list[Removal]:
        if discard:
            return [checkpoint.discard()]
        return [RemoveStored(checkpoint_id=checkpoint.checkpoint_id)] if self.is_durable else []

    def staying_at(self, job_status: str) -> list[CompletedCheckpoint]:
        """Return the checkpoints that stay when the job ends in this status.

        A claimed snapshot stays until a newer checkpoint is complete: a job that fails before may have been the wrong
        one, and it would have deleted the only copy of the state. Flink deletes it, unless checkpoints are retained.
        """
        return [
            each
            for each in self.checkpoints
            if not each.should_be_discarded_at(job_status) or (each.is_claimed and each is self.latest)
        ]

    def shut_down(self, job_status: str) -> list[Removal]:
        """Retain or delete each checkpoint, as its properties say for this end of the job, and accept no others.

        A durable store keeps everything unless the job has ended for good.
        """
        if not self.is_open:
            return []
        self.is_open = False
        if self.is_durable and job_status not in GLOBALLY_TERMINAL:
            self.checkpoints = []
            return []
        staying = self.staying_at(job_status)
        kept = [each.checkpoint_id for each in staying]
        discards = [removal for each in self.checkpoints for removal in self._remove(each, discard=each not in staying)]
        self.checkpoints = []
        if job_status in GLOBALLY_TERMINAL:
            self.registry.close()
            discards += self._clean(min(kept, default=2**63 - 1))
            discards += [removal for each in self.subsumed for removal in self._remove(each, discard=False)]
            if self.stopped_with is not None:
                discards.append(RemoveStored(checkpoint_id=self.stopped_with))
        return discards

    def validate(self) -> None:
        """Check that ids grow and each occurs once. Raises AssertionError."""
        ids = [each.checkpoint_id for each in self.checkpoints]
        assert len(set(ids)) == len(ids), f"a checkpoint is retained twice: {ids}"
        own = [each.checkpoint_id for each in self.checkpoints if not each.properties.is_savepoint]
        assert own == sorted(own), f"checkpoints out of order: {own}"
        assert not {each.checkpoint_id for each in self.subsumed} & set(ids), "subsumed and retained at once"
        self.registry.validate()

    def __repr__(self) -> str:
        ids = ", ".join(str(each.checkpoint_id) for each in self.checkpoints)
        return f"CompletedCheckpointStore([{ids}], at most {self.max_retained})"
