"""A path through the states is a run of the lab: whatever is done by number ends as it does when machines do it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from kit.core.protocol.words import Machine
from kit.hosts.lab import ready_job
from kit.hosts.lab.lab import Lab
from kit.machines.task.stream_task import StreamTask
from kit.verify.explore.exploration import explorable
from kit.verify.explore.machines import Broken
from kit.verify.explore.properties import LabSituation
from kit.verify.explore.replay import moves, replay
from kit.verify.explore.situation import RowSituation
from kit.verify.explore.space import Space
from kit.verify.explore.steps import FAULTS, Step
from tests.verify.explore.jobs import copies, counts, overtakes, pair, timed


def _walk(space: Space, random: Random, *, most: int = 400) -> list[Step]:
    """Random steps until nothing can happen; timers only then, as in a lab."""
    row, path = space.first(), []
    while len(path) < most:
        able = [step for step in space.steps if len(space.successors(row, step)[0])]
        calm = [step for step in able if step.kind not in ("timer", *FAULTS)]
        rare = [step for step in able if step.kind in FAULTS and random.random() < 0.03]
        chosen = rare or calm or [step for step in able if step.kind == "timer"]
        if not chosen:
            break
        path.append(random.choice(chosen))
        row = space.successors(row, path[-1])[1]
    return path


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("of", "kind"),
    [
        *((counts, kind) for kind in FAULTS),
        *((overtakes, kind) for kind in ("kill", "fail")),
        (timed, "kill"),
        (copies, "kill"),
        (pair, "fail"),
        *((partial(of, unaligned=True), kind) for of in (copies, pair) for kind in ("kill", "fail")),
    ],
)
def test_a_path_ends_as_it_does_in_a_lab(of: Callable[..., Any], kind: str, seed: int) -> None:
    job = explorable(of(rows=2, sources=2))
    space = Space(job, requests=2, faults=1, kinds=[kind])
    path, row = moves(space, _walk(space, Random(seed)))
    lab = replay(Lab(job), path)
    ours, labs = RowSituation(space, row[0], set()), LabSituation(lab)
    assert ours.status == labs.status
    assert ours.completed == labs.completed
    assert ours.output() == labs.output()
    assert ours.files() == labs.files()
    for name in space.machine_names[1:]:
        one, other = ours.machine(name), labs.machine(name)
        assert (one is None) == (other is None)
        if isinstance(one, StreamTask) and isinstance(other, StreamTask):
            assert one.state is other.state
            assert repr(one.checkpoints) == repr(other.checkpoints)
            assert [repr(channel) for channel in one.inputs] == [repr(channel) for channel in other.inputs]


@pytest.mark.parametrize(
    "of",
    [
        lambda: counts(rows=2, sources=2),
        lambda: timed(rows=2, sources=2),
        lambda: pair(rows=2, sources=2),
        *(partial(ready_job, name, interval_ms=None, rows=4) for name in ("every-kind", "sessions", "broadcast")),
    ],
)
def test_a_copy_of_a_machine_is_in_the_same_state(of: Callable[[], Any]) -> None:
    """If a digest depended on memory addresses, each step's outcome would be a new state."""
    space = Space(explorable(of()), requests=1, faults=0)
    _walk(space, Random(1))
    compared = 0
    for states in space.machines:
        for machine in states.machines:
            if isinstance(machine, Machine):
                assert space.digester.digest(space.states.copy(machine)) == space.digester.digest(machine)
                compared += 1
    assert compared > 50
    assert not space.digester.by_address


@pytest.mark.parametrize("of", [counts, overtakes])
def test_states_with_equal_digests_do_the_same(of: Callable[..., Any]) -> None:
    """A machine that reached its state in another way gives the same commands for the same event."""
    job = explorable(of(rows=2, sources=2))
    space = Space(job, requests=1, faults=1)
    random = Random(1)
    kept: dict[tuple[int, int], object] = {}
    compared = 0
    number_of = type(space.machines[0]).number
    for states in space.machines:

        def noted(machine: object, states=states) -> int:  # type: ignore[no-untyped-def]
            number = number_of(states, machine)  # type: ignore[arg-type]
            kept[space.machines.index(states), number] = machine
            return number

        states.number = noted  # type: ignore[method-assign]
    for _ in range(3):
        _walk(space, random)
    for (place, state), other in list(kept.items()):
        states = space.machines[place]
        first = states.machines[state]
        if other is first or isinstance(first, Broken) or isinstance(other, Broken):
            continue
        for word in states.words_taken()[:30]:
            one = states.step(np.array([state], np.int32), np.array([word], np.int32))[0]
            states.machines[state] = other  # type: ignore[assignment]
            again = space.states.work_out(states, state, word)
            states.machines[state] = first
            state_after, changes, handed = states.outcomes[int(one)]
            assert (changes, handed) == (tuple(sorted(again.changes.items())), again.handed)
            after, also_after = (states.machines[number] for number in (state_after, again.state))
            assert space.digester.digest(after) == space.digester.digest(also_after)
            compared += 1
    assert compared > 200
