"""The space-time diagram: what crosses a checkpoint's cut is what the checkpoint must keep, or would repeat."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, Lab, StreamEnvironment, count
from kit.draw import Crossing, journeys, space_time
from kit.draw.views.checkpoints.snapshot_contents import snapshot_contents
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.snapshots.values import rows_in_flight
from tests.draw.labs import lab_of

ROWS = 60
ROW_BYTES = 302
"""A buffer with one row of `counted`, give or take 2, in a file with in-flight data."""


def crossings(lab: Lab, checkpoint: int) -> dict[str, int]:
    """Return the number of records on each side of a checkpoint's cut."""
    table = journeys(lab).to_pandas(checkpoint)
    buffers = table[table["kind"] == "buffer"]
    return {str(side): int(rows) for side, rows in buffers.groupby("crossing")["rows"].sum().items()}


def counted(seed: int, **checkpoint: Any) -> Lab:
    """Rows counted by the number of a letter, in a job that is restarted."""
    settings = CheckpointConfig(**{"interval_ms": 40, **checkpoint})
    env = StreamEnvironment("counted", parallelism=2, checkpoint=settings, restart=FixedDelay(attempts=1, delay_ms=10))
    source = CollectionSource([{"letter": n % 8} for n in range(ROWS)], batch_rows=1)
    stream = env.from_source(source, uid="letters").key_by("letter").aggregate(n=count(), emit="final")
    stream.uid("totals").sink_to(CollectSink("out"), uid="out")
    return Lab(env, seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_crosses_an_aligned_cut(seed: int) -> None:
    lab = lab_of(seed)
    lab.run_until(checkpoint=2)
    for checkpoint in (1, 2):
        sides = crossings(lab, checkpoint)
        assert sides.keys() <= {"BEFORE", "AFTER", ""}
        assert sides["BEFORE"] > 0
    assert "nothing crosses its cut" in repr(space_time(lab, 1))


def test_what_crosses_an_unaligned_cut_is_what_the_checkpoint_keeps() -> None:
    kept = 0
    for seed in range(6):
        lab = counted(seed, unaligned=True)
        lab.run_until(checkpoint=1)
        sides = crossings(lab, 1)
        assert sides.keys() <= {"BEFORE", "IN_FLIGHT", "AFTER", ""}
        persisted = int(lab.statistics.subtasks(1)["persisted_bytes"].sum())
        assert round(persisted / ROW_BYTES) == sides.get("IN_FLIGHT", 0)
        kept += sides.get("IN_FLIGHT", 0)
    assert kept > 10


def test_what_is_drawn_in_flight_is_what_the_files_hold() -> None:
    kept = 0
    for seed in range(4):
        lab = Lab(ready_job("keyed-sum", interval_ms=20, rows=60, unaligned=True), seed=seed)
        for checkpoint in (1, 2):  # an earlier one is discarded when the next is complete
            lab.run_until(checkpoint=checkpoint)
            contents = rows_in_flight(snapshot_contents(lab, checkpoint).values)
            held = Counter(row["task"] for row in contents if row["record"].startswith("{"))
            found = journeys(lab)
            cut = found.cuts[checkpoint]
            crosses = [
                each for each in found.elements if each.kind == "buffer" and each.crossing(cut) is Crossing.IN_FLIGHT
            ]
            kept_by = Counter(
                each.sender if each.sent is None or each.sent > cut.instants[each.sender] else each.receiver
                for each in crosses
            )
            assert kept_by == held, "the sender keeps what it had not sent, the receiver what had come or was coming"
            kept += held.total()
    assert kept > 10


@pytest.mark.parametrize("seed", range(6))
def test_what_crosses_backwards_is_what_at_least_once_repeats(seed: int) -> None:
    lab = counted(seed, mode="at_least_once")
    lab.run_until(checkpoint=1)
    repeated = crossings(lab, 1).get("AGAINST", 0)
    lab.faults.kill(1)
    lab.run()
    assert lab.look.restores()["checkpoint_id"].unique().tolist() == [1]
    assert lab.output("out")["n"].sum() == ROWS + repeated


def test_a_lost_epoch_ends_what_was_under_way() -> None:
    lab = counted(1)
    lab.run_until(record="BarrierAligned")
    lab.faults.kill(1)
    lab.run()
    found = journeys(lab)
    lost = [each for each in found.elements if each.lost is not None]
    assert lost
    assert {each.epoch for each in lost} == {1}
    assert all(each.taken is not None for each in found.elements if each.epoch == 2)
    assert {task for task, _ in found.losses} == {"letters/1", "totals/1"}
    picture = space_time(lab, since_ms=0).svg()
    assert picture.count("✗ lost") == 2
    assert "✗ 1 aborted" in picture


def test_a_trace_is_drawn_as_the_lab_is() -> None:
    lab = lab_of(2, unaligned=True)
    lab.run_until(checkpoint=1)
    assert space_time(lab.trace, 1).svg() == space_time(lab, 1).svg()
    pd.testing.assert_frame_equal(space_time(lab.trace, 1).to_pandas(), space_time(lab, 1).to_pandas())


def test_the_legend_has_what_is_there_and_nothing_else() -> None:
    texts = {}
    for mode in ("exactly_once", "at_least_once"):
        lab = counted(3, mode=mode)
        lab.run_until(checkpoint=1)
        svg = space_time(lab, 1).svg()
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        texts[mode] = svg
    assert "sent after it, taken before it" in texts["at_least_once"]
    assert "sent after it, taken before it" not in texts["exactly_once"]
    assert "in flight" not in texts["exactly_once"]


def test_the_sign_of_what_was_lost_is_in_the_legend() -> None:
    lab = lab_of(3)
    lab.run_until(record="CheckpointTriggered")
    assert "lost on its way" not in space_time(lab).svg()
    lab.faults.kill(1)
    lab.run_until(record="JobStatusChanged")
    assert "lost on its way" in space_time(lab).svg()


def test_of_very_many_barriers_the_legend_says_how_many_are_drawn() -> None:
    lab = lab_of(1, rows=31, parallelism=31)
    lab.run_until(checkpoint=1)
    diagram = space_time(lab, 1)
    barriers = [each for each in diagram.drawing().primitives() if each.style.startswith("barrier")]
    assert len({each.hint for each in barriers}) < 31 * 31
    assert "barrier (1 of 2 is drawn)" in diagram.svg()


def test_an_unfinished_phase_is_open() -> None:
    lab = lab_of(1)
    lab.run_until(record="BarrierAligned")
    svg = space_time(lab).svg()
    assert "not finished" in svg
    assert re.search(r"acknowledgements are still to come", svg)


def test_what_is_not_there_is_named() -> None:
    lab = lab_of(1)
    lab.run_until(checkpoint=1)
    with pytest.raises(ValueError, match=r"no checkpoint 7; there are: 1"):
        space_time(lab, 7)
    with pytest.raises(ValueError, match=r"the run lasts"):
        space_time(lab, since_ms=100_000)
