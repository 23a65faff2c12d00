"""`docs/WRITING-A-HOST.md` is enough to write a host from: the third one runs a job through failures to its end."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, StreamEnvironment, sum_
from kit.core.protocol.commands import CommitEffects, WriteMetadata, WriteSnapshot
from kit.core.protocol.duties import Command, Duty
from kit.core.protocol.events import RequestStop, StartJob
from kit.files.memory_output import MemoryOutput
from kit.filesystems.memory import MemoryFiles
from kit.machines.job.status import JobStatus
from tests.files.third_host import ThirdHost

PAGE = Path(__file__).parents[2] / "docs" / "WRITING-A-HOST.md"
ROWS = [{"letter": "abcde"[n % 5], "n": n} for n in range(200)]


def job(unaligned: bool) -> StreamEnvironment:
    """Totals by letter, and a copy of every row."""
    env = StreamEnvironment(
        "third",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=60, unaligned=unaligned, tolerable_failures=5),
        restart=FixedDelay(attempts=5, delay_ms=10),
    )
    rows = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="rows")
    totals = rows.key_by("letter").aggregate(total=sum_("n"), emit="final").uid("totals")
    totals.sink_to(CollectSink("totals"), uid="totals-out")
    rows.rebalance().sink_to(CollectSink("copy"), uid="copy-out")
    return env


def completed(host: ThirdHost) -> int:
    return len(host.trace.story(kind="CheckpointCompleted"))


def a_job_with(failure: type[Command] | None, unaligned: bool) -> tuple[MemoryOutput, ThirdHost, ThirdHost]:
    """Run the job: a write fails, a slot dies, it stops with a savepoint, and another host resumes from that."""
    graph, files, output = job(unaligned).job_graph(), MemoryFiles(), MemoryOutput()
    first = ThirdHost(graph, files, output)
    first.tell(StartJob())
    first.run(lambda: completed(first) == 1)
    first.fail_next |= {failure} if failure else set()
    first.run(lambda: completed(first) == 3 and not first.fail_next)
    first.kill(1)
    first.run(lambda: first.master.epoch > 1 and completed(first) >= 4)
    first.tell(RequestStop(request_id=7, target="/savepoints"))
    first.run()
    second = ThirdHost(graph, files, output)
    second.tell(StartJob(restore_path=first.answers[7]))
    second.run()
    return output, first, second


@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.parametrize("failure", [None, WriteSnapshot, WriteMetadata, CommitEffects])
def test_each_row_counts_once_whatever_fails(failure: type[Command] | None, unaligned: bool) -> None:
    output, first, second = a_job_with(failure, unaligned)
    assert (first.status, second.status) == (JobStatus.FINISHED, JobStatus.FINISHED)
    copied = Counter(zip(output.read("copy")["letter"], output.read("copy")["n"], strict=True))
    assert copied == Counter((row["letter"], row["n"]) for row in ROWS)
    totals = dict(zip(output.read("totals")["letter"], output.read("totals")["total"], strict=True))
    assert totals == {letter: sum(row["n"] for row in ROWS if row["letter"] == letter) for letter in "abcde"}


def test_a_write_that_fails_ends_its_checkpoint_and_a_restart_goes_back_to_one_that_is_complete() -> None:
    _, first, second = a_job_with(WriteSnapshot, False)
    (failed,) = first.trace.story(kind="SnapshotFailed")
    aborted = first.trace.story(kind="CheckpointAborted", checkpoint=failed.checkpoint_id)
    assert len(aborted) == 1
    assert "the disk is full" in str(aborted[0].data)
    assert "SnapshotFailed" in [record.kind for record in first.trace.causes(aborted[0])]
    restored = first.trace.story(kind="CheckpointRestored")
    done = {record.checkpoint_id for record in first.trace.story(kind="CheckpointCompleted")}
    assert {record.checkpoint_id for record in restored} <= done
    assert len(restored) == 1
    assert len(second.trace.story(kind="CheckpointRestored")) == 1


def test_what_was_in_flight_goes_through_the_slot_s_machine() -> None:
    _, first, _ = a_job_with(None, True)
    assert any(record.machine.startswith("slot ") for record in first.trace.story(kind="ChannelStateWritten"))


def test_the_page_lists_the_duties_as_the_protocol_has_them() -> None:
    listed = re.findall(r"(?m)^(\d+)\. `(\w+)`: (.*)$", PAGE.read_text())
    assert listed == [(str(number), duty.name, duty.value) for number, duty in enumerate(Duty, 1)]


def test_the_third_host_sees_to_what_the_page_lists() -> None:
    assert set(ThirdHost.DUTIES) == set(Duty)
