"""The sides of a cut: decided once in `Journey.crossing`, and the same in the document, the picture and the page."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, Lab, StreamEnvironment, count
from kit.draw import journeys, space_time, space_time_data
from kit.draw.space_time.space_time_data import SpaceTimeFeed
from kit.draw.space_time.space_time_looks import NAMES
from kit.draw.space_time.space_time_page import export_space_time
from kit.draw.space_time.space_time_sides import Sides, look_in
from kit.draw.views.checkpoints.snapshot_contents import snapshot_contents
from kit.hosts.lab.errors import LabError
from kit.run.journeys import Crossing, Follower, Journeys
from kit.snapshots.values import rows_in_flight
from tests.draw.labs import lab_of

# --- runs -------------------------------------------------------------------------------------------------------------


def several(**settings: Any) -> Lab:
    """Three checkpoints of a job with nine channels."""
    lab = lab_of(3, rows=120, parallelism=3, **settings)
    lab.run_until(checkpoint=3)
    return lab


def aligned() -> Lab:
    return several()


def unaligned() -> Lab:
    return several(unaligned=True)


def at_least_once() -> Lab:
    return several(mode="at_least_once")


def aborted_then_complete() -> Lab:
    """A checkpoint that one source never begins, so that it expires with half a cut, and then complete ones."""
    lab = lab_of(6, rows=90, unaligned=True, timeout_ms=120, tolerable_failures=1)
    while True:
        lab.step()
        try:
            lab.faults.lose("trigger of letters/1")
        except LabError:  # it is not on its way yet
            continue
        break
    lab.run_until(checkpoint=3)
    assert [each.status for each in lab.moment().checkpoints.values()][:2] == ["aborted", "completed"]
    return lab


def killed() -> Lab:
    """Two epochs, in which the same channels have other elements."""
    lab = lab_of(2, unaligned=True)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(checkpoint=2)
    return lab


def region_restarted(*, unaligned: bool = True) -> Lab:
    """A region that loses its elements within an epoch, and two checkpoints after that."""
    settings = CheckpointConfig(interval_ms=60, unaligned=unaligned)
    env = StreamEnvironment(
        "regions", chaining=False, failover="region", restart=FixedDelay(9, 10), checkpoint=settings
    )
    for name, parallelism in (("steady", 1), ("shaky", 2)):
        source = CollectionSource([{"k": n % 2, "n": n} for n in range(60)], batch_rows=1)
        rows = env.from_source(source, uid=name).set_parallelism(parallelism)
        counts = rows.key_by("k").aggregate(rows=count()).uid(f"{name}-counts").set_parallelism(parallelism)
        counts.sink_to(CollectSink(name), uid=f"{name}-out").set_parallelism(parallelism)
    lab = Lab(env, seed=7)
    for _ in range(220):
        lab.step()
    lab.faults.kill(1)
    lab.run_until(record="StartTasks")
    known = len(lab.moment().checkpoints)
    lab.run_until(checkpoint=known + 2)
    return lab


RUNS = tuple(map(cache, (aligned, unaligned, at_least_once, aborted_then_complete, killed, region_restarted)))


def decided(found: Journeys, checkpoint: int) -> list[str]:
    """Return the looks of all elements, by the side that `Journey.crossing` says."""
    cut = found.cuts.get(checkpoint)
    looks = []
    for each in found.elements:
        side = each.crossing(cut) if each.kind == "buffer" else None
        looks.append(side.name if side else {"buffer": "records", "barrier": "barrier"}.get(each.kind, "sign"))
    return looks


def in_document(data: dict[str, Any], checkpoint: dict[str, Any]) -> list[str]:
    """Return the looks of all elements, by the sides in the document."""
    columns = data["elements"]["columns"]
    found = []
    for row, (look, epoch, channel) in enumerate(zip(columns["look"], columns["epoch"], columns["pick"], strict=True)):
        is_known = NAMES[look] == "records" and epoch == checkpoint["epoch"] and channel in checkpoint["sides"]
        found.append(NAMES[look_in(checkpoint["sides"][channel], row) if is_known else look])
    return found


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_the_document_says_for_each_buffer_what_was_decided(run: Callable[[], Lab]) -> None:
    lab = run()
    found, data = journeys(lab), space_time_data(lab)
    assert len(data["checkpoints"]) >= 2
    for each in data["checkpoints"]:
        looks = decided(found, each["id"])
        assert in_document(data, each) == looks
        for at, side in ((0, "IN_FLIGHT"), (2, "AGAINST")):
            rows = [one.rows for one, look in zip(found.elements, looks, strict=True) if look == side]
            assert each["crossed"][at : at + 2] == (len(rows), sum(rows))


LOOKS = "(id) => pane.run.elements.look.map((_, i) => pane.run.lookOf('elements', i, id))"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_the_page_gives_each_buffer_the_look_that_was_decided(
    run: Callable[[], Lab], page: Page, tmp_path: Path
) -> None:
    lab = run()
    page.goto(export_space_time(lab, tmp_path / "run.html").as_uri())
    page.wait_for_function("() => window.pane?.drawMs !== undefined")
    found = journeys(lab)
    for number in found.cuts:
        assert page.evaluate(LOOKS, number) == decided(found, number)
    assert page.evaluate(LOOKS, None) == decided(found, 0), "no checkpoint is chosen"


def test_the_runs_have_buffers_on_every_side() -> None:
    seen: dict[str, set[str]] = {}
    for run in RUNS:
        found = journeys(run())
        seen[run.__name__] = set().union(*(decided(found, number) for number in found.cuts)) - {"barrier", "sign"}
    assert seen["aligned"] == {"BEFORE", "AFTER"}
    assert {"BEFORE", "IN_FLIGHT", "AFTER"} <= seen["unaligned"]
    assert {"BEFORE", "AGAINST", "AFTER"} <= seen["at_least_once"]
    assert {"BEFORE", "IN_FLIGHT", "AFTER", "records"} <= seen["aborted_then_complete"] & seen["region_restarted"]


# --- a run that goes on -----------------------------------------------------------------------------------------------


def test_buffers_that_come_after_a_channel_was_known_are_after_the_cut() -> None:
    lab, follower, sides = lab_of(2, rows=80, unaligned=True), Follower(), Sides()
    lab.run_until(checkpoint=1)
    found = follower.follow(lab)
    sides.follow(found)
    divided, seen = sides.of(1, found.cuts[1]).sides, len(found.elements)
    lab.run_until(checkpoint=2)
    found = follower.follow(lab)
    later = [(row, each) for row, each in enumerate(found.elements) if row >= seen and each.kind == "buffer"]
    assert later
    for row, each in later:
        assert each.crossing(found.cuts[1]) is Crossing.AFTER
        assert NAMES[look_in(divided[each.channel], row)] == "AFTER"


@pytest.mark.parametrize("every", [7, 40])
def test_piece_by_piece_the_sides_are_those_of_the_whole_run(every: int) -> None:
    lab = region_restarted()
    feed, end = SpaceTimeFeed(lab), lab.position
    found: dict[int, Any] = {}
    for position in (*range(1, end, every), end):
        lab.goto(position)
        data = feed.changes()
        assert data["edition"] == 0, "it is extended, not made again"
        found |= {each["id"]: each for each in data["checkpoints"]}
    expected = space_time_data(lab)["checkpoints"]
    for name in ("sides", "crossed", "said"):
        assert {number: each[name] for number, each in found.items()} == {each["id"]: each[name] for each in expected}


# --- a region that restarts -------------------------------------------------------------------------------------------


def test_what_a_region_lost_before_a_checkpoint_does_not_cross_its_cut() -> None:
    lab = region_restarted()
    number = max(number for number, each in lab.moment().checkpoints.items() if each.status == "completed")
    found = journeys(lab)
    lost = [each for each in found.elements if each.kind == "buffer" and each.lost is not None]
    assert lost
    assert {each.crossing(found.cuts[number]) for each in lost} == {None}
    held = [row for row in rows_in_flight(snapshot_contents(lab, number).values) if row["record"].startswith("{")]
    looks = decided(found, number)
    assert sum(each.rows for each, look in zip(found.elements, looks, strict=True) if look == "IN_FLIGHT") == len(held)
    assert held


def test_nothing_crosses_an_aligned_cut_after_a_region_restarted() -> None:
    lab = region_restarted(unaligned=False)
    assert any(each.lost is not None for each in journeys(lab).elements)
    for number in journeys(lab).cuts:
        if lab.moment().checkpoints[number].status == "completed":
            assert "nothing crosses its cut" in repr(space_time(lab, number))
            assert "in flight" not in space_time(lab, number, since_ms=0).svg()
