"""The state that a restore gave to each subtask, as a table."""

from __future__ import annotations

import pandas as pd

from kit.draw.views.rescaling import rescaling
from kit.hosts.lab import Lab
from kit.hosts.lab.world.actions import LetTimePass, TakeTurn
from kit.run.redistribution import redistribution, restores_of
from tests.draw.labs import lab_of
from tests.draw.script import story


def test_one_row_per_task_operator_and_kind() -> None:
    table = redistribution(story())
    assert list(table.columns[:5]) == ["epoch", "checkpoint_id", "operator", "task", "kind"]
    keyed = table[table.kind == "keyed"]
    assert list(keyed.task) == ["count/0", "count/1", "count/2"]
    assert list(keyed["from"]) == [[0], [0, 1], [1]]
    assert list(keyed.first_group) == [0, 43, 86]
    listed = table[table.kind == "operator"]
    assert listed.first_group.isna().all()


def test_a_run_without_a_restore_has_no_rows() -> None:
    assert len(redistribution([])) == 0


def test_a_restore_in_the_lab() -> None:
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run()
    table = redistribution(lab.trace)
    totals = table[(table.operator == "totals") & (table.epoch == 2)]
    assert totals[["task", "first_group", "last_group"]].values.tolist() == [["totals/0", 0, 63], ["totals/1", 64, 127]]
    assert pd.api.types.is_integer_dtype(totals.bytes)
    assert restores_of(lab.trace)[0].before == {"letters": 2, "totals": 2}


def test_what_was_in_flight_is_told_of_as_well() -> None:
    lab = lab_of(seed=2, rows=60, unaligned=True, interval_ms=100_000)
    _without_turns_of("totals", lab, 120)
    lab.trigger_checkpoint()
    _without_turns_of("totals", lab, 60)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run()
    table = redistribution(lab.trace)
    in_flight = table[table.kind.str.startswith("in flight")]
    assert {"in flight, input"} <= set(in_flight.kind) <= {"in flight, input", "in flight, output"}
    assert (in_flight.entries > 0).all()
    assert in_flight["from"].tolist() == [[int(task.rpartition("/")[2])] for task in in_flight.task]
    assert "in flight, arrived" in rescaling(lab.trace).svg()


def _without_turns_of(vertex: str, lab: Lab, steps: int) -> None:
    """Take other actions, so the elements sent to these tasks queue up."""
    for _ in range(steps):
        others = [
            place
            for place, action in enumerate(lab.enabled())
            if not (isinstance(action, TakeTurn) and action.task.startswith(vertex))
            and not isinstance(action, LetTimePass)
        ]
        if not others:
            return
        lab.step(others[0])
