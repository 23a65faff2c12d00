"""What machines note for a reader of the trace: the kinds of `Note`.

A machine can note nothing else: mypy holds every `note(...)` to this list, and a test holds the list to what is noted.
"""

from __future__ import annotations

from typing import Literal

NoteKind = Literal[
    "StateAssigned",
    "AllTasksRunning",
    "RescalePhaseChanged",
    "JobRescaled",
    "RescaleRefused",
    "WaitingForSlots",
    "PeriodicTriggerScheduled",
    "RequestQueued",
    "RequestRefused",
    "TriggeringStarted",
    "TriggeringFailed",
    "CoordinatorReset",
    "CoordinatorNotified",
    "ListenerNotified",
    "CoordinatorAcknowledged",
    "MasterHookAcknowledged",
    "CheckpointPending",
    "CheckpointPlannedAgain",
    "CheckpointTriggered",
    "TaskAcknowledged",
    "AcknowledgeIgnored",
    "DeclineIgnored",
    "MetricsIgnored",
    "CheckpointFinalizing",
    "CheckpointCompleted",
    "CheckpointAborted",
    "CheckpointSubsumed",
    "CheckpointDiscarded",
    "CheckpointRestored",
    "BarrierAnnounced",
    "BarrierPrioritized",
    "BarrierAligned",
    "BarrierCounted",
    "EndCounted",
    "AlignmentTimedOut",
    "BarrierIgnored",
]
