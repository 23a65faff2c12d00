"""Event time against an oracle in random jobs: each split is in order and has rows until it ends.

So no split is ever idle, and no row may be late. Turns are held back, workers freeze or die, splits get ahead of
others, rates are limited, and readers end early. Still, every row is in its window, and every job finishes.
"""

from __future__ import annotations

from random import Random as Chance
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import Lab
from kit.hosts.spark import SparkJob
from tests.hosts.lab.test_split_alignment import Uneven, job
from tests.hosts.spark.jobs import ThreadGang

MOST_STEPS = 40_000


def drawn(chance: Chance) -> tuple[Uneven, dict[str, Any]]:
    """Draw a source whose splits end, and the settings of its job."""
    names = "abcd"[: chance.randint(2, 4)]
    rows = {name: chance.choice([5, 40, 150]) for name in names}
    limit = chance.choice([None, 2_000.0])
    source = Uneven(names, rows, set(names), batch_rows=chance.randint(1, 9), rows_per_second=limit)
    settings = {"parallelism": chance.randint(1, 3), "idle_ms": chance.choice([15, 40, 100, 400])}
    return source, settings | {"drift_ms": chance.choice([None, 100, 200, 1_000])}


def disturb(lab: Lab, chance: Chance, parallelism: int) -> None:
    """Freeze a worker, or kill one, or neither; then hold one task's turns back."""
    if chance.random() < 0.4:
        worker = chance.randrange(parallelism)
        lab.faults.freeze(worker)
        advance(lab, chance.randint(1, 1_500))
        lab.faults.thaw(worker)
    elif chance.random() < 0.2:
        lab.faults.kill(chance.randrange(parallelism))
    advance(lab, chance.randint(1, 600), f"turn:{chance.choice(sorted(lab.look.tasks))}" if lab.look.tasks else "")


def advance(lab: Lab, ms: int, stands: str = "") -> None:
    """Let time pass; what `stands` does not happen while something else can."""
    until_ms = lab.look.at_ms + ms
    while lab.look.at_ms < until_ms and lab.status in ("RUNNING", "RESTARTING"):
        enabled = lab.enabled()
        if not enabled:
            return
        lab.step(next((each for each in enabled if each.key != stands), enabled[0]))


def check(output: Any, source: Uneven) -> None:
    counted = output.groupby("split")["n"].sum().to_dict()
    assert counted == source.rows


@given(st.integers(0, 10_000))
def test_no_row_is_late_and_every_job_finishes(seed: int) -> None:
    chance = Chance(seed)
    source, settings = drawn(chance)
    lab = job(source, **settings, seed=seed)
    lab.run_until(record="AllTasksRunning")
    for _ in range(chance.randint(1, 4)):
        if lab.status == "RUNNING":
            disturb(lab, chance, settings["parallelism"])
    steps = lab.position + MOST_STEPS
    while lab.status != "FINISHED" and lab.position < steps:
        lab.step()
    assert lab.status == "FINISHED", lab
    check(lab.output("counts"), source)
    assert not lab.look.late_rows_dropped


@pytest.mark.parametrize("seed", range(2))
def test_on_spark_no_row_is_dropped_and_every_job_finishes(seed: int) -> None:
    source, settings = drawn(Chance(seed))
    with SparkJob(job(source, **settings).job, launch=ThreadGang) as running:
        running.start()
        assert running.wait(60) == "FINISHED"
        check(running.output("counts"), source)
