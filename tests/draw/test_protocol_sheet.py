"""The protocol on one sheet names what the code has: every message, state and reason, with a rule for each."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from kit.core.protocol.messages import JobMessage, TaskMessage
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.transitions import label
from kit.core.protocol.vocabulary import COMMANDS
from kit.draw.graphs import wrapped
from kit.draw.protocol import rules
from kit.draw.protocol.protocol_sheet import HEIGHT, SIZE, WIDTH, protocol_sheet, reasons_on_the_sheet
from kit.machines.coordinator import checkpoint_state
from kit.machines.coordinator.failure_manager import COUNTED
from kit.machines.task import barrier_states
from tests.house.files import ROOT
from tests.house.protocol_page import PDF, SVG, source_name
from tests.words import words

PACKAGES = {
    rules.COORDINATOR: ["kit/machines/coordinator"],
    rules.TASK: ["kit/machines/task"],
    rules.SLOT: ["kit/machines/channel", "kit/machines/task/unknown_task.py"],
    rules.JOB: ["kit/machines/job"],
    rules.NOBODY: [],
}
"""Where the code of each machine is."""


def code_of(*packages: str) -> str:
    places = [ROOT / each for each in packages]
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return "\n".join(file.read_text() for file in files)


def test_the_files_are_what_the_tables_give() -> None:
    sheet = str(protocol_sheet())
    assert SVG.read_text() == sheet, "run: python -m tests.house.protocol_page"
    assert source_name(sheet).encode() in PDF.read_bytes(), "run: python -m tests.house.protocol_page"
    assert PDF.read_bytes().count(b"/Type /Page\n") == 1


def test_every_message_about_a_checkpoint_has_a_rule() -> None:
    about = {
        each
        for each in COMMANDS
        if issubclass(each, TaskMessage | JobMessage) and "checkpoint_id" in {field.name for field in fields(each)}
    }
    assert about <= {rule.message for rule in rules.RULES}
    assert about >= {each for asked in rules.ASKED.values() for each in asked if issubclass(each, TaskMessage)}


def test_every_state_and_every_reason_is_on_the_sheet() -> None:
    shown = words(str(protocol_sheet()))
    for table in (checkpoint_state.TRANSITIONS, barrier_states.TRANSITIONS):
        assert {label(state) for state in table} <= set(shown)
    assert set(rules.ASKED) == set(checkpoint_state.TRANSITIONS)
    assert set(rules.GIVEN_BY) == set(CheckpointFailureReason)
    assert {reason.name for reason in reasons_on_the_sheet()} <= set(shown)
    assert shown.count("counts") == len(COUNTED)


@pytest.mark.parametrize("reason", CheckpointFailureReason, ids=repr)
def test_the_machine_that_gives_a_reason_uses_it(reason: CheckpointFailureReason) -> None:
    named = re.compile(rf"Reason\.{reason.name}\b")
    who = rules.GIVEN_BY[reason]
    assert bool(named.search(code_of(*PACKAGES[who]))) is (who != rules.NOBODY)
    if who == rules.NOBODY:
        assert not named.search(code_of("kit/machines"))


def test_names_in_sentences_are_names_of_the_code() -> None:
    sentences = [sentence for rule in rules.RULES for sentence in rule.does] + list(rules.AFTER_A_FAILURE)
    known = {each.__name__ for each in COMMANDS} | {rule.message.__name__ for rule in rules.RULES} | {"JobMaster"}
    known |= {reason.name for reason in CheckpointFailureReason}
    named = re.findall(r"\b[A-Z][a-z]+[A-Z]\w+|\b[A-Z]+_[A-Z_]+", " ".join(sentences))
    assert named
    assert set(named) <= known


def test_the_sheet_fits_on_a_page_of_a4() -> None:
    sheet = str(protocol_sheet())
    assert abs(HEIGHT / WIDTH - 297 / 210) < 0.001
    assert max(float(y) for y in re.findall(r'<text[^>]* y="([\d.]+)"', sheet)) < HEIGHT - 10
    assert wrapped("a sentence of some words", 60, SIZE) != ["a sentence of some words"]
