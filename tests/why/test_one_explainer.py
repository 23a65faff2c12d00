"""Answers to "why?" and all views say the same of a pending checkpoint, at many moments of random runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kit.draw import barriers, checkpoint_life, phases
from kit.hosts.lab import Lab
from kit.why import Why
from tests.draw.test_truth import moments_of

TASK = r"[\w-]+/\d+"
PLACES = {
    "not sent yet": "not sent",
    "in its sender's queue": "in the sender's queue",
    "on its way": "on the wire",
    "in the queue here": "in the receiver's queue",
}
LIFE = {
    r"the acknowledgement of .* was lost": "lost",
    r"the acknowledgement of ": "ack",
    r".* has been writing its state": "writing",
    r".* captures and writes in-flight data": "capturing",
    r".* has declined": "declined",
    r".* has aborted it": "aborted",
    r".* has \d+ of \d+ barriers": "barriers",
    r".* is [A-Z]+": "gone",
    r".* has not been triggered|the trigger to ": "trigger",
}
"""How the life of a checkpoint says in which phase a task is."""


@dataclass(frozen=True)
class Said:
    """A statement about a task: its phase, the barriers that it waits for, and where these are; None if not stated."""

    phase: str
    awaited: frozenset[str] | None = None
    places: frozenset[tuple[str, str]] | None = None
    have: int | None = None
    """How many barriers it has."""


# --- what each of them says -------------------------------------------------------------------------------------------


def said_by_why(answer: Why) -> Said:
    """Read the first fact of an answer, and those just below it."""
    says, below = answer.answer.says, [fact.says for fact in answer.answer.because]
    if "cannot acknowledge" in says:
        return Said("gone")
    if found := re.match(r"the (acknowledgement|refusal) of .* to the JobMaster( was lost)?", says):
        return Said("declined" if found[1] == "refusal" else "lost" if found[2] else "ack")
    if "and has not written all of it" in says:
        is_writing = any("WriteSnapshot" in each or "writes its state" in each for each in below) or any(
            fact.record is not None and fact.record.kind == "WriteSnapshot" for fact in answer.answer.because
        )
        in_flight = " ".join(each for each in below if each.startswith("the data in flight from"))
        return Said("writing" if is_writing else "capturing", frozenset(re.findall(TASK, in_flight)))
    if "has aborted checkpoint" in says:
        return Said("aborted")
    if found := re.search(r"(?:has (\d+) of its \d+ barriers|taken no barrier).*those of (.*) are missing$", says):
        return Said("barriers", frozenset(re.findall(TASK, found[2])), have=int(found[1] or 0))
    return Said("trigger")


def said_by_life(says: str) -> Said:
    phase = next(phase for pattern, phase in LIFE.items() if re.match(pattern, says))
    have = re.search(r"has (\d+) of \d+ barriers", says)
    return Said(phase, have=int(have[1]) if have else None)


def said_by_phases(row: Any) -> Said:
    if row.status == "declined":
        return Said("declined")
    if not row.waits_for:
        return Said("gone")
    if row.waits_for.startswith("its acknowledgement"):
        return Said("lost" if "lost" in row.waits_for else "ack")
    if row.waits_for.startswith("the trigger"):
        return Said("trigger")
    named = re.findall(rf"({TASK}) \((?:its end instead, )?([^,)]*)", row.waits_for)
    phase = {"async": "writing", "sync": "writing", "in_flight": "capturing"}.get(row.open_phase, "barriers")
    if re.search(r" and \d+ more$", row.waits_for):
        return Said(phase)
    return Said(phase, frozenset(name for name, _ in named), frozenset((name, PLACES[place]) for name, place in named))


def said_by_barriers(lab: Lab, checkpoint: int) -> dict[str, frozenset[tuple[str, str]]]:
    found = defaultdict(set)
    for wait in barriers(lab, checkpoint=checkpoint).wait_for.waits:
        found[wait.target].add((wait.source, wait.place))
    return {task: frozenset(waits) for task, waits in found.items()}


# --- holding them to each other ---------------------------------------------------------------------------------------


def differences(lab: Lab) -> Iterator[str]:
    """Yield statements about the missing acknowledgements that are not the same everywhere."""
    for known in lab.moment().pending:
        number = known.checkpoint_id
        if not lab.trace.story(checkpoint=number, kind="CheckpointTriggered"):
            continue
        life = checkpoint_life(lab, checkpoint=number).to_pandas()
        missing = life[(life.step == "ack") & life.took_ms.isna()].set_index("of").waits
        table, waits = phases(lab, number).set_index("task"), said_by_barriers(lab, number)
        if set(missing.index) != set(known.missing):
            yield f"checkpoint {number}: missing are {known.missing}, in its life {list(missing.index)}"
            continue
        for task in known.missing:
            said = {
                "why": said_by_why(lab.why(task=task, checkpoint=number)),
                "life": said_by_life(missing[task]),
                "phases": said_by_phases(table.loc[task]),
            }
            places = waits.get(task, frozenset())
            said["barriers"] = Said(said["why"].phase, frozenset(source for source, _ in places), places)
            if not _agree(list(said.values())):
                yield f"checkpoint {number} at {task}: {said}"


def _agree(said: Sequence[Said]) -> bool:
    """Return True if all say the same, as far as they say anything."""
    waits = said[0].phase in ("barriers", "writing", "capturing")
    facts = [{each.phase for each in said}]
    if waits:
        facts += [{each.awaited for each in said} - {None}, {each.places for each in said} - {None}]
        facts += [{each.have for each in said} - {None}]
    return all(len(each) <= 1 for each in facts) and (waits or not said[-1].awaited)


def found_in(labs: Iterator[Lab]) -> tuple[int, list[str]]:
    """At how many moments a checkpoint was pending, and what differed."""
    count, found = 0, []
    for lab in labs:
        count += bool(lab.moment().pending)
        found += [f"step {lab.position}: {each}" for each in differences(lab)]
    return count, found


@pytest.mark.parametrize("seeds", [(0, 1, 2), (9, 14), (24,), (33,)])
def test_all_say_the_same_of_a_pending_checkpoint(seeds: Sequence[int]) -> None:
    counts = []
    for seed in seeds:
        count, found = found_in(moments_of(seed, 16))
        assert found == [], f"seed {seed}"
        counts.append(count)
    assert sum(counts) >= 12


@pytest.mark.soak
def test_all_say_the_same_of_a_pending_checkpoint_in_many_runs() -> None:
    for seed in range(100, 200):
        assert found_in(moments_of(seed, 40))[1] == [], f"seed {seed}"
