"""The set of possible actions is kept up to date, and equals the one found by a complete search."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kit.core.protocol.commands import ScheduleTimer
from kit.core.protocol.messages import CancelTask
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import Envelope
from kit.hosts.lab import Lab
from kit.hosts.lab.world import keyframes
from kit.hosts.lab.world.actions import (
    Action,
    CarryOut,
    DeliverMessage,
    FireTimer,
    LetTimePass,
    ReceiveElement,
    TakeTurn,
)
from kit.hosts.lab.world.agenda import Agenda
from kit.hosts.lab.world.copying import copy_of
from kit.machines.channel.ready_numbers import ReadyNumbers
from kit.machines.task.stream_task import StreamTask
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig
from tests.hosts.lab.jobs import Shape, environment

MODES: list[dict[str, Any]] = [
    {},
    {"unaligned": True},
    {"unaligned": True, "aligned_timeout_ms": 5},
    {"local_recovery": True},
]


def looked_for(lab: Lab) -> Iterator[Action]:
    """Yield all possible actions, from the messages in flight and the tasks' queues; no counter of the kit is used."""
    world, agenda = lab._world, lab._world.agenda
    for (machine, timer), (_, command) in agenda._timers.items():
        if command.word.due_ms <= lab.look.at_ms:
            yield FireTimer(machine, timer)
    for (sender, receiver), (_, queue) in agenda._mail.items():
        if queue:
            message = queue[0].word
            yield DeliverMessage(type(message).__name__, getattr(message, "checkpoint_id", None), sender, receiver)
    for number, (machine, (command, _)) in agenda._io.items():
        yield CarryOut(machine, type(command).__name__, getattr(command, "checkpoint_id", None), number)
    for channel in world.graph.channels:
        if queued := world.queued(channel.number):
            yield ReceiveElement(channel.number, channel.source_task, channel.target_task, queued[0])
    yield from (TakeTurn(name) for name, task in world.tasks.items() if is_available(task))
    later = [each.word.due_ms for _, each in agenda._timers.values() if each.word.due_ms > lab.look.at_ms]
    if later:
        yield LetTimePass(min(later))


def is_available(task: StreamTask) -> bool:
    """Return True if a task can process something, derived from its queues."""
    full = any(not subpartition.writable for partition in task.outputs for subpartition in partition)
    if task.state is ExecutionState.INITIALIZING:
        return task.input.is_recovering and not full
    if task.state is not ExecutionState.RUNNING:
        return False
    if full:
        return any(channel._queue.priority_count for channel in task.inputs)
    if task._source is not None:
        return task._source.available and not task._operators_finished
    return any(channel.available for channel in task.inputs)


@given(st.sampled_from(["totals", "windows", "union"]), st.sampled_from(MODES), st.integers(0, 10_000))
@hypothesis_settings(max_examples=20)
def test_what_may_happen_is_what_can_be_found(way: str, mode: dict[str, Any], seed: int) -> None:
    random = Random(seed)
    lab = Lab(environment(Shape(way, parallelism=random.choice([1, 2, 3])), **mode), seed=seed)
    for _ in range(500):
        enabled = [*lab.enabled()]
        assert enabled == [*looked_for(lab)]
        agenda = lab._world.agenda
        assert [agenda[rank] for rank in range(len(agenda))] == [
            each for each in enabled if not isinstance(each, LetTimePass)
        ]
        if not enabled:
            break
        chance = random.random()
        if chance < 0.01 and lab._world.tasks:
            lab.faults.kill(random.choice([task.subtask for task in lab._world.tasks.values()]))
        elif chance < 0.02:
            lab.goto(random.randint(1, lab.position))
        elif chance < 0.03:
            lab.savepoint()
        elif chance < 0.3:
            lab.step(random.randrange(len(enabled)))
        else:
            lab.step()


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "next_from"]), st.integers(0, 30))))
def test_ready_numbers_are_a_sorted_set(deeds: list[tuple[str, int]]) -> None:
    ready, known = ReadyNumbers(), set[int]()
    for deed, number in deeds:
        if deed == "next_from":
            if known:
                wanted = min((each for each in known if each >= number), default=min(known))
                assert ready.next_from(number) == wanted
            continue
        getattr(ready, deed)(number)
        getattr(known, deed)(number)
        assert [*ready] == sorted(known)
        assert [ready[rank] for rank in range(len(ready))] == sorted(known)
        assert (number in ready) == (number in known)


def test_a_timer_that_is_due_and_is_set_anew_waits_again() -> None:
    agenda = Agenda()
    agenda.schedule("job", Envelope(ScheduleTimer(timer="late", due_ms=5), ""))
    agenda.advance(5)
    assert [action.key for action in agenda] == ["timer:job:late"]
    agenda.schedule("job", Envelope(ScheduleTimer(timer="late", due_ms=9), ""))
    assert not list(agenda)
    assert agenda.wait.until_ms == 9


def test_messages_on_one_way_keep_their_order() -> None:
    agenda = Agenda()
    for number in range(3):
        agenda.post("job", "sums/0", Envelope(CancelTask(task="sums/0", attempt=number), ""))
    assert [agenda.take_message("job", "sums/0").word.attempt for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_goes_on_by_itself(mode: dict[str, Any]) -> None:
    """A copy that shared mutable objects with its original would end differently after it."""
    lab = Lab(environment(Shape("union", parallelism=2), **mode), seed=3)
    lab.run_until(checkpoint=1)
    other = lab.fork()
    lab.run()
    other.run()
    assert other.trace.to_pandas().equals(lab.trace.to_pandas())


def test_a_copy_keeps_what_refers_to_the_same() -> None:
    shared = [1]
    value: dict[str, Any] = {"a": shared, "b": (shared, {2})}
    value["self"] = value
    made = copy_of(value, {})
    assert made["a"] is made["b"][0]
    assert made["a"] is not shared
    assert made["self"] is made


def large_job(parallelism: int, rows: int = 40) -> StreamEnvironment:
    env = StreamEnvironment("letters", parallelism=parallelism, checkpoint=CheckpointConfig(interval_ms=50))
    source = CollectionSource([{"letter": "abc"[n % 3], "n": n} for n in range(rows)], batch_rows=1)
    stream = env.from_source(source, uid="letters").key_by("letter").aggregate(total=sum_("n")).uid("totals")
    stream.sink_to(CollectSink("out"), uid="out")
    return env


def test_a_large_job_ends_and_can_go_back() -> None:
    lab = Lab(large_job(32))
    lab.run_until(checkpoint=1)
    before = [repr(record) for record in lab.trace]
    there = lab.position
    lab.run()
    assert lab.output("out").groupby("letter")["total"].last().tolist() == [sum(range(k, 40, 3)) for k in range(3)]
    lab.goto(there)
    assert [repr(record) for record in lab.trace] == before


def test_a_long_run_keeps_few_copies_that_lie_ever_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyframes, "KEYFRAME_EVERY", 1)
    monkeypatch.setattr(keyframes, "MOST_KEYFRAMES", 5)
    lab = Lab(environment(Shape(rows=12, splits=2)))
    lab.run()
    assert len(lab._keyframes) <= 5
    whole = [repr(record) for record in lab.trace]
    end = lab.position
    for position in (end // 3, end // 2, end - 1, end):
        lab.goto(position)
        assert lab.position == position
    assert [repr(record) for record in lab.trace] == whole
