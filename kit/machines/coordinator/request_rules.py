"""The outcome of a request for a checkpoint, as one table: by who asks, and by the situation.

Nothing in the table is written by hand. For each cell a decider is brought into the situation and asked, and the cell
shows its answer. So the table also works for a user-defined decider (`kit.stream.settings.parts.Parts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.machines.coordinator.request_decider import CheckpointRequestDecider, CheckpointTriggerRequest

if TYPE_CHECKING:
    import pandas as pd

NOW_MS = 1000
MIN_PAUSE_MS = 100
REFUSED = {
    CheckpointFailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS: "refused: too soon",
    CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS: "refused: too many",
}
MAX_QUEUED = 3
"""A short queue, which fills up like a long one."""

CHECKPOINT = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)


@dataclass(frozen=True, slots=True)
class Asker:
    """The origin of a request."""

    name: str
    properties: CheckpointProperties = CHECKPOINT
    periodic: bool = False

    def request(self, number: int) -> CheckpointTriggerRequest:
        """Return its request, as the number-th one."""
        asks = None if self.periodic else number
        return CheckpointTriggerRequest(self.properties, NOW_MS, number, self.periodic, None, asks)


TIMER = Asker("timer", periodic=True)
USER = Asker("user")
ASKERS = (
    TIMER,
    USER,
    Asker("savepoint", CheckpointProperties.for_savepoint(forced=True)),
    Asker("savepoint, unaligned job", CheckpointProperties.for_savepoint(forced=False)),
)
"""The coordinator forces a savepoint unless the job's checkpoints are unaligned."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The situation in which the request comes; one checkpoint at a time is allowed."""

    name: str
    pending: int = 0
    is_triggering: bool = False
    since_completion_ms: int = MIN_PAUSE_MS
    cleaning: int = 0
    queued: tuple[Asker, ...] = ()


SITUATIONS = (
    Situation("nothing else"),
    Situation("the pause is not over", since_completion_ms=MIN_PAUSE_MS // 2),
    Situation("one is pending", pending=1),
    Situation("one is being triggered", is_triggering=True),
    Situation("too many old ones are being deleted", cleaning=2),
    Situation("the queue is full, the timer's last", pending=1, queued=(USER,) * (MAX_QUEUED - 1) + (TIMER,)),
    Situation("the queue is full of users' requests", pending=1, queued=(USER,) * MAX_QUEUED),
)


def request_rules() -> pd.DataFrame:
    """Return the request decider's answers: one row per situation, one column per origin.

    A cell is "begins", "waits", or "refused" with the reason. It also says "the timer's goes" if the request waits in
    place of another that is refused.

    Flink: `CheckpointRequestDecider.chooseRequestToExecute`.
    """
    import pandas as pd

    cells = {asker.name: [_outcome(asker, situation) for situation in SITUATIONS] for asker in ASKERS}
    return pd.DataFrame(cells, index=pd.Index([each.name for each in SITUATIONS], name="meanwhile"))


def _outcome(asker: Asker, situation: Situation) -> str:
    refused: list[tuple[CheckpointTriggerRequest, CheckpointFailureReason]] = []

    def refuse(request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        refused.append((request, why.reason))

    def reschedule(now_ms: int, delay_ms: int) -> None:
        """Do nothing: there is no timer."""

    decider = CheckpointRequestDecider(1, MIN_PAUSE_MS, refuse, reschedule, MAX_QUEUED)
    for number, waiting in enumerate(situation.queued):
        decider.add(waiting.request(number))
    request = asker.request(len(situation.queued))
    chosen = None
    if decider.add(request):
        chosen = decider.choose(
            now_ms=NOW_MS,
            pending=situation.pending,
            is_triggering=situation.is_triggering,
            last_completion_ms=NOW_MS - situation.since_completion_ms,
            cleaning=situation.cleaning,
        )
    for other, reason in refused:
        if other is request:
            return REFUSED[reason]
    what = "begins" if chosen is request else "waits"
    return what + ", the timer's goes" * any(other.periodic for other, _ in refused)
