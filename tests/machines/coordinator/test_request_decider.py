"""The order and time in which requests are carried out: Flink's answers, and the rules one by one."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.machines.coordinator.request_decider import CheckpointRequestDecider, CheckpointTriggerRequest
from tests.flink_data import vectors

CHECKPOINT = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
PROPERTIES = {
    "checkpoint": CHECKPOINT,
    "savepoint": CheckpointProperties.for_savepoint(forced=True),
    "savepoint_noforce": CheckpointProperties.for_savepoint(forced=False),
    "sync_savepoint": CheckpointProperties.for_sync_savepoint(forced=True, terminate=True),
    "unclaimed": CheckpointProperties.for_unclaimed_snapshot(),
}


class Desk:
    """A decider whose refusals and reschedulings are written down."""

    def __init__(self, max_concurrent: int = 1, min_pause_ms: int = 0, max_queued: int = 1000) -> None:
        self.failed: list[tuple[int | None, str]] = []
        self.rescheduled: list[tuple[int, int]] = []
        self.decider = CheckpointRequestDecider(
            max_concurrent, min_pause_ms, self._refuse, self._reschedule, max_queued
        )
        self.number = 0

    def _refuse(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        self.failed.append((request.request_id, why.reason.name))

    def _reschedule(self, now_ms: int, delay_ms: int) -> None:
        self.rescheduled.append((now_ms, delay_ms))

    def add(self, kind: str, request_id: int, *, periodic: bool = False, at: int | None = None) -> bool:
        """Queue a request; False when nothing is to be chosen after it."""
        self.number += 1
        when = self.number if at is None else at
        request = CheckpointTriggerRequest(PROPERTIES[kind], when, self.number, periodic, None, request_id)
        added = self.decider.add(request)
        self.decider.validate()
        return added

    def choose(self, **environment: Any) -> int | None:
        """Choose in this environment, by default an idle one."""
        environment = {"now_ms": 0, "pending": 0, "is_triggering": False, "last_completion_ms": -1000} | environment
        request = self.decider.choose(**environment)
        self.decider.validate()
        return None if request is None else request.request_id

    def queue(self) -> list[int | None]:
        """List the queue, next first."""
        return [request.request_id for request in self.decider.queue]


@pytest.mark.flink(
    "CheckpointRequestDeciderTest.testForce",
    "CheckpointRequestDeciderTest.testEnqueueOnTooManyPending",
    "CheckpointRequestDeciderTest.testNonForcedEnqueueOnTooManyPending",
    "CheckpointRequestDeciderTest.testEnqueueOnTooManyCleaning",
    "CheckpointRequestDeciderTest.testUserSubmittedPrioritized",
    "CheckpointRequestDeciderTest.testSavepointPrioritized",
    "CheckpointRequestDeciderTest.testNonForcedUserSubmittedPrioritized",
    "CheckpointRequestDeciderTest.testNonForcedSavepointPrioritized",
    "CheckpointRequestDeciderTest.testQueueSizeLimit",
    "CheckpointRequestDeciderTest.testQueueSizeLimitPriority",
    "CheckpointRequestDeciderTest.testSavepointTiming",
    "CheckpointRequestDeciderTest.testCheckpointTiming",
)
def test_decides_as_flink_does() -> None:
    rows = 0
    for row in vectors("request_decider"):
        desk = Desk(row["max_concurrent"], row["min_pause_ms"], row["max_queued"])
        for step in row["steps"]:
            desk.failed, desk.rescheduled = [], []
            assert _take(desk, step) == step["chosen"], (row["id"], step)
            assert desk.failed == [(fail["request"], fail["reason"]) for fail in step["failed"]], (row["id"], step)
            assert desk.rescheduled == [(to["now"], to["delay"]) for to in step["rescheduled"]], (row["id"], step)
            assert desk.queue() == step["queue_after"], (row["id"], step)
        rows += 1
    assert rows == 700


def _take(desk: Desk, step: dict[str, Any]) -> int | None:
    if step["op"] == "abort_all":
        desk.decider.abort_all(CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND))
        return None
    if step["op"] == "request":
        added = desk.add(step["type"], step["request"], periodic=step["periodic"], at=step["timestamp"])
        if not added:
            return None
    return desk.choose(
        now_ms=step["now_ms"],
        pending=step["pending"],
        cleaning=step["cleaning"],
        is_triggering=step["is_triggering"],
        last_completion_ms=step["last_completion_ms"],
    )


def test_requests_of_one_rank_and_time_keep_their_order() -> None:
    desk = Desk()
    for request_id in range(5):
        desk.add("checkpoint", request_id, at=7)
    assert desk.queue() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("limits", [{"max_concurrent": 0}, {"max_queued": 0}])
def test_limits_must_be_positive(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limits))} is 0, expected at least 1"):
        Desk(**limits)
