"""The choice of the next request for a checkpoint: one queue in order of importance.

A request waits while another is being triggered, while the maximum number of checkpoints is pending, or while too many
old ones are still being deleted. Only a forced request at the head passes the limit of pending checkpoints. A periodic
request that comes too soon after the last completion is dropped, and the timer is set again: no user waits for it.

Follows Flink's `CheckpointRequestDecider`. Two requests of the same rank and time keep their order of arrival; Flink
leaves that to identity hashes. 1.11 has neither the limit on cleaning nor the present time in `reschedule`; its minimum
pause is the same.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from types import NoneType
from typing import Protocol, runtime_checkable

from kit.core.protocol.properties import CheckpointProperties
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.stream.settings.parts import Factory, UserDefinedPart, made

DEFAULT_MAX_QUEUED_REQUESTS = 1000


@dataclass(frozen=True, slots=True)
class CheckpointTriggerRequest:
    """A request for a checkpoint, by the timer (`periodic`) or by a user, who is answered under `request_id`.

    `target` is the directory for a savepoint, None for the configured one; `timestamp_ms` is the time of the request.

    Flink: `CheckpointCoordinator.CheckpointTriggerRequest`.
    """

    properties: CheckpointProperties
    timestamp_ms: int
    number: int
    periodic: bool = False
    target: str | None = None
    request_id: int | None = None

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int]:
        """The sort key: savepoints first, then forced, then user requests, then older ones."""
        properties = self.properties
        return (not properties.is_savepoint, not properties.forced, self.periodic, self.timestamp_ms, self.number)

    @property
    def label(self) -> str:
        """The request's name: `Savepoint (request 4)` or `Checkpoint (periodic)`."""
        own = self.request_id is not None and self.request_id < 0
        origin = "periodic" if self.periodic else "the JobMaster's own" if own else f"request {self.request_id}"
        return f"{self.properties.snapshot_type.name} ({origin})"


Refuse = Callable[[CheckpointTriggerRequest, CheckpointException], None]
Reschedule = Callable[[int, int], None]


@runtime_checkable
class RequestDecider(Protocol):
    """The interface of a decider, which may be user-defined (`kit.stream.settings.parts.Parts`).

    It is created with the limits and two functions: `refuse(request, why)` answers a request that will never be carried
    out, and `reschedule(now_ms, delay_ms)` sets the periodic timer again.
    """

    queue: list[CheckpointTriggerRequest]
    """The requests that wait."""

    def add(self, request: CheckpointTriggerRequest) -> bool:
        """Add a request; return False if none should be chosen now."""

    def choose(
        self, *, now_ms: int, pending: int, is_triggering: bool, last_completion_ms: int, cleaning: int = 0
    ) -> CheckpointTriggerRequest | None:
        """Remove and return the request that may start now; None if none may."""

    def abort_all(self, why: CheckpointException) -> None:
        """Reject everything that is queued."""

    def validate(self) -> None:
        """Check the invariants; raises AssertionError."""


class OwnRequestDecider(UserDefinedPart):
    """The checks and messages of a user-defined decider."""

    RETURNS = {"add": (bool,), "choose": (CheckpointTriggerRequest, NoneType), "queue": (list,)}
    __slots__ = ()


def create_request_decider(
    max_concurrent: int, min_pause_ms: int, refuse: Refuse, reschedule: Reschedule, own: Factory | None = None
) -> RequestDecider:
    """Create the decider of a job; `own` creates a user-defined one."""
    if own is None:
        return CheckpointRequestDecider(max_concurrent, min_pause_ms, refuse, reschedule)
    given = (max_concurrent, min_pause_ms, refuse, reschedule)
    return made("request_decider", own, RequestDecider, OwnRequestDecider, *given)  # type: ignore[type-abstract]


@dataclass(slots=True)
class CheckpointRequestDecider:
    """The queue and its rules.

    `refuse(request, why)` answers a request that will never be carried out; `reschedule(now_ms, delay_ms)` sets the
    periodic timer again. Raises ValueError if a limit is not positive.

    Follows Flink's `CheckpointRequestDecider`.
    """

    max_concurrent: int
    min_pause_ms: int
    refuse: Refuse
    reschedule: Reschedule
    max_queued: int = DEFAULT_MAX_QUEUED_REQUESTS
    queue: list[CheckpointTriggerRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, value in (("max_concurrent", self.max_concurrent), ("max_queued", self.max_queued)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1")

    def add(self, request: CheckpointTriggerRequest) -> bool:
        """Add a request to the queue; if the queue is too long, the least important one leaves.

        Returns False if this request found no room at all: then none should be chosen either.
        """
        too_many = CheckpointException(
            CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS, f"({self.max_queued:,} at most)"
        )
        if len(self.queue) >= self.max_queued and not self.queue[-1].periodic:
            self.refuse(request, too_many)
            return False
        insort(self.queue, request, key=lambda queued: queued.rank)
        if len(self.queue) > self.max_queued:
            self.refuse(self.queue.pop(), too_many)
        return True

    def choose(
        self, *, now_ms: int, pending: int, is_triggering: bool, last_completion_ms: int, cleaning: int = 0
    ) -> CheckpointTriggerRequest | None:
        """Remove and return the request that may start now; None if none may. Flink: `chooseRequestToExecute`."""
        if is_triggering or not self.queue or cleaning > self.max_concurrent:
            return None
        first = self.queue[0]
        if pending >= self.max_concurrent:
            return self.queue.pop(0) if first.properties.forced else None
        if first.periodic and not first.properties.forced:
            delay_ms = last_completion_ms - now_ms + self.min_pause_ms
            if delay_ms > 0:
                self.queue.pop(0)
                detail = f"It was {now_ms - last_completion_ms} ms after the last one, not {self.min_pause_ms} ms."
                reason = CheckpointFailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
                self.refuse(first, CheckpointException(reason, detail))
                self.reschedule(now_ms, delay_ms)
                return None
        return self.queue.pop(0)

    def abort_all(self, why: CheckpointException) -> None:
        """Reject everything that is queued, the most important first."""
        while self.queue:
            self.refuse(self.queue.pop(0), why)

    def validate(self) -> None:
        """Check that the queue is in order and not too long. Raises AssertionError."""
        ranks = [request.rank for request in self.queue]
        assert ranks == sorted(ranks), f"queue out of order: {[request.label for request in self.queue]}"
        assert len(ranks) <= self.max_queued, f"{len(ranks)} requests queued, at most {self.max_queued} may be"

    def __repr__(self) -> str:
        return f"CheckpointRequestDecider({len(self.queue)} queued, at most {self.max_concurrent} at once)"
