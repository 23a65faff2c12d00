"""What a restore gave to whom, as a table and as ribbons."""

from __future__ import annotations

from xml.etree import ElementTree

import pandas as pd

from kit.draw.job_state import RestoreMoment
from kit.draw.redistribution import redistribution, redistribution_svg, restores_of
from kit.lab import Lab
from kit.lab.actions import LetTimePass, TakeTurn
from tests.draw.labs import lab_of
from tests.draw.script import story


def titles(svg: str) -> list[str]:
    """The hints on ribbons and bars."""
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]


def test_one_row_per_task_operator_and_kind() -> None:
    table = redistribution(story())
    assert list(table.columns[:5]) == ["epoch", "checkpoint_id", "operator", "task", "kind"]
    keyed = table[table.kind == "keyed"]
    assert list(keyed.task) == ["count/0", "count/1", "count/2"]
    assert list(keyed["from"]) == [[0], [0, 1], [1]]
    assert list(keyed.first_group) == [0, 43, 86]
    listed = table[table.kind == "operator"]
    assert listed.first_group.isna().all()


def test_a_ribbon_for_every_range_that_changes_hands() -> None:
    (restore,) = restores_of(story())
    ribbons = [title for title in titles(redistribution_svg(restore)) if title.startswith("key groups")]
    assert ribbons == [
        "key groups 0 to 42: count/0 to count/0",
        "key groups 43 to 63: count/0 to count/1",
        "key groups 64 to 85: count/1 to count/1",
        "key groups 86 to 127: count/1 to count/2",
    ]


def test_list_entries_come_from_whom_the_trace_says() -> None:
    (restore,) = restores_of(story())
    ribbons = [title for title in titles(redistribution_svg(restore)) if title.startswith("entries")]
    assert len(ribbons) == 4
    assert "entries of source/1 to source/0" in ribbons


def test_a_restore_without_state_says_so() -> None:
    assert "the checkpoint holds no state" in redistribution_svg(RestoreMoment(2, 1))
    assert len(redistribution([])) == 0


def test_a_restore_in_the_lab() -> None:
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=1)
    lab.kill(0)
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
    lab.kill(0)
    lab.run()
    table = redistribution(lab.trace)
    in_flight = table[table.kind.str.startswith("in flight")]
    assert {"in flight, input"} <= set(in_flight.kind) <= {"in flight, input", "in flight, output"}
    assert (in_flight.entries > 0).all()
    assert in_flight["from"].tolist() == [[int(task.rpartition("/")[2])] for task in in_flight.task]
    (restore,) = restores_of(lab.trace)
    assert "buffers in flight that had arrived" in redistribution_svg(restore)


def _without_turns_of(vertex: str, lab: Lab, steps: int) -> None:
    """Let other things happen: what is sent to these tasks heaps up."""
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
