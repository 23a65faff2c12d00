"""Pieces of a slot on their own: its tasks' host, its background, and the end of one that does not leave."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import CancelSnapshot, ScheduleTimer, WriteSnapshot
from kit.core.protocol.elements import CheckpointBarrier, EndOfData
from kit.core.protocol.events import SnapshotFailed, SnapshotWritten
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    CancelTask,
    DeclineCheckpoint,
    DeployTask,
    JobMessage,
    TaskStateChanged,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.snapshots import Effect, SnapshotPart
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import Envelope, ProtocolMessage
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.files.task_files import TaskFiles
from kit.hosts.spark.driver.background import Background, HostClock
from kit.hosts.spark.edge import SparkOutput, open_storage
from kit.hosts.spark.slot import slot as slot_module
from kit.hosts.spark.slot.slot import LastWord
from kit.hosts.spark.slot.task_host import TaskHost, Work
from kit.hosts.spark.wire.codec import decode_element
from kit.hosts.spark.wire.control import LEAVE, DriverLeft, DriverMessage
from kit.hosts.spark.wire.wire import ControlMessage
from kit.stream.graph.execution_graph import ExecutionGraph
from tests.hosts.spark.jobs import generator, totals_job


class Wires:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.granted: list[tuple[int, int]] = []

    def send(self, channel: int, element: Any) -> None:
        self.sent.append((channel, element))

    def grant(self, channel: int, credits: int, max_rows: int | None = None) -> None:
        self.granted.append((channel, credits))


class Held:
    """A background whose work is done when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], Any]] = []

    def submit(self, job: Callable[[], Any]) -> None:
        self.jobs.append(job)

    def work(self, host: TaskHost) -> list[ProtocolMessage]:
        """Carry out the work, pass the answers to the host, and return those that reach a machine."""
        jobs, self.jobs = self.jobs, []
        done = [work for job in jobs if (work := job()) is not None]
        for work in done:
            host.answer(work)
        for undo in self.jobs:
            assert undo() is None
        self.jobs = []
        return [work.answer for work in done if work.answer is not None and not work.stopped]


class Bench:
    """Slot 0 of two with its surroundings."""

    def __init__(self, directory: Path) -> None:
        job = totals_job(directory, generator(4_000)).job_graph()
        self.said: list[JobMessage] = []
        self.wires, self.background, self.at_ms = Wires(), Held(), 1_000
        files = TaskFiles(job, open_storage(job, str(directory / "checkpoints")), SparkOutput(""))
        self.host = TaskHost(
            ExecutionGraph(job), 0, Attempts(1), files, self.wires, self._say, self.background, lambda: self.at_ms
        )
        for task in self.host.tasks:
            self.host.message(DeployTask(task=task, attempt=1, restore=None))
        self.host.work()

    def _say(self, envelope: Envelope) -> None:
        self.said.append(envelope.word)

    def trigger(self, directory: Path) -> None:
        """Have the source begin checkpoint 1."""
        options = CheckpointOptions(location=str(directory / "chk-1"))
        self.host.message(
            TriggerTaskCheckpoint(task="rows/0", attempt=1, checkpoint_id=1, timestamp_ms=900, options=options)
        )
        self.host.work()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_tasks_of_a_slot_are_those_with_its_index(bench: Bench) -> None:
    assert list(bench.host.tasks) == ["rows/0", "copy/0", "totals/0"]
    running = [m.task for m in bench.said if isinstance(m, TaskStateChanged) and m.state is ExecutionState.RUNNING]
    assert running == ["rows/0", "copy/0", "totals/0"]


def test_credits_go_to_other_slots_only_over_the_wires(bench: Bench) -> None:
    local = {route.channel for route in bench.host.routes if route.producer == route.consumer == 0}
    granted = {channel for channel, _ in bench.wires.granted}
    assert granted == {route.channel for route in bench.host.routes if route.consumer == 0} - local


def test_a_message_for_another_attempt_is_dropped(bench: Bench) -> None:
    before = len(bench.said)
    bench.host.message(DeployTask(task="rows/0", attempt=2, restore=None))
    assert not bench.host.work()
    assert len(bench.said) == before


def test_a_barrier_goes_out_before_the_snapshot_is_written(bench: Bench, tmp_path: Path) -> None:
    bench.trigger(tmp_path)
    barriers = [decode_element(element) for _, element in bench.wires.sent if isinstance(element, bytes)]
    assert [type(element) for element, _ in barriers] == 2 * [CheckpointBarrier]
    assert {cause.partition("#")[0] for _, cause in barriers} == {"rows/0@1"}
    assert not any(isinstance(message, AcknowledgeCheckpoint) for message in bench.said)
    (written,) = bench.background.work(bench.host)
    assert isinstance(written, SnapshotWritten)
    bench.host.work()
    assert isinstance(bench.said[-1], AcknowledgeCheckpoint)


def test_a_snapshot_given_up_before_or_while_it_is_written_leaves_no_file(bench: Bench, tmp_path: Path) -> None:
    task = bench.host.tasks["totals/0"]
    part = SnapshotPart("0" * 32, SubtaskStateKind.MANAGED_OPERATOR, "state", lambda: (b"x" * 100_000, {}))
    for early in (True, False):
        cancel = CancelSnapshot(checkpoint_id=early)

        def encode() -> Any:
            if not early:  # noqa: B023
                bench.host._stop_work(task, cancel, "")  # noqa: B023
            return part.encode()

        slow = SnapshotPart("0" * 32, SubtaskStateKind.MANAGED_OPERATOR, "state", encode)
        command = WriteSnapshot(
            checkpoint_id=early, location=str(tmp_path / "chk"), subtask=0, parts=(slow,), effects=()
        )
        bench.host._begin(task, command, "")
        if early:
            bench.host._stop_work(task, cancel, "")
        assert bench.background.work(bench.host) == []
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_large_state_is_written_piece_by_piece(bench: Bench, tmp_path: Path) -> None:
    def write(out: Any) -> dict[str, Any]:
        out(b"x" * 100_000)
        out(b"y")
        return {}

    part = SnapshotPart(
        "0" * 32, SubtaskStateKind.MANAGED_OPERATOR, "state", lambda: pytest.fail("not all at once"), write=write
    )
    command = WriteSnapshot(checkpoint_id=1, location=str(tmp_path / "chk"), subtask=0, parts=(part,), effects=())
    bench.host._begin(bench.host.tasks["totals/0"], command, "")
    (written,) = bench.background.work(bench.host)
    assert isinstance(written, SnapshotWritten)
    assert (tmp_path / "chk" / "state").read_bytes() == b"x" * 100_000 + b"y"


def test_what_of_a_snapshot_was_written_goes_when_the_rest_cannot_be(bench: Bench, tmp_path: Path) -> None:
    """The second of two staged files cannot be written, so the first one is deleted."""
    (tmp_path / "a file").touch()
    table = pa.table({"n": [1, 2]})
    effects = tuple(
        Effect("out", staged=f"{place}/.staging/part.parquet", final=f"{place}/part.parquet", table=table)
        for place in (tmp_path / "out", tmp_path / "a file")
    )
    command = WriteSnapshot(checkpoint_id=1, location=str(tmp_path / "chk"), subtask=0, parts=(), effects=effects)
    bench.host._begin(bench.host.tasks["totals/0"], command, "")
    (answer,) = bench.background.work(bench.host)
    assert isinstance(answer, SnapshotFailed)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a file"]


def test_timers_fire_when_they_are_due(bench: Bench) -> None:
    task = bench.host.tasks["totals/0"]
    for timer, due_ms in (("late", 1_200), ("soon", 1_100)):
        bench.host._schedule(task, ScheduleTimer(timer=timer, due_ms=due_ms), "")
    assert bench.host.next_timer_ms == 1_100
    bench.at_ms = 1_150
    bench.host.fire_timers()
    assert bench.host.next_timer_ms == 1_200
    bench.host.work()
    fired = [record.data["timer"] for record in bench.host.records if record.kind == "TimerFired"]
    assert fired == ["soon"]


def test_an_end_of_data_from_another_slot_reaches_its_task(bench: Bench) -> None:
    (channel,) = [r.channel for r in bench.host.routes if r.producer == 1 and r.consumer == 0][-1:]
    bench.host.element(channel, EndOfData(drain=True), "rows/1@1#5.1")
    bench.host.work()
    assert channel in bench.host.tasks["totals/0"].input._data_ended


# --- the background ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_thread_left")
def test_the_background_answers_in_order_and_survives_errors() -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    background = Background("kit-test", answers.put, repr)
    for job in (lambda: 1, lambda: None, lambda: 1 / 0, lambda: 2):
        background.submit(job)
    assert [answers.get() for _ in range(3)] == [1, "ZeroDivisionError('division by zero')", 2]
    assert background.close(5)


@pytest.mark.usefixtures("no_thread_left")
def test_a_closed_background_begins_nothing_more() -> None:
    began, may_end = threading.Event(), threading.Event()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    background = Background("kit-test", answers.put, repr)
    background.submit(lambda: began.set() or may_end.wait())
    background.submit(lambda: "never")
    began.wait()
    assert not background.close(0)
    may_end.set()
    assert background.close(5)
    assert answers.get() is True
    assert answers.empty()


def test_the_clock_does_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HostClock()
    before = clock()
    monkeypatch.setattr("time.time", lambda: 0.0)  # the machine's clock is set back
    assert clock() >= before > 0


# --- the last word ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", [DriverLeft(False, "gone"), DriverMessage(ControlMessage(LEAVE))], ids=repr)
def test_a_slot_that_does_not_leave_is_ended(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    monkeypatch.setattr(slot_module.os, "_exit", ended.put)
    inbox = LastWord(grace_s=0.001)
    inbox.put("anything else")
    inbox.put(item)
    assert ended.get(timeout=5) == 1
    assert [inbox.get(), inbox.get()] == ["anything else", item]


def test_a_slot_that_leaves_in_time_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_module.os, "_exit", pytest.fail)
    inbox = LastWord(grace_s=60)
    inbox.put(DriverLeft(True, "ended"))
    inbox.left()
    assert inbox._timer is not None
    inbox._timer.join(5)
    assert not inbox._timer.is_alive()


def test_an_answer_names_its_task(bench: Bench) -> None:
    work = Work(bench.host.tasks["rows/0"], CancelSnapshot(checkpoint_id=1), "", 0)
    assert "rows/0" in repr(work)


@pytest.mark.parametrize(("task", "attempt"), [("rows/7", 1), ("rows/0", 3)])
def test_a_trigger_for_a_task_that_is_not_in_the_slot_is_declined(bench: Bench, task: str, attempt: int) -> None:
    options = CheckpointOptions(location="chk-1")
    bench.said.clear()
    bench.host.message(
        TriggerTaskCheckpoint(task=task, attempt=attempt, checkpoint_id=1, timestamp_ms=900, options=options)
    )
    (decline,) = bench.said
    assert isinstance(decline, DeclineCheckpoint)
    assert (decline.task, decline.attempt, decline.checkpoint_id) == (task, attempt, 1)
    assert decline.reason.name == "TASK_CHECKPOINT_FAILURE"
    assert f"the slot knows no task {task}@{attempt}" in decline.detail
    bench.host.message(CancelTask(task="rows/7", attempt=1))
    assert bench.said == [decline]
