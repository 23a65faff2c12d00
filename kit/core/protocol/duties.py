"""What a host owes its machines: every command has one duty, events that may answer it, and one that says it failed.

A host has one table, from duties to the functions that see to them; `by_command` spreads it over the commands, so that
a command without a function is refused by every host in the same way. `docs/WRITING-A-HOST.md` has the duties in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, TypeVar, cast

from kit.core.protocol.events import LeadershipLost
from kit.core.protocol.reasons import CheckpointFailureReason, reason_of, told
from kit.core.protocol.words import Machine, ProtocolError, Word

How = TypeVar("How")


class Duty(Enum):
    """What there is to do about a command; the value is the sentence in `docs/WRITING-A-HOST.md`."""

    OBSERVE = "Do nothing: the trace has it."
    SET_TIMER = "Hand the machine `TimerFired` when the time has come; a timer of the same name is replaced."
    CANCEL_TIMER = "Forget the timer of this name, if there is one."
    TELL_TASK = "Bring the message to that attempt of the task; messages to one task keep their order."
    TELL_JOB = "Bring the message to the JobMaster; messages from one task keep their order."
    SEND_ELEMENT = "Bring the element to the other end of the channel as `ElementReceived`; a channel keeps its order."
    GRANT_CREDITS = "Tell the sender at the other end of the channel with `CreditReceived`."
    HAND_OVER = "Hand the word to the machine of the slot that it is for, in order, before a task has its next turn."
    READ_ROWS = "Carry it out at once, and hand the answer back before the machine's next turn."
    WORK = "Carry it out beside everything else, and hand the answer back when it is there."
    CLEAN_UP = "Carry it out when nothing else is held up by it; nobody waits for the answer."
    STOP_WORK = "Do not begin the work of that machine which it `stops`, or undo it; give no answer to that."
    START_EPOCH = "Make the tasks and the slots' machines of the epoch, and everything between them, anew."
    STOP_EPOCH = "Make them all leave; answer when nothing of the epoch writes, sends or can be heard any more."
    ANSWER_USER = "Give the user the answer to the request of this number."
    SHOW_STATUS = "Show the user the status; with one that is terminal the job is over when its work is done."


@dataclass(frozen=True, slots=True)
class Failure:
    """One way in which a command may fail: `name` tells those of a command apart, `text` is what the error says. With
    `done` the command had been carried out when it failed.
    """

    name: str
    text: str
    error: Callable[[str], Exception] = OSError
    done: bool = False

    def raised(self) -> Exception:
        """What a host meets when it comes to that."""
        return self.error(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Word):
    """What a machine asks of its host; `help` of a command shows its answers and failures, from the declaration."""

    duty: ClassVar[Duty]
    answers: ClassVar[tuple[type[Word], ...]] = ()
    """The events that may answer it, and no others; none where nothing does."""
    fails_with: ClassVar[type[Any] | None] = None
    """The one of them that says that it could not be done."""
    failures: ClassVar[tuple[Failure, ...]] = ()
    """The ways in which it may fail, which the lab can bring about; none where nobody hears of it."""

    def __init_subclass__(cls) -> None:
        names = [answer.__name__ for answer in cls.answers]
        if "answers" in vars(cls) and names and cls.__doc__ and "Answer: " not in cls.__doc__:
            said = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
            fails = "; ".join(f"{failure.name} ({failure.text})" for failure in cls.failures)
            cls.__doc__ = f"{cls.__doc__.rstrip()}\n\n    Answer: {said}." + (f" Fails: {fails}." if fails else "")

    def failed(self, error: Exception) -> Word | None:
        """What answers it when carrying it out ended in `error`: fields that both have are the same, and a reason stays
        a reason. None where nobody waits for an answer.
        """
        if self.fails_with is None:
            return None
        answered = {field.name: field for field in fields(self.fails_with)}
        facts = {field.name: getattr(self, field.name) for field in fields(self) if field.name in answered}
        if "reason" in answered:
            otherwise = cast(CheckpointFailureReason, answered["reason"].default)
            facts["reason"], facts["error"] = reason_of(error, otherwise)
        else:
            facts["error"] = told(error)
        return cast(Word, self.fails_with(**facts))


def by_command(how: Mapping[Duty, How], commands: tuple[type[Command], ...]) -> dict[type[Word], How]:
    """The function for each of the `commands` whose duty the table `how` has."""
    return {command: how[command.duty] for command in commands if command.duty in how}


def refused(machine: Machine, command: Word) -> ProtocolError:
    """The error that ends a host whose machine asks for what that host has no function for."""
    return ProtocolError(
        f"{machine.name} asked for {type(command).__name__}, for which its host has no function: {command!r}"
    )


def check_answer(command: Command, answer: Word | None) -> None:
    """Raise ProtocolError for an answer that the command does not declare.

    Work may always find that the driver has lost the leadership.
    """
    if isinstance(answer, LeadershipLost) and command.duty in (Duty.WORK, Duty.CLEAN_UP):
        return
    if answer is not None and type(answer) not in command.answers:
        expected = ", ".join(each.__name__ for each in command.answers) or "nothing"
        raise ProtocolError(
            f"{type(command).__name__} was answered with {type(answer).__name__}; its answers are {expected}"
        )
