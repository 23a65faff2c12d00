"""The step of a lab to which a record belongs, and the actions that are not possible yet."""

from __future__ import annotations

from kit.hosts.lab import Lab
from tests.draw.labs import lab_of


def ends(lab: Lab) -> list[int]:
    """Return the length of the trace after each step."""
    return [len(lab.goto(position).trace) for position in range(1, lab.position + 1)]


def test_each_record_came_in_one_step() -> None:
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=1)
    lab.goto(60)
    lab.step()
    lab.run_until(checkpoint=2)
    last = lab.position
    found = [lab.past.position_of(n) for n in range(1, len(lab.trace) + 1)]
    lengths = ends(lab)
    expected = [next(step for step, end in enumerate(lengths, 1) if end >= n) for n in range(1, lengths[-1] + 1)]
    assert found == expected
    assert found[-1] <= last
    other = lab.fork()
    other.goto(50).step(0)
    assert other.past.position_of(len(other.trace)) == 51
    assert lab.past.position_of(10**6) == lab.position


def test_what_may_not_happen_yet_says_what_it_waits_for() -> None:
    lab = lab_of(seed=2)
    lab.run_until(record="CheckpointTriggered")
    waiting = {action.key: why for action, why in lab.look.waiting().refused}
    assert "it is due at" in waiting["timer:job:checkpoint-trigger"]
    assert not set(waiting) & {action.key for action in lab.enabled()}
    lab.faults.freeze(1)
    frozen = {why for _, why in lab.look.waiting().refused}
    assert "letters/1 is frozen with its worker: thaw it" in frozen or any("frozen" in why for why in frozen)
