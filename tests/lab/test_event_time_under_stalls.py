"""Random jobs with stalls: the rows of every split are in order, and no source has nothing, so none may be dropped.

Idle time and drift are shorter than the stalls: turns that are held back, workers that freeze, slow splits, limits on
rows, and readers that end early. Every row is in its window, and every job finishes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kit import Lab
from kit.hosts.spark import SparkJob
from tests.lab.test_split_alignment import Uneven, job
from tests.spark.jobs import ThreadGang


def drawn(chance: Random) -> tuple[Uneven, dict[str, Any]]:
    """Draw a source whose splits end, and the settings of its job."""
    names = "abcd"[: chance.randint(2, 4)]
    rows = {name: chance.choice([5, 40, 150]) for name in names}
    limit = chance.choice([None, 2_000.0])
    source = Uneven(names, rows, set(names), batch_rows=chance.randint(2, 9), rows_per_second=limit)
    settings = {"parallelism": chance.randint(2, 3), "idle_ms": chance.choice([15, 40])}
    return source, settings | {"drift_ms": chance.choice([None, 200, 1_000])}


def stall(lab: Lab, chance: Random, parallelism: int) -> None:
    """Hold one task's turns back, or freeze a worker, for much longer than idleness takes."""
    until_ms = lab.look.at_ms + chance.randint(50, 300)
    if chance.random() < 0.5:
        worker = chance.randrange(parallelism)
        lab.faults.freeze(worker)
        lab.run_until(lambda lab: lab.look.at_ms >= until_ms or lab.ended)
        lab.faults.thaw(worker)
        return
    held = f"turn:{chance.choice(sorted(lab.look.tasks))}"
    while lab.look.at_ms < until_ms and not lab.ended:
        others = [each for each in lab.enabled() if each.key != held]
        if not others:
            return
        lab.step(others[0])


def check(output: Any, source: Uneven) -> None:
    counted = output.groupby("split")["n"].sum().to_dict()
    assert counted == source.rows


@pytest.mark.parametrize("seed", range(8))
def test_no_row_is_dropped_and_every_job_finishes(seed: int) -> None:
    chance = Random(seed)
    source, settings = drawn(chance)
    lab = job(source, **settings)
    lab.run_until(record="AllTasksRunning")
    for _ in range(4):
        if not lab.ended:
            stall(lab, chance, settings["parallelism"])
    lab.run_until(lambda lab: lab.ended or lab.look.at_ms > 60_000)
    assert lab.ended
    check(lab.output("counts"), source)
    assert not lab.look.late_rows_dropped


@pytest.mark.parametrize("seed", range(2))
def test_on_spark_no_row_is_dropped_and_every_job_finishes(seed: int) -> None:
    source, settings = drawn(Random(seed))
    with SparkJob(job(source, **settings).job, launch=ThreadGang) as running:
        running.start()
        assert running.wait(60) == "FINISHED"
        check(running.output("counts"), source)
