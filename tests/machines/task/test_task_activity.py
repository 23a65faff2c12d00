"""The clock by which idleness is measured, alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.machines.task.task_activity import TaskActivity


@dataclass
class Outputs:
    writable: bool = True


@dataclass
class Channel:
    queued_buffers: int = 0


@dataclass
class Source:
    has_nothing: bool = True
    is_paused: bool = False


@dataclass
class Task:
    outputs: Outputs = field(default_factory=Outputs)
    channels: list[Channel] = field(default_factory=lambda: [Channel(), Channel()])

    def activity(self, source: Source | None = None, look_every_ms: int | None = 100) -> TaskActivity:
        return TaskActivity(self.outputs, self.channels, source, look_every_ms)


def test_only_time_in_which_the_task_could_emit_counts() -> None:
    task = Task()
    activity = task.activity()
    for at_ms in (1_000, 1_050, 1_150):
        activity.observe(at_ms)
    assert activity.ms == 150
    task.outputs.writable = False
    activity.observe(1_200)
    activity.observe(1_290)
    task.outputs.writable = True
    assert activity.ms == 150, "its outputs were full"
    activity.observe(1_300)
    assert activity.ms == 160


def test_a_span_in_which_no_timer_looked_does_not_count() -> None:
    activity = Task().activity()
    activity.observe(0)
    activity.observe(125)
    assert activity.ms == 125
    activity.observe(251)
    assert activity.ms == 125, "it is longer than a timer that is a little late explains"
    activity.observe(300)
    assert activity.ms == 174


def test_without_an_operator_that_looks_the_clock_stands() -> None:
    activity = Task().activity(look_every_ms=None)
    activity.observe(0)
    activity.observe(50)
    assert activity.ms == 0


def test_a_task_has_nothing_while_no_input_has_a_buffer() -> None:
    task = Task()
    activity = task.activity()
    assert activity.has_nothing
    assert not activity.is_paused
    task.channels[1].queued_buffers = 1
    assert not activity.has_nothing, "the second has one"
    task.channels[1].queued_buffers, task.outputs.writable = 0, False
    assert not activity.has_nothing, "it could not emit"


def test_of_a_source_it_says_what_the_source_says() -> None:
    source, task = Source(), Task()
    activity = task.activity(source)
    assert activity.has_nothing
    source.has_nothing, source.is_paused = False, True
    assert not activity.has_nothing
    assert activity.is_paused
    source.has_nothing, task.outputs.writable = True, False
    assert not activity.has_nothing
