"""Machines and words: handlers are found, events are numbered, words never change."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.core.protocol import commands, events, messages
from kit.core.protocol.notes import Note
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.tasks import TRANSITIONS, ExecutionState, split_task_name, task_name
from kit.core.protocol.words import Machine, ProtocolError, ProtocolMessage, handles


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping(ProtocolMessage):
    """A word for tests."""

    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong(ProtocolMessage):
    """Another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ponged(Note):
    """A note for tests."""

    at_ms: int = 0


class Player(Machine):
    """Answers each ping with as many notes as its number says; likes no negative ones."""

    @handles(Ping)
    def _ping(self, event: Ping) -> None:
        for _ in range(event.number):
            self.emit(Ponged(at_ms=self.at))

    def accepts(self, event: ProtocolMessage) -> bool:
        return not (isinstance(event, Ping) and event.number < 0)


class LoudPlayer(Player):
    """Handles one event more than its parent."""

    @handles(Pong)
    def _pong(self, event: Pong) -> None:
        self.emit(Ponged())


def test_events_are_numbered_and_words_say_nothing_of_it() -> None:
    player = Player("a", "a@2")
    first = player.handle(Ping(number=1), 5, "b#9.1")
    assert (player.event_id, player.cause, player.at) == ("a@2#1", "b#9.1", 5)
    assert player.handle(Ping(number=1), 7) == [Ponged(at_ms=7)]
    assert (player.event_id, player.cause, player.at) == ("a@2#2", "", 7)
    assert first == [Ponged(at_ms=5)]


def test_an_event_that_is_not_accepted_is_counted_and_dropped() -> None:
    player = Player("a")
    assert player.handle(Ping(number=-1), 0) == []
    assert player.events_handled == 1


def test_an_unknown_event_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProtocolError, match="a cannot handle Pong; it knows Ping"):
        Player("a").handle(Pong(), 0)
    assert LoudPlayer("b").handle(Pong(), 0) == [Ponged()]
    assert LoudPlayer("b").known_events() == {"Ping", "Pong"}
    assert repr(LoudPlayer("b")) == "LoudPlayer(b)"


def test_a_machine_without_invariants_is_always_sound() -> None:
    Player("a").validate()


def test_no_machine_and_no_host_changes_what_is_frozen() -> None:
    kit = Path(commands.__file__).parents[2]
    rooms = ("core", "machines", "files", "hosts/spark")
    files = [
        kit / "hosts" / "lab" / "world" / "world.py",
        *(file for room in rooms for file in (kit / room).rglob("*.py")),
    ]
    assert len(files) > 50
    changing = {file.name for file in files if "object.__setattr__" in file.read_text()}
    assert changing == {"durations.py", "allowed.py", "arrow_kinds.py"}, "which complete values while these are made"


def test_copies_share_words() -> None:
    ping = Ping(number=3)
    assert copy.deepcopy(ping) is ping


def words() -> list[type[ProtocolMessage]]:
    return [
        member
        for module in (commands, events, messages)
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, ProtocolMessage) and member.__module__ == module.__name__
    ]


@pytest.mark.parametrize("word", words(), ids=lambda word: word.__name__)
def test_every_word_is_a_frozen_value_that_says_what_it_is(word: type[ProtocolMessage]) -> None:
    assert word.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert (word.__doc__ or "").strip()
    assert "cause" not in word.__dataclass_fields__


def test_the_names_of_words_differ() -> None:
    names = [word.__name__ for word in words()]
    assert len(set(names)) == len(names)


def test_a_checkpoint_exception_can_be_copied() -> None:
    why = CheckpointException(CheckpointFailureReason.CHECKPOINT_EXPIRED, "after 10 ms")
    other = copy.deepcopy(why)
    assert (other.reason, other.detail, str(other)) == (why.reason, why.detail, str(why))


def test_every_reason_has_a_text_of_its_own() -> None:
    texts = [reason.message for reason in CheckpointFailureReason]
    assert all(texts)
    assert len(set(texts)) == len(texts)
    assert repr(CheckpointFailureReason.IO_EXCEPTION) == "IO_EXCEPTION"


def test_the_life_of_an_attempt_leads_to_an_end_from_everywhere() -> None:
    assert set(TRANSITIONS) == set(ExecutionState)
    ends = {state for state in ExecutionState if state.is_terminal}
    assert {state.name for state in ends} == {"FINISHED", "CANCELED", "FAILED"}
    for state in ExecutionState:
        assert state.is_terminal or ExecutionState.FAILED in TRANSITIONS.targets(state)
        assert not TRANSITIONS.allows(state, state)


def test_task_names_are_taken_apart_at_the_last_slash() -> None:
    assert split_task_name(task_name("a/b", 3)) == ("a/b", 3)
