"""Common properties of the lab and of Spark: how commands are carried out, in which order, and how errors end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kit import Lab, StreamEnvironment
from kit.core.protocol.commands import CompleteRequest, WriteSnapshot
from kit.core.protocol.duties import Command, Duty
from kit.core.protocol.events import RequestCheckpoint, StartJob
from kit.core.protocol.messages import DeployTask, NotifyCheckpointAborted
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Machine, ProtocolError, ProtocolMessage
from kit.core.trace.trace import Trace
from kit.files.storage import CheckpointStorage
from kit.files.task_files import TaskFiles
from kit.hosts.spark.driver.driver import JobFailedError
from kit.hosts.spark.job import SparkJob
from kit.machines.job.job_master import JobMaster
from kit.machines.task.stream_task import StreamTask
from tests.hosts.spark.jobs import ThreadGang, generator, totals_job

CARRIED_OUT = (Duty.WORK, Duty.CLEAN_UP, Duty.READ_ROWS, Duty.AWAIT_ROWS, Duty.WRITE_ROWS)


# --- both hosts ------------------------------------------------------------------------------------------------------


def a_job(directory: Path, **checkpoint: Any) -> StreamEnvironment:
    return totals_job(directory, generator(4_000), interval_ms=20, **checkpoint)


def in_the_lab(env: StreamEnvironment) -> Trace:
    """Run the job to its end in the lab."""
    lab = Lab(env)
    lab.run()
    return lab.trace


def on_spark(env: StreamEnvironment) -> Trace:
    """The same with the driver and slots of Spark, as threads."""
    try:
        with SparkJob(env, launch=ThreadGang) as job:
            job.start()
            job.wait()
    finally:
        for thread in threading.enumerate():
            if thread.name.startswith("kit-"):
                thread.join(10)
    return job.trace


HOSTS = pytest.mark.parametrize("run", [in_the_lab, on_spark])
Run = Callable[[StreamEnvironment], Trace]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whistle(Command):
    """A command of which no host has heard."""

    duty: ClassVar = "WHISTLE"


def asks_for_more(
    monkeypatch: pytest.MonkeyPatch, machine: type[Machine], when: type[ProtocolMessage], *more: ProtocolMessage
) -> None:
    """Have machines ask for more when they have handled an event of this kind."""
    handle = machine.handle

    def handled(self: Machine, event: ProtocolMessage, at: int, cause: str = "") -> list[ProtocolMessage]:
        commands = handle(self, event, at, cause)
        return [*commands, *more] if isinstance(event, when) else commands

    monkeypatch.setattr(machine, "handle", handled)


@HOSTS
@pytest.mark.parametrize(
    ("machine", "when", "name"), [(JobMaster, StartJob, "job"), (StreamTask, DeployTask, r"\w+/\d")]
)
@pytest.mark.usefixtures("nothing_left")
def test_a_command_that_nobody_knows_ends_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    machine: type[Machine],
    when: type[ProtocolMessage],
    name: str,
) -> None:
    asks_for_more(monkeypatch, machine, when, Whistle())
    with pytest.raises((ProtocolError, JobFailedError), match=f"{name} asked for Whistle, for which its host has no"):
        run(a_job(tmp_path))


@HOSTS
@pytest.mark.usefixtures("nothing_left")
def test_a_command_that_no_function_carries_out_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.delitem(TaskFiles._HOW, WriteSnapshot)
    with pytest.raises((ProtocolError, JobFailedError), match="does not know how to carry out WriteSnapshot"):
        run(a_job(tmp_path))


@HOSTS
@pytest.mark.usefixtures("nothing_left")
def test_an_error_that_nobody_foresaw_is_the_declared_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    initialize, failed = CheckpointStorage.initialize_location_for_checkpoint, []

    def once(self: CheckpointStorage, checkpoint_id: int) -> Any:
        if not failed:
            failed.append(checkpoint_id)
            raise ZeroDivisionError("by zero")
        return initialize(self, checkpoint_id)

    monkeypatch.setattr(CheckpointStorage, "initialize_location_for_checkpoint", once)
    trace = run(a_job(tmp_path))
    (record,) = trace.story(kind="LocationFailed")
    expected = {"checkpoint_id": 1, "error": "ZeroDivisionError: by zero", "reason": "IO_EXCEPTION", "may_pass": False}
    assert record.data == expected


@HOSTS
@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.usefixtures("nothing_left")
def test_no_command_is_answered_by_what_it_does_not_declare(tmp_path: Path, run: Run, unaligned: bool) -> None:
    trace = run(a_job(tmp_path, unaligned=unaligned, aligned_timeout_ms=5 if unaligned else 0))
    of_name = {command.__name__: command for command in COMMANDS}
    answered: set[str] = set()
    for record in trace:
        cause = trace.find(record.cause)
        if record.role == "event" and cause is not None and cause.role == "command" and cause.kind in of_name:
            command = of_name[cause.kind]
            answers = {answer.__name__ for answer in command.answers} | ARRIVES.get(command.duty, {cause.kind})
            assert record.kind in answers, f"{cause!r} led to {record!r}"
            answered.add(cause.kind)
    assert {"WriteSnapshot", "AllocateCheckpointId", "WriteMetadata", "StoreCheckpoint", "EnumerateSplits"} <= answered
    assert ("SubmitChannelState" in answered) is (unaligned and run is in_the_lab)


ARRIVES = {Duty.SEND_ELEMENT: {"ElementReceived"}, Duty.GRANT_CREDITS: {"CreditReceived"}}
"""What is no answer, but what the command brings about elsewhere; a message arrives as itself."""


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_left")
def test_the_driver_tells_tasks_in_its_place_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    env = totals_job(tmp_path, generator(rows_per_second=30_000), interval_ms=None)
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        driver = job._driver
        assert driver.running.wait(30)
        send, handle = driver.slots.server.send, driver.master.handle

        def sent(slot: int, message: Any) -> bool:
            done.append(f"slot {slot}")
            return send(slot, message)

        def handled(event: ProtocolMessage, at: int, cause: str = "") -> list[ProtocolMessage]:
            if not isinstance(event, RequestCheckpoint):
                return handle(event, at, cause)
            answer = CompleteRequest(request_id=event.request_id, path="there")
            return [told("copy/0"), answer, told("copy/1")]

        monkeypatch.setattr(driver.slots.server, "send", sent)
        monkeypatch.setattr(driver.master, "handle", handled)
        answer = driver.ask(lambda number: RequestCheckpoint(request_id=number))
        answer.add_done_callback(lambda _: done.append("answered"))
        assert answer.result(10).path == "there"
        monkeypatch.setattr(driver.master, "handle", handle)
        job.cancel()
    assert done[:3] == ["slot 0", "answered", "slot 1"]


def told(task: str) -> NotifyCheckpointAborted:
    return NotifyCheckpointAborted(task=task, attempt=1, checkpoint_id=9, timestamp_ms=0)
