"""Places and lanes: in order, apart, and the same for every moment."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.trace.shape import ShapeChannel, ShapeVertex
from kit.draw.stage.layout import Box, Layout, Point, lay_out
from kit.run.stage import MOST_BOXES, Stage, stage_for
from tests.draw.script import stage


def apart(a: Box, b: Box) -> bool:
    return a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y


def diamond() -> Stage:
    """Two ways from source to join, one of them direct, so that an edge passes a rank."""
    pairs = [("source/0", "clean/0"), ("clean/0", "join/0"), ("source/0", "join/0"), ("join/0", "sink/0")]
    names = ("source", "clean", "join", "sink")
    return Stage(
        1,
        tuple(ShapeVertex(name, (name,), 1) for name in names),
        tuple(ShapeChannel(number, *pair) for number, pair in enumerate(pairs)),
    )


@given(st.integers(1, MOST_BOXES), st.integers(1, MOST_BOXES))
def test_boxes_keep_apart_and_subtasks_in_order(sources: int, counts: int) -> None:
    layout = lay_out(stage(1, counts, sources))
    assert all(apart(a, b) for a, b in combinations(layout.places.values(), 2))
    for vertex, many in (("source", sources), ("count", counts)):
        ys = [layout.places[f"{vertex}/{i}"].y for i in range(many)]
        assert ys == sorted(ys)
    assert all(box.x >= 0 and box.x + box.width <= layout.width for box in layout.places.values())
    assert all(box.y >= 0 and box.y + box.height <= layout.height for box in layout.places.values())


@given(st.integers(1, MOST_BOXES), st.integers(1, MOST_BOXES))
def test_lanes_run_from_box_to_box_and_no_two_share_an_end(sources: int, counts: int) -> None:
    layout = lay_out(stage(1, counts, sources))
    for lane in layout.lanes:
        a, b = layout.places[lane.source], layout.places[lane.target]
        assert lane.start[0] == pytest.approx(a.x + a.width)
        assert lane.end[0] == pytest.approx(b.x)
        assert a.y < lane.start[1] < a.y + a.height
        assert b.y < lane.end[1] < b.y + b.height
    assert len({lane.start for lane in layout.lanes}) == len({lane.end for lane in layout.lanes}) == len(layout.lanes)


def test_the_flow_is_from_left_to_right() -> None:
    vertices = lay_out(stage()).vertices
    assert vertices["source"].x < vertices["count"].x < vertices["sink"].x


def test_the_wire_begins_and_ends_where_the_queues_do() -> None:
    for lane in lay_out(diamond()).lanes:
        assert lane.on_wire(0) == pytest.approx(lane.corners[1])
        assert lane.on_wire(1) == pytest.approx(lane.corners[-2])
        xs = [lane.on_wire(i / 20)[0] for i in range(21)]
        assert xs == sorted(xs)


def test_an_edge_that_passes_a_rank_passes_its_boxes_too() -> None:
    layout = lay_out(diamond())
    (lane,) = [lane for lane in layout.lanes if (lane.source, lane.target) == ("source/0", "join/0")]
    between = layout.places["clean/0"]
    assert not any(inside(lane.on_wire(i / 50), between) for i in range(51))


def inside(point: Point, box: Box) -> bool:
    return box.x <= point[0] <= box.x + box.width and box.y <= point[1] <= box.y + box.height


def test_many_subtasks_are_one_place_and_their_channels_one_lane() -> None:
    layout: Layout = lay_out(stage(1, counts=MOST_BOXES + 1))
    assert "count" in layout.places
    assert "count/0" not in layout.places
    lanes = {(lane.source, lane.target): len(lane.channels) for lane in layout.lanes}
    assert lanes == {("source/0", "count"): 7, ("source/1", "count"): 7, ("count", "sink/0"): 7}


def test_a_stage_is_json_and_comes_back() -> None:
    shape = stage(3)
    assert Stage.from_dict(shape.to_dict()) == shape
    assert repr(shape) == "Stage(epoch 3: source x2 -> count x2 -> sink x1, 6 channels)"


def test_an_epoch_without_a_stage_of_its_own_has_the_last_ones() -> None:
    stages = [stage(1), stage(3, counts=3)]
    assert [stage_for(stages, epoch).epoch for epoch in (1, 2, 3, 4)] == [1, 1, 3, 3]


def long_chain(parallelism: int) -> Stage:
    """Eleven vertices in a chain, all to all; the first also sends to the last but one."""
    names = [f"v{number}" for number in range(11)]
    ways = [*pairwise(names), (names[0], names[9])]
    pairs = [(f"{a}/{i}", f"{b}/{j}") for a, b in ways for i in range(parallelism) for j in range(parallelism)]
    return Stage(
        1,
        tuple(ShapeVertex(name, (name,), parallelism) for name in names),
        tuple(ShapeChannel(number, *pair) for number, pair in enumerate(pairs)),
    )


@pytest.mark.parametrize(("parallelism", "closed"), [(1, False), (2, False), (8, True)])
def test_a_long_job_is_broken_into_rows_as_wide_as_a_page(parallelism: int, closed: bool) -> None:
    layout = lay_out(long_chain(parallelism))
    assert bool(layout.closed) == closed
    assert layout.width < 1300
    boxes = [layout.vertices[f"v{number}"] for number in range(11)]
    assert all(apart(a, b) for a, b in combinations(layout.vertices.values(), 2))
    rows = [boxes[first : first + 3] for first in range(0, 11, 3)]
    assert all(a.x < b.x for row in rows for a, b in pairwise(row))
    assert all(max(box.y + box.height for box in a) < min(box.y for box in b) for a, b in pairwise(rows))
    for lane in layout.lanes:
        assert all(0 < x < layout.width and 0 < y < layout.height for x, y in map(lane.on_wire, hundredths()))
        others = [box for name, box in layout.places.items() if name not in (lane.source, lane.target)]
        assert not any(inside(lane.on_wire(t), box) for t in hundredths() for box in others)


@pytest.mark.parametrize(("sources", "counts"), [(1, 50), (3, 50), (2, 9)])
def test_many_open_subtasks_stand_in_columns_and_no_lane_runs_under_one(sources: int, counts: int) -> None:
    layout = lay_out(stage(1, counts, sources), closed=frozenset())
    block = [layout.places[f"count/{number}"] for number in range(counts)]
    columns = len({box.x for box in block})
    assert columns > 1
    assert layout.vertices["count"].height < 2.2 * max(600, layout.vertices["count"].width)
    assert [(box.y, box.x) for box in block] == sorted((box.y, box.x) for box in block)
    assert all(apart(a, b) for a, b in combinations(layout.places.values(), 2))
    for lane in layout.lanes:
        points = [lane.on_wire(t) for t in hundredths()]
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        others = [box for name, box in layout.places.items() if name not in (lane.source, lane.target)]
        assert not any(inside(point, box) for point in points for box in others)


def test_opening_a_wide_vertex_closes_its_neighbour_where_there_would_be_too_many_lanes() -> None:
    shape = stage(1, counts=50, sources=5)
    assert shape.closed_at_first() == {"count"}
    assert shape.turned(frozenset({"count"}), "count") == {"source"}


def hundredths() -> list[float]:
    return [number / 100 for number in range(101)]


def test_lanes_that_go_on_in_the_next_row_do_not_cross_each_other_below_their_own() -> None:
    layout = lay_out(long_chain(2))
    lanes = [lane for lane in layout.lanes if (lane.source[:2], lane.target[:2]) == ("v2", "v3")]
    below = sorted(lanes, key=lambda lane: lane.start[1])
    assert len(below) == 4
    levels = [max(y for _, y in lane.corners[2:4]) for lane in below]
    assert levels == sorted(levels, reverse=True)
    assert len(set(levels)) == 4
