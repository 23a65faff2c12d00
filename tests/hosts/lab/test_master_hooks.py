"""Master hooks in the lab: when they are called, and when they are not."""

from __future__ import annotations

from typing import Any

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment, count
from kit.hosts.lab.errors import LabError


class Hook:
    """A hook that records its calls; its value is a text."""

    identifier = "log"
    version = 1

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.serializer = self

    def serialize(self, value: str) -> bytes:
        return value.encode()

    def deserialize(self, version: int, data: bytes) -> str:
        return data.decode()

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> str:
        self.told.append(("trigger", checkpoint_id))
        return f"at {checkpoint_id}"

    def restore_checkpoint(self, checkpoint_id: int, value: str | None) -> None:
        self.told.append(("restore", checkpoint_id, value))

    def reset(self) -> None:
        self.told.append("reset")

    def close(self) -> None:
        self.told.append("close")


def job(*, uid: str = "counts") -> StreamEnvironment:
    """Return a job with a durable store that counts letters; `uid` names the state."""
    env = StreamEnvironment(
        "letters",
        checkpoint=CheckpointConfig(
            interval_ms=20,
            store="filesystem",
            directory="/checkpoints",
        ),
    )
    rows = [{"letter": "abc"[n % 3]} for n in range(300)]
    counts = env.from_source(CollectionSource(rows), uid="rows").key_by("letter").aggregate(n=count()).uid(uid)
    counts.sink_to(CollectSink("out"), uid="out")
    return env


def test_hooks_are_closed_when_the_job_is_over_and_again_after_going_back() -> None:
    hook = Hook()
    lab = Lab(job(), hooks=[hook])
    lab.run()
    assert hook.told[0] == "reset"
    assert hook.told.count("close") == 1
    assert hook.told[-1] == "close"
    lab.goto(1)
    lab.run()
    assert hook.told.count("close") == 2
    assert hook.told[-1] == "close"


def test_hooks_are_closed_when_the_job_cannot_begin() -> None:
    hook = Hook()
    lab = Lab(job(), hooks=[hook])
    lab.cancel()
    while lab.enabled():
        lab.step()
    assert hook.told == ["close"]


def test_hooks_get_their_state_after_the_tasks_have_been_assigned_theirs() -> None:
    hook = Hook()
    lab = Lab(job(), hooks=[hook], seed=1)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run_until(record="RestoreMasterHooks")
    assert lab.look.master.checkpoints.statistics.counts.restored == 0
    lab.run_until(record="MasterHooksRestored")
    restored = lab.look.master.checkpoints.store.latest_id
    assert hook.told[-1] == ("restore", restored, f"at {restored}")
    kinds = [record.kind for record in lab.trace if record.role == "command"]
    assert kinds.index("StateAssigned") < kinds.index("RestoreMasterHooks")
    assert lab.look.master.checkpoints.statistics.counts.restored == 1


def test_an_assignment_that_fails_leaves_hooks_alone_and_counts_nothing() -> None:
    before = Lab(job(), hooks=[Hook()], seed=1)
    before.run_until(checkpoint=1)
    hook = Hook()
    after = Lab(job(uid="other counts"), hooks=[hook], after=before, recover=True)
    with pytest.raises(LabError, match="FAILED"):
        after.run()
    assert hook.told == ["close"]
    assert after.look.master.checkpoints.statistics.counts.restored == 0
    assert after.look.master.epoch == 0


def test_a_hook_that_cannot_be_reset_ends_the_job_with_its_error_and_nobody_waits_for_ever() -> None:
    class Locked(Hook):
        def reset(self) -> None:
            super().reset()
            raise RuntimeError("the log is locked")

    hook = Locked()
    lab = Lab(job(), hooks=[hook])
    with pytest.raises(LabError, match="master hook 'log' cannot be reset: RuntimeError: the log is locked"):
        lab.run_until(checkpoint=1)
    assert (lab.status, lab.look.master.epoch) == ("FAILED", 0)
    assert hook.told == ["reset", "close"]


def test_a_hook_that_cannot_be_reset_at_a_restart_is_asked_again() -> None:
    class LockedOnce(Hook):
        def reset(self) -> None:
            super().reset()
            if self.told.count("reset") == 2:
                raise RuntimeError("the log is locked")

    hook = LockedOnce()
    lab = Lab(job(), hooks=[hook])
    lab.run_until(record="AllTasksRunning")
    lab.faults.kill(0)
    lab.run()
    assert hook.told[:3] == ["reset", "reset", "reset"]
    assert (lab.status, lab.look.master.epoch) == ("FINISHED", 2)
    assert lab.output("out")["n"].sum() == 300
