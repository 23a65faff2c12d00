"""Checks of the lab "find the bug": explorations that a student writes, of jobs with and without a bug.

The student submits a function from a job to an `Exploration`. It is run with the correct job, where it must find
nothing, and with the broken one, where it must find something. The step that the student names is compared with the
first one at which the broken job does something else than the correct one. Steps have the numbers of the lab
(`lab.position`), here, in the stepper and in `goto`.

The jobs come from `jobs.py` beside the lab's notebook (`use_jobs`). This package has neither jobs nor answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from types import MappingProxyType
from typing import Any

from kit.course.classroom.checking import NotYet, check, said_of
from kit.course.classroom.searching import chance
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.job_settings import CheckpointConfig
from kit.verify.explore import Counterexample, Exploration, Property, expected_output, explore
from kit.verify.explore.properties import Quantifier, Row
from kit.verify.explore.replay import replay

Find = Callable[[JobGraph], Exploration]
ASKED_AGAIN = 5
"""The number of times that a property is asked again in the violating state, and about as often in others."""
PARTS = ("request decider", "barrier handler", "pending checkpoint", "sink")
_found: dict[tuple[Find, str, bool], Exploration] = {}
"""Earlier explorations: the check of the step needs them again."""
_jobs: list[Callable[[str, bool], JobGraph]] = []
"""The function that makes the jobs, once it is known."""
_answers: dict[str, tuple[str, str]] = {}
"""For each job the part that is wrong, and why; only a grader has them."""


def use_jobs(
    make: Callable[[str, bool], JobGraph], answers: Mapping[str, tuple[str, str]] = MappingProxyType({})
) -> None:
    """Take the jobs from `make(name, sound)`; a grader passes the answers, too."""
    _jobs[:] = [make]
    _answers.update(answers)
    _found.clear()


def job(name: str, *, sound: bool = False) -> JobGraph:
    """Return a job with the bug called "first", "second" or "third"; with `sound`, without the bug."""
    if not _jobs:
        raise NotYet("The lab's jobs are not known: run the notebook's first cell, which imports `jobs.py`.")
    return _jobs[0](name, sound)


def wanted(name: str) -> Counter[Row]:
    """Return the rows that this job publishes without faults, with the count of each."""
    return Counter(expected_output(job(name, sound=True)))


def _explored(find: Find, name: str, *, sound: bool) -> Exploration:
    key = find, name, sound
    if key not in _found:
        found: Any = find(job(name, sound=sound))
        if not isinstance(found, Exploration):
            raise NotYet(f"Your function returned {found!r}. Expected what `explore(job, [...])` returns.")
        _found[key] = found
    return _found[key]


class Steps:
    """A counterexample, with the numbers that its steps have in the lab."""

    def __init__(self, name: str, example: Counterexample) -> None:
        self.example = example
        self._name = name

    @cached_property
    def _replayed(self) -> tuple[Lab, tuple[tuple[int, str], ...]]:
        """The lab at the end, and for each move its last step and its text."""
        lab = Lab(job(self._name))
        return lab, tuple((replay(lab, [move]).position, move.text) for move in self.example.moves)

    def lab(self, step: int | None = None) -> Lab:
        """Return a lab at this step, by default at the end."""
        lab = self._replayed[0].fork()
        if step is not None:
            lab.goto(step)
        return lab

    @property
    def text(self) -> str:
        """The numbered steps."""
        lines, before = [], 0
        for step, text in self._replayed[1]:
            number = str(step) if step - before < 2 or not before else f"{before + 1}-{step}"
            lines.append(f"{number:>7} {text}")
            before = step
        return "\n".join([*lines, f"     -> broken: {self.example.property}"])

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<p>Broken: {escape(self.example.property)}</p><pre>{escape(self.text)}</pre>"


def explored(find: Find, name: str) -> Steps:
    """Return the steps of what the student's function finds in the broken job: `.lab(30)` is a lab at step 30."""
    try:
        return Steps(name, _counterexample(find, name))
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
    never = [
        each.name
        for each in sound.properties
        if each.name not in sound.witnesses and each.quantifier is Quantifier.SOMETIMES
    ]
    if never:
        raise NotYet(f"«{never[0]}» holds in no state of the sound job, so it cannot be missed in the broken one.")
    example = _counterexample(find, name)
    _decides_by_the_state(name, example)
    return (
        f"«{example.property}» holds in all {sound.states:,} states of the sound job, and in the broken one it is "
        f"violated after {len(example)} moves"
    )


def _decides_by_the_state(name: str, example: Counterexample) -> None:
    """Ask the property again, in an order that nobody knows. Raises NotYet if it does not depend on the state alone.

    It must be false in the violating state, whenever it is asked, and true in states of the sound job on the same way.
    """
    judged = example.judged
    if judged is None:
        return
    violating = example.lab()
    asked = [(violating, False)] * ASKED_AGAIN
    asked += [(lab, True) for lab in _on_the_way(Lab(job(name, sound=True)), example, judged.quantifier)]
    asked = [(lab, wanted) for lab, wanted in asked if _may_fail(lab)]
    chance("asked again", name).shuffle(asked)
    for lab, wanted in asked:
        if bool(example.holds_in(lab)) != wanted:
            raise NotYet(
                f"«{example.property}» was asked again, in a state in which it was asked before, and answered "
                "differently. A property must depend on `now` alone.",
                lab,
            )


def _may_fail(lab: Lab) -> bool:
    """Return True if a property may ask what a failure would do: the job is over, or it has a worker that may die."""
    try:
        if not lab.ended:
            lab.fork().faults.kill(0)
    except LabError:
        return False
    return True


def _on_the_way(lab: Lab, example: Counterexample, quantifier: Quantifier) -> Iterator[Lab]:
    """Yield states of the sound job: some along the counterexample, as far as it can follow it, and the end."""
    step = max(1, len(example.moves) // ASKED_AGAIN)
    for number, move in enumerate(example.moves):
        if quantifier is Quantifier.ALWAYS and number % step == 0:
            yield lab.fork()
        try:
            replay(lab, [move])
        except LabError:
            break
    lab.run()
    yield lab


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


@dataclass(frozen=True)
class Difference:
    """The first step at which a broken job does something else than the sound one, in a lab that has done it."""

    lab: Lab
    step: int
    text: str


def difference(name: str, example: Counterexample) -> Difference:
    """Return the first difference between the two jobs in the run of a counterexample.

    A property may ask what a death would do: then the counterexample ends before the bug acts. The run goes on with the
    death of a worker, to the first difference. Raises NotYet if there is none.
    """
    broken, sound = Lab(job(name)), Lab(job(name, sound=True))
    for move in example.moves:
        if _differ(broken, sound, lambda lab, move=move: replay(lab, [move])):  # type: ignore[misc]
            return Difference(broken, broken.position, move.text)
    kill: Callable[[Lab], object] = lambda lab: lab.faults.kill(0)  # noqa: E731
    while not broken.ended:
        text = str(next(iter(broken.enabled()), ""))
        if _differ(broken, sound, kill):
            return Difference(broken, broken.position, text)
        kill = Lab.step
    raise NotYet(f"The sound job breaks «{example.property}» in the same way.", example.lab())


def _differ(broken: Lab, sound: Lab, do: Callable[[Lab], object]) -> bool:
    """Do the same in both labs. Return True if they differ then, in what they have done or in what they can do."""
    before = len(broken.trace), len(sound.trace)
    do(broken)
    try:
        do(sound)
    except LabError:
        return True
    return _facts(broken, before[0]) != _facts(sound, before[1])


def _facts(lab: Lab, since: int) -> tuple[object, ...]:
    records = [(each.kind, each.machine, repr(each.data)) for each in lab.trace[since:]]
    channels = [(each.number, each.blocked) for task in lab.look.tasks.values() for each in task.inputs]
    return records, [repr(each) for each in lab.enabled()], channels


@check
def names(find: Find, name: str, step: int, part: str) -> str:
    """Check the step at which the bug has its effect; a grader also checks the part that contains it."""
    example = _counterexample(find, name)
    if _explored(find, name, sound=True).counterexample is not None:
        raise NotYet(f"The sound job breaks «{example.property}» as well: the bug does not cause your counterexample.")
    right = difference(name, example)
    last = Steps(name, example).lab().position
    if not isinstance(step, int) or not 1 <= step <= max(last, right.step):
        raise NotYet(f"Step {step!r}: expected the number of one of the {last} steps of your counterexample.")
    if step != right.step:
        raise NotYet(f"{_hint(example, name, step, right, last)} At each step, ask: would a sound job do the same?")
    if part not in PARTS:
        raise NotYet(f"Step {step} is right, but the part is {part!r}: choose one of {', '.join(PARTS)}.")
    answer = _answers.get(name)
    if answer is None:
        return f"step {step}, {right.text}. Whether it is the {part} is checked when your lab is graded"
    if part != answer[0]:
        raise NotYet(f"Step {step} is right, but the bug is not in the {part!r}: choose another of {', '.join(PARTS)}.")
    return f"step {step}, {right.text}: {answer[1]}"


def _hint(example: Counterexample, name: str, step: int, right: Difference, last: int) -> str:
    if right.step > last:
        return (
            f"Step {step}: up to there everything is correct. Your property asks what a death would do, so your "
            f"counterexample ends, at step {last}, before the bug acts. Go on from there: `lab = check.explored(...)."
            "lab()`, `lab.faults.kill(0)`, and `lab.step()` again and again."
        )
    if step >= last:
        return f"Step {step} is where the violation becomes visible; the error happened earlier. Go back from there."
    if example.moves[_move_at(name, example, step)].step.kind == "kill":
        return f"Step {step} is not an error of the kit: a worker may die at any time."
    return f"Step {step}: " + ("the error happened before." if step > right.step else "up to there all is correct.")


def _move_at(name: str, example: Counterexample, step: int) -> int:
    steps = Steps(name, example)._replayed[1]
    return next(number for number, (last, _) in enumerate(steps) if step <= last)


@check
def has_a_witness(make: Callable[[], Property]) -> str:
    """Check a `sometimes` whose witness leads to two pending checkpoints."""
    two = make()
    if not isinstance(two, Property) or two.quantifier is not Quantifier.SOMETIMES:
        raise NotYet(f"Expected what `sometimes(name, lambda now: ...)` returns, found {two!r}.")
    found = explore(_one_row(), [two], faults=0, checkpoints=2, progress=False)
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


def _one_row() -> StreamEnvironment:
    """Return a job in which one row is published by the task that reads it."""
    settings = CheckpointConfig(interval_ms=None, memory_threshold_bytes=0, max_concurrent=2)
    env = StreamEnvironment("one row", parallelism=1, max_parallelism=2, checkpoint=settings)
    rows = env.from_source(CollectionSource([{"letter": "a"}], batch_rows=1), uid="rows")
    rows.sink_to(CollectSink("out"), uid="out")
    return env
