"""Commands are contracts: each says which duty it is, what may answer it, and what it says when it fails."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from kit.core.protocol import commands, events, messages
from kit.core.protocol.commands import (
    CancelSnapshot,
    DiscardState,
    ReadSplit,
    RemoveStored,
    WriteChannelStateFile,
    WriteSnapshot,
)
from kit.core.protocol.duties import Command, Duty, by_command, check_answer
from kit.core.protocol.events import MetadataFailed, SplitRead, SplitReadFailed, StateDiscarded
from kit.core.protocol.notes import NOTES
from kit.core.protocol.properties import CheckpointProperties
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import ProtocolError, handlers_of
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState
from kit.machines.task.stream_task import StreamTask
from tests.machines.job.harness import JobHarness

ASYNC = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
IO = CheckpointFailureReason.IO_EXCEPTION
TASK = CheckpointFailureReason.TASK_FAILURE


def named(command: type[Command]) -> str:
    return command.__name__


def made(command: type[Command]) -> Command:
    """A command with something in each field that must be given."""
    given: dict[str, Any] = {field.name: value_for(field) for field in fields(command) if is_needed(field)}
    return command(**given)


def is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def value_for(field: Field[Any]) -> Any:
    if str(field.type).startswith("int"):
        return 3
    return {"id": "split"} if field.name == "split" else "text"


@pytest.mark.parametrize("command", COMMANDS, ids=named)
def test_every_command_has_one_duty(command: type[Command]) -> None:
    assert isinstance(command.duty, Duty)


def test_the_vocabulary_has_every_command_of_the_protocol() -> None:
    found = {
        word
        for module in (commands, messages)
        for _, word in inspect.getmembers(module, inspect.isclass)
        if issubclass(word, Command) and word is not Command
    }
    assert set(COMMANDS) == found | set(NOTES)


def test_every_duty_is_some_command_s() -> None:
    assert {command.duty for command in COMMANDS} == set(Duty)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.answers], ids=named)
def test_every_answer_is_known_to_a_machine(command: type[Command]) -> None:
    knows = {event.__name__ for machine in (StreamTask, SlotChannelState) for event in handlers_of(machine)}
    assert {answer.__name__ for answer in command.answers} <= knows | JobHarness().master.known_events()


TAKES_ITS_TIME = [
    each for each in COMMANDS if each.duty in (Duty.WORK, Duty.READ_ROWS, Duty.WRITE_ROWS) and each.answers
]
TAKES_ITS_TIME.remove(commands.ScheduleCoordinatorCheckpoint)  # nothing is read or written for it


@pytest.mark.parametrize("command", TAKES_ITS_TIME, ids=named)
def test_what_takes_its_time_says_so_when_it_fails(command: type[Command]) -> None:
    asked = made(command)
    answer = asked.failed(OSError("disk full"))
    assert type(answer) in command.answers
    assert "disk full" in repr(answer)
    check_answer(asked, answer)
    common = {field.name for field in fields(asked)} & {field.name for field in fields(answer)}  # type: ignore[arg-type]
    assert {name: getattr(answer, name) for name in common} == {name: getattr(asked, name) for name in common}


def test_a_failure_of_the_world_speaks_for_itself_and_another_is_named() -> None:
    command = commands.WriteMetadata(checkpoint_id=3, location="", data=b"")
    assert command.failed(OSError("disk full")) == MetadataFailed(checkpoint_id=3, error="disk full")
    assert command.failed(KeyError("k")) == MetadataFailed(checkpoint_id=3, error="KeyError: 'k'")


REASONED = {
    "a snapshot": (WriteSnapshot(checkpoint_id=3, location="", subtask=0, parts=(), effects=()), ASYNC),
    "in-flight data": (
        WriteChannelStateFile(task="a/0", checkpoint_id=3, location="", file_name="f", encode=lambda: (b"", ())),
        ASYNC,
    ),
    "a directory": (
        commands.InitializeLocation(checkpoint_id=3, properties=CheckpointProperties.for_savepoint(forced=False)),
        IO,
    ),
}


@pytest.mark.parametrize("what", REASONED)
def test_a_reason_stays_a_reason(what: str) -> None:
    command, otherwise = REASONED[what]
    for error, reason, said in (
        (KeyError("k"), otherwise, "KeyError: 'k'"),
        (CheckpointException(TASK, "no room"), TASK, "no room"),
    ):
        answer: Any = command.failed(error)
        assert (type(answer), answer.checkpoint_id, answer.reason, answer.error) == (
            command.fails_with,
            3,
            reason,
            said,
        )


def test_input_that_does_not_parse_is_not_read_again() -> None:
    command = ReadSplit(operator_id="a", split={"id": "x"}, position=0, max_rows=1)
    assert command.failed(ValueError("no")) == SplitReadFailed(split_id="x", error="no", recoverable=False)
    assert command.failed(OSError("no")) == SplitReadFailed(split_id="x", error="no")
    raised = KeyError("k")
    assert command.failed(raised) == SplitReadFailed(split_id="x", error="KeyError: 'k'", raised=raised)


def test_where_nobody_waits_nothing_is_answered() -> None:
    assert RemoveStored(checkpoint_id=1).failed(OSError("no")) is None
    assert CancelSnapshot(checkpoint_id=3).failed(KeyError("k")) is None
    assert DiscardState(paths=()).failed(OSError("no")) is None
    discarded = StateDiscarded(checkpoint_id=1, error="no")
    assert DiscardState(paths=(), location="x", checkpoint_id=1).failed(OSError("no")) == discarded


def test_an_answer_that_is_not_declared_is_refused() -> None:
    command = WriteSnapshot(checkpoint_id=3, location="", subtask=0, parts=(), effects=())
    answer = SplitRead(split_id="", batch=None, position=0, finished=True)
    with pytest.raises(ProtocolError, match="WriteSnapshot was answered with SplitRead; its answers are Snap"):
        check_answer(command, answer)


def test_a_table_of_duties_is_spread_over_the_commands() -> None:
    table = by_command({Duty.STOP_WORK: "stop"}, COMMANDS)
    assert table == {CancelSnapshot: "stop", commands.CancelChannelStateFile: "stop"}


def test_no_docstring_promises_an_answer_beside_the_declaration() -> None:
    source = Path(inspect.getfile(commands)).read_text() + Path(inspect.getfile(messages)).read_text()
    assert "Answer: " not in source


def test_what_an_event_says_that_it_answers_is_what_declares_it() -> None:
    declared: dict[str, set[str]] = {}
    for command in COMMANDS:
        for answer in command.answers:
            declared.setdefault(answer.__name__, set()).add(command.__name__)
    for name, event in inspect.getmembers(events, inspect.isclass):
        said = re.match(r"Answer to ((?:`\w+`|, | or |or |to )+)", event.__doc__ or "")
        if said is not None:
            assert set(re.findall(r"`(\w+)`", said[1])) == declared[name], name
    assert len(declared) > 20
