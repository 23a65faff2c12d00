"""Stepping, going back, going forth, forking: a lab is its list of actions, and nothing else."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.protocol.elements import Buffer
from kit.hosts.lab.faults.faults import KillWorker
from kit.hosts.lab.lab import Lab, LabError
from kit.hosts.lab.world import keyframes
from kit.hosts.lab.world.actions import FireTimer, LetTimePass, ReceiveElement, TakeTurn
from kit.hosts.lab.world.schedulers import Fair, First, Random
from kit.machines.job.status import JobStatus
from kit.machines.task.stream_task import StreamTask
from kit.run import reading
from kit.run.kinds import BULK, level_of
from kit.run.reading import moment_at
from tests.hosts.lab.jobs import Shape, environment, settle, wrong
from tests.properties import examples

SHAPE = Shape("totals", rows=12, splits=2, batch_rows=3, parallelism=2)


def a_lab(seed: int = 0, **settings: Any) -> Lab:
    return Lab(environment(SHAPE), seed=seed, **settings)


def looks(lab: Lab) -> dict[str, Any]:
    """Everything about a lab that can be seen from outside."""
    return {
        "position": lab.position,
        "at": lab.look.at_ms,
        "trace": [record.to_dict() for record in lab.trace],
        "enabled": [action.key for action in lab.enabled()],
        "files": dict(lab.look.files.contents),
        "rows": sorted(lab.output("rows").get("n", [])),
        "job": repr(lab.look.master),
        "checkpoints": lab.checkpoints().to_csv(),
        "stages": [repr(stage) for stage in lab.look.stages],
    }


WALKS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(0, 30)),
        st.tuples(st.just("choose"), st.integers(0, 30)),
        st.tuples(st.just("kill"), st.integers(0, 1)),
        st.tuples(st.just("ask"), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 60)),
        st.tuples(st.just("goto"), st.integers(0, 200)),
        st.tuples(st.just("fork"), st.booleans()),
    ),
    max_size=15,
)


def walk(lab: Lab, deed: str, argument: int) -> Lab:
    if deed == "goto":
        return lab.goto(1 + argument % lab.position)
    if deed == "fork":
        other = lab.fork()
        abandoned = lab if argument else other
        if abandoned.enabled():
            abandoned.step()
        return other if argument else lab
    if deed == "kill":
        with suppress(LabError):  # that worker does not run at present
            lab.faults.kill(argument)
    elif deed == "ask":
        lab.savepoint()
    elif deed == "wait":
        until_ms = lab.look.at_ms + argument
        lab.wait_until(until_ms)
        assert lab.look.at_ms == until_ms
    elif deed == "choose":
        if lab.enabled():
            lab.step(argument % len(lab.enabled()))
    else:
        for _ in range(argument):
            if lab.enabled():
                lab.step()
    return lab


@given(st.integers(0, 1_000), WALKS)
@settings(max_examples=examples(40))
def test_any_walk_leaves_what_its_actions_give(seed: int, deeds: list[tuple[str, int]]) -> None:
    lab = a_lab(seed)
    for deed, argument in deeds:
        lab = walk(lab, deed, argument)
        lab.look.validate()
    again = a_lab(seed).replay(lab.past.actions[1:])
    assert looks(again) == looks(lab)


@given(st.integers(0, 1_000), st.integers(1, 90), st.integers(1, 120))
@settings(max_examples=15)
def test_going_back_and_on_again_is_as_if_nothing_had_been(seed: int, steps: int, back: int) -> None:
    straight, strayed = a_lab(seed), a_lab(seed)
    for lab in (straight, strayed):
        for _ in range(steps):
            lab.step()
    strayed.back(min(back, strayed.position - 1))
    assert strayed.goto(steps + 1) is strayed
    assert looks(strayed) == looks(straight)
    straight.step()
    strayed.step()
    assert looks(strayed) == looks(straight)


@pytest.mark.parametrize("breaks_at", [1, 7, 18])
def test_the_lab_stands_where_an_invariant_broke(monkeypatch: pytest.MonkeyPatch, breaks_at: int) -> None:
    """It is not checked after each event, but found as if it were."""

    def broken(task: StreamTask) -> None:
        assert (task.name, task.events_handled < breaks_at) != ("totals/0", False), "totals/0 is broken"

    monkeypatch.setattr(StreamTask, "validate", broken)
    lab = a_lab()
    with pytest.raises(AssertionError, match="totals/0 is broken"):
        lab.run()
    assert len(lab.trace.story(machine="totals/0", kind="ProcessInput")) < breaks_at
    assert lab._world.tasks["totals/0"].events_handled == breaks_at


@given(st.integers(0, 1_000), st.integers(1, 150), st.integers(1, 60), st.integers(0, 5))
@settings(max_examples=examples(25))
def test_the_present_moment_is_what_the_whole_trace_says(seed: int, steps: int, back: int, choice: int) -> None:
    """Whatever was kept of earlier looks, also when the lab has gone back and as far on another way since."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MARK_EVERY", 20)
        patch.setattr(reading, "RECORDS_PER_PART", 0)
        patch.setattr(keyframes, "KEYFRAME_EVERY", 10)
        lab = a_lab(seed)
        while lab.position < steps and lab.enabled():
            lab.step()
        looked = lab.moment()
        assert looked == moment_at(lab.trace)
        length = len(lab.trace)
        lab.back(min(back, lab.position - 1))
        while len(lab.trace) < length + choice and lab.enabled():
            lab.step(choice % len(lab.enabled()))
        assert lab.moment() == moment_at(lab.trace)
        assert looked.n == length


@pytest.mark.parametrize("every", [1, 7])
def test_the_distance_of_keyframes_changes_nothing(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    plain = a_lab()
    plain.run()
    monkeypatch.setattr(keyframes, "KEYFRAME_EVERY", every)
    lab = a_lab()
    lab.run()
    lab.goto(lab.position // 2)
    lab.goto(plain.position)
    assert looks(lab) == looks(plain)


def test_what_was_delivered_is_not_kept_but_still_told_and_delivered_again_on_the_way_back() -> None:
    lab = Lab(environment(Shape("totals", rows=40)), seed=2)
    sent: list[weakref.ref[Any]] = []
    said: dict[int, str] = {}
    while not lab.ended:
        action = next((each for each in lab.enabled() if isinstance(each, ReceiveElement)), None)
        if action is not None and isinstance(action.element, Buffer):
            sent.append(weakref.ref(action.element.batch))
            said[lab.position] = str(action)
        lab.step(action)
        del action
    gc.collect()
    assert len(sent) > 10
    held = [reference for reference in sent if reference() is not None]
    assert len(held) <= len(lab._keyframes), "but what lies in a queue of a moment that is kept"
    assert {position: str(lab.past.actions[position]) for position in said} == said
    table = lab.output("totals").to_dict("list")
    end = lab.position
    lab.goto(20)
    lab.goto(end)
    assert lab.output("totals").to_dict("list") == table


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    runs = [a_lab(seed) for seed in (1, 1, 2)]
    for lab in runs:
        lab.run()
    assert looks(runs[0]) == looks(runs[1])
    assert [record.id for record in runs[0].trace] != [record.id for record in runs[2].trace]


def test_after_going_back_another_way_can_be_taken() -> None:
    lab = a_lab()
    lab.run_until(checkpoint=1)
    there = lab.position
    lab.back(10)
    untaken = lab.enabled()[0]
    lab.faults.kill(0)
    assert lab.position == there - 9
    with pytest.raises(LabError, match=f"there is no step {there}: {lab.position} steps"):
        lab.goto(there)
    assert not isinstance(untaken, KillWorker)


def test_a_fork_has_a_future_of_its_own() -> None:
    lab = a_lab()
    lab.run_until(checkpoint=1)
    before = looks(lab)
    other = lab.fork()
    other.faults.kill(1)
    other.run()
    assert looks(lab) == before
    assert other.look.master.epoch == 2
    assert wrong(other, SHAPE) == {}
    lab.run()
    assert lab.look.master.epoch == 1
    assert wrong(lab, SHAPE) == {}


def test_a_step_can_be_chosen_by_action_number_or_key() -> None:
    labs = [a_lab() for _ in range(3)]
    for way, lab in zip((lambda a: a, lambda a: 0, lambda a: a.key), labs):
        for _ in range(20):
            step = lab.step(way(lab.enabled()[0]))
            assert step.action in lab.past.actions
            assert step.number == lab.position
    assert looks(labs[0]) == looks(labs[1]) == looks(labs[2])


def test_keys_tell_all_enabled_actions_apart() -> None:
    lab = a_lab(3)
    for _ in range(90):
        enabled = lab.enabled()
        assert len({action.key for action in enabled}) == len(enabled)
        lab.step()


def test_what_cannot_happen_is_said_with_what_can() -> None:
    lab = a_lab()
    with pytest.raises(LabError, match=r"'fly' cannot happen now; enabled are 0: carry out EnumerateSplits"):
        lab.step("fly")
    with pytest.raises(LabError, match="cannot happen now"):
        lab.step(TakeTurn("rows/0"))
    with pytest.raises(LabError, match="no worker 7 runs now"):
        lab.faults.kill(7)
    with pytest.raises(LabError, match=r"there is no step 9: 1 steps"):
        lab.goto(9)
    with pytest.raises(LabError, match="there is no step 0"):
        lab.back(1)
    with pytest.raises(LabError, match="run_until needs a condition"):
        lab.run_until()
    with pytest.raises(LabError, match="scheduler is 'last'"):
        a_lab(scheduler="last")


def test_run_until_stops_at_the_first_step_that_fits() -> None:
    lab = a_lab()
    step = lab.run_until(record="CheckpointTriggered")
    assert [record.kind for record in step.records].count("CheckpointTriggered") == 1
    assert len(lab.trace.story(kind="CheckpointTriggered")) == 1
    lab.run_until(at_ms=lab.look.at_ms + 10)
    lab.run_until(checkpoint=1)
    assert lab.checkpoints()["status"].tolist()[0] == "COMPLETED"
    lab.run_until(lambda lab: lab.look.master.tasks.all_finished)
    lab.run()
    assert lab.look.master.status is JobStatus.FINISHED
    settle(lab)
    with pytest.raises(LabError, match="came to rest in FINISHED"):
        lab.run_until(checkpoint=100)


def test_time_waits_only_when_nothing_else_can_happen_unless_it_is_told_to() -> None:
    lab = a_lab()
    lab.run_until(record="AllTasksRunning")
    wait = lab.enabled()[-1]
    assert isinstance(wait, LetTimePass)
    before = lab.look.at_ms
    lab.step(wait)
    assert lab.look.at_ms == wait.until_ms > before
    assert any(isinstance(action, FireTimer) for action in lab.enabled())


@pytest.mark.parametrize("scheduler", [First(), Random(), Fair()], ids=repr)
def test_causes_lead_across_machines_back_to_the_beginning(scheduler: Any) -> None:
    lab = a_lab(scheduler=scheduler)
    lab.run_until(checkpoint=1)
    done = lab.trace.story(kind="CheckpointCompleted")[0]
    chain = [record.kind for record in lab.trace.causes(done)]
    assert chain[-1] == "StartJob"
    for kind in ("CheckpointStored", "WriteMetadata", "AcknowledgeCheckpoint", "WriteSnapshot"):
        assert kind in chain


def test_every_record_but_what_the_user_did_has_a_cause_in_the_trace() -> None:
    lab = a_lab(2)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run()
    kinds = {record.kind for record in lab.trace if lab.trace.find(record.cause) is None}
    assert kinds == {"StartJob", "SlotLost"}


def test_reprs_are_short_and_say_where_the_lab_stands() -> None:
    lab = a_lab()
    assert repr(lab.step(0)).startswith("step 2: carry out EnumerateSplits for job")
    lab.run()
    assert repr(lab).startswith(f"Lab(small, step {lab.position}, {lab.look.at_ms} ms, FINISHED")


def test_the_disk_goes_back_too() -> None:
    lab = Lab(environment(SHAPE), seed=2)
    disks = {lab.position: dict(lab.look.files.contents)}
    while not lab.ended:
        lab.step()
        disks[lab.position] = dict(lab.look.files.contents)
    assert len({frozenset(disk) for disk in disks.values()}) > 5
    for position in range(lab.position, 0, -20):
        assert lab.goto(position).look.files.contents == disks[position]


def test_a_step_tells_in_sentences_what_happened() -> None:
    lab = a_lab()
    lab.trigger_checkpoint()
    shown = lab.run_until(checkpoint=1)._repr_html_()
    assert "carry out StoreCheckpoint of chk-1" in shown
    assert "Checkpoint 1 is complete" in shown
    moves = (step for step in iter(a_lab().step, None) if step.records and {*map(level_of, step.records)} == {BULK})
    moved = next(moves)
    assert all(record.kind in moved._repr_html_() for record in moved.records)
