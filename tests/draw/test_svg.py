"""The text and the classes in a picture: classes stand for the colours that people see."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from kit.draw.stage.drawing import scene
from kit.draw.stage.frames import frames, moment_svg
from kit.draw.stage.job_master_panel import Words
from kit.draw.stage.layout import cells_in_a_row, lay_out
from kit.draw.stage.scene import Scene, fit, fit_name, short
from kit.draw.svg import picture_layout, still
from kit.hosts.lab import open_scenario
from kit.run.captions import listed
from kit.run.moments.job_state import Moment
from kit.run.moments.moment import moments
from kit.run.reading import moment_at
from kit.run.sizes import size_text
from tests.draw.script import stage, story


def drawn(n: int) -> Scene:
    moment = moment_at(story(), n)
    return scene(picture_layout(stage()), moment)


def at(kind: str, checkpoint: int) -> Scene:
    """The scene after the first record of this kind about the checkpoint."""
    return drawn(next(n for n, r in enumerate(story(), 1) if (r.kind, r.checkpoint_id) == (kind, checkpoint)))


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_every_moment_is_well_formed_xml_with_all_its_operators() -> None:
    drawn_at = list(moments(story()))
    assert len(drawn_at) > len(story()) / 2
    for moment in drawn_at:
        shown = texts(still(stage(moment.epoch, counts=moment.epoch + 1), moment))
        assert {"clicks → parse", "count per page", "write files"} <= set(shown)
        assert f"{moment.epoch + 1} subtasks, max parallelism 128" in shown


def test_operators_are_named_and_counted() -> None:
    shown = texts(still(stage(), Moment()))
    assert {"clicks → parse", "count per page", "write files"} <= set(shown)
    assert shown.count("2 subtasks, max parallelism 128") == 2


def test_names_are_escaped() -> None:
    assert "a<b & c" in texts(still(stage(), Moment(), Words("a<b & c")))


def test_a_blocked_channel_has_a_lock_and_its_task_says_what_it_waits_for() -> None:
    sprites = at("BarrierAligned", 2)
    assert sprites["l0"]["class"] == "lane blocked"
    assert sprites["l0:lock"]["href"] == "#kit-lock"
    assert sprites["l2"]["class"] == "lane awaited"
    assert sprites["l2:asks"]["text"] == "2?"
    assert sprites["t:count/0:line"]["text"] == "barrier 2: 1 of 2 came"
    assert sprites["t:count/0:detail"]["text"] == "waits for source/1"


def test_the_caption_calls_channels_by_their_tasks() -> None:
    what = at("BarrierAligned", 2)["what"]["text"]
    assert what == "count/0 takes barrier 2 from source/0, blocks that channel and waits for source/1"


def test_records_behind_the_barrier_look_different_from_those_before() -> None:
    sprites = drawn(120)
    classes = {name: str(sprite["class"]) for name, sprite in sprites.items() if "buffer" in str(sprite["class"])}
    assert {kind for name, kind in classes.items() if name.startswith("l0.")} == {"buffer after"}
    assert {kind for name, kind in classes.items() if name.startswith("l2.")} == {"buffer before"}


def test_the_panel_counts_acknowledgements_and_names_the_missing() -> None:
    sprites = at("AcknowledgeCheckpoint", 1)
    assert sprites["pending0:text"]["text"] == "0 of 5 acknowledged"
    second = at("TaskAcknowledged", 1)
    assert second["pending0:text"]["text"] == "1 of 5 acknowledged; still to come: source/1, count/0, 1, sink/0"
    assert [second[f"pending0:{i}"]["class"] for i in range(5)] == ["cell done", *["cell todo"] * 4]


def test_ended_checkpoints_stay_as_chips() -> None:
    sprites = at("CheckpointAborted", 2)
    assert sprites["chip0:text"]["text"] == "✓ 1: 59 ms, 600 B"
    assert sprites["chip1"]["class"] == "chip lost"
    assert sprites["chip1:text"]["text"] == "✗ 2: job restarted"


def test_a_lost_task_is_marked() -> None:
    sprites = at("CheckpointAborted", 2)
    assert sprites["t:count/1"]["class"] == "task failed"
    assert sprites["t:count/1:line"]["text"] == "killed"


def test_mail_is_shown_until_it_is_read() -> None:
    sprites = drawn(next(n for n, r in enumerate(story(), 1) if r.kind == "TriggerTaskCheckpoint"))
    assert sprites["m:source/0:in:text"]["text"] == "▾ begin 1"


def test_an_operator_with_many_subtasks_is_one_box_of_cells() -> None:
    many = stage(1, counts=20)
    sprites = scene(lay_out(many), Moment())
    assert sum(name.startswith("t:count/") for name in sprites) == 20
    assert sprites["t:count:name"]["text"] == "count x 20"


def test_nothing_but_its_element_moves_when_a_moment_changes() -> None:
    """Names that stay keep their place, except elements in flight and tabs of mail."""
    before: Scene = {}
    for frame in frames(story())[:60]:
        now = frame.scene()
        for name in before.keys() & now.keys():
            if not name.startswith(("m:", "pending", "chip")) and name.partition(":")[2] not in ("arrived", "queued"):
                place = [(sprite.get("x"), sprite.get("y"), sprite.get("d")) for sprite in (before[name], now[name])]
                assert place[0] == place[1], name
        before = now


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (["a/0"], "a/0"),
        (["a/0", "a/2", "b/1"], "a/0, 2, b/1"),
        ([f"a/{i}" for i in range(9)] + ["b/0"], "9 of a, 1 of b"),
    ],
)
def test_tasks_are_listed_in_few_words(tasks: list[str], words: str) -> None:
    assert listed(tasks) == words


def test_long_texts_are_cut() -> None:
    assert fit("checkpoint", 1000, 12) == "checkpoint"
    assert fit("checkpoint", 40, 12) == "check…"


def test_sizes_have_units() -> None:
    assert [size_text(size) for size in (7, 1_500, 2_000_000, 3e9)] == ["7 B", "1.5 kB", "2 MB", "3 GB"]


def test_the_legend_has_the_colours_of_the_picture_and_what_is_in_the_job() -> None:
    """A barrier's sign has the colour of the first barrier in the picture; the JobMaster's flag is not one of them."""
    scenario = open_scenario("alignment")
    scenario.next()
    queued = str(moment_svg(scenario))
    scenario.next()
    taken = str(moment_svg(scenario))
    assert "barrier of checkpoint n" in queued
    assert queued.count('class="barrier cp1"') == 3, "in the channel, in the JobMaster's panel, in the legend"
    assert 'class="barrier cp0"' not in queued
    assert "barrier of checkpoint n" not in taken
    assert 'class="ring cp1"' in taken.partition('class="ring cp1"')[2], "in the graph, and in the legend"


def test_names_that_are_cut_keep_what_their_neighbours_differ_by() -> None:
    assert fit_name("sums", "/11", 100, 12.5) == "sums/11"
    cut = [fit_name("sum-of-what-came-0", end, 100, 12.5) for end in ("/0", "/11", " x 40")]
    assert cut == ["sum-o…ame-0/0", "sum-o…me-0/11", "sum…e-0 x 40"]


def test_the_subtasks_of_a_closed_vertex_stand_in_rows_of_about_one_length() -> None:
    assert [cells_in_a_row(many) for many in (9, 11, 12, 40, 50)] == [9, 11, 6, 10, 10]


def test_counts_are_short_in_thousands_and_millions() -> None:
    counts = (0, 999, 1_000, 12_345, 999_999, 1_000_000, 45_600_000)
    assert [*map(short, counts)] == ["0", "999", "1k", "12k", "999k", "1M", "45M"]
