"""Checkpoints and output in an object store, a real server on this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import boto3
import pyarrow as pa
import pytest
from pyarrow import fs

import kit
from kit import CheckpointConfig, FixedDelay, GeneratorSource, ParquetSink, SparkJob, StreamEnvironment, count, sum_
from kit.core.protocol.snapshots import Effect
from kit.core.state.errors import StorageError
from kit.files.output_files import commit, stage
from kit.files.storage import CheckpointStorage, resolve
from kit.files.stores.object_records import ObjectRecords
from kit.files.stores.opening import open_store
from kit.filesystems.object_stores import put_if
from kit.stream.connectors.output_directory import CommitError
from kit.stream.operators.sources.source import ReadResult, Source, Split
from tests.files.contract import OpenRecords, StoreContract, stored
from tests.flink_data import value_cases, values
from tests.hosts.spark.jobs import KEYS, ThreadGang, await_checkpoint, generator

JOB_ID = "0123456789abcdef" * 2
ROWS = 6_000


class TestObjectRecords(StoreContract):
    """The durable store of a job whose checkpoints are in an object store."""

    @pytest.fixture
    def opened(self, bucket: str) -> OpenRecords:
        storage = CheckpointStorage(f"{bucket}/checkpoints", JOB_ID)
        return lambda: ObjectRecords(storage)

    def test_it_is_one_object(self, bucket: str) -> None:
        storage = CheckpointStorage(f"{bucket}/checkpoints", JOB_ID)
        store = open_store("filesystem", storage)
        store.begin(recover=False)
        store.add(stored(12))
        assert storage.names(storage.job_directory) == ["store.json"]


def test_of_two_that_write_the_same_metadata_one_is_told(bucket: str) -> None:
    """All of them have seen that it does not exist."""
    storage = CheckpointStorage(f"{bucket}/checkpoints", JOB_ID)
    location = storage.initialize_location_for_checkpoint(7)

    def write(number: int) -> str:
        try:
            storage.write_metadata(location, b"by %d" % number)
        except StorageError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(write, range(8)))
    assert told.count("") == 1
    taken = "exists already, and a completed checkpoint is never overwritten"
    assert sum(taken in each for each in told) == 7
    assert resolve(location.directory).metadata == b"by %d" % told.index("")


def test_a_put_that_is_sent_again_is_ours(bucket: str) -> None:
    assert put_if(f"{bucket}/a/b", b"1", None)
    assert put_if(f"{bucket}/a/b", b"1", None)
    assert not put_if(f"{bucket}/a/b", b"2", None)


def test_a_store_that_does_not_answer_is_named(bucket: str) -> None:
    with pytest.raises(StorageError, match="Cannot write 's3://kit-no-such-bucket/x': "):
        put_if("s3://kit-no-such-bucket/x", b"1", None)


def test_output_that_was_copied_and_not_yet_deleted_is_published_once(bucket: str) -> None:
    """A publisher died between the copy and the deletion; a rename has no such moment."""
    staged, final = f"{bucket}/out/.staging/job/part-1.parquet", f"{bucket}/out/part-1.parquet"
    effect = Effect("out", staged=staged, final=final, table=pa.table({"n": [1, 2]}))
    stage(effect)
    system, inner = fs.FileSystem.from_uri(bucket)
    system.copy_file(f"{inner}/out/.staging/job/part-1.parquet", f"{inner}/out/part-1.parquet")
    commit([effect])
    commit([effect])
    found = system.get_file_info(fs.FileSelector(inner, recursive=True))
    assert [info.path for info in found if info.is_file] == [f"{inner}/out/part-1.parquet"]


def test_output_that_somebody_else_has_published_is_left_alone(bucket: str) -> None:
    """A file of as many bytes is there, and they are others: neither of the two is deleted."""
    staged, final = f"{bucket}/out/.staging/job/part-1.parquet", f"{bucket}/out/part-1.parquet"
    effect = Effect("out", staged=staged, final=final, table=pa.table({"n": [1, 2]}))
    stage(effect)
    system, inner = fs.FileSystem.from_uri(bucket)
    with system.open_input_file(f"{inner}/out/.staging/job/part-1.parquet") as ours:
        content = ours.readall()
    theirs = content[:-1] + bytes([content[-1] ^ 1])
    with system.open_output_stream(f"{inner}/out/part-1.parquet") as stream:
        stream.write(theirs)
    with pytest.raises(CommitError, match=r"part-1\.parquet"):
        commit([effect])
    for path, found in ((".staging/job/part-1.parquet", content), ("part-1.parquet", theirs)):
        with system.open_input_file(f"{inner}/out/{path}") as file:
            assert file.readall() == found


KILLED = Event()


@dataclass(frozen=True, eq=False)
class Held(GeneratorSource):
    """The last row of each split is not there before a slot was killed."""

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        last = split["end"] - split["start"] - 1
        if KILLED.is_set() or position > last:
            return super().read_split(split, position, max_rows)
        if position == last:
            return ReadResult(None, position, finished=False)
        return super().read_split(split, position, min(max_rows, last - position))


@pytest.mark.usefixtures("no_thread_left")
def test_a_job_whose_slot_dies_goes_on_from_its_checkpoint(bucket: str) -> None:
    def environment(source: Source) -> StreamEnvironment:
        settings = CheckpointConfig(interval_ms=100, directory=f"{bucket}/checkpoints", store="filesystem")
        env = StreamEnvironment(
            "totals", parallelism=2, checkpoint=settings, restart=FixedDelay(attempts=9, delay_ms=10), job_id=JOB_ID
        )
        rows = env.from_source(source, uid="rows")
        rows.rebalance().sink_to(ParquetSink(f"{bucket}/copy"), uid="copy")
        totals = rows.key_by("key").aggregate(total=sum_("value"), n=count(), emit="final").uid("totals")
        totals.sink_to(ParquetSink(f"{bucket}/totals"), uid="out")
        return env

    KILLED.clear()
    with SparkJob(environment(Held(ROWS, KEYS, splits=8, batch_rows=500)), launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 2)
        ThreadGang.current.kill(1)
        KILLED.set()
        assert job.wait() == "FINISHED"
        copy, totals = job.output("copy"), job.output("totals")
    source = generator(ROWS)
    expected = source.slice(0, ROWS).to_pandas()
    order = ["key", "value"]
    assert copy.sort_values(order)[order].values.tolist() == expected.sort_values(order)[order].values.tolist()
    by_key = expected.groupby("key")["value"].agg(["sum", "size"])
    assert totals.set_index("key").sort_index()[["total", "n"]].values.tolist() == by_key.values.tolist()
    assert len(job.look.stages) == 2
    assert (job.look.restores()["checkpoint_id"] >= 2).all()
    system, inner = fs.FileSystem.from_uri(bucket)
    left = [info.path for info in system.get_file_info(fs.FileSelector(inner, recursive=True)) if info.is_file]
    assert [path for path in left if "/.staging/" in path] == []


@pytest.mark.parametrize(
    ("version", "case"), [each for each in value_cases() if each[1] in ("savepoint-canonical", "rocksdb-incremental")]
)
def test_a_checkpoint_of_flink_is_opened_in_a_bucket_and_by_a_uri(bucket: str, version: str, case: str) -> None:
    folder = values(version) / case
    store = boto3.client("s3")
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"job/{case}/{path.relative_to(folder).as_posix()}"
            store.put_object(Bucket=bucket.removeprefix("s3://"), Key=key, Body=path.read_bytes())
    local = kit.open_checkpoint(folder)
    for uri in (f"{bucket}/job/{case}", f"{bucket}/job/{case}/_metadata", f"file://{folder}"):
        remote = kit.open_checkpoint(uri)
        assert remote.operators.equals(local.operators)
        assert not remote.files["problem"].any()
        for operator, state in (("scalars", "string"), ("session", "window-contents")):
            assert remote.state(operator, state).equals(local.state(operator, state))
        assert remote.storage.states.equals(local.storage.states)
    listed = kit.open_checkpoints(f"{bucket}/job")
    assert [each.checkpoint_id for each in listed] == [local.checkpoint_id]
    assert set(listed.orphans["file"].str.rpartition("/")[2]) == {"truth.json", "truth-values.json"}
