"""The driver and its slots, with slots as threads of this process: a job's life without Spark."""

from __future__ import annotations

import io
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectSink,
    FixedDelay,
    GeneratorSource,
    KeyedProcessFunction,
    KeyedProcessFunctionContext,
    NoRestart,
    StreamEnvironment,
    ValueStateDescriptor,
    count,
)
from kit.core.protocol.attempts import Attempts
from kit.hosts.spark.driver.background import Background
from kit.hosts.spark.driver.deployment import Deployment
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.job import SparkJob
from kit.hosts.spark.slot.slot import PEER_LOST, TROUBLE, Slot, SlotTicket
from kit.hosts.spark.slot.working_slot import SAID
from kit.hosts.spark.wire.auth import AuthenticationError, FencedError, new_secret
from kit.hosts.spark.wire.channels import ElementArrived
from kit.hosts.spark.wire.control import ControlClient, SlotHello, SlotJoined, SlotMessage
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.wire import ControlMessage
from kit.machines.job.errors import JobEndedError, JobFailedError
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.operators.sources.source import ReadResult, Split
from tests.hosts.spark.jobs import (
    IN_MEMORY,
    LASTING,
    ROWS,
    ThreadGang,
    await_checkpoint,
    await_rows,
    check_output,
    generator,
    staged,
    totals_job,
    until,
)

SLOW = generator(rows_per_second=30_000)


def job_of(env: StreamEnvironment, **options: object) -> SparkJob:
    return SparkJob(env, launch=ThreadGang, **options)


@pytest.mark.usefixtures("nothing_left")
def test_a_job_publishes_each_row_once(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path)) as job:
        assert job.start() is job
        assert job.wait() == "FINISHED"
        assert job.look.workers() == {}
    check_output(tmp_path)
    assert staged(tmp_path) == []
    assert (job.checkpoints()["status"] == "COMPLETED").any()


@pytest.mark.usefixtures("nothing_left")
def test_a_job_whose_slot_dies_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path, SLOW)) as job:
        job.start()
        await_checkpoint(job, 2)
        ThreadGang.current.kill(1)
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    assert staged(tmp_path) == []
    restored = job.look.restores()
    assert set(restored["epoch"]) == {2}
    assert (restored["checkpoint_id"] >= 2).all()
    assert [repr(stage) for stage in job.look.stages] == [
        f"Stage(epoch {epoch}: rows x2 -> copy x2 -> totals x2, 8 channels)" for epoch in (1, 2)
    ]


@pytest.mark.usefixtures("nothing_left")
def test_stopped_with_a_savepoint_and_resumed_with_more_and_fewer_slots(tmp_path: Path) -> None:
    savepoint = None
    for parallelism in (2, 3):
        with job_of(totals_job(tmp_path, LASTING, parallelism=parallelism), restore_path=savepoint) as job:
            job.start()
            await_rows(job)
            savepoint = job.stop(tmp_path / "savepoints")
            assert job.status == "FINISHED"
    assert Path(savepoint, "_metadata").is_file()
    with job_of(totals_job(tmp_path, parallelism=1), restore_path=savepoint) as job:
        job.start()
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    restored = set(job.look.restores()["task"])
    assert restored - {"copy/0"} == {
        "rows/0",
        "totals/0",
    }  # the copy has state if it got rows after the last checkpoint


@pytest.mark.usefixtures("nothing_left")
def test_a_job_may_be_cancelled_and_its_checkpoint_retained(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path, LASTING)) as job:
        job.start()
        await_checkpoint(job, 1)
        assert job.cancel() == "CANCELED"
    (retained,) = (tmp_path / "checkpoints").glob("*/chk-*")
    assert {path.stem.rpartition("-")[2] for path in staged(tmp_path)} <= {retained.name.removeprefix("chk-")}
    with job_of(totals_job(tmp_path), restore_path=retained) as job:
        job.start()
        job.wait()
    check_output(tmp_path)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("store", ["memory", "filesystem"])
def test_what_a_savepoint_has_staged_outlives_a_job_that_never_published_it(tmp_path: Path, store: str) -> None:
    with job_of(totals_job(tmp_path, LASTING, interval_ms=None, store=store)) as job:
        job.start()
        savepoint = job.savepoint(tmp_path / "savepoints")
        while not staged(tmp_path):
            savepoint = job.savepoint(tmp_path / "savepoints")
        job.cancel()
    assert staged(tmp_path)
    with job_of(totals_job(tmp_path), restore_path=savepoint) as job:
        job.start()
        job.wait()
    check_output(tmp_path)
    assert staged(tmp_path) == []


class Unspeakable(GeneratorSource):
    """A source whose splits hold something that may not cross a socket."""

    def enumerate_splits(self) -> list[Split]:
        return [{**split, "seen": {1, 2}} for split in super().enumerate_splits()]


@pytest.mark.usefixtures("nothing_left")
def test_an_event_that_cannot_be_sent_fails_its_task(tmp_path: Path) -> None:
    env = totals_job(tmp_path, Unspeakable(100, 10), parallelism=1, restart=NoRestart(), interval_ms=None)
    with job_of(env) as job:
        job.start()
        with pytest.raises(
            JobFailedError, match=r"rows/0 failed: an event of its operator coordinator was lost: .*set"
        ):
            job.wait()


@pytest.mark.usefixtures("nothing_left")
def test_requests_are_answered_while_the_job_runs(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path, LASTING, interval_ms=None)) as job:
        job.start()
        path = job.trigger_checkpoint()
        savepoint = job.savepoint(tmp_path / "savepoints")
        assert Path(path, "_metadata").is_file()
        assert Path(savepoint, "_metadata").is_file()
        assert job.checkpoints()["kind"].tolist() == ["Savepoint", "Checkpoint"]
        job.close()
        assert job.status == "CANCELED"
        with pytest.raises(JobEndedError, match="job 'totals' has ended, it is CANCELED"):
            job.trigger_checkpoint()


def test_the_trace_tells_the_story_of_a_checkpoint_across_processes(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path)) as job:
        job.start()
        job.wait()
    trace = job.trace
    completed = next(record for record in trace if record.kind == "CheckpointCompleted")
    machines = {record.machine for record in trace.story(checkpoint=completed.checkpoint_id)}
    assert machines == {"job", "rows/0", "rows/1", "copy/0", "copy/1", "totals/0", "totals/1"}
    why = [record.kind for record in trace.causes(completed)]
    assert {"AcknowledgeCheckpoint", "SnapshotWritten", "WriteSnapshot", "TriggerTaskCheckpoint"} & set(why)
    assert len({record.id for record in trace}) == len(trace)


# --- errors: each ends in one clear text ------------------------------------------------------------------------------


def fails_at_7(row: dict[str, int]) -> dict[str, int]:
    if row["key"] == 7:
        raise KeyError("no carrier 7")
    return row


def failure_of(job: SparkJob) -> JobFailedError:
    with job:
        job.start()
        with pytest.raises(JobFailedError) as caught:
            job.wait()
    assert job.status == "FAILED"
    return caught.value


def put_in_the_way(job: SparkJob, output: Path) -> None:
    """Let nothing be staged in a directory: a file has the name of the directory for it."""
    (output / ".staging").mkdir(parents=True)
    (output / ".staging" / job.job.job_id).write_text("in the way")


@pytest.mark.usefixtures("nothing_left")
def test_an_error_of_a_users_function_names_it(tmp_path: Path) -> None:
    error = failure_of(job_of(totals_job(tmp_path, restart=NoRestart(), function=fails_at_7)))
    assert "no carrier 7" in str(error)
    assert "mapped" in str(error)
    assert "in fails_at_7" in error.worker_traceback
    assert staged(tmp_path) == []


ENDLESS = FixedDelay(attempts=1_000_000, delay_ms=10)
IN_THE_SAME_WAY = "has failed 3 times in the same way with no checkpoint completed in between"


def without_key_7(row: dict[str, int]) -> dict[str, int | None]:
    return {"key": None if row["key"] == 7 else row["key"], "value": row["value"]}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("function", [fails_at_7, without_key_7])
def test_a_function_that_always_fails_ends_the_job_at_the_third_time(
    tmp_path: Path, function: Callable[[dict[str, int]], dict[str, int]]
) -> None:
    job = job_of(totals_job(tmp_path, restart=ENDLESS, interval_ms=60_000, function=function))
    error = failure_of(job)
    assert f"function {function.__module__}.{function.__name__} failed on" in str(error)
    assert IN_THE_SAME_WAY in str(error)
    assert len(job.look.stages) == 3
    assert staged(tmp_path) == []


@pytest.mark.usefixtures("nothing_left")
def test_a_sink_that_can_never_be_written_ends_the_job(tmp_path: Path) -> None:
    job = job_of(totals_job(tmp_path, SLOW, restart=ENDLESS, interval_ms=200))
    put_in_the_way(job, tmp_path / "copy")
    error = failure_of(job)
    assert f"output directory {tmp_path}/copy cannot be written" in str(error)
    assert IN_THE_SAME_WAY in str(error)
    assert len(job.look.stages) == 3


@pytest.mark.usefixtures("nothing_left")
def test_state_of_another_type_fails_the_job_at_once(tmp_path: Path) -> None:
    def job_with(type_: pa.DataType, **options: object) -> SparkJob:
        env = StreamEnvironment("typed", checkpoint=CheckpointConfig(interval_ms=50), restart=ENDLESS)

        class Remember(KeyedProcessFunction):
            last = ValueStateDescriptor("last", type_)

            def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
                ctx.state(self.last).update(row["value"] if pa.types.is_integer(type_) else str(row["value"]))

        keyed = env.from_source(LASTING, uid="rows").key_by("key")
        seen = keyed.process(Remember, returns=pa.schema([("key", pa.int64())])).uid("remember")
        seen.sink_to(CollectSink("out"), uid="out")
        return job_of(env, **options)

    with job_with(pa.int64()) as job:
        job.start()
        await_rows(job)
        savepoint = job.stop(tmp_path / "savepoints")
    with job_with(pa.string(), restore_path=savepoint) as job:
        with pytest.raises(JobFailedError, match=r"'last' was registered as value of string.* operator 'remember'"):
            job.start()
        assert len(job.look.stages) == 0, "no task was deployed"


@pytest.mark.usefixtures("nothing_left")
def test_while_a_job_is_restarted_it_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    restart = FixedDelay(attempts=3, delay_ms=60_000)
    with job_of(totals_job(tmp_path, restart=restart, function=fails_at_7, interval_ms=60_000)) as job:
        job.start()
        until(lambda: job.status == "RESTARTING", job)
        assert "KeyError: 'no carrier 7'" in job.error
        assert job.wait(1.0) == "RESTARTING"
        said = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"after 1 s totals: RESTARTING, .*no checkpoint yet, the last failure: rows/\d failed: ", said)
    assert job.error == ""


@pytest.mark.usefixtures("nothing_left")
def test_a_failure_that_was_overcome_is_no_error_any_more(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path, SLOW)) as job:
        job.start()
        await_checkpoint(job, 2)
        ThreadGang.current.kill(1)
        until(lambda: job.error != "", job)
        assert job.error.startswith("worker 1 was lost: ")
        newest = job.checkpoints()["id"].max()
        await_checkpoint(job, newest + 1)
        assert job.error == ""
        assert job.wait() == "FINISHED"
    assert job.error == ""


@pytest.mark.usefixtures("nothing_left")
def test_the_log_tells_of_checkpoints_restores_and_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kit.hosts.spark")
    with job_of(totals_job(tmp_path, SLOW)) as job:
        job.start()
        await_checkpoint(job, 2)
        ThreadGang.current.kill(1)
        assert job.wait() == "FINISHED"
        last = job.look.summary()["checkpoint"]
    said = caplog.messages
    assert any(re.match(r"job totals: checkpoint 1 is complete: [\d,]+ bytes, [\d,]+ ms", line) for line in said)
    assert any(re.match(r"job totals restores checkpoint \d+, .*/chk-\d+", line) for line in said)
    assert said[-1] == f"job totals is FINISHED, after 2 epochs and checkpoint {last}"


@pytest.mark.usefixtures("nothing_left")
def test_a_checkpoint_that_fails_is_in_the_table_and_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = job_of(totals_job(tmp_path, SLOW, restart=NoRestart(), interval_ms=200, rolling=IN_MEMORY))
    put_in_the_way(job, tmp_path / "copy")
    failure_of(job)
    (failed,) = job.checkpoints().itertuples()
    assert (failed.id, failed.status) == (1, "FAILED")
    assert "cannot be written" in failed.failure
    (line,) = [line for line in caplog.messages if line.startswith("job totals: checkpoint 1 failed")]
    assert "(copy/" in line
    assert "cannot be written" in line


@pytest.mark.usefixtures("nothing_left")
def test_a_driver_that_takes_over_shows_what_it_was_restored_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kit.hosts.spark")
    env = totals_job(tmp_path, generator(rows_per_second=5_000), interval_ms=300, store="filesystem")
    with job_of(env) as first, job_of(env, recover=True) as second:
        first.start()
        await_checkpoint(first, 2)
        second.start().wait_until_running()
        shown = second.look.summary()["checkpoint"]
        assert shown >= 2
        assert set(second.look.restores()["checkpoint_id"]) <= set(range(2, shown + 1))
    assert any("job totals takes over and restores checkpoint" in line for line in caplog.messages)


def test_close_waits_until_an_ended_job_has_released_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Background.close

    def slowly(self: Background, timeout_s: float) -> bool:
        time.sleep(0.3)
        return close(self, timeout_s)

    monkeypatch.setattr(Background, "close", slowly)
    with job_of(totals_job(tmp_path, generator(2_000))) as job:
        job.start()
        while not job.ended:
            time.sleep(0.01)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kit-driver")] == []


@pytest.mark.usefixtures("nothing_left")
def test_to_recover_a_job_that_was_stopped_names_its_savepoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = totals_job(tmp_path, LASTING, store="filesystem")
    with job_of(env) as job:
        job.start()
        await_checkpoint(job, 1)
        savepoint = job.stop()
    with job_of(env, recover=True) as again:
        again.start()
        assert again.wait() == "FINISHED"
        assert again.look.summary()["epoch"] == 0
    (line,) = [line for line in caplog.messages if "had ended before this driver came" in line]
    assert f"it is FINISHED, stopped with the savepoint {savepoint}; to resume from that" in line
    assert f"restore_path={savepoint!r}" in line
    with job_of(env, restore_path=savepoint) as resumed:
        resumed.start()
        assert resumed.wait() == "FINISHED"
    check_output(tmp_path)


class BrokenSource(GeneratorSource):
    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        if position > 2_000:
            raise ZeroDivisionError("the feed is cut")
        return super().read_split(split, position, max_rows)


@pytest.mark.usefixtures("nothing_left")
def test_an_error_of_a_source_names_it(tmp_path: Path) -> None:
    source = BrokenSource(ROWS, 10, splits=2, batch_rows=1_000)
    error = failure_of(job_of(totals_job(tmp_path, source, restart=NoRestart())))
    assert "the feed is cut" in str(error)
    assert "rows" in str(error)


@pytest.mark.usefixtures("nothing_left")
def test_a_savepoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    job = job_of(totals_job(tmp_path), restore_path=tmp_path / "nowhere")
    with pytest.raises(JobFailedError, match=str(tmp_path / "nowhere")):
        job.start()
    assert job.ended
    assert repr(job).startswith("SparkJob(totals, FAILED, epoch 0: ")
    assert str(tmp_path / "nowhere") in job.error
    assert str(tmp_path / "nowhere") in job._repr_html_()


def test_a_checkpoint_directory_that_cannot_be_written_is_named_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(OSError, match=f"checkpoint directory '{tmp_path}/checkpoints' cannot be written"):
        job_of(totals_job(tmp_path))


@pytest.mark.usefixtures("nothing_left")
def test_slots_that_do_not_come_are_counted(tmp_path: Path) -> None:
    class Nobody:
        def __init__(self, ticket: object, ended: object) -> None:
            self.ended = ended

        def cancel(self) -> None:
            self.ended("")

    settings = DriverSettings(start_timeout_s=0.05, leave_ms=1)
    error = failure_of(SparkJob(totals_job(tmp_path, restart=NoRestart()), launch=Nobody, settings=settings))
    assert "only 0 of 2 slots connected within 0.05 s" in str(error)


def test_a_stage_that_ends_before_its_slots_have_come_is_run_again(tmp_path: Path) -> None:
    """The stage is cancelled, or Spark has no room for it after all: no connection exists yet that could break."""
    epochs = []

    class Cancelled:
        def __init__(self, ticket: SlotTicket, ended: Callable[[str], None]) -> None:
            ended("Stage 7 was cancelled")

        def cancel(self) -> None: ...

    def launch(ticket: SlotTicket, ended: Callable[[str], None]) -> ThreadGang | Cancelled:
        epochs.append(ticket.epoch)
        return (Cancelled if len(epochs) == 1 else ThreadGang)(ticket, ended)

    with SparkJob(totals_job(tmp_path), launch=launch) as job:
        assert job.start().wait(60) == "FINISHED"
    (lost,) = [record for record in job.trace if record.kind == "SlotLost"]
    assert "Stage 7 was cancelled" in lost.data["error"]
    check_output(tmp_path)
    assert epochs == [1, 2]


def test_a_worker_of_this_machine_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    """One of the same number on another machine is another process, and one that has left is let be."""
    here, elsewhere, gone = (subprocess.Popen([sys.executable, "-c", "input()"], stdin=PIPE) for _ in range(3))
    graph = ExecutionGraph(totals_job(tmp_path).job_graph())
    deployment = Deployment(1, (0, 1, 2), graph, Attempts(1))
    hosts = {here: socket.gethostname(), elsewhere: "another", gone: socket.gethostname()}
    for slot, (process, host) in enumerate(hosts.items()):
        deployment.joined[slot] = SlotHello(slot, 1, process.pid, host)
    deployment.left.add(2)
    deployment.kill_stragglers()
    for process in (elsewhere, gone):
        process.communicate(b"\n")
    here.communicate(b"\n")
    assert [process.returncode for process in hosts] == [-signal.SIGKILL, 0, 0]


NOBODY = 999_999_999
"""The number of no process."""
STALE = {
    "an unknown message": ControlMessage("nonsense"),
    "trouble": ControlMessage(TROUBLE, {"error": "OSError: late", "traceback": "", "fatal": False}),
    "fatal trouble": ControlMessage(TROUBLE, {"error": "late", "traceback": "", "fatal": True}),
    "a lost peer": ControlMessage(PEER_LOST, {"slot": 1, "reason": "late"}),
    "bad words": ControlMessage(SAID, {"words": "none"}),
    "a hello": None,
}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("what", STALE)
def test_what_a_slot_of_an_earlier_epoch_still_says_is_dropped(tmp_path: Path, what: str) -> None:
    with job_of(totals_job(tmp_path, SLOW)) as job:
        job.start()
        await_checkpoint(job, 1)
        ThreadGang.current.kill(1)
        job.wait_until_running(restarts=1)
        driver, message = job._driver, STALE[what]
        hello = SlotHello(0, 1, NOBODY, "elsewhere")
        driver.inbox.put(SlotJoined(0, 1, hello) if message is None else SlotMessage(0, 1, message))
        until(driver.inbox.empty, job)
        assert NOBODY not in job.look.workers().values()
        assert job.wait(60) == "FINISHED"
    assert len(job.look.stages) == 2
    check_output(tmp_path)


class EarlyGang(ThreadGang):
    """Slots to which an element comes before they are connected, which the protocol excludes."""

    def _run(self, slot: Slot) -> None:
        slot._inbox.put(ElementArrived(3, b"early"))
        super()._run(slot)


@pytest.mark.usefixtures("nothing_left")
def test_a_slot_does_not_drop_an_item_that_it_does_not_expect(tmp_path: Path) -> None:
    error = failure_of(SparkJob(totals_job(tmp_path, SLOW, restart=NoRestart()), launch=EarlyGang))
    assert "ElementArrived(channel=3, event of 5 bytes)" in str(error)


@pytest.mark.usefixtures("nothing_left")
def test_a_driver_does_not_drop_an_item_that_it_does_not_expect(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path, SLOW)) as job:
        job._driver.inbox.put(ElementArrived(3, b"astray"))
        with pytest.raises(JobFailedError, match="event of 6 bytes"):
            job.start().wait(60)


@pytest.mark.usefixtures("nothing_left")
def test_strangers_and_slots_of_another_epoch_do_not_disturb_a_job(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path, SLOW)) as job:
        job.start()
        await_checkpoint(job, 1)
        driver = job._driver
        server = driver.slots.server.endpoint
        with pytest.raises(AuthenticationError, match="does not hold this job's secret"):
            ControlClient(server, new_secret(), 0, 1, driver.inbox, settings=WireSettings())
        with pytest.raises(FencedError, match="deployment 9"):
            ControlClient(server, driver.slots.secret, 0, 9, driver.inbox, settings=WireSettings())
        with pytest.raises(FencedError, match=r"refused slot 9 .* has no slot of that number"):
            ControlClient(server, driver.slots.secret, 9, 1, driver.inbox, settings=WireSettings())
        with pytest.raises(FencedError, match="already connected"):
            ControlClient(server, driver.slots.secret, 0, 1, driver.inbox, settings=WireSettings())
        with socket.create_connection((server.host, server.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert job.wait() == "FINISHED"
    check_output(tmp_path)


# --- what a user holds ------------------------------------------------------------------------------------------------


def collecting(rows: int = 4_000) -> StreamEnvironment:
    env = StreamEnvironment("collecting", checkpoint=CheckpointConfig(interval_ms=50))
    source = GeneratorSource(rows, 10, batch_rows=500)
    env.from_source(source, uid="rows").key_by("key").aggregate(n=count(), emit="final").sink_to(
        CollectSink("totals"), uid="totals-out"
    )
    return env


def test_what_a_collect_sink_keeps_is_read_from_the_job() -> None:
    for _ in range(2):
        with job_of(collecting()) as job:
            job.start()
            job.wait()
        assert isinstance(job.output(), pd.DataFrame)
        assert job.output("totals")["n"].sum() == 4_000
        assert len(job.output("totals-out")) == len(job.output())
        with pytest.raises(ValueError, match="no sink 'other'; job 'collecting' writes to 'totals'"):
            job.output("other")
        with pytest.raises(JobEndedError, match=r"job 'collecting' has ended, it is FINISHED: output\(\)"):
            job.savepoint("/nowhere")


def test_a_job_without_a_directory_leaves_no_checkpoints() -> None:
    with job_of(collecting()) as job:
        temporary = job._temporary
        assert Path(temporary).is_dir()
        job.start()
        job.wait()
    assert not Path(temporary).exists()


def test_a_job_describes_itself(tmp_path: Path) -> None:
    job = job_of(totals_job(tmp_path))
    assert repr(job) == "SparkJob(totals, CREATED, epoch 0)"
    with pytest.raises(RuntimeError, match="has not been started"):
        job.wait()
    with pytest.raises(RuntimeError, match="has not been started"):
        job.savepoint()
    with job:
        job.start()
        with pytest.raises(RuntimeError, match="was started before"):
            job.start()
        job.wait()
    assert repr(job) == "SparkJob(totals, FINISHED, epoch 1)"
    with pytest.raises(ValueError, match="no slot 0 runs now"):
        job.faults.kill(0)


def test_waiting_for_a_time_gives_the_status_by_then(tmp_path: Path) -> None:
    with job_of(totals_job(tmp_path, LASTING)) as job:
        job.start()
        assert job.wait(0.05) in ("CREATED", "RUNNING")


def test_the_last_line_of_the_progress_is_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with job_of(totals_job(tmp_path, SLOW)) as job:
        job.start()
        await_checkpoint(job, 2)
        ThreadGang.current.kill(1)
        assert job.wait(progress=True) == "FINISHED"
    completed = job.checkpoints().query("status == 'COMPLETED'")
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(
        rf"totals: FINISHED, 8 of 8 splits, [\d,]+ rows in this epoch, [\d,]+ in all, ([\d,]+ rows/s, )?"
        rf"{len(completed)} checkpoints, the last {completed['id'].max()}, 1 restart \[\d+ s\]",
        last,
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_in_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with job_of(totals_job(tmp_path)) as job:
        job.start()
        assert job.wait(progress=True) == "FINISHED"
    *_, last = terminal.getvalue().split("\r")
    assert f"totals: FINISHED, 8 of 8 splits, {ROWS:,} rows, " in last
    assert "|####################| [" in last
