"""Which messages may be lost or doubled in the lab, and what comes of it: one row for each kind of message.

On a cluster nothing of the kind happens to one message alone: what two processes say to each other keeps its order and
is not doubled, and when something of it is lost the connection is over, and the worker with it. The lab lets happen
what the protocol has an answer to, and refuses the rest with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol import messages
from kit.core.protocol.words import Word


@dataclass(frozen=True, slots=True)
class MessageRule:
    """What comes of it when a message is `lost`, or `doubled`; where that is "", why it may not be."""

    message: type[Word]
    lost: str = ""
    doubled: str = ""
    why_not_lost: str = ""
    why_not_doubled: str = ""


_WITH_ITS_WORKER = "nothing would notice; on a cluster it is lost with its worker, so kill that"
_ONCE = "a connection never doubles it, and nothing would notice"

MESSAGE_RULES = {
    rule.message: rule
    for rule in (
        MessageRule(messages.DeployTask, why_not_lost=_WITH_ITS_WORKER, why_not_doubled=_ONCE),
        MessageRule(
            messages.TriggerTaskCheckpoint,
            lost="the source never begins, and the checkpoint expires",
            doubled="the source knows the checkpoint and ignores the second",
        ),
        MessageRule(
            messages.NotifyCheckpointComplete,
            lost="the next notification covers it",
            doubled="publishing twice is publishing once",
        ),
        MessageRule(
            messages.NotifyCheckpointAborted,
            lost="the task gives the checkpoint up when a newer one comes",
            doubled="the second changes nothing",
        ),
        MessageRule(
            messages.OperatorEventToTask,
            lost="the host notices, and the job is restarted",
            why_not_doubled=_ONCE,
        ),
        MessageRule(messages.CancelTask, why_not_lost=_WITH_ITS_WORKER, doubled="the task has left already"),
        MessageRule(
            messages.TaskStateChanged,
            why_not_lost=_WITH_ITS_WORKER,
            doubled="the JobMaster knows it already",
        ),
        MessageRule(
            messages.AcknowledgeCheckpoint,
            lost="the checkpoint stays pending until it expires",
            doubled="the second is ignored, and its state kept if the checkpoint refers to it",
        ),
        MessageRule(
            messages.DeclineCheckpoint,
            lost="the checkpoint stays pending until it expires",
            doubled="the second is ignored",
        ),
        MessageRule(
            messages.ReportCheckpointMetrics,
            lost="the statistics lack it",
            doubled="the statistics have it already",
        ),
        MessageRule(messages.OperatorEventToCoordinator, why_not_lost=_WITH_ITS_WORKER, why_not_doubled=_ONCE),
    )
}
"""By type of message."""
