"""Files that drivers leave behind: the ones that are kept, and the checkpoint that a file's name gives."""

from __future__ import annotations

from kit.core.protocol.commands import RemoveOrphans
from kit.core.protocol.events import OrphansRemoved
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.state.file_names import checkpoint_of, state_file_name
from kit.core.state.operator_state import OperatorState
from kit.files.job_files import JobFiles
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.stores.stores import MemoryStore
from kit.filesystems.file_system import hidden
from kit.filesystems.memory import MemoryFiles
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.job.leftovers import Leftovers, remove_orphans
from tests.machines.coordinator.harness import JOB, Harness, graph
from tests.machines.coordinator.test_shared_state_registry import incremental

OPERATOR = "a" * 32
PROPERTIES = CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_CANCELLATION)


def shared(checkpoint_id: int) -> str:
    return state_file_name(OPERATOR, 0, checkpoint_id, "sst-1")


def test_what_is_kept_is_named_with_the_files_it_shares() -> None:
    state = incremental(7, f"/c/shared/{shared(5)}", f"/c/shared/{shared(7)}").subtask_states["op"]
    kept = CompletedCheckpoint(
        JOB, 7, 0, 0, {OPERATOR: OperatorState(OPERATOR, 1, 128, {0: state})}, (), PROPERTIES, "/c/chk-7", "/c/chk-7/m"
    )
    assert remove_orphans([kept], [9, 3]) == RemoveOrphans(keep=(3, 7, 9), shared=(shared(5), shared(7)))


def test_a_state_file_tells_its_checkpoint() -> None:
    assert checkpoint_of(state_file_name(OPERATOR, 3, 42, "keyed")) == 42
    assert checkpoint_of("somebody-elses-7-file") is None


def test_shared_files_of_this_run_that_nothing_refers_to_are_deleted_and_no_others() -> None:
    files = MemoryFiles()
    storage = CheckpointStorage("/c", JOB, None, 0, files.filesystem)
    store = MemoryStore()
    store.raise_counter(5)
    for _ in range(3):
        store.next_id()
    host = JobFiles(graph().job_graph, storage, MasterHooks(()), store, MemoryOutput())
    directory = f"/c/{JOB}/shared"
    names = [shared(checkpoint_id) for checkpoint_id in (4, 5, 6, 7, 8)]
    unfinished = [hidden(f"{directory}/{shared(each)}").rpartition("/")[2] for each in (4, 6, 7)]
    files.contents |= {f"{directory}/{name}": b"x" for name in (*names, *unfinished, "strange", ".strange.part")}
    assert host.carry_out(RemoveOrphans(keep=(7,), shared=(shared(5), shared(6)))) == OrphansRemoved()
    left = {path.rpartition("/")[2] for path in files.paths(directory)}
    assert left == {shared(4), shared(5), shared(6), shared(8), unfinished[0], "strange", ".strange.part"}


def test_every_aborted_checkpoint_of_an_epoch_is_swept_once_and_no_other() -> None:
    job = Harness(max_concurrent=9, tolerable_failures=9)
    leftovers = Leftovers(job.coordinator)
    for _ in range(5):
        checkpoint_id = job.trigger()
        leftovers.begin(checkpoint_id, f"chk-{checkpoint_id}")
    job.complete(2)
    job.decline(3, "sums/0")
    job.decline(5, "sums/1")
    assert job.pending() == [4]
    assert [(each.checkpoint_id, each.location, each.everything) for each in leftovers.sweep()] == [
        (1, "chk-1", True),
        (3, "chk-3", True),
        (5, "chk-5", True),
    ]
    assert leftovers.sweep() == []
