"""Checks of the lab "find the bug": explorations that a student writes, of jobs with a fault and without.

What a student hands over is a function from a job to an `Exploration`. It is run with the sound job, where nothing may
be found, and with the broken one, where something must be; and the step that the student names is held against the one
at which the fault had its effect.
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
"""What was explored already: the check of the step asks for it again."""


def job(name: str, *, sound: bool = False) -> JobGraph:
    """A job with the bug called "first", "second" or "third"; `sound`: without it."""
    return BUGS[name].sound() if sound else BUGS[name].broken()


def wanted(name: str) -> Counter[Row]:
    """The rows that this job publishes when nothing fails, with how often each."""
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
    """What the student's function finds in the broken job, with the counterexample's steps."""
    try:
        return _explored(find, name, sound=False)
    except NotYet:
        raise
    except Exception as error:
        raise NotYet(said_of(error)) from None


@check
def finds(find: Find, name: str) -> str:
    """Nothing is found in the sound job, and something is in the broken one."""
    sound = _explored(find, name, sound=True)
    alarm = sound.counterexample
    if alarm is not None:
        after = f"after {len(alarm)} steps, the last of them: {alarm.actions[-1]}" if alarm.actions else "at the start"
        raise NotYet(
            f"A false alarm: in the kit as it is there is a state without «{alarm.property}» too, {after}. Your "
            "property asks for more than the protocol promises.",
            alarm.lab(),
        )
    if not sound.complete:
        raise NotYet(f"Not everything was seen of the sound job: {sound!r}. Ask for fewer faults and checkpoints.")
    never = [each.name for each in sound.properties if each.name not in sound.witnesses and _is_sometimes(each)]
    if never:
        raise NotYet(f"«{never[0]}» is so in no state of the sound job: you will not miss it in the broken one.")
    return _said(sound, _counterexample(find, name))


def _said(sound: Exploration, example: Counterexample) -> str:
    return (
        f"«{example.property}» is so in all {sound.states:,} states of the sound job, and in the broken one it is not, "
        f"after {len(example)} steps"
    )


def _counterexample(find: Find, name: str) -> Counterexample:
    broken = _explored(find, name, sound=False)
    if broken.counterexample is None:
        names = ", ".join(f"«{each.name}»" for each in broken.properties) or "nothing"
        faults = ", ".join(each.kind for each in broken.searches)
        raise NotYet(
            f"The bug is not found: in {broken.states:,} states of the broken job you asked for {names}, and it was so "
            f"in all of them. What was made to fail: {faults}. Ask for more, or look where it hurts: what does a user "
            "see of this bug, and when?"
        )
    return broken.counterexample


def _is_sometimes(each: Property) -> bool:
    return each.quantifier.name == "SOMETIMES"


@check
def names(find: Find, name: str, step: int, part: str) -> str:
    """The step at which the fault has its effect, and the part that it is in."""
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
        raise NotYet(f"Step {step} it is. But not the {part!r}: one of {', '.join(PARTS)} does something wrong there.")
    return f"step {step}, {example.actions[step - 1]}: {bug.told}"


def _hint(example: Counterexample, step: int, right: int) -> str:
    if step == len(example):
        return "There the property is broken for all to see; what went wrong, went wrong earlier."
    if example.moves[step - 1].step.kind == "kill":
        return "That is no mistake of the kit: a worker may die at any time."
    return "It went wrong before that." if step > right else "So far everything was right."


def _acted_at(example: Counterexample, acted: Callable[[Lab], bool]) -> int:
    for step in range(1, len(example) + 1):
        if acted(example.lab(steps=step)):
            return step
    raise NotYet(
        f"Your counterexample to «{example.property}» is one of the sound kit as well: the bug has no part in it.",
        example.lab(),
    )


@check
def has_a_witness(make: Callable[[], Property]) -> str:
    """A `sometimes` whose shortest way leads to where two checkpoints are under way at once."""
    two = make()
    if not isinstance(two, Property) or not _is_sometimes(two):
        raise NotYet(f"Expected what `sometimes(name, lambda now: ...)` returns, found {two!r}.")
    found = explore(collects(CollectSink("out")), [two], faults=0, checkpoints=2, progress=False)
    if two.name not in found.witnesses:
        raise NotYet(f"«{two.name}» is so in none of {found.states:,} states, with two checkpoints asked for.")
    witness = found.witnesses[two.name]
    lab = witness.lab()
    pending = sorted(lab.master.checkpoints.pending)
    if len(pending) != 2:
        raise NotYet(
            f"«{two.name}» is so here after {len(witness)} steps, and under way are: {pending or 'none'}.", lab
        )
    return f"«{two.name}»: the shortest way there has {len(witness)} steps"
