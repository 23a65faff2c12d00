"""A checkpoint from a stranger: whatever its paths say, nothing outside its directories is read, renamed or deleted."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import CheckpointConfig, CollectionSource, Lab, ParquetSink, ParquetSource, StreamEnvironment, sum_
from kit.core.metadata import read_metadata, write_metadata
from kit.core.protocol import commands, events
from kit.core.protocol.properties import RetentionPolicy
from kit.core.protocol.snapshots import Effect
from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import FileStateHandle, KeyGroupsStateHandle, RelativeFileStateHandle
from kit.files import output_files
from kit.files.confinement import OutsidePathError, check_metadata
from kit.files.job_files import JobFiles
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.stores.stores import MemoryStore
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from kit.stream.connectors import CommitError
from kit.stream.connectors.part_names import PublishedName, StagedName
from kit.stream.connectors.sink import Sink
from tests.hosts.spark.jobs import ThreadGang, await_rows, generator, totals_job
from tests.machines.coordinator.harness import graph
from tests.properties import examples
from tests.stream.connectors.parts import paths_of_part

JOB = "0" * 32


def with_path(metadata: bytes, location: str, name: str, *, relative: bool) -> bytes:
    """Return the metadata with the file of its first keyed state replaced by this one."""
    found, version = read_metadata(metadata, location)
    for number, operator in enumerate(found.operator_states):
        for subtask, state in operator.subtask_states.items():
            for handle in state.managed_keyed_state:
                assert isinstance(handle, KeyGroupsStateHandle)
                stream: Any = FileStateHandle(name, 7)
                if relative:
                    stream = RelativeFileStateHandle(name, 7, f"{location}/{name}")
                changed = replace(state, managed_keyed_state=(replace(handle, delegate=stream),))
                operators = list(found.operator_states)
                operators[number] = replace(operator, subtask_states={**operator.subtask_states, subtask: changed})
                return write_metadata(replace(found, operator_states=tuple(operators)), version)
    raise AssertionError("there is no keyed state")


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint that a job has left, `_metadata` and files."""
    directory = tmp_path_factory.mktemp("first")
    env = totals_job(directory, generator(rows_per_second=20_000), memory_threshold_bytes=0)
    with SparkJob(env, launch=ThreadGang).start() as job:
        await_rows(job)
        return Path(job.stop(directory / "savepoints"))


OUTSIDE = {
    "relative": ("../../victim", True),
    "relative, back and forth": ("x/../../../victim", True),
    "a link to a file": ("link", True),
    "a link to a directory": ("linked/victim", True),
    "absolute": ("{victim}", False),
    "a URI": ("file://{victim}", False),
    "another file system": ("s3://bucket/victim", False),
    "a directory of a similar name": ("{location}-other/victim", False),
    "the directory itself": ("{location}/..", False),
}


@pytest.mark.parametrize("how", OUTSIDE)
@pytest.mark.parametrize("mode", ["CLAIM", "NO_CLAIM"])
def test_a_job_does_not_begin_with_a_checkpoint_that_refers_to_files_outside(
    savepoint: Path, tmp_path: Path, how: str, mode: str
) -> None:
    name, relative = OUTSIDE[how]
    location, victim = tmp_path / "theirs" / "savepoint", tmp_path / "victim"
    location.mkdir(parents=True)
    victim.write_text("mine")
    (location / "link").symlink_to(victim)
    (location / "linked").symlink_to(tmp_path)
    name = name.format(victim=victim, location=location)
    crafted = with_path((savepoint / "_metadata").read_bytes(), str(location), name, relative=relative)
    (location / "_metadata").write_bytes(crafted)
    env = totals_job(tmp_path / "second", generator(rows_per_second=20_000))
    with (
        SparkJob(env, restore_path=location, claim_mode=mode, launch=ThreadGang) as job,
        pytest.raises(JobFailedError, match=r"refers to .*, outside its own directory .* nothing was read or deleted"),
    ):
        job.start().wait()
    assert victim.read_text() == "mine"
    assert sorted(path.name for path in location.iterdir()) == ["_metadata", "link", "linked"]


def test_files_beside_the_checkpoint_are_its_own(tmp_path: Path, savepoint: Path) -> None:
    location = tmp_path / "job" / "chk-3"
    data = (savepoint / "_metadata").read_bytes()
    for name in ("../shared/a", "../taskowned/b", "c", "d/e"):
        for relative in (True, False):
            path = name if relative else f"{location}/{name}"
            check_metadata(with_path(data, str(location), path, relative=relative), str(location), "/j", is_real=True)
    check_metadata(with_path(data, str(location), "/j/chk-1/f", relative=False), str(location), "/j", is_real=True)
    with pytest.raises(OutsidePathError):
        check_metadata(with_path(data, str(location), "/j2/f", relative=False), str(location), "/j", is_real=True)


STEPS = st.sampled_from(["..", ".", "", "shared", "taskowned", "chk-1", "job", "link", "x", "x:", "file:", "s3:"])


@given(steps=st.lists(STEPS, max_size=9), relative=st.booleans(), claims=st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_no_combination_of_names_leads_outside(
    tmp_path_factory: pytest.TempPathFactory, savepoint: Path, steps: list[str], relative: bool, claims: bool
) -> None:
    base = tmp_path_factory.mktemp("crafted")
    location = base / "job" / "chk-1"
    location.mkdir(parents=True)
    (location / "link").symlink_to(base)
    name = "/".join(steps)
    path = name if relative else f"{base}/{name}"
    crafted = with_path((savepoint / "_metadata").read_bytes(), str(location), path, relative=relative)
    (location / "_metadata").write_bytes(crafted)
    storage = CheckpointStorage(base / "own", JOB)
    job = graph().job_graph
    found = JobFiles(job, storage, MasterHooks([]), MemoryStore(), MemoryOutput()).carry_out(
        commands.ResolveSnapshot(path=str(location))
    )
    named = f"{location}/{path}" if relative else path
    allowed = [os.path.realpath(base / "job" / each) + "/" for each in ("chk-1", "shared", "taskowned")]
    inside = os.path.realpath(named).startswith(tuple(allowed))
    refused = isinstance(found, events.StartFailed) and "nothing was read or deleted" in found.error
    assert refused == (not (inside and steps and steps[-1] not in ("", ".", "..")))


# --- output -----------------------------------------------------------------------------------------------------------


class StrangersSink(ParquetSink):
    """A sink whose checkpoints make the kit publish somebody else's file."""

    staged, final = "", ""

    def staged_path(self, writer: str, name: StagedName) -> str:
        return self.staged or super().staged_path(writer, name)

    def published_path(self, name: PublishedName, partition: str = "") -> str:
        return self.final or super().published_path(name, partition)


def letters(directory: Path, sink: Sink) -> StreamEnvironment:
    env = StreamEnvironment(
        "letters",
        checkpoint=CheckpointConfig(
            interval_ms=20, directory="/checkpoints", retention=RetentionPolicy.RETAIN_ON_CANCELLATION
        ),
    )
    rows = [{"letter": "abc"[number % 3], "n": number} for number in range(40)]
    stream = env.from_source(CollectionSource(rows, batch_rows=1), uid="letters")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(sink, uid="out")
    return env


@pytest.mark.parametrize(
    ("staged", "final"),
    [
        ("/etc/keys/private", ""),
        ("", "/etc/keys/private"),
        ("{out}/.staging/../../victim/part-0-1.parquet", ""),
        ("{out}/.staging/../part-0-1.parquet", ""),
        ("", "{out}/../part-x-00000-000001.parquet"),
        ("", "{out}/.hidden"),
    ],
)
def test_a_sink_publishes_nothing_but_its_own_output(tmp_path: Path, staged: str, final: str) -> None:
    out = tmp_path / "out"
    StrangersSink.staged, StrangersSink.final = staged.format(out=out), final.format(out=out)
    lab = Lab(letters(tmp_path, StrangersSink(str(out))))
    lab.run_until(checkpoint=1)
    lab.cancel()
    lab.run()
    (path,) = {each.rpartition("/")[0] for each in lab.look.files.paths() if each.endswith("/_metadata")}
    before = dict(lab._world.edge.output.published)
    again = Lab(letters(tmp_path, ParquetSink(str(out))), restore_path=path, after=lab)
    with pytest.raises(Exception, match=r"StateRestoreError: the checkpoint is to publish"):
        again.run()
    assert again._world.edge.output.published == before


def test_a_sink_whose_directory_was_changed_says_what_to_do() -> None:
    sink = ParquetSink("/tmp/new")
    old = ParquetSink("/tmp/old")
    with pytest.raises(
        StateRestoreError, match=r"'/tmp/old/part-.* the sink writes to '/tmp/new': restore the job with"
    ):
        sink.check_own(*paths_of_part(old, 1))
    for again in (1, 4):
        sink.check_own(*paths_of_part(sink, 1, again))


def test_a_staging_directory_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    out, victims = tmp_path / "out", tmp_path / "victims"
    out.mkdir()
    victims.mkdir()
    (out / ".staging").symlink_to(victims)
    (victims / JOB).mkdir()
    mine = victims / JOB / "part-0-1.parquet"
    mine.write_text("mine")
    effect = Effect("op", f"{out}/.staging/{JOB}/part-0-1.parquet", f"{out}/part-{JOB}-00000-000001.parquet")
    with pytest.raises(CommitError, match=r"outside .*; remove the link"):
        output_files.commit([effect])
    assert mine.read_text() == "mine"


# --- input ------------------------------------------------------------------------------------------------------------


def test_a_split_of_a_file_that_is_not_the_sources_is_not_read(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pa.table({"n": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table, tmp_path / "secret.parquet")
    source = ParquetSource(tmp_path / "a.parquet")
    (split,) = source.enumerate_splits()
    source.check_split(split)
    with pytest.raises(ValueError, match=r"secret.parquet, which is not among the files of this source"):
        source.check_split({**split, "path": str(tmp_path / "secret.parquet")})
