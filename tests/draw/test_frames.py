"""Frames group a run's records by event; a film is their differences."""

from __future__ import annotations

import json
from itertools import accumulate, compress

from kit.core.trace.trace import Trace
from kit.draw.stage.film import film
from kit.draw.stage.frames import Frame, frame_at, frames, is_minor
from kit.draw.stage.frames import story as story_of
from kit.run.kinds import MILESTONE
from kit.run.steps import steps
from tests.draw.labs import lab_of
from tests.draw.script import stage, story
from tests.draw.unpacked import drawn, unpacked


def test_a_film_unpacks_to_the_scenes_it_was_made_of() -> None:
    packed = json.loads(json.dumps(film(story())))
    made = frames(story())
    assert len(packed["frames"]) == len(made)
    for shown, frame in zip(unpacked(packed), made, strict=True):
        assert shown == drawn(frame)


def test_a_film_has_one_backdrop_a_shape_not_one_an_epoch() -> None:
    assert len(film(story())["stages"]) == 2
    assert len(film(Trace(story(), stages=[stage(1), stage(2)]))["stages"]) == 1


def test_an_event_and_its_commands_are_one_step() -> None:
    groups = list(steps(story()))
    assert [record.kind for record in groups[0]][:3] == ["StartJob", "JobStatusChanged", "StartEpoch"]
    assert sum(map(len, groups)) == len(story())


def kinds(frame: Frame) -> list[str]:
    return [record.kind for record in frame.records]


def of(frame: Frame) -> str:
    return frame.records[0].machine


def test_a_frame_says_what_happened_what_came_of_it_and_why() -> None:
    made = frames(story())
    words = next(
        frame.words
        for frame in made
        if any(r.kind == "SnapshotWritten" and r.machine == "count/0" for r in frame.records)
    )
    assert words.what == "count/0's state for checkpoint 1 is written"
    assert words.then == "count/0 acknowledges checkpoint 1"
    asked = next(frame for frame in made if kinds(frame)[:1] == ["TriggerTaskCheckpoint"])
    assert asked.words.because == "the JobMaster triggers checkpoint 1 at source/0"
    assert asked.words.then.startswith("source/0 sends barrier 1 to count/0 (and 1 more); ")


def test_marks_are_the_turns_of_the_story() -> None:
    marks = [frame.mark for frame in frames(story()) if frame.mark]
    assert marks == ["checkpoint", "failure", "restore"]


def test_moving_records_is_no_part_of_the_story() -> None:
    lab = lab_of(rows=60)
    lab.run_until(checkpoint=2)
    made = frames(lab)
    kinds_told = {kind for frame in compress(made, story_of(made)) for kind in kinds(frame)}
    assert "SplitRead" not in kinds_told
    assert "BarrierAligned" in kinds_told


def test_of_checkpoints_all_alike_a_long_story_tells_one_in_full() -> None:
    lab = lab_of(rows=120)
    lab.run()
    made = frames(lab)
    in_story = list(compress(made, story_of(made, length=60)))
    acked = [frame.checkpoint_id for frame in in_story if "AcknowledgeCheckpoint" in kinds(frame)]
    completed = [frame.checkpoint_id for frame in in_story if "CheckpointCompleted" in kinds(frame)]
    assert set(acked) == {1}
    assert completed == [frame.checkpoint_id for frame in made if "CheckpointCompleted" in kinds(frame)]
    assert len(completed) > 2
    assert all(frame.level == MILESTONE for frame in in_story if frame.checkpoint_id in completed[1:])


def test_an_effect_that_was_recorded_first_waits_for_its_cause() -> None:
    """As on a cluster, where the receiver's records may reach the driver before the sender's."""
    trace = list(story())
    late = [record for record in trace if record.machine == "source/1"]
    shuffled = [record for record in trace if record.machine != "source/1"] + late
    order = [record.id for step in steps(shuffled) for record in step]
    place = {record_id: number for number, record_id in enumerate(order)}
    assert sorted(order) == sorted(record.id for record in trace)
    assert all(place[record.cause] < place[record.id] for record in trace if record.cause in place)
    for machine in {record.machine for record in trace}:
        own = [record.id for record in trace if record.machine == machine]
        assert own == sorted(own, key=place.__getitem__)


def test_a_run_in_order_keeps_its_order() -> None:
    assert [record.id for step in steps(story()) for record in step] == [record.id for record in story()]


def test_a_frame_at_a_moment_has_no_later_step() -> None:
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=2)
    made = frames(lab)
    counts = list(accumulate(len(each.records) for each in made))
    for place in (1, 2, len(made) // 3, len(made) // 2, len(made) - 2):
        for n in (counts[place], counts[place + 1] - 1):
            assert frame_at(lab, n) == made[place]
    assert frame_at(lab) == made[-1]


def test_a_frame_is_minor_only_if_all_that_matters_in_it_awaits_barriers() -> None:
    taken, last = (
        next(each for each in story() if each.kind == "BarrierAligned" and bool(each.data["awaited"]) is awaited)
        for awaited in (True, False)
    )
    assert is_minor([taken])
    assert not is_minor([taken, last])
    assert not is_minor([last, taken])
