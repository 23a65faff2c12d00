"""The stage at a moment with several checkpoints: each mark belongs to the right one."""

from __future__ import annotations

from typing import Any

import pytest

from kit.draw.stage.drawing import scene
from kit.draw.stage.layout import lay_out
from kit.draw.stage.scene import Scene, Tally, bundle_sprites, colour
from kit.run.moments.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNING,
    COMPLETED,
    PENDING,
    SENT,
    ChannelMoment,
    CheckpointMoment,
    Item,
    Moment,
    TaskMoment,
)
from tests.draw.script import stage

LAYOUT = lay_out(stage())


def drawn(first: str = COMPLETED, channels: dict[int, ChannelMoment] | None = None, **phases: dict[int, str]) -> Scene:
    """The scene with checkpoint 1, which has ended, and 2 and 3, which are pending; `phases` by the names of tasks."""
    statuses = {1: first, 2: PENDING, 3: PENDING}
    tasks = {name.replace("_", "/"): TaskMoment("RUNNING", 1, known) for name, known in phases.items()}
    checkpoints = {number: CheckpointMoment(number, status) for number, status in statuses.items()}
    return scene(LAYOUT, Moment(tasks=tasks, channels=channels or {}, checkpoints=checkpoints))


def test_only_channels_that_brought_this_checkpoints_barrier_have_come() -> None:
    channels = {0: ChannelMoment(taken=2), 2: ChannelMoment(taken=1, awaited=2), 1: ChannelMoment(taken=1)}
    sprites = drawn(channels=channels, count_0={1: ACKNOWLEDGED, 2: ALIGNING})
    assert sprites["t:count/0:line"]["text"] == "barrier 2: 1 of 2 came"
    assert sprites["t:count/0:detail"]["text"] == "waits for source/1"


def test_a_task_that_only_met_an_ended_checkpoint_runs_while_others_are_pending() -> None:
    sprites = drawn(count_0={1: ACKNOWLEDGED}, count_1={1: ACKNOWLEDGED, 2: SENT})
    assert sprites["t:count/0"]["class"] == "task running"
    assert sprites["t:count/0:line"]["text"] == "running"
    assert str(sprites["t:count/0:badge"]["class"]).endswith(" over")
    assert str(sprites["t:count/0:sign"]["text"]).startswith("1 ")
    assert sprites["t:count/1"]["class"] == f"task running {SENT}"
    assert sprites["t:count/1:line"]["text"] == "has sent its ack of 2"
    assert not str(sprites["t:count/1:badge"]["class"]).endswith(" over")
    assert str(sprites["t:count/1:sign"]["text"]).startswith("2 ")


@pytest.mark.parametrize("awaited", [2, 3])
def test_a_gate_has_the_number_and_the_colour_of_the_barrier_that_it_waits_for(awaited: int) -> None:
    sprites = drawn(channels={2: ChannelMoment(taken=1, awaited=awaited)}, count_0={1: ACKNOWLEDGED})
    assert sprites["l2:asks"]["text"] == f"{awaited}?"
    assert sprites["l2:gate"]["class"] == f"ring {colour(awaited)}"


def test_checkpoints_in_a_row_differ_in_colour() -> None:
    assert len({colour(number) for number in (1, 2, 3, 4)}) == 4
    assert colour(None) == ""


@pytest.mark.parametrize("first", [COMPLETED, ABORTED])
def test_rows_are_behind_a_barrier_only_while_its_checkpoint_is_pending(first: str) -> None:
    arrived: tuple[Any, ...] = tuple(
        Item(number, "buffer", 1, after=after) for number, after in enumerate((None, 1, 2, 3))
    )
    sprites = drawn(first, {0: ChannelMoment(arrived=arrived)}, count_0={1: ACKNOWLEDGED})
    classes = {name: str(sprites[name]["class"]).split()[-1] for name in ("l0.0", "l0.1", "l0.2", "l0.3")}
    assert list(classes.values()) == ["before", "before", "after", "after"]


def test_a_barrier_has_its_own_number_and_colour() -> None:
    wire = tuple(Item(number, "barrier", checkpoint_id=number + 1) for number in (0, 1, 2))
    sprites = drawn(channels={0: ChannelMoment(wire=wire)}, count_0={1: ACKNOWLEDGED})
    for number in (0, 1, 2):
        assert sprites[f"l0.{number}t"]["text"] == str(number + 1)
        assert colour(number + 1) in str(sprites[f"l0.{number}"]["class"]).split()


def test_a_bundle_asks_for_the_oldest_barrier_that_it_waits_for() -> None:
    tally = Tally()
    tally.take(3, ChannelMoment(awaited=3))
    tally.take(1, ChannelMoment(awaited=2))
    (lane,) = [each for each in LAYOUT.lanes if each.name == "l0"]
    sprites = dict(bundle_sprites(lane, tally))
    assert sprites["l0:asks"]["text"] == "2?"
    tally.take(1, ChannelMoment(awaited=3))
    assert dict(bundle_sprites(lane, tally))["l0:asks"]["text"] == "3?"
