"""A film is drawn step by step; in whatever way the run got there, each frame equals a drawing from scratch."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import Lab
from kit.core.trace.shape import ShapeChannel, ShapeVertex
from kit.draw.stage.drawing import Touched, graph
from kit.draw.stage.facts import facts_of
from kit.draw.stage.film import MOST_FRAMES, WELL_FILLED, FilmBuilder, film, film_layout
from kit.draw.stage.frames import Frame, frame_at, frames
from kit.hosts.lab.errors import LabError
from kit.run import reading
from kit.run.run import run_of
from kit.run.stage import Stage
from tests.draw.labs import lab_of, letters
from tests.draw.script import stage
from tests.draw.unpacked import drawn, unpacked
from tests.timed_run import timed_moments


def known(packed: dict[str, Any]) -> list[dict[str, Any]]:
    """The facts at each frame of a film."""
    every: list[dict[str, Any]] = []
    now: dict[str, Any] = {}
    for frame in packed["frames"]:
        before = {} if "whole" in frame else now
        now = {name: fact for name, fact in {**before, **frame["facts"]}.items() if fact is not None}
        every.append(now)
    return every


def told_anew(frame: Frame) -> dict[str, Any]:
    """All facts of a frame."""
    facts = facts_of(frame.moment, Touched.all_of(film_layout(frame.stage), frame.moment))
    return {name: fact for name, fact in facts.items() if fact is not None}


@pytest.mark.parametrize("unaligned", [False, True])
def test_each_frame_shows_and_knows_what_drawing_it_anew_does(unaligned: bool) -> None:
    lab = lab_of(seed=3, unaligned=unaligned)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    made, packed = frames(lab), json.loads(json.dumps(film(lab)))
    assert [frame["n"] for frame in packed["frames"]] == [frame.moment.n for frame in made]
    for frame, scene, facts in zip(made, unpacked(packed), known(packed), strict=True):
        assert scene == drawn(frame)
        assert facts == json.loads(json.dumps(told_anew(frame)))


def test_a_checkpoint_that_nobody_has_acknowledged_says_so() -> None:
    lab = lab_of(seed=3)
    lab.run_until(record="CheckpointTriggered")
    facts = told_anew(frames(lab)[-1])
    assert facts["checkpoint:1"]["acked"] == 0


@settings(max_examples=8)
@given(st.lists(st.sampled_from([-60, -9, -1, 1, 8, 50]), min_size=3, max_size=6), st.integers(0, 3))
def test_whatever_way_a_run_took_its_film_is_that_of_the_run(ways: list[int], seed: int) -> None:
    lab = lab_of(seed=seed, rows=12)
    builder, copy = FilmBuilder(), Copy()
    copy.take(builder.take(run_of(lab)))
    for way in ways:
        if way < 0:
            lab.goto(max(1, lab.position + way))
        else:
            with suppress(LabError):  # it has ended
                for _ in range(way):
                    lab.step()
        copy.take(builder.take(run_of(lab)))
    made = frames(lab)
    assert unpacked(builder.film) == [drawn(frame) for frame in made]
    assert known(builder.film) == [told_anew(frame) for frame in made]
    assert [frame["in_story"] for frame in builder.film["frames"]] == [
        frame["in_story"] for frame in film(lab)["frames"]
    ]
    assert unpacked(copy.film) == unpacked(builder.film)


class Copy:
    """A film as the page has it, which receives only new frames."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.film: dict[str, Any] = {"frames": [], "stages": [], "looks": [], "notes": []}

    def take(self, news: dict[str, Any]) -> None:
        news = json.loads(json.dumps(news))
        if "anew" in news:
            self.begin()
        replaced = slice(news["keep"], news["keep"] + news["replaced"] if "replaced" in news else None)
        self.film["frames"][replaced] = news["frames"]
        self.film["stages"] += news["stages"]
        self.film["looks"] += news["looks"]
        for number, in_story in news["in_story"].items():
            self.film["frames"][int(number)]["in_story"] = in_story


@cache
def long_run() -> Lab:
    """More steps than a film has frames."""
    lab = lab_of(rows=900)
    lab.run()
    return lab


def test_of_a_long_run_only_what_matters_has_a_frame() -> None:
    lab = long_run()
    packed = film(lab)["frames"]
    assert len(frames(lab)) > 2 * MOST_FRAMES
    assert len(packed) <= MOST_FRAMES
    assert packed[-1]["n"] == len(lab.trace)
    completed = [frame["about"] for frame in packed if frame.get("mark") == "checkpoint"]
    assert len(completed) >= 2 * sum(c.status == "completed" for c in lab.moment().checkpoints.values())


def test_who_steps_on_after_a_long_run_sees_each_step() -> None:
    lab = lab_of(rows=900)
    lab.run_until(lambda lab: lab.position > 3000)  # type: ignore[misc]
    builder = FilmBuilder()
    builder.take(run_of(lab))
    for _ in range(3):
        lab.step()
        news = builder.take(run_of(lab))
        assert [frame["n"] for frame in news["frames"]] == [len(lab.trace)]
        assert unpacked(builder.film)[-1] == drawn(frame_at(lab))


def test_the_first_picture_of_a_long_run_does_not_wait_for_the_others() -> None:
    lab = lab_of(seed=3)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    whole, builder = film(lab), FilmBuilder(defer_from=300)
    builder.take(run_of(lab))
    frames_of = builder.film["frames"]
    assert [("set" in frame, "facts" in frame) for frame in frames_of[:-1]] == [(False, False)] * (len(frames_of) - 1)
    assert {**frames_of[-1]["set"]}.keys() == unpacked(whole)[-1].keys()
    lab.step()  # the run continues
    builder.take(run_of(lab))
    assert len(builder.draw_more(40)) == 40
    assert builder.is_owed
    builder.draw_more(len(frames_of))
    assert not builder.is_owed
    made = frames(lab)
    assert [frame["words"] for frame in frames_of] == [frame["words"] for frame in film(lab)["frames"]]
    assert unpacked(builder.film) == [drawn(frame) for frame in made]
    assert known(builder.film) == [told_anew(frame) for frame in made]


def test_a_run_that_goes_back_before_its_pictures_are_drawn_is_drawn_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MARK_EVERY", 50)
    lab = lab_of(seed=3)
    lab.run_until(checkpoint=1)
    builder = FilmBuilder(defer_from=300)
    builder.take(run_of(lab))
    lab.goto(lab.position - 5)
    lab.step()
    builder.take(run_of(lab))
    builder.draw_more(len(builder.film["frames"]))
    assert unpacked(builder.film) == [drawn(frame) for frame in frames(lab)]


def test_steps_that_were_skipped_get_frames_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["kit.draw.stage.film"]
    for name, value in {"MOST_FRAMES": 150, "WELL_FILLED": 80, "MOST_INSERTED": 30}.items():
        monkeypatch.setattr(module, name, value)
    lab = lab_of(rows=150)
    lab.run_until(lambda lab: lab.position > 500)  # type: ignore[misc]
    made = {frame.moment.n: frame for frame in frames(lab)}
    builder, copy = FilmBuilder(), Copy()
    copy.take(builder.take(run_of(lab)))
    packed = builder.film["frames"]
    total = len(packed) + sum(frame.get("skipped", 0) for frame in packed)
    assert total == len(made)
    gap = max(range(len(packed)), key=lambda number: packed[number].get("skipped", 0))
    skipped = packed[gap]["skipped"]
    in_story = {frame["n"]: frame["in_story"] for frame in packed[:-5]}
    assert len(set(in_story.values())) > 1
    copy.take(builder.insert(gap, packed[gap]["n"] - 1))
    added = min(skipped, 30)
    there = builder.film["frames"][gap : gap + added]
    assert [frame["n"] for frame in there] == [n for n in made if n < packed[gap + added]["n"]][-added:]
    assert len(packed) + sum(frame.get("skipped", 0) for frame in packed) == total
    scenes = unpacked(builder.film)
    for number in (gap - 1, gap, gap + added // 2, gap + added, gap + added + 1):
        assert scenes[number] == drawn(made[packed[number]["n"]])
    lab.goto(lab.position - 3)
    lab.step()
    copy.take(builder.take(run_of(lab)))
    assert unpacked(copy.film) == unpacked(builder.film)
    assert unpacked(builder.film)[-1] == drawn(frame_at(lab))
    assert {frame["n"]: frame["in_story"] for frame in packed if frame["n"] in in_story} == in_story


def test_steps_before_a_rescale_are_shown_in_the_shape_that_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["kit.draw.stage.film"]
    for name, value in {"MOST_FRAMES": 60, "WELL_FILLED": 40}.items():
        monkeypatch.setattr(module, name, value)
    *_, (_, lab, _) = timed_moments()
    made = {frame.moment.n: frame for frame in frames(lab)}
    builder, copy = FilmBuilder(), Copy()
    copy.take(builder.take(run_of(lab)))
    packed = builder.film["frames"]
    gaps = [number for number, frame in enumerate(packed) if frame.get("skipped")]
    (gap,) = (number for number in gaps if packed[number]["stage"] != packed[number - 1]["stage"])
    added = packed[gap]["skipped"]
    assert added > 1
    copy.take(builder.insert(gap, packed[gap]["n"] - 1))
    shapes = [frame["stage"] for frame in packed[gap - 1 : gap + added + 2]]
    assert shapes == [0] * (1 + added) + [1, 1]
    scenes, told = unpacked(builder.film), known(builder.film)
    for number in range(gap - 1, gap + added + 2):
        frame = made[packed[number]["n"]]
        assert scenes[number] == drawn(frame)
        assert told[number] == told_anew(frame)
    assert unpacked(copy.film) == scenes
    later = next(n for n, frame in enumerate(packed) if frame.get("skipped") and packed[n - 1]["stage"] == 1)
    added = min(packed[later]["skipped"], module.MOST_INSERTED)
    copy.take(builder.insert(later, packed[later]["n"] - 1))
    scenes = unpacked(builder.film)
    for number in range(later - 1, later + added + 1):
        assert scenes[number] == drawn(made[packed[number]["n"]])
    assert unpacked(copy.film) == scenes


def test_what_is_left_out_lies_far_from_the_turns_of_the_run() -> None:
    packed = film(long_run())["frames"]
    assert len(packed) >= WELL_FILLED
    assert not any(frame.get("skipped") for frame in [*packed[:50], *packed[-50:]])


def test_what_is_new_is_told_and_no_more() -> None:
    lab = lab_of(rows=60)
    lab.run_until(checkpoint=2)
    builder = FilmBuilder()
    whole = len(json.dumps(builder.take(run_of(lab))))
    before = len(builder.film["frames"])
    lab.step()
    news = builder.take(run_of(lab))
    assert news["keep"] == before < len(builder.film["frames"])
    assert len(json.dumps(news)) < whole / 50


def test_a_vertex_is_closed_when_it_has_many_subtasks_and_opened_on_request() -> None:
    lab = Lab(letters(parallelism=8), seed=1)
    lab.run_until(lambda lab: lab.position > 200)  # type: ignore[misc]
    closed = film(lab)
    assert closed["stages"][0]["closed"] == ["letters", "totals"]
    assert set(closed["stages"][0]["boxes"]) == {"letters", "totals"}
    builder = FilmBuilder(["totals"])
    builder.take(run_of(lab))
    (opened,) = builder.film["stages"]
    assert opened["closed"] == ["letters"]
    assert set(opened["boxes"]) == {"letters", *(f"totals/{n}" for n in range(8))}
    layout = film_layout(frame_at(lab).stage, frozenset({"letters"}))
    last = graph(layout, frame_at(lab).moment)
    assert set(unpacked(builder.film)[-1]) == set(last)


def test_of_two_large_vertices_side_by_side_one_is_open() -> None:
    both = stage(1, counts=30, sources=30)
    assert both.closed_at_first() == {"source", "count"}
    assert both.turned(both.turned(frozenset({"source", "count"}), "source"), "count") == {"source"}
    assert both.turned(frozenset({"source"}), "count") == {"source", "count"}


def test_a_large_job_is_drawn_closed() -> None:
    assert chain_of(8).closed_at_first() == frozenset()
    assert len(chain_of(30).closed_at_first()) == 30


def chain_of(vertices: int) -> Stage:
    """Vertices of three subtasks each, one after the other."""
    names = [f"v{number}" for number in range(vertices)]
    pairs = [(f"{a}/{i}", f"{b}/{i}") for a, b in pairwise(names) for i in range(3)]
    channels = tuple(ShapeChannel(number, *pair) for number, pair in enumerate(pairs))
    return Stage(1, tuple(ShapeVertex(name, (name,), 3) for name in names), channels)
