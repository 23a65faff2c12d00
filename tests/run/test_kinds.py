"""One table decides how each word is shown: it has all of them and no others, and no other code decides."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from kit.core.protocol import commands, elements, events, messages, notes
from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import TraceRecord
from kit.hosts.lab.faults.faults import FAULTS
from kit.run import faults
from kit.run.captions import caption_of
from kit.run.element_kinds import ELEMENTS
from kit.run.kinds import KINDS, MAIN, MILESTONE, ROLES, kind_of
from tests.house.files import read, shipped

NOTES = frozenset(note.__name__ for note in notes.NOTES)


def words(module: object) -> set[str]:
    """The words that a module declares; those that others are made from are none."""
    declared = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, ProtocolMessage)]
    return {each.__name__ for each in declared if each.__module__ == module.__name__ and not each.__subclasses__()}  # type: ignore[attr-defined]


def strings(path: str) -> Iterator[str]:
    """Every text in a file, except for docstrings, which are longer than a kind."""
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def used_in(path: str) -> Iterator[str]:
    """Every name that the code of a file uses, other than to import it."""
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Name):
            yield node.id


def test_every_message_and_every_note_has_an_entry_and_no_entry_is_without_its_word() -> None:
    assert set(KINDS) <= words(commands) | words(events) | words(messages) | NOTES
    assert words(messages) | NOTES <= set(KINDS)


def test_a_word_without_an_entry_is_told_by_its_name() -> None:
    record = TraceRecord("JobMaster#7.1", "", 0, "JobMaster", "command", "MeasureFreeSpace", 3, {})
    assert caption_of(record) == "JobMaster: Measure free space (checkpoint 3)"


@pytest.mark.parametrize("name", KINDS)
def test_a_word_is_told_in_the_roles_it_plays(name: str) -> None:
    kind = KINDS[name]
    given = name in words(commands) | words(messages) | NOTES
    taken = name in words(events) | words(messages)
    assert (kind.command is not None, kind.event is not None, kind.fault) == (given, taken, None)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_by_the_sentence_in_its_record(name: str) -> None:
    record = TraceRecord("lab#1", "", 0, "lab", "fault", name, None, {"text": "break it", "worker": 0})
    assert caption_of(record) == "In the lab: break it"
    assert kind_of(record).level == MAIN


def test_a_fault_that_readers_know_exists() -> None:
    names = {value for name, value in vars(faults).items() if name.isupper()}
    assert len(names) == 3
    assert names <= set(FAULTS)


def test_answers_and_what_reads_a_run_name_a_kind_by_its_class() -> None:
    reading = [path for path in shipped() if path.startswith(("kit/why", "kit/run")) and "kinds.py" not in path]
    assert len(reading) > 30
    assert [(path, text) for path in reading for text in strings(path) if text in set(KINDS)] == []


def test_every_kind_of_note_is_noted_somewhere() -> None:
    rooms = (
        "kit/machines/job",
        "kit/machines/coordinator",
        "kit/machines/task",
        "kit/machines/channel",
        "kit/stream/operators",
    )
    noted = {name for path in shipped() if path.startswith(rooms) for name in used_in(path)}
    assert sorted(NOTES - noted) == []


READING = ("kit/draw", "kit/run", "kit/snapshots", "widgets")
READERS = frozenset(
    {
        "kit/draw/views/at_risk.py",
        "widgets/panels/run_settings.py",
    }
)
"""What answers one question from certain records of a trace, and so names them."""
NO_WORDS = frozenset({"CollectingBarriers", "JobMaster", "WaitingForFirstBarrier"})
"""What looks like a word in the readers, and is a machine or a state."""


def test_nothing_that_draws_a_moment_knows_a_kind_by_name_but_the_table() -> None:
    drawing = {path for path in shipped() if path.startswith(READING) and "kinds.py" not in path}
    named = {(path, text) for path in drawing for text in strings(path) if text in set(KINDS) | set(ELEMENTS)}
    assert len(drawing - READERS) > 10
    assert {(path, text) for path, text in named if path not in READERS} == set()
    assert {path for path, _ in named} == READERS


def test_the_words_that_readers_name_exist() -> None:
    like_a_word = re.compile("([A-Z][a-z]+){2,}")
    named = {text for path in READERS for text in strings(path) if like_a_word.fullmatch(text)}
    assert named - set(KINDS) - set(ELEMENTS) - set(FAULTS) - NO_WORDS == set()


def test_every_element_has_an_entry_too() -> None:
    assert set(ELEMENTS) == {element.__name__ for element in get_args(elements.Element)}


def test_what_is_under_way_between_the_jobmaster_and_a_task_about_a_checkpoint_has_a_badge() -> None:
    between = [getattr(messages, name) for name in words(messages)]
    between = [word for word in between if issubclass(word, messages.TaskMessage | messages.JobMessage)]
    about = {word.__name__ for word in between if "checkpoint_id" in word.__dataclass_fields__}
    assert {name for name, kind in KINDS.items() if kind.mail} - words(messages) == set()
    assert about - {name for name, kind in KINDS.items() if kind.mail} == {"ReportCheckpointMetrics"}


def test_what_a_reader_jumps_to_is_a_milestone() -> None:
    assert {kind.level for kind in KINDS.values() if kind.mark} == {MILESTONE}


def test_a_caption_never_fails_for_want_of_a_field() -> None:
    for name, kind in KINDS.items():
        for role in ROLES:
            if kind.side(role) is not None:
                caption = caption_of(TraceRecord("a/0#1", "", 0, "a/0", role, name, None, {}))
                assert caption
                assert "{" not in caption


def test_other_kinds_are_spelled_out() -> None:
    record = TraceRecord("job#1", "", 0, "job", "command", "SweepTheFloor", 4, {})
    assert caption_of(record) == "the JobMaster: Sweep the floor (checkpoint 4)"
