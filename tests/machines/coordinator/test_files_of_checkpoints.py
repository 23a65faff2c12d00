"""The time at which files are deleted: no file in use or of somebody else, and in the end each file of the job.

Every task has two operators, every operator several handles with private and shared files, and each checkpoint uses
some shared files of the one before. The job begins from nothing, from a snapshot in each claim mode, or from three
checkpoints that an earlier driver had stored, beside some that it was deleting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.metadata import CheckpointMetadata, write_metadata
from kit.core.protocol import commands
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.stored import RecoveredCheckpoint, StoredCheckpoint
from kit.core.state.handles import (
    FileStateHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState, TaskStateSnapshot
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from kit.machines.coordinator.completed.shared_state_registry import RecoveryClaimMode
from kit.machines.job.leftovers import remove_orphans
from tests.machines.coordinator.harness import Harness, graph, operator_id

RETAINED = CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_CANCELLATION)
RETAINED_AT = {
    RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION: (),
    RetentionPolicy.RETAIN_ON_FAILURE: ("FAILED",),
    RetentionPolicy.RETAIN_ON_CANCELLATION: ("FAILED", "CANCELED"),
}
CHAIN = 2
VERTICES = ("source", "sums")
OLD = (5, 6, 7)
"""The checkpoints of the earlier driver; a single snapshot is the last of them."""


@dataclass
class SharingJob:
    """A job with incremental state, and the files that it may, and may not, delete."""

    retention: RetentionPolicy = RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION
    job: Harness = field(init=False)
    own: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    entries: set[int] = field(default_factory=set)
    window: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The shared files of the last complete checkpoint, by subtask and operator."""
    aborted: bool = False
    last_id: int = 0
    """The last checkpoint that this job completed."""

    def __post_init__(self) -> None:
        chains = dict.fromkeys(VERTICES, CHAIN)
        self.job = Harness(
            graph(chains=chains, tolerable_failures=99, max_concurrent=2, retention=self.retention),
            store=CompletedCheckpointStore(2, is_durable=True),
        )

    # --- state ------------------------------------------------------------------------------------------------------

    def state(self, owner: str, checkpoint_id: int, location: str, files: set[str]) -> OperatorSubtaskState:
        """Return the state of an operator of a subtask; its new files are added to `files`."""
        new = f"shared/{owner}-{checkpoint_id}"
        full, meta, *rest = private = [f"{location}/{owner}-{number}" for number in range(4)]
        files |= {new, *private}
        raw = KeyGroupsStateHandle(KeyGroupRange(0, 0), (0,), FileStateHandle(full, 1))
        shared = _parts(*self.window.get(owner, ())[-2:], new)
        managed = IncrementalRemoteKeyedStateHandle(
            owner, KeyGroupRange(0, 127), checkpoint_id, shared, _parts(*rest), FileStateHandle(meta, 1), 10
        )
        return OperatorSubtaskState(managed_keyed_state=(managed,), raw_keyed_state=(raw,))

    def metadata(self, checkpoint_id: int, location: str, files: set[str]) -> CheckpointMetadata:
        """Return a whole checkpoint of an earlier run, which the next one may build on."""
        operators = []
        for vertex in VERTICES:
            for number in range(CHAIN):
                states = {
                    subtask: self.state(f"{vertex}-{subtask}-{number}", checkpoint_id, location, files)
                    for subtask in range(2)
                }
                operators.append(OperatorState(operator_id(vertex, number), 2, 128, states))
        files.add(f"{location}/_metadata")
        self.slide(checkpoint_id)
        return CheckpointMetadata(checkpoint_id, tuple(operators), (), RETAINED)

    def slide(self, checkpoint_id: int) -> None:
        """The next checkpoint builds on this one."""
        for vertex, subtask, number in product(VERTICES, range(2), range(CHAIN)):
            owner = f"{vertex}-{subtask}-{number}"
            self.window[owner] = (*self.window.get(owner, ())[-2:], f"shared/{owner}-{checkpoint_id}")

    # --- the beginning ----------------------------------------------------------------------------------------------

    def begin_from_snapshot(self, mode: RecoveryClaimMode) -> None:
        files = self.own if mode is RecoveryClaimMode.CLAIM else self.others
        metadata = self.metadata(OLD[-1], "old/chk-7", files)
        self.job.coordinator.restore.add_savepoint(
            metadata, location="old/chk-7", path="old/chk-7/_metadata", claim_mode=mode
        )
        self.entries.add(OLD[-1])
        if mode is RecoveryClaimMode.NO_CLAIM:
            self.window = {}

    def begin_from_store(self, half_deleted: int, oldest: RecoveryClaimMode | None) -> None:
        """Take over three checkpoints, the `oldest` being perhaps a snapshot, and finish the deletion of others."""
        found = []
        for checkpoint_id in range(1, half_deleted + 1):
            self.own.add(f"chk-{checkpoint_id}/left")
            found.append(RecoveredCheckpoint(StoredCheckpoint(checkpoint_id, f"chk-{checkpoint_id}/_metadata"), None))
        for checkpoint_id in OLD:
            mode = oldest if checkpoint_id == OLD[0] else None
            files = self.own if mode in (None, RecoveryClaimMode.CLAIM) else self.others
            data = write_metadata(self.metadata(checkpoint_id, f"chk-{checkpoint_id}", files))
            if mode is RecoveryClaimMode.NO_CLAIM:
                self.window = {}
            stored = StoredCheckpoint(checkpoint_id, f"chk-{checkpoint_id}/_metadata", mode)
            found.append(RecoveredCheckpoint(stored, data))
        self.entries |= {each.stored.checkpoint_id for each in found}
        self.job.coordinator.restore.recover(found)
        assert all(self.job.coordinator.ledger.is_completed(each) for each in OLD)
        assert not self.job.coordinator.ledger.is_completed(OLD[0] - 1)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def ack(self, checkpoint_id: int, task: str) -> None:
        vertex = task.rpartition("/")[0]
        states = {
            operator_id(vertex, number): self.state(
                f"{task.replace('/', '-')}-{number}", checkpoint_id, f"chk-{checkpoint_id}", self.own
            )
            for number in range(CHAIN)
        }
        self.job.ack(checkpoint_id, task, TaskStateSnapshot(states))

    def complete(self) -> None:
        self.finish(self.job.trigger(), self.job.states)

    def finish(self, checkpoint_id: int, tasks: Iterable[str]) -> None:
        """These tasks, which are the last, ack."""
        for task in tasks:
            self.ack(checkpoint_id, task)
        self.own.add(f"chk-{checkpoint_id}/_metadata")
        self.job.answer_completing()
        self.entries.add(checkpoint_id)
        self.slide(checkpoint_id)
        self.last_id = checkpoint_id

    def abort(self) -> None:
        """Half of the tasks ack in time, and half of them too late."""
        checkpoint_id = self.job.trigger()
        first, *others = self.job.states
        self.ack(checkpoint_id, first)
        self.job.decline(checkpoint_id, others[-1])
        for task in others:
            self.ack(checkpoint_id, task)
        self.aborted = True

    def overtake(self) -> None:
        """Two checkpoints are under way, acks of both arrive in turn, and the newer one ends the older one."""
        older, newer = self.job.trigger(), self.job.trigger()
        first, second, *others = self.job.states
        for checkpoint_id, task in ((older, second), (newer, second), (newer, first), (older, first)):
            self.ack(checkpoint_id, task)
        self.aborted = True
        self.finish(newer, others)

    # --- what holds -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """No retained file, and no file of somebody else, has been deleted."""
        for word in self.job.take(commands.DiscardState):
            whole = {file for file in self.own if word.everything and file.startswith(f"{word.location}/")}
            self.gone |= {*word.paths, *whole}
            if word.stored and word.checkpoint_id is not None:
                self.entries.remove(word.checkpoint_id)
        for removed in self.job.take(commands.RemoveStored):
            self.entries.remove(removed.checkpoint_id)
        retained = self.job.retained()
        used = files_of(retained)
        assert not self.gone & (used | self.others)
        assert self.entries >= {each.checkpoint_id for each in retained}
        if not self.aborted and len(retained) == self.job.coordinator.store.max_retained:
            assert self.own - self.gone == used - self.others

    def end(self, status: str) -> None:
        """Shut the job down, and delete what its host finds and nobody needs."""
        store = self.job.coordinator.store
        staying = store.staying_at(status)
        self.job.coordinator.shut_down(status)
        self.check()
        assert staying or self.own <= self.gone
        orphans = remove_orphans((*staying, *store.subsumed), ())
        kept = {f"chk-{checkpoint_id}" for checkpoint_id in orphans.keep}
        for file in self.own:
            directory, _, name = file.rpartition("/")
            if directory not in ("old/chk-7", *kept) and name not in orphans.shared:
                self.gone.add(file)
        assert self.own - self.gone == files_of((*staying, *store.subsumed)) - self.others


def files_of(checkpoints: Iterable[CompletedCheckpoint]) -> set[str]:
    """Return all files that these checkpoints refer to, with their metadata."""
    return {
        file
        for checkpoint in checkpoints
        for files in ([checkpoint.path], *(state.files() for state in checkpoint.operator_states.values()))
        for file in files
    }


def _parts(*paths: str) -> tuple[HandleAndLocalPath, ...]:
    return tuple(HandleAndLocalPath(path, FileStateHandle(path, 10)) for path in paths)


BEGINNINGS = st.one_of(
    st.just(None),
    st.sampled_from(RecoveryClaimMode),
    st.tuples(st.integers(0, 2), st.sampled_from([None, *RecoveryClaimMode])),
)


@given(
    beginning=BEGINNINGS,
    steps=st.lists(st.sampled_from(["complete", "complete", "abort", "overtake"]), max_size=6),
    status=st.sampled_from(["FINISHED", "CANCELED", "FAILED"]),
    retention=st.sampled_from(RetentionPolicy),
)
@settings(max_examples=60)
def test_no_file_that_is_used_goes_and_none_that_is_the_jobs_own_stays(
    beginning: RecoveryClaimMode | tuple[int, RecoveryClaimMode | None] | None,
    steps: list[str],
    status: str,
    retention: RetentionPolicy,
) -> None:
    sharing = SharingJob(retention)
    if isinstance(beginning, tuple):
        sharing.begin_from_store(*beginning)
    elif beginning is not None:
        sharing.begin_from_snapshot(beginning)
    if beginning is not None:
        sharing.job.next_id = OLD[-1] + 1
        latest = sharing.job.restore()
        assert latest is not None
        assert latest.checkpoint_id == OLD[-1]
    claimed = {*sharing.own} if beginning is RecoveryClaimMode.CLAIM else set()
    for step in steps:
        getattr(sharing, step)()
        sharing.check()
        sharing.job.coordinator.validate()
    completed = "complete" in steps or "overtake" in steps
    sharing.end(status)
    assert not sharing.entries
    if claimed and not completed:
        assert not sharing.gone & claimed, "a claimed snapshot stays until a newer checkpoint is complete"
    if completed and status in RETAINED_AT[retention]:
        assert not sharing.gone & {file for file in sharing.own if file.startswith(f"chk-{sharing.last_id}/")}
