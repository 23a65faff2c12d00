"""Writing a trial of a swarm as a scenario, which repeats it and checks the safety properties.

    job: random, rows=3, parallelism=1

    take 37 steps
    perhaps inflict KillWorker(worker=1)
    follow turn:rows/0 carry_out:job:StoreCheckpoint:chk-1:9
    check

If the first enabled action was taken, the scenario counts such steps; otherwise it names the actions. When the bug in
the kit is fixed, the run changes. Some of the actions are then no longer possible, and the scenario skips them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.core.protocol.events import StartJob
from kit.core.protocol.words import ProtocolMessage
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.scenarios.scenario_text import ScenarioText
from kit.hosts.lab.scenarios.scenario_writing import happens_by_itself, line_of, packed, scenario_of
from kit.hosts.lab.world.actions import Action, LetTimePass
from kit.verify.swarm.trials import TrialRun

FEW = 4
"""Sequences shorter than this are named as well, between others that are named."""


def scenario_of_trial(run: TrialRun, name: str) -> ScenarioText:
    """Return the scenario of a finished trial."""
    violation = str(run.violation or "all holds")
    question = f"How does it come to this: {violation.splitlines()[0]}"
    return scenario_of(lines_of(run), name, run.trial.job.text, "What a swarm found", question)


def lines_of(run: TrialRun) -> Iterator[str]:
    """Yield the trial, life by life, as commands of a scenario."""
    number_of_lives = len(run.labs)
    parallelism = run.trial.job.parallelism
    for number, (lab, chosen) in enumerate(zip(run.labs, run.chosen, strict=True), 1):
        start = lab.past.actions[0]
        assert isinstance(start, StartJob)
        if number > 1 and start.recover:
            yield "another driver takes over"
        elif number > 1:
            before, parallelism = parallelism, run.parallelisms[number - 1]
            yield "go on" + (f" with parallelism={parallelism}" if parallelism != before else "")
        dies = number < number_of_lives and run.labs[number].past.actions[0].recover  # type: ignore[union-attr]
        yield from _of_life(lab.past.actions, chosen, to_its_end=not dies)
    yield "check"


def _of_life(actions: Sequence[Action | ProtocolMessage], chosen: set[int], *, to_its_end: bool) -> Iterator[str]:
    """Yield the commands of one life; with `to_its_end`, the last steps that follow by themselves are left out."""
    keys: list[str] = []
    plain: list[str] = []
    for place, action in enumerate(actions[1:], 1):
        if isinstance(action, Action) and not isinstance(action, Fault) and place not in chosen:
            plain.append(action.key)
            continue
        waits = any(key.startswith(LetTimePass.verb) for key in plain)
        if happens_by_itself(action) and keys and len(plain) < FEW and not waits:
            keys += plain
        else:
            yield from packed("follow", keys)
            yield from _taken(plain)
            keys = []
        plain = []
        if happens_by_itself(action):
            keys.append(action.key)
        else:
            yield f"perhaps {line_of(action)}"
    yield from packed("follow", keys)
    if not to_its_end:
        yield from _taken(plain)


def _taken(plain: Sequence[str]) -> Iterator[str]:
    if plain:
        yield f"take {len(plain)} steps"
