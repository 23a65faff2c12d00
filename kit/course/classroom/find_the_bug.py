"""Checks of the lab "find the bug": explorations that a student writes, of jobs with and without a bug.

The student submits a function from a job to an `Exploration`. It is run with the correct job, where it must find
nothing, and with the broken one, where it must find something. The step that the student names is compared with the one
at which the bug had its effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kit.course.classroom.checking import NotYet, check, said_of
from kit.course.classroom.planted_bugs import BUGS, collects
from kit.course.classroom.planted_bugs import wanted as wanted_rows
from kit.hosts.lab.lab import Lab
from kit.stream.connectors import CollectSink
from kit.stream.graph.job_graph import JobGraph
from kit.verify.explore import Counterexample, Exploration, Property, explore
from kit.verify.explore.properties import Row

Find = Callable[[JobGraph], Exploration]
PARTS = ("request decider", "barrier handler", "pending checkpoint", "sink")
_found: dict[tuple[Find, str, bool], Exploration] = {}
"""Earlier explorations: the check of the step needs them again."""


def job(name: str, *, sound: bool = False) -> JobGraph:
    """Return a job with the bug called "first", "second" or "third"; with `sound`, without the bug."""
    return BUGS[name].sound() if sound else BUGS[name].broken()


def wanted(name: str) -> Counter[Row]:
    """Return the rows that this job publishes without faults, with the count of each."""
    return wanted_rows(name)


def _explored(find: Find, name: str, *, sound: bool) -> Exploration:
    key = find, name, sound
    if key not in _found:
        found: Any = find(job(name, sound=sound))
        if not isinstance(found, Exploration):
            raise NotYet(f"Your function returned {found!r}. Expected what `explore(job, [...])` returns.")
        _found[key] = found
    return _found[key]


def explored(find: Find, name: str) -> Exploration:
    """Return what the student's function finds in the broken job, with the counterexample's steps."""
    try:
        return _explored(find, name, sound=False)
    except NotYet:
        raise
    except Exception as error:
        raise NotYet(said_of(error)) from None


@check
def finds(find: Find, name: str) -> str:
    """Check that nothing is found in the correct job, and something in the broken one."""
    sound = _explored(find, name, sound=True)
    alarm = sound.counterexample
    if alarm is not None:
        after = f"after {len(alarm)} steps, the last of them: {alarm.actions[-1]}" if alarm.actions else "at the start"
        raise NotYet(
            f"A false alarm: the sound kit, too, reaches a state without «{alarm.property}», {after}. "
            "Your property asks for more than the protocol promises.",
            alarm.lab(),
        )
    if not sound.complete:
        raise NotYet(f"The search of the sound job is incomplete: {sound!r}. Ask for fewer faults and checkpoints.")
    never = [each.name for each in sound.properties if each.name not in sound.witnesses and _is_sometimes(each)]
    if never:
        raise NotYet(f"«{never[0]}» holds in no state of the sound job, so it cannot be missed in the broken one.")
    return _said(sound, _counterexample(find, name))


def _said(sound: Exploration, example: Counterexample) -> str:
    return (
        f"«{example.property}» holds in all {sound.states:,} states of the sound job, and in the broken one it is "
        f"violated after {len(example)} steps"
    )


def _counterexample(find: Find, name: str) -> Counterexample:
    broken = _explored(find, name, sound=False)
    if broken.counterexample is None:
        names = ", ".join(f"«{each.name}»" for each in broken.properties) or "nothing"
        faults = ", ".join(each.kind for each in broken.searches)
        raise NotYet(
            f"The bug is not found: in {broken.states:,} states of the broken job you checked {names}, which held in "
            f"all of them. Faults: {faults}. Check more properties, or start from the symptom: what does a user see of "
            "this bug, and when?"
        )
    return broken.counterexample


def _is_sometimes(each: Property) -> bool:
    return each.quantifier.name == "SOMETIMES"


@check
def names(find: Find, name: str, step: int, part: str) -> str:
    """Check the step at which the bug has its effect, and the part that contains it."""
    example, bug = _counterexample(find, name), BUGS[name]
    right = _acted_at(example, bug.acted)
    if not isinstance(step, int) or not 1 <= step <= len(example):
        raise NotYet(f"Step {step!r}: expected the number of one of the {len(example)} steps of your counterexample.")
    if step != right:
        action = example.actions[step - 1]
        raise NotYet(
            f"Step {step} is: {action}. {_hint(example, step, right)} Look at your counterexample from its end, and "
            "ask at each step whether the sound kit would have done the same.",
            example.lab(steps=step),
        )
    if part != bug.part:
        raise NotYet(f"Step {step} is right, but the bug is not in the {part!r}: choose another of {', '.join(PARTS)}.")
    return f"step {step}, {example.actions[step - 1]}: {bug.told}"


def _hint(example: Counterexample, step: int, right: int) -> str:
    if step == len(example):
        return "That is where the violation becomes visible; the error happened earlier."
    if example.moves[step - 1].step.kind == "kill":
        return "That is not an error of the kit: a worker may die at any time."
    return "The error happened before that." if step > right else "Up to there everything is correct."


def _acted_at(example: Counterexample, acted: Callable[[Lab], bool]) -> int:
    for step in range(1, len(example) + 1):
        if acted(example.lab(steps=step)):
            return step
    raise NotYet(
        f"Your counterexample to «{example.property}» exists in the sound kit as well: the bug does not cause it.",
        example.lab(),
    )


@check
def has_a_witness(make: Callable[[], Property]) -> str:
    """Check a `sometimes` whose witness leads to two pending checkpoints."""
    two = make()
    if not isinstance(two, Property) or not _is_sometimes(two):
        raise NotYet(f"Expected what `sometimes(name, lambda now: ...)` returns, found {two!r}.")
    found = explore(collects(CollectSink("out")), [two], faults=0, checkpoints=2, progress=False)
    if two.name not in found.witnesses:
        raise NotYet(f"«{two.name}» holds in none of {found.states:,} states, with two checkpoints requested.")
    witness = found.witnesses[two.name]
    lab = witness.lab()
    pending = sorted(lab.look.master.checkpoints.pending)
    if len(pending) != 2:
        raise NotYet(
            f"«{two.name}» holds here after {len(witness)} steps, with these pending: {pending or 'none'}.", lab
        )
    return f"«{two.name}»: the shortest way there has {len(witness)} steps"
