"""The duties of a host: every command has one duty, the events that may answer it, and one that reports failure.

A host is one table from duties to functions. `by_command` extends it to all commands, so every host rejects a command
without a function in the same way. `docs/WRITING-A-HOST.md` lists the duties in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, TypeVar, cast

from kit.core.protocol.events import LeadershipLost
from kit.core.protocol.outages import may_pass
from kit.core.protocol.reasons import CheckpointFailureReason, error_text, reason_of
from kit.core.protocol.words import Machine, ProtocolError, ProtocolMessage

How = TypeVar("How")


class Duty(Enum):
    """The work that a host must do about a command; the value is the sentence in `docs/WRITING-A-HOST.md`."""

    OBSERVE = "Do nothing: the trace has it."
    SET_TIMER = "Send the machine `TimerFired` when the timer is due; replace a timer of the same name."
    CANCEL_TIMER = "Forget the timer of this name, if there is one."
    TELL_TASK = "Deliver the message to that attempt of the task; messages to one task keep their order."
    TELL_JOB = "Deliver the message to the JobMaster; messages from one task keep their order."
    SEND_ELEMENT = "Deliver the element to the other end of the channel as `ElementReceived`, in the channel's order."
    GRANT_CREDITS = "Send `CreditReceived`, with the same fields, to the sender at the other end of the channel."
    HAND_OVER = "Deliver the message to the slot's machine it is for, in order, before any task's next turn."
    READ_ROWS = "Carry it out, at once or in the background, and return the answer; a task asks for one at a time."
    AWAIT_ROWS = "Return the answer once a split has rows; a later command of the same task replaces this one."
    WRITE_ROWS = "Carry it out at once; return an answer only if it fails."
    WORK = "Carry it out in the background, and return the answer when it is ready."
    CLEAN_UP = "Carry it out when it delays nothing else; no machine waits for the answer."
    STOP_WORK = "Do not start the work of that machine that the command `stops`, or undo it; do not answer that work."
    START_EPOCH = "Create the tasks and slot machines of the epoch, and all connections between them, from scratch."
    STOP_EPOCH = "Stop them all; answer when nothing of the epoch can write, send or be received any longer."
    START_TASKS = "Create these tasks and slot machines of the running epoch again, with all connections between them."
    STOP_TASKS = "Cancel and remove these tasks only; answer when nothing of them can write, send or be received."
    ANSWER_USER = "Return the answer to the user's request of this number."
    SHOW_STATUS = "Show the user the status; after a terminal status the job is over once its work is done."


@dataclass(frozen=True, slots=True)
class Failure:
    """One way in which a command may fail.

    `name` distinguishes the failures of one command, and `text` is the error message. With `done`, the command fails
    after it has been carried out.
    """

    name: str
    text: str
    error: Callable[[str], Exception] = OSError
    done: bool = False

    def raised(self) -> Exception:
        """Return the exception that the host meets in this case."""
        return self.error(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(ProtocolMessage):
    """A request of a machine to its host, with the declaration of its duty, its answers and its failures."""

    duty: ClassVar[Duty]
    answers: ClassVar[tuple[type[ProtocolMessage], ...]] = ()
    """The only events that may answer the command; empty if it has no answer."""
    fails_with: ClassVar[type[Any] | None] = None
    """The answer that reports that the command failed."""
    failures: ClassVar[tuple[Failure, ...]] = ()
    """The failures that the lab can inject; empty if no machine would observe them."""

    def failed(self, error: Exception) -> ProtocolMessage | None:
        """Return the answer when carrying out the command raised `error`, or None if nothing waits for an answer.

        Fields that the command and the answer share keep their values, and a `CheckpointException` keeps its reason.
        """
        if self.fails_with is None:
            return None
        answered = {field.name: field for field in fields(self.fails_with)}
        facts = {field.name: getattr(self, field.name) for field in fields(self) if field.name in answered}
        if "reason" in answered:
            otherwise = cast(CheckpointFailureReason, answered["reason"].default)
            facts["reason"], facts["error"] = reason_of(error, otherwise)
        else:
            facts["error"] = error_text(error)
        if "may_pass" in answered:
            facts["may_pass"] = may_pass(error)
        return cast(ProtocolMessage, self.fails_with(**facts))


def by_command(how: Mapping[Duty, How], commands: tuple[type[Command], ...]) -> dict[type[ProtocolMessage], How]:
    """Return the function for each of the `commands` whose duty is in the table `how`."""
    return {command: how[command.duty] for command in commands if command.duty in how}


def refused(machine: Machine, command: ProtocolMessage) -> ProtocolError:
    """Return the error that ends a host without a function for the command that `machine` gave."""
    return ProtocolError(
        f"{machine.name} asked for {type(command).__name__}, for which its host has no function: {command!r}"
    )


def check_answer(command: Command, answer: ProtocolMessage | None) -> None:
    """Raise ProtocolError for an answer that the command does not declare.

    Any work may be answered by the loss of leadership.
    """
    if isinstance(answer, LeadershipLost) and command.duty in (Duty.WORK, Duty.CLEAN_UP):
        return
    if answer is not None and type(answer) not in command.answers:
        expected = ", ".join(each.__name__ for each in command.answers) or "nothing"
        raise ProtocolError(
            f"{type(command).__name__} was answered with {type(answer).__name__}; its answers are {expected}"
        )
