"""The completed checkpoints that the job could be restored from, oldest first.

At least one is retained. Adding one beyond `max_retained` subsumes the oldest, but never the newest of all and never
the newest that is not a savepoint, except after a stop-with-savepoint. What was subsumed is deleted as soon as no
retained checkpoint needs it.

Follows Flink's `StandaloneCompletedCheckpointStore`, `CheckpointSubsumeHelper` and `CheckpointsCleaner`; what makes a
store durable is the host's business (`StoreCheckpoint`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.coordinator.completed_checkpoint import GLOBALLY_TERMINAL, CompletedCheckpoint
from kit.coordinator.shared_state_registry import SharedStateRegistry
from kit.protocol.commands import DiscardState
from kit.state.handles import StreamStateHandle

NO_CHECKPOINT = -1
"""Instead of an id where there is no checkpoint."""


@dataclass(slots=True)
class CompletedCheckpointStore:
    """The retained checkpoints and the registry of what they share.

    `add` and `shut_down` return the deletions that follow. Raises ValueError for a `max_retained` below 1.
    """

    max_retained: int = 1
    registry: SharedStateRegistry[StreamStateHandle] = field(default_factory=SharedStateRegistry)
    checkpoints: list[CompletedCheckpoint] = field(default_factory=list)
    subsumed: list[CompletedCheckpoint] = field(default_factory=list)
    """No longer retained, but not deleted yet: something still in use lies in them."""
    is_open: bool = True

    def __post_init__(self) -> None:
        if self.max_retained < 1:
            raise ValueError(f"max_retained is {self.max_retained}, expected at least 1: a job needs one checkpoint")

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """The one a restore begins with."""
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def latest_id(self) -> int:
        """Its id, `NO_CHECKPOINT` when there is none (Flink says 0)."""
        return self.checkpoints[-1].checkpoint_id if self.checkpoints else NO_CHECKPOINT

    def add(self, checkpoint: CompletedCheckpoint) -> tuple[CompletedCheckpoint | None, list[DiscardState]]:
        """Retain a checkpoint; returns the newest that it subsumed, and what is to be deleted.

        Raises ValueError after `shut_down`.
        """
        if not self.is_open:
            raise ValueError(f"{checkpoint!r} cannot be added: the store is shut down")
        self.checkpoints.append(checkpoint)
        subsumed = self._subsume()
        self.subsumed += subsumed
        last = max(subsumed, key=lambda each: each.checkpoint_id, default=None)
        lowest = next((each.checkpoint_id for each in self.checkpoints if not each.properties.is_savepoint), None)
        return last, [] if lowest is None else self._clean(lowest)

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

    def _clean(self, lowest: int) -> list[DiscardState]:
        unused, in_use = self.registry.unregister_unused(lowest)
        files = tuple(dict.fromkeys(file for handle in unused for file in handle.files()))
        discards = [DiscardState(paths=files)] if files else []
        for each in list(self.subsumed):
            if each.checkpoint_id < lowest and each.checkpoint_id not in in_use:
                self.subsumed.remove(each)
                if each.properties.discard_subsumed:
                    discards.append(each.discard())
        return discards

    def shut_down(self, job_status: str) -> list[DiscardState]:
        """Retain or delete everything as the properties say for this end of the job, and take nothing more."""
        if not self.is_open:
            return []
        self.is_open = False
        discarded = [each for each in self.checkpoints if each.should_be_discarded_at(job_status)]
        kept = [each.checkpoint_id for each in self.checkpoints if not each.should_be_discarded_at(job_status)]
        self.checkpoints = []
        discards = [each.discard() for each in discarded]
        if job_status in GLOBALLY_TERMINAL:
            self.registry.close()
            discards += self._clean(min(kept, default=2**63 - 1))
        return discards

    def validate(self) -> None:
        """Check that ids grow and each is there once; raises AssertionError."""
        ids = [each.checkpoint_id for each in self.checkpoints]
        assert len(set(ids)) == len(ids), f"a checkpoint is retained twice: {ids}"
        own = [each.checkpoint_id for each in self.checkpoints if not each.properties.is_savepoint]
        assert own == sorted(own), f"checkpoints out of order: {own}"
        assert not {each.checkpoint_id for each in self.subsumed} & set(ids), "subsumed and retained at once"
        self.registry.validate()

    def __repr__(self) -> str:
        ids = ", ".join(str(each.checkpoint_id) for each in self.checkpoints)
        return f"CompletedCheckpointStore([{ids}], at most {self.max_retained})"
