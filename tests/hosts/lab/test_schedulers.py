"""Schedulers: each leads to the same rows on another way, and chooses only from the state of the lab."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kit.hosts.lab import Adversarial, Fair, First, Lab, LabError, Random
from kit.hosts.lab.faults.faults import KillWorker
from kit.hosts.lab.world.actions import LetTimePass, TakeTurn
from tests.hosts.lab.jobs import Shape, environment, settle, wrong

SHAPE = Shape("totals", rows=18, splits=3, batch_rows=3, parallelism=2)


def the_last(enabled: Any, lab: Any) -> int:
    """Turns before all else."""
    return -1


def tasks_first(enabled: Any, lab: Any) -> Any:
    """Any turn there is, by the action itself."""
    return next((action for action in enabled if isinstance(action, TakeTurn)), enabled[0])


SCHEDULERS: list[Any] = [
    None,
    Random(3),
    First(),
    Fair(),
    Adversarial("turn of totals/1"),
    Adversarial(["ack", "receive totals/0"], otherwise=Fair()),
    Adversarial(lambda action: action.subject == "job", otherwise=First()),
    Adversarial("NotifyCheckpointComplete", waits=True, until_ms=500),
    the_last,
    tasks_first,
]


def a_lab(scheduler: Any, **checkpoint: Any) -> Lab:
    return Lab(environment(SHAPE, **checkpoint), seed=5, scheduler=scheduler)


def run(lab: Lab) -> list[Any]:
    lab.run()
    settle(lab)
    assert wrong(lab, SHAPE) == {}
    return list(lab.past.actions)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda each: getattr(each, "__name__", repr(each)))
def test_a_run_is_the_same_every_time_and_after_going_back(scheduler: Any) -> None:
    lab = a_lab(scheduler)
    way = run(lab)
    assert way == run(a_lab(scheduler))
    half = len(way) // 2
    lab.goto(half)
    other = lab.fork()
    for again in (lab, other):
        for _ in range(20):
            again.step()
        assert list(again.past.actions) == way[: half + 20]
    assert list(Lab(lab.job, seed=5).replay(way[1:]).past.actions) == way


def test_the_default_is_the_seed_s() -> None:
    assert run(a_lab(None)) == run(a_lab(Random())) == run(a_lab(Random(5))) != run(a_lab(Random(6)))


def test_what_is_held_back_happens_only_when_nothing_else_can() -> None:
    lab = a_lab(Adversarial("turn of totals/1"))
    for _ in range(300):
        before = lab.enabled()
        done = lab.step().action if before else None
        if done == TakeTurn("totals/1"):
            assert [action for action in before if not isinstance(action, LetTimePass)] == [done]


def test_where_time_passes_first_a_checkpoint_expires_that_waits_for_what_is_held_back() -> None:
    lab = a_lab(Adversarial("AcknowledgeCheckpoint", waits=True, until_ms=400), timeout_ms=100)
    lab.run_until(record="CheckpointAborted")
    assert [record.data["reason"] for record in lab.trace.story(kind="CheckpointAborted")] == ["CHECKPOINT_EXPIRED"]
    run(lab)


def test_nobody_waits_for_ever_where_it_is_fair() -> None:
    lab = a_lab(Fair())
    waiting: Counter[str] = Counter()
    while not lab.ended:
        enabled = {action.key for action in lab.enabled() if not isinstance(action, LetTimePass)}
        done = lab.step().action
        waiting = Counter({key: waiting[key] + 1 for key in enabled if key != getattr(done, "key", "")})
        assert max(waiting.values(), default=0) <= 12, waiting.most_common(1)


def test_a_scheduler_may_bring_a_fault_about() -> None:
    def killing(enabled: Any, lab: Any) -> Any:
        return KillWorker(1) if lab.position == 60 else 0

    lab = a_lab(killing)
    run(lab)
    assert lab.look.master.epoch == 2
    with pytest.raises(LabError, match="no worker 7 runs now"):
        a_lab(lambda enabled, lab: KillWorker(7)).step()


def test_what_is_no_choice_is_refused() -> None:
    with pytest.raises(LabError, match=r"chose number 9 of 1, counted from 0|chose number 9 of 2, counted from 0"):
        a_lab(lambda enabled, lab: 9).step()
    with pytest.raises(LabError, match="'fly' cannot happen now"):
        a_lab(lambda enabled, lab: "fly").step()
    for wrong_one in (Fair, "fair", 3):
        with pytest.raises(LabError, match="must be Random"):
            a_lab(wrong_one)
    assert repr(Adversarial("ack", Fair())) == "Adversarial('ack', otherwise=Fair())"
    assert repr(Adversarial(tasks_first, waits=True, until_ms=5)) == (  # type: ignore[arg-type]
        "Adversarial(tasks_first, otherwise=Random(seed=None), waits=True, until_ms=5)"
    )
