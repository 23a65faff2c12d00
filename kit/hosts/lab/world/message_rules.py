"""The messages that may be lost or doubled in the lab, and the effects: one row for each type of message.

On a cluster, this never happens to a single message. Messages between two processes keep their order and are not
doubled; if one is lost, the connection is closed, and the worker with it. The lab allows the losses and duplicates that
the protocol handles, and rejects the others with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol import messages
from kit.core.protocol.words import ProtocolMessage


@dataclass(frozen=True, slots=True)
class MessageRule:
    """The effect of a message that is `lost` or `doubled`; if the effect is "", the reason why that is not allowed."""

    lost: str = ""
    doubled: str = ""
    why_not_lost: str = ""
    why_not_doubled: str = ""


_WITH_ITS_WORKER = "nothing would notice; on a cluster it is lost with its worker, so kill that"
_ONCE = "a connection never doubles it, and nothing would notice"

MESSAGE_RULES: dict[type[ProtocolMessage], MessageRule] = {
    messages.DeployTask: MessageRule(why_not_lost=_WITH_ITS_WORKER, why_not_doubled=_ONCE),
    messages.TriggerTaskCheckpoint: MessageRule(
        lost="the source never begins, and the checkpoint expires",
        doubled="the source knows the checkpoint and ignores the second",
    ),
    messages.NotifyCheckpointComplete: MessageRule(
        lost="the next notification covers it",
        doubled="publishing twice is publishing once",
    ),
    messages.NotifyCheckpointAborted: MessageRule(
        lost="the task gives the checkpoint up when a newer one comes",
        doubled="the second changes nothing",
    ),
    messages.OperatorEventToTask: MessageRule(
        lost="the host notices, and the job is restarted",
        why_not_doubled=_ONCE,
    ),
    messages.CancelTask: MessageRule(why_not_lost=_WITH_ITS_WORKER, doubled="the task has left already"),
    messages.TaskStateChanged: MessageRule(
        why_not_lost=_WITH_ITS_WORKER,
        doubled="the JobMaster knows it already",
    ),
    messages.AcknowledgeCheckpoint: MessageRule(
        lost="the checkpoint stays pending until it expires",
        doubled="the second is ignored, and its state kept if the checkpoint refers to it",
    ),
    messages.DeclineCheckpoint: MessageRule(
        lost="the checkpoint stays pending until it expires",
        doubled="the second is ignored",
    ),
    messages.ReportCheckpointMetrics: MessageRule(
        lost="the statistics lack it",
        doubled="the statistics have it already",
    ),
    messages.OperatorEventToCoordinator: MessageRule(why_not_lost=_WITH_ITS_WORKER, why_not_doubled=_ONCE),
}
"""The rules by type of message."""
