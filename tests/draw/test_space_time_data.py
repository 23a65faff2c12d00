"""The space-time diagram's data: the data added for a growing run equals the data of the whole run."""

from __future__ import annotations

from typing import Any

import pytest

from kit import Lab
from kit.core.trace.trace import Trace
from kit.draw import journeys, space_time_data
from kit.draw.space_time.space_time_data import Arrow, Mark, SpaceTimeFeed
from kit.draw.space_time.space_time_looks import NAMES
from tests.draw.labs import lab_of
from tests.draw.script import story


class Page:
    """Collects the data that a page receives, as `space_time_run.js` does."""

    def __init__(self) -> None:
        self.edition = -1
        self.clock: list[int] = []
        self.tables: dict[str, dict[str, list[Any]]] = {}
        self.checkpoints: dict[int, Any] = {}
        self.last: dict[str, Any] = {}

    def take(self, data: dict[str, Any]) -> None:
        if data["edition"] != self.edition:
            self.edition = data["edition"]
            self.clock, self.tables, self.checkpoints = [], {"elements": {}, "letters": {}}, {}
        runs = data["clock"]["runs"]
        self.clock[data["clock"]["from"] :] = [
            at for count, at in zip(runs[::2], runs[1::2], strict=True) for _ in range(count)
        ]
        for name, table in self.tables.items():
            for column, values in data[name]["columns"].items():
                table.setdefault(column, [])[data[name]["from"] :] = values
        self.checkpoints |= {each["id"]: each for each in data["checkpoints"]}
        self.last = {name: data[name] for name in ("n", "lanes", "groups", "epochs", "marks", "phrases")}

    @property
    def all(self) -> dict[str, Any]:
        """Everything; phrases are numbered as they come, so arrows have their words instead."""
        last = dict(self.last)
        phrases = last.pop("phrases")
        worded = {
            name: {**table, "phrase": [phrases[number] for number in table.get("phrase", ())]}
            for name, table in self.tables.items()
        }
        return {"clock": self.clock, "tables": worded, "checkpoints": self.checkpoints, **last}


def arrows(data: dict[str, Any], name: str) -> list[Arrow]:
    columns = data[name]["columns"]
    assert tuple(columns) == Arrow._fields
    return [Arrow(*row) for row in zip(*columns.values(), strict=True)]


def told(run: Any) -> dict[str, Any]:
    page = Page()
    page.take(space_time_data(run))
    return page.all


@pytest.mark.parametrize("settings", [{}, {"unaligned": True}, {"mode": "at_least_once"}])
def test_piece_by_piece_it_is_the_same_as_at_once(settings: dict[str, Any]) -> None:
    lab = lab_of(5, **settings)
    feed, page = SpaceTimeFeed(lab), Page()
    sizes = []
    for step in range(240):
        if step == 160:
            lab.faults.kill(1)
        lab.step()
        if step % 7 == 0:
            data = feed.changes()
            sizes.append(len(data["elements"]["columns"]["start"]))
            page.take(data)
    page.take(feed.changes())
    assert page.all == told(lab)
    assert len(page.checkpoints) > 1
    assert max(sizes) < len(page.tables["elements"]["start"]), "a piece has only what is new or under way"


def test_a_run_that_went_back_is_told_anew() -> None:
    lab = lab_of(1)
    lab.run_until(checkpoint=1)
    feed, page = SpaceTimeFeed(lab), Page()
    page.take(feed.changes())
    assert not feed.is_stale
    lab.goto(lab.position // 2)
    lab.faults.kill(0)
    lab.run()
    assert feed.is_stale
    page.take(feed.changes())
    assert page.edition == 1
    assert page.all == told(lab)


def test_the_tables_are_what_travelled() -> None:
    lab = lab_of(2, unaligned=True)
    lab.run_until(checkpoint=1)
    found, data = journeys(lab), space_time_data(lab)
    lanes, phrases = data["lanes"], data["phrases"]
    for each, arrow in zip(found.elements, arrows(data, "elements"), strict=True):
        assert each.queued is not None
        assert arrow.start == each.queued.n
        assert NAMES[arrow.look] == {"buffer": "records", "barrier": "barrier"}.get(each.kind, "sign")
        assert (lanes[arrow.source], lanes[arrow.target]) == (each.sender, each.receiver)
        assert arrow.over == (-1 if each.over is None else each.over.n)
        if each.kind == "buffer":
            assert phrases[arrow.phrase] == f"buffer with {each.rows} record{'s' * (each.rows != 1)}"
    for letter, arrow in zip(found.letters, arrows(data, "letters"), strict=True):
        ends = ["JobMaster", letter.task] if letter.to_task else [letter.task, "JobMaster"]
        assert [lanes[arrow.source], lanes[arrow.target]] == ends
        assert letter.mail in phrases[arrow.phrase]
    assert [record.at_ms for record in lab.trace] == told(lab)["clock"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", [{}, {"unaligned": True}, {"mode": "at_least_once"}])
def test_what_is_counted_is_what_lies_so(settings: dict[str, Any], seed: int) -> None:
    lab = lab_of(seed, **settings)
    lab.run_until(checkpoint=2)
    for each in space_time_data(lab)["checkpoints"]:
        table = journeys(lab).to_pandas(each["id"])
        buffers = table[table["kind"] == "buffer"]
        for at, side in ((0, "IN_FLIGHT"), (2, "AGAINST")):
            of_side = buffers[buffers["crossing"] == side]
            assert each["crossed"][at : at + 2] == (len(of_side), of_side["rows"].sum())


def test_an_unfinished_phase_says_what_it_waits_for() -> None:
    lab = lab_of(1)
    lab.run_until(record="BarrierAligned")
    (now,) = space_time_data(lab)["checkpoints"]
    lanes = space_time_data(lab)["lanes"]
    record = lab.trace[-1]
    waits = {lanes[mark.lane]: mark.words for mark in now["marks"] if NAMES[mark.look].endswith(" open")}
    awaited = [lab.look.stages[-1].ends()[number][0] for number in record.data["awaited"]]
    assert awaited
    assert all(f"{source} (" in waits[record.machine.partition("@")[0]] for source in awaited)
    assert waits[record.machine.partition("@")[0]].startswith("waits for barrier 1 from ")


def test_a_trace_that_was_cut_or_tells_of_barriers_only_will_do() -> None:
    plain = space_time_data(story(detailed=False))
    assert {NAMES[arrow.look] for arrow in arrows(plain, "elements")} == {"barrier"}
    assert {each["id"] for each in plain["checkpoints"]} == {1, 2}
    assert plain["table"]["mark"] == Mark._fields
    assert space_time_data(Trace())["n"] == 0
    assert space_time_data(Lab(lab_of().job))["checkpoints"] == []
