"""The work of the JobMaster's half of a host on files and the store, and its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest

from kit import CollectionSource, ParquetSink, StreamEnvironment
from kit.core.protocol.commands import (
    AllocateCheckpointId,
    DiscardLaterOutput,
    DiscardState,
    RecoverCheckpoints,
    RemoveOrphans,
    SetCheckpointIdCounter,
)
from kit.core.protocol.duties import Command
from kit.core.protocol.events import (
    CheckpointIdAllocated,
    CheckpointsRecovered,
    LeadershipLost,
    OrphansRemoved,
    StateDiscarded,
)
from kit.core.protocol.lineage import Lineage
from kit.core.state.errors import StorageError
from kit.files.job_files import JobFiles
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.stores.errors import StoreError
from kit.files.stores.file_records import FileRecords
from kit.files.stores.stores import CheckpointStore, DurableStore, MemoryStore
from kit.filesystems.memory import MemoryFiles
from kit.stream.connectors.part_names import IN_PROGRESS, StagedName, staging_directory
from kit.stream.connectors.sink import Sink
from tests.files.contract import stored
from tests.machines.coordinator.harness import JOB, graph

LOCATION = f"/c/{JOB}/chk-7"


class Disk(CheckpointStorage):
    """A storage that asks `before_deletion` before it deletes files."""

    def before_deletion(self) -> None:
        """Do nothing; tests override this."""

    def discard(self, paths: Iterable[str]) -> None:
        self.before_deletion()
        super().discard(paths)


class Host:
    """The files of a job without tasks, on a disk in memory."""

    def __init__(self, *, durable: bool = True) -> None:
        self.files = MemoryFiles()
        self.storage = Disk("/c", JOB, None, 0, self.files.filesystem)
        self.store: CheckpointStore = DurableStore(FileRecords(self.storage)) if durable else MemoryStore()
        self.job = JobFiles(graph().job_graph, self.storage, MasterHooks(()), self.store, MemoryOutput())

    def stored_ids(self) -> list[int]:
        """The checkpoints that a later driver would find."""
        return [each.checkpoint_id for each in self.store.checkpoints()]

    def allocate(self) -> int:
        """Ask for an id."""
        answer = self.job.carry_out(AllocateCheckpointId())
        assert isinstance(answer, CheckpointIdAllocated)
        return answer.checkpoint_id


# --- deletion ---------------------------------------------------------------------------------------------------------


def test_the_entry_in_the_store_goes_after_the_files() -> None:
    host = Host()
    host.store.begin(recover=False)
    host.store.add(stored(7))
    files = {f"{LOCATION}/_metadata", f"{LOCATION}/state"}
    host.files.contents |= dict.fromkeys(files, b"x")
    discard = DiscardState(paths=tuple(sorted(files)), location=LOCATION, checkpoint_id=7, stored=True)

    def refuse() -> None:
        raise StorageError("the disk is read-only")

    host.storage.before_deletion = refuse  # type: ignore[method-assign]
    answer = host.job.carry_out(discard)
    assert isinstance(answer, StateDiscarded)
    assert "the disk is read-only" in answer.error
    assert host.stored_ids() == [7], "a driver that finds the entry finishes the deletion"

    at_deletion: set[tuple[int, ...]] = set()
    host.storage.before_deletion = lambda: at_deletion.add(tuple(host.stored_ids()))  # type: ignore[method-assign]
    assert host.job.carry_out(discard) == StateDiscarded(checkpoint_id=7)
    assert at_deletion == {(7,)}
    assert host.stored_ids() == []
    assert not files & host.files.contents.keys()


def test_only_a_checkpoint_that_is_stored_loses_its_entry() -> None:
    host = Host()
    host.store.begin(recover=False)
    host.store.add(stored(7))
    host.job.carry_out(DiscardState(paths=(), location=LOCATION, checkpoint_id=7))
    assert host.stored_ids() == [7]


@pytest.mark.parametrize(
    "command",
    [DiscardState(paths=(), location=LOCATION, checkpoint_id=7, stored=True), RemoveOrphans(keep=(), shared=())],
    ids=lambda each: type(each).__name__,
)
def test_files_in_progress_are_swept_even_if_the_store_cannot_be_reached(command: Command) -> None:
    sink = ParquetSink("/out")
    env = StreamEnvironment("swept", job_id=JOB)
    env.from_source(CollectionSource([{"n": 1}])).sink_to(sink)
    host, output = Host(), MemoryOutput()
    host.store.begin(recover=False)
    output.write(f"{staging_directory(sink.path, JOB)}/{IN_PROGRESS}0-3-0", pa.table({"n": [1]}), first=True, last=True)

    def unknown() -> range:
        raise StoreError("the store cannot be reached")

    host.store.ids = unknown  # type: ignore[method-assign]
    JobFiles(env.job_graph(), host.storage, MasterHooks(()), host.store, output).carry_out(command)
    assert output.in_progress == {}


def test_of_several_orphans_of_each_kind_only_those_of_this_run_go() -> None:
    """Checkpoints 3 and 5 are kept, and 12 of a later run; two sinks have files of each, one of another run too."""
    sinks = [ParquetSink(path) for path in ("/one", "/two")]
    env = StreamEnvironment("orphans", job_id=JOB)
    rows = env.from_source(CollectionSource([{"n": 1}]))
    for sink in sinks:
        rows.sink_to(sink)
    host, output = Host(), MemoryOutput()
    job = JobFiles(env.job_graph(), host.storage, MasterHooks(()), host.store, output)
    host.store.begin(recover=False)
    while host.allocate() < 7:
        pass
    present = (*range(1, 8), 12)
    for number in present:
        host.store.add(stored(number))
    directories = {number: f"/c/{JOB}/chk-{number}/" for number in present}
    files = {f"{path}{name}" for path in directories.values() for name in ("_metadata", "state")}
    shared = {number: f"/c/{JOB}/shared/{'ab' * 16}-0-{number}-part" for number in present}
    host.files.contents |= dict.fromkeys((*files, *shared.values(), f"/c/{JOB}/shared/of-another-kind"), b"x")
    parts = {
        (sink.path, writer, number): f"{staging_directory(sink.path, writer)}/{StagedName(0, number, number)}"
        for sink in sinks
        for writer in (JOB, "another")
        for number in present
    }
    output.staged = dict.fromkeys(parts.values(), pa.table({"n": [1]}))
    kept_shared = tuple(shared[number].rpartition("/")[2] for number in (2, 5))

    assert job.carry_out(RemoveOrphans(keep=(3, 5), shared=kept_shared)) == OrphansRemoved()

    kept = (3, 5, 12)
    assert host.stored_ids() == [3, 5, 12]
    assert files & host.files.contents.keys() == {
        path for path in files if path.startswith(tuple(directories[n] for n in kept))
    }
    left = {path for path in host.files.contents if "/shared/" in path}
    assert left == {shared[2], shared[5], shared[12], f"/c/{JOB}/shared/of-another-kind"}
    assert output.staged.keys() == {
        path for (_, writer, number), path in parts.items() if writer == "another" or number in kept
    }


# --- the counter of ids -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("recover", [False, True])
def test_no_id_is_given_out_whose_directory_is_there(durable: bool, recover: bool) -> None:
    host = Host(durable=durable)
    host.files.contents |= {f"/c/{JOB}/chk-{each}/_metadata": b"x" for each in (9, 12)}
    assert host.job.carry_out(RecoverCheckpoints(recover=recover)) == CheckpointsRecovered(
        checkpoints=(), lineage=Lineage(JOB)
    )
    assert [host.allocate(), host.allocate()] == [13, 14]


@pytest.mark.parametrize("durable", [False, True])
def test_after_a_restore_ids_go_on_behind_the_snapshot_and_never_back(durable: bool) -> None:
    host = Host(durable=durable)
    host.job.carry_out(RecoverCheckpoints(recover=False))
    host.job.carry_out(SetCheckpointIdCounter(next_id=8))
    assert [host.allocate(), host.allocate()] == [8, 9]
    host.job.carry_out(SetCheckpointIdCounter(next_id=3))
    assert host.allocate() == 10


# --- two drivers ------------------------------------------------------------------------------------------------------


class OvertakenOutput(MemoryOutput):
    """The output of a driver that is frozen after it has listed the published files, while another one takes over."""

    def __init__(self, overtake: Callable[[], None]) -> None:
        super().__init__()
        self._overtake = overtake

    def published_files(self, sink: Sink) -> list[str]:
        found = super().published_files(sink)
        self._overtake()
        return found


@pytest.mark.parametrize("discard_later", [False, True])
def test_a_driver_that_is_overtaken_deletes_nothing_that_the_other_publishes(discard_later: bool) -> None:
    sink = ParquetSink("/out", mode="overwrite")
    env = StreamEnvironment("overtaken", job_id=JOB)
    env.from_source(CollectionSource([{"n": 1}])).sink_to(sink)
    storage = CheckpointStorage("/c", JOB, file_system=MemoryFiles().filesystem)
    store = DurableStore(FileRecords(storage))
    published = {f"{sink.path}/part-{JOB}-00000-{number:06d}.parquet": pa.table({"n": [1]}) for number in (8, 9)}

    def overtake() -> None:
        DurableStore(FileRecords(storage)).begin(recover=True, driver="the other")
        output.published = {**output.published, **published}

    output = OvertakenOutput(overtake)
    frozen = JobFiles(env.job_graph(), storage, MasterHooks(()), store, output)
    if discard_later:
        output.published = dict([published.popitem()])
        store.begin(recover=False)
    before = dict(output.published)
    discard = DiscardLaterOutput(location=LOCATION, covered=Lineage(JOB).covered_at(7))
    answer = frozen.carry_out(discard if discard_later else RecoverCheckpoints(recover=False))
    assert isinstance(answer, LeadershipLost)
    assert "the other" in answer.error
    assert output.published == before | published


@pytest.mark.parametrize(
    "command",
    [RecoverCheckpoints(recover=True), RemoveOrphans(keep=(), shared=())],
    ids=lambda each: type(each).__name__,
)
def test_a_driver_that_is_overtaken_while_it_starts_says_only_that(command: Command) -> None:
    host = Host()
    begin = host.store.begin

    def begin_and_be_overtaken(**how: object) -> str:
        status = begin(**how)  # type: ignore[arg-type]
        DurableStore(FileRecords(host.storage)).begin(recover=True, driver="the other")
        return status

    host.store.begin = begin_and_be_overtaken  # type: ignore[method-assign]
    if isinstance(command, RemoveOrphans):
        host.store.begin(recover=False)
    answer = host.job.carry_out(command)
    assert isinstance(answer, LeadershipLost)
    assert answer.error.startswith("driver 2 (the other) has taken over this job")
