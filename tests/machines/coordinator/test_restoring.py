"""The coordinator's side of a restore: the snapshot's owner, what is a full snapshot afterwards, the calls of hooks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.core.metadata import CheckpointMetadata, write_metadata
from kit.core.protocol import commands
from kit.core.protocol.messages import TriggerTaskCheckpoint
from kit.core.protocol.notes import CheckpointRestored
from kit.core.protocol.properties import CHECKPOINT, FULL_CHECKPOINT, CheckpointProperties, RetentionPolicy
from kit.core.protocol.stored import RecoveredCheckpoint, StoredCheckpoint
from kit.core.protocol.words import ProtocolError
from kit.core.state.operator_state import MasterState, OperatorState
from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from kit.machines.coordinator.completed.shared_state_registry import RecoveryClaimMode
from kit.machines.restore.errors import FinishedOperatorsError
from tests.machines.coordinator.harness import Harness, operator_id
from tests.machines.coordinator.test_completing import snapshot_of
from tests.machines.coordinator.test_shared_state_registry import incremental

RETAINED = CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_CANCELLATION)


def snapshot(
    *shared: str, properties: CheckpointProperties = RETAINED, hooks: tuple[str, ...] = ()
) -> CheckpointMetadata:
    """Return the content of checkpoint 7's `_metadata`: a `sums` subtask with these shared files, and hook states."""
    state = incremental(7, *shared).subtask_states["op"]
    operator = OperatorState(operator_id("sums"), 2, 128, {0: state})
    return CheckpointMetadata(7, (operator,), tuple(MasterState(hook, 3, b"x") for hook in hooks), properties)


def restored(job: Harness, metadata: CheckpointMetadata, mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM) -> None:
    """Restore the job from it."""
    job.coordinator.restore.add_savepoint(metadata, location="old/chk-7", path="old/chk-7/_metadata", claim_mode=mode)
    assert [word.next_id for word in job.take(commands.SetCheckpointIdCounter)] == [8]
    job.next_id = 8
    latest = job.restore()
    assert latest is not None
    assert latest.checkpoint_id == 7


def types(job: Harness) -> list[object]:
    """Take the snapshot types that tasks were triggered with, one per checkpoint."""
    words = job.take(TriggerTaskCheckpoint)
    return [word.options.snapshot_type for word in words if word.task == "source/0"]


@pytest.mark.flink(
    "CheckpointCoordinatorTriggeringTest.testTriggeringFullCheckpoints",
    "CheckpointCoordinatorTriggeringTest.testTriggeringCheckpointsWithCheckpointTypeAfterNoClaimSavepoint",
)
def test_after_a_snapshot_that_is_not_claimed_the_first_checkpoint_is_full() -> None:
    job = Harness(tolerable_failures=9)
    restored(job, snapshot("a"))
    job.decline(job.trigger(), "sums/0")
    savepoint = job.trigger_savepoint()
    job.complete(savepoint)
    job.complete(job.trigger())
    job.complete(job.trigger())
    kinds = types(job)
    assert [kinds[0], kinds[2], kinds[3]] == [FULL_CHECKPOINT, FULL_CHECKPOINT, CHECKPOINT]
    assert kinds[1].is_savepoint  # type: ignore[attr-defined]


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.testTriggeringFullSnapshotAfterJobmasterFailover")
@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_a_driver_that_dies_before_the_first_checkpoint_leaves_it_to_the_next_to_be_full(
    mode: RecoveryClaimMode,
) -> None:
    first = Harness(store=CompletedCheckpointStore(is_durable=True))
    restored(first, snapshot("a"), mode)
    (noted,) = first.take(commands.StoreCheckpoint)
    stored = StoredCheckpoint(noted.checkpoint_id, noted.metadata_path, noted.claim_mode)
    first.coordinator.shut_down("SUSPENDED")
    second = Harness(store=CompletedCheckpointStore(is_durable=True))
    second.coordinator.restore.recover([RecoveredCheckpoint(stored, write_metadata(snapshot("a")))])
    latest = second.restore()
    assert latest is not None
    assert latest.checkpoint_id == 7
    second.next_id = 8
    second.complete(second.trigger())
    second.trigger()
    full_at_first = FULL_CHECKPOINT if mode is RecoveryClaimMode.NO_CLAIM else CHECKPOINT
    assert types(second) == [full_at_first, CHECKPOINT]


def test_a_claimed_snapshot_needs_no_full_checkpoint() -> None:
    job = Harness()
    restored(job, snapshot("a"), RecoveryClaimMode.CLAIM)
    job.trigger()
    assert types(job) == [CHECKPOINT]


@pytest.mark.flink("CheckpointCoordinatorTest.testSharedStateRegistrationOnRestore")
@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_only_a_claimed_snapshot_is_ever_deleted(mode: RecoveryClaimMode) -> None:
    job = Harness()
    restored(job, snapshot("a", "b"), mode)
    for shared in (("b", "c"), ("c",)):
        checkpoint_id = job.trigger()
        job.ack(checkpoint_id, "sums/0", snapshot_of("sums/0", checkpoint_id, *shared))
        job.complete(checkpoint_id)
    gone = job.discarded()
    own = {"chk-8/_metadata", "meta-8", "private-8"}
    claimed = {"old/chk-7/_metadata", "meta-7", "private-7", "a", "b"}
    if mode is RecoveryClaimMode.NO_CLAIM:
        # The files were never registered as the snapshot's: "b" is the job's, which uploaded it again.
        assert gone == own | {"b"}
    else:
        assert gone == own | (claimed if mode is RecoveryClaimMode.CLAIM else set())


@pytest.mark.flink("CompletedCheckpointTest.testRegisterStatesAtRegistry")
@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_what_a_restored_snapshot_shares_is_registered_as_its_own_unless_it_stays_the_users(
    mode: RecoveryClaimMode,
) -> None:
    job = Harness()
    restored(job, snapshot("a", "b"), mode)
    entries = job.coordinator.store.registry.entries
    assert set(entries) == (set() if mode is RecoveryClaimMode.NO_CLAIM else {"a", "b"})
    assert all(list(entry.handle.files()) == [key] for key, entry in entries.items())


@pytest.mark.flink("CheckpointCoordinatorTest.testCheckpointStatsTrackerRestoreCallback")
def test_statistics_take_note() -> None:
    job = Harness()
    restored(job, snapshot("a"))
    stats = job.coordinator.statistics
    assert stats.counts.restored == 1
    assert stats.restored is not None
    assert (stats.restored.checkpoint_id, stats.restored.path) == (7, "old/chk-7")


def test_a_restore_counts_only_once_its_state_is_assigned() -> None:
    job = Harness(hooks=["mail"])
    job.coordinator.restore.add_savepoint(snapshot("a", hooks=("mail",)), location="old", path="old/_metadata")
    assert job.coordinator.restore.latest() is not None
    assert job.coordinator.statistics.counts.restored == 0
    assert job.take(commands.RestoreMasterHooks) == []
    job.restore()
    assert job.coordinator.statistics.counts.restored == 1


def test_a_job_that_must_begin_from_a_checkpoint_is_refused_when_there_is_none() -> None:
    job = Harness(hooks=["mail"])
    with pytest.raises(ValueError, match="No completed checkpoint available"):
        job.coordinator.restore.latest(error_if_no_checkpoint=True)
    assert job.emitted == []


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.testHookReset")
def test_without_a_checkpoint_hooks_are_reset() -> None:
    job = Harness(hooks=["mail"])
    assert job.restore() is None
    assert len(job.take(commands.ResetMasterHooks)) == 1
    assert job.take(commands.CloseMasterHooks) == []
    job.coordinator.shut_down("FINISHED")
    assert len(job.take(commands.CloseMasterHooks)) == 1


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.testHooksAreCalledOnRestore")
def test_hooks_get_their_state_back_and_none_when_there_is_none() -> None:
    job = Harness(hooks=["ledger", "mail"])
    restored(job, snapshot("a", hooks=("mail",)))
    [command] = job.take(commands.RestoreMasterHooks)
    assert command.checkpoint_id == 7
    assert command.states == (("mail", 3, b"x"), ("ledger", 0, None))


def test_hooks_whose_names_differ_in_case_only_get_each_its_own_state() -> None:
    names = ("mail", "Mail", "MAIL")
    job = Harness(hooks=names)
    states = tuple(MasterState(name, number, name.encode()) for number, name in enumerate(names))
    restored(job, replace(snapshot("a"), master_states=states))
    [command] = job.take(commands.RestoreMasterHooks)
    assert command.states == (("mail", 0, b"mail"), ("Mail", 1, b"Mail"), ("MAIL", 2, b"MAIL"))
    job = Harness(hooks=["Mail"])
    restored(job, snapshot("a", hooks=("mail",)))
    [command] = job.take(commands.RestoreMasterHooks)
    assert command.states == (("Mail", 0, None),), "that of 'mail' is nobody's"


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.checkUnMatchedStateOnRestore")
def test_state_of_a_hook_that_is_gone_is_refused_unless_allowed() -> None:
    job = Harness(hooks=["ledger"])
    restored(job, snapshot("a", hooks=("mail",)))
    with pytest.raises(ValueError, match=r"state of the master hook\(s\) \['mail'\], but the job has \['ledger'\]"):
        job.restore(allow_non_restored_state=False)
    assert job.restore(allow_non_restored_state=True) is not None


# --- which of several -------------------------------------------------------------------------------------------------


def test_a_job_goes_back_to_the_newest_of_the_checkpoints_that_are_retained() -> None:
    job = Harness(max_retained=3)
    for checkpoint_id in range(1, 6):
        job.complete(job.trigger())
        latest = job.restore()
        assert latest is not None
        assert latest.checkpoint_id == checkpoint_id
        assert job.notes(CheckpointRestored)[-1].checkpoint_id == checkpoint_id
    assert job.retained_ids() == [3, 4, 5]


@pytest.mark.parametrize("ids", [(7, 8, 20), (9, 10, 100), (7,)])
def test_a_driver_that_recovers_goes_on_from_the_newest_checkpoint_in_the_store(ids: tuple[int, ...]) -> None:
    job = Harness(store=CompletedCheckpointStore(3, is_durable=True))
    found = [
        RecoveredCheckpoint(
            StoredCheckpoint(each, f"old/chk-{each}/_metadata", None),
            write_metadata(replace(snapshot(), checkpoint_id=each)),
        )
        for each in ids
    ]
    job.coordinator.restore.recover(found)
    latest = job.restore()
    assert latest is not None
    assert (latest.checkpoint_id, latest.location) == (ids[-1], f"old/chk-{ids[-1]}")
    assert job.retained_ids() == list(ids)
    job.next_id = ids[-1] + 1
    job.complete(job.trigger())
    latest = job.restore()
    assert latest is not None
    assert latest.checkpoint_id == ids[-1] + 1


def test_the_newest_checkpoint_may_be_half_deleted_only_once_the_job_has_ended() -> None:
    stored = StoredCheckpoint(7, "old/chk-7/_metadata", None)
    job = Harness(store=CompletedCheckpointStore(1, is_durable=True))
    with pytest.raises(ValueError, match="chk-7/_metadata is not there: put it back"):
        job.coordinator.restore.recover([RecoveredCheckpoint(stored, None)])
    job.coordinator.restore.recover([RecoveredCheckpoint(stored, None)], has_ended=True)
    (discarded,) = job.take(commands.DiscardState)
    assert (discarded.checkpoint_id, discarded.everything, discarded.stored) == (7, True, True)


def test_a_snapshot_that_is_restored_moves_the_counter_of_ids_behind_it() -> None:
    job = Harness()
    job.coordinator.restore.add_savepoint(snapshot(), location="old/chk-7", path="old/chk-7/_metadata")
    assert [word.next_id for word in job.take(commands.SetCheckpointIdCounter)] == [8]


def test_nothing_is_restored_after_shutdown_or_while_it_is_open_what_stands() -> None:
    job = Harness()
    job.trigger()
    job.ack_all(1)
    job.answer(commands.WriteMetadata)
    with pytest.raises(ProtocolError, match="is being stored"):
        job.restore()
    job.answer(commands.StoreCheckpoint)
    assert job.restore() is job.retained()[0]
    job.coordinator.shut_down("CANCELED")
    with pytest.raises(ProtocolError, match="is shut down"):
        job.restore()


@pytest.mark.flink("CheckpointCoordinatorRestoringTest.testJobGraphModificationsAreCheckedForSavepoint")
def test_a_program_changed_before_a_finished_operator_is_refused() -> None:
    job = Harness()
    finished = OperatorState(operator_id("sums"), 2, 128, fully_finished=True)
    with pytest.raises(FinishedOperatorsError, match="'sums' is fully finished, but 'source'"):
        job.coordinator.restore.add_savepoint(CheckpointMetadata(7, (finished,)), location="old", path="old/_metadata")
    assert job.retained() == []
    assert job.emitted == []
