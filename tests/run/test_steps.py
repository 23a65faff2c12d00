"""Steps of a run whose records come late and in pieces, as a cluster's do."""

from __future__ import annotations

import random
from functools import cache
from itertools import accumulate

import pytest

from kit.core.trace.trace import Trace, TraceRecord, keeps_record
from kit.draw.stage.film import FilmBuilder, film
from kit.draw.stage.frames import frame_of
from kit.run.run import Run, run_of
from kit.run.steps import Ordering, event_of, steps
from tests.draw.labs import lab_of
from tests.draw.unpacked import drawn, unpacked


@cache
def run() -> Run:
    lab = lab_of(seed=3)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    return run_of(lab)


def as_told_by_many(seed: int) -> list[TraceRecord]:
    """Each machine's records in order, and each machine's as late as it pleases."""
    chance = random.Random(seed)
    late: dict[str, float] = {}
    due: list[tuple[float, TraceRecord]] = []
    for number, record in enumerate(filter(keeps_record, run().trace)):
        machine = record.machine.partition("@")[0]
        late[machine] = max(late.get(machine, 0), number + 60 * chance.random())
        due.append((late[machine], record))
    return [record for _, record in sorted(due, key=lambda each: each[0])]


@pytest.mark.parametrize(("seed", "most"), [(1, 60), (2, 25), (3, 8)])
def test_what_comes_in_pieces_is_ordered_like_the_whole(seed: int, most: int) -> None:
    records, chance, ordering = as_told_by_many(seed), random.Random(seed), Ordering()
    before: list[list[TraceRecord]] = []
    while len(ordering.taken) < len(records):
        at = len(ordering.taken)
        stay = ordering.take(records[at : at + chance.randint(1, most)])
        assert ordering.steps == steps(records[: len(ordering.taken)])
        assert ordering.steps[:stay] == before[:stay]
        assert ordering.starts == [0, *accumulate(map(len, ordering.steps))]
        before = [[*step] for step in ordering.steps]
    place = {event_of(step[0]): number for number, step in enumerate(ordering.steps)}
    causes = [(place.get(step[0].cause.rpartition(".")[0]), number) for number, step in enumerate(ordering.steps)]
    assert sum(cause is not None for cause, _ in causes) > 40
    assert all(cause is None or cause < number for cause, number in causes)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_film_that_was_taken_in_pieces_is_that_of_the_run(seed: int) -> None:
    records, builder = as_told_by_many(seed), FilmBuilder()
    for end in range(0, len(records) + 23, 23):
        builder.take(Run(Trace(records[:end]), run().stages))
    whole = Run(Trace(records), run().stages)
    assert unpacked(builder.film) == unpacked(film(whole))
    assert drawn(frame_of(builder.reading, whole.stages, len(records))) == unpacked(film(whole))[-1]
