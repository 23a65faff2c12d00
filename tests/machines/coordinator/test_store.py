"""The completed checkpoints that are retained, and when the others are deleted."""

from __future__ import annotations

import itertools

import pytest

from kit.core.protocol.commands import DiscardState, RemoveStored
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy, SharingFilesStrategy
from kit.core.state.handles import FileStateHandle
from kit.core.state.operator_state import OperatorState
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from kit.machines.coordinator.completed.shared_state_registry import RecoveryClaimMode, shared_handles
from tests.machines.coordinator.test_shared_state_registry import incremental

CHECKPOINT = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
SAVEPOINT = CheckpointProperties.for_savepoint(forced=True)
STOP = CheckpointProperties.for_sync_savepoint(forced=True, terminate=True)
RETAINED = CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_CANCELLATION)


def completed(
    checkpoint_id: int, properties: CheckpointProperties = CHECKPOINT, shared: tuple[str, ...] = ()
) -> CompletedCheckpoint:
    """Return a checkpoint of one operator with these shared files."""
    state = incremental(checkpoint_id, *shared).subtask_states["op"]
    states = {"op": OperatorState("op", 1, 128, {0: state})}
    location = f"chk-{checkpoint_id}"
    return CompletedCheckpoint("job", checkpoint_id, 0, 1, states, (), properties, location, f"{location}/_metadata")


def filled(most: int, *checkpoints: CompletedCheckpoint) -> CompletedCheckpointStore:
    """Return a store with these added, their shared files registered."""
    store = CompletedCheckpointStore(most)
    for checkpoint in checkpoints:
        for key, handle in shared_handles(checkpoint.operator_states.values()).items():
            store.registry.register(key, handle, checkpoint.checkpoint_id)
        store.add(checkpoint)
        store.validate()
    return store


def ids(store: CompletedCheckpointStore) -> list[int]:
    """Return the retained ids."""
    return [checkpoint.checkpoint_id for checkpoint in store.checkpoints]


@pytest.mark.flink("CompletedCheckpointStoreTest.testExceptionOnNoRetainedCheckpoints")
def test_at_least_one_is_retained() -> None:
    with pytest.raises(ValueError, match="max_retained is 0, expected at least 1"):
        CompletedCheckpointStore(0)


@pytest.mark.flink(
    "CompletedCheckpointStoreTest.testAddAndGetLatestCheckpoint",
    "CompletedCheckpointStoreTest.testGetAllCheckpoints",
    "CompletedCheckpointStoreTest.testAcquireLatestCompletedCheckpointId",
    "CompletedCheckpointStoreTest.testEmptyState",
)
def test_the_latest_is_the_last_added() -> None:
    store = CompletedCheckpointStore(4)
    assert (store.latest, store.latest_id, store.checkpoints) == (None, 0, [])
    for checkpoint_id in (1, 2, 3):
        store.add(completed(checkpoint_id))
        assert store.latest_id == checkpoint_id
    assert ids(store) == [1, 2, 3]
    assert store.latest is store.checkpoints[-1]


def test_the_latest_of_those_that_are_recovered_is_the_newest_in_whatever_order_they_come() -> None:
    for order in itertools.permutations([9, 10, 100]):
        store = CompletedCheckpointStore(4)
        store.recover(completed(checkpoint_id) for checkpoint_id in order)
        store.validate()
        assert (ids(store), store.latest_id) == ([9, 10, 100], 100)
        with pytest.raises(ValueError, match="is not empty: checkpoints are recovered before anything else"):
            store.recover([completed(101)])


@pytest.mark.flink(
    "CompletedCheckpointStoreTest.testAddCheckpointMoreThanMaxRetained",
    "DefaultCompletedCheckpointStoreTest.testAddCheckpointSuccessfullyShouldRemoveOldOnes",
    "DefaultCompletedCheckpointStoreTest.testNotSubsumedIfNotNeeded",
    "CompletedCheckpointTest.testCleanUpOnSubsume",
)
def test_the_oldest_goes_first() -> None:
    store = CompletedCheckpointStore(2)
    assert store.add(completed(1)) == (None, [])
    assert store.add(completed(2)) == (None, [])
    subsumed, [discard] = store.add(completed(3))
    assert subsumed is not None
    assert subsumed.checkpoint_id == 1
    assert (discard.paths, discard.location) == (("chk-1/_metadata", "meta-1", "private-1"), "chk-1")
    assert ids(store) == [2, 3]


@pytest.mark.flink(
    "DefaultCompletedCheckpointStoreTest.testAtLeastOneCheckpointRetained",
    "DefaultCompletedCheckpointStoreTest.testOlderSavepointSubsumed",
    "DefaultCompletedCheckpointStoreTest.testSubsumeAfterStoppingWithSavepoint",
)
@pytest.mark.parametrize(
    ("most", "added", "kept"),
    [
        (1, [(1, CHECKPOINT), (2, SAVEPOINT)], [1, 2]),
        (1, [(1, CHECKPOINT), (2, SAVEPOINT), (3, SAVEPOINT)], [1, 3]),
        (1, [(1, SAVEPOINT), (2, CHECKPOINT)], [2]),
        (1, [(1, CHECKPOINT), (2, STOP)], [2]),
        (1, [(1, CHECKPOINT), (2, CHECKPOINT), (3, STOP)], [3]),
        (2, [(1, CHECKPOINT), (2, SAVEPOINT), (3, CHECKPOINT)], [2, 3]),
        (2, [(1, SAVEPOINT), (2, SAVEPOINT)], [1, 2]),
        (1, [(1, SAVEPOINT), (2, SAVEPOINT)], [2]),
    ],
)
def test_the_newest_and_the_newest_checkpoint_stay(
    most: int, added: list[tuple[int, CheckpointProperties]], kept: list[int]
) -> None:
    assert ids(filled(most, *(completed(checkpoint_id, kind) for checkpoint_id, kind in added))) == kept


@pytest.mark.flink("CheckpointsCleanerTest.testNotCleanHigherCheckpoint")
def test_what_is_subsumed_waits_until_it_is_below_every_retained_checkpoint() -> None:
    store = filled(1, completed(1), completed(2, SAVEPOINT))
    store.subsumed.append(completed(5))
    _, discards = store.add(completed(3))
    assert [discard.checkpoint_id for discard in discards] == [1]
    assert [checkpoint.checkpoint_id for checkpoint in store.subsumed] == [5]
    _, discards = store.add(completed(6))
    assert {discard.checkpoint_id for discard in discards} == {3, 5}


@pytest.mark.flink("CheckpointsCleanerTest.testNotCleanCheckpointInUse")
def test_a_restored_savepoint_stays_while_its_files_are_in_use() -> None:
    store = CompletedCheckpointStore(1)
    old = completed(1, CHECKPOINT, ("a",))
    store.registry.register_restored(
        1, shared_handles(old.operator_states.values()), RecoveryClaimMode.CLAIM, SharingFilesStrategy.NO_SHARING
    )
    store.add(old)
    for checkpoint_id, shared in ((2, ("a",)), (3, ())):
        new = completed(checkpoint_id, CHECKPOINT, shared)
        for key, handle in shared_handles(new.operator_states.values()).items():
            store.registry.register(key, handle, checkpoint_id)
        _, discards = store.add(new)
        gone = {path for discard in discards for path in discard.paths}
        assert ("chk-1/_metadata" in gone) is ("a" in gone) is (checkpoint_id == 3)


def test_what_a_checkpoint_shares_is_known_by_key() -> None:
    assert set(shared_handles(completed(1, CHECKPOINT, ("a", "b")).operator_states.values())) == {"a", "b"}


@pytest.mark.flink(
    "CompletedCheckpointStoreTest.testDiscardAllCheckpoints",
    "StandaloneCompletedCheckpointStoreTest.testShutdownDiscardsCheckpoints",
    "StandaloneCompletedCheckpointStoreTest.testSuspendDiscardsCheckpoints",
)
@pytest.mark.parametrize("status", ["FINISHED", "CANCELED", "FAILED", "SUSPENDED"])
def test_shutdown_discards_what_is_not_to_be_retained(status: str) -> None:
    store = filled(3, completed(1, CHECKPOINT, ("a",)), completed(2, CHECKPOINT, ("a", "b")))
    gone = {path for discard in store.shut_down(status) for path in discard.paths}
    private = {f"{kind}-{number}" for kind in ("meta", "private") for number in (1, 2)}
    shared = {"a", "b"} if status != "SUSPENDED" else set()
    assert gone == private | shared | {"chk-1/_metadata", "chk-2/_metadata"}
    assert store.checkpoints == []
    assert store.shut_down(status) == []


@pytest.mark.flink(
    "DefaultCompletedCheckpointStoreTest.testShutdownShouldDiscardStateHandleWhenJobIsGloballyTerminalState"
)
def test_a_durable_store_is_empty_after_the_job_and_keeps_the_files_of_what_is_retained() -> None:
    """Files last used by a checkpoint below the retained one go, its own and those behind it stay."""
    kinds = dict.fromkeys(range(1, 9), CHECKPOINT) | {4: RETAINED}
    store = CompletedCheckpointStore(8, is_durable=True)
    for checkpoint_id, kind in kinds.items():
        store.add(completed(checkpoint_id, kind))
    for checkpoint_id in (3, 4, 5):
        file = f"shared by {checkpoint_id}"
        store.registry.register(file, FileStateHandle(file, 10), checkpoint_id)
    store.subsumed.append(completed(9))  # it waits for those below it
    removals = store.shut_down("CANCELED")
    discards = [each for each in removals if isinstance(each, DiscardState)]
    entries = [each for each in removals if isinstance(each, RemoveStored) or each.stored]
    assert sorted(each.checkpoint_id for each in entries if each.checkpoint_id is not None) == [*kinds, 9]
    assert [each.checkpoint_id for each in removals if isinstance(each, RemoveStored)] == [4, 9]
    assert {path for each in discards for path in each.paths if path.startswith("shared")} == {"shared by 3"}
    assert not any("meta-4" in each.paths for each in discards)
    assert store.checkpoints == []


def test_retained_checkpoints_keep_the_files_they_share() -> None:
    store = filled(2, completed(1, RETAINED, ("a", "b")), completed(2, RETAINED, ("b",)))
    assert store.shut_down("CANCELED") == []


@pytest.mark.flink(
    "DefaultCompletedCheckpointStoreTest.testShutdownShouldNotDiscardStateHandleWhenJobIsNotGloballyTerminalState"
)
@pytest.mark.parametrize("status", ["SUSPENDED", "CREATED"])
def test_a_durable_store_keeps_all_unless_the_job_has_ended_for_good(status: str) -> None:
    store = CompletedCheckpointStore(2, is_durable=True)
    store.add(completed(1))
    assert store.shut_down(status) == []


def test_what_a_durable_store_no_longer_retains_leaves_it_with_its_files_or_without() -> None:
    store = CompletedCheckpointStore(1, is_durable=True)
    for checkpoint in (completed(1, SAVEPOINT), completed(2), completed(3)):
        _, removals = store.add(checkpoint)
        assert all(isinstance(each, RemoveStored) or each.stored for each in removals)
        if checkpoint.checkpoint_id == 2:
            assert removals == [RemoveStored(checkpoint_id=1)]
    assert store.shut_down("CANCELED") == [completed(3).discard()]
    retaining = CompletedCheckpointStore(1, is_durable=True)
    retaining.add(completed(4, RETAINED))
    assert retaining.shut_down("CANCELED") == [RemoveStored(checkpoint_id=4)]


@pytest.mark.flink("DefaultCompletedCheckpointStoreTest.testShutdownFailsAnyFutureCallsToAddCheckpoint")
def test_a_store_that_is_shut_down_takes_nothing() -> None:
    store = CompletedCheckpointStore(1)
    store.shut_down("FINISHED")
    with pytest.raises(ValueError, match="the store is shut down"):
        store.add(completed(1))


@pytest.mark.flink("CompletedCheckpointTest.testCleanUpOnShutdown")
@pytest.mark.parametrize("retention", list(RetentionPolicy))
def test_the_properties_say_at_which_end_a_checkpoint_goes(retention: RetentionPolicy) -> None:
    checkpoint = completed(1, CheckpointProperties.for_checkpoint(retention))
    properties = checkpoint.properties
    ends = ("FINISHED", "CANCELED", "FAILED", "SUSPENDED", "RUNNING")
    assert [checkpoint.should_be_discarded_at(status) for status in ends] == [
        properties.discard_finished,
        properties.discard_cancelled,
        properties.discard_failed,
        properties.discard_suspended,
        False,
    ]
    assert not any(completed(1, SAVEPOINT).should_be_discarded_at(status) for status in ends)
    for status in ends[:-1]:
        gone = [checkpoint.discard()] if checkpoint.should_be_discarded_at(status) else []
        assert filled(1, checkpoint).shut_down(status) == gone
    assert set(checkpoint.discard().paths) == {"chk-1/_metadata", "meta-1", "private-1"}
    assert checkpoint.discard().location == "chk-1"
