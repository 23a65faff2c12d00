"""The kinds of `Note`: what a machine may record for readers of the trace.

mypy checks every `note(...)` against this list, and a test checks that every kind in the list is used.
"""

from __future__ import annotations

from typing import Literal

LateKind = Literal["RowsBehindWatermark", "LateRowsDropped"]
"""Rows that an operator which makes watermarks received behind its own, and rows that a window or join dropped."""
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
    "RowsBehindWatermark",
    "LateRowsDropped",
    "SplitsPaused",
    "SplitsResumed",
]
