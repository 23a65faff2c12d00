"""The rules of the checkpoint protocol as data: what each recipient does with a message, and who gives which reason.

The names of messages, states, reasons and commands are those of the code; a test compares them, so a message or a
reason without a rule is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kit.core.protocol import commands
from kit.core.protocol.duties import Command
from kit.core.protocol.elements import CancelCheckpointMarker, CheckpointBarrier, EndOfPartition
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    ReportCheckpointMetrics,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.reasons import CheckpointFailureReason as Reason
from kit.machines.coordinator.checkpoint_state import CheckpointState


@dataclass(frozen=True)
class Rule:
    """The actions of the recipient of a message, in order; `way` names the sender and the recipient."""

    message: type[Any]
    way: str
    does: tuple[str, ...]


RULES = (
    Rule(
        TriggerTaskCheckpoint,
        "JobMaster → task without a running input",
        (
            "Not running: send CancelCheckpointMarker to all outputs and decline.",
            "Id not above the last one: do nothing. Abort remembered: send CancelCheckpointMarker.",
            "Otherwise, in one step: send the barrier to all outputs, copy the state, request WriteSnapshot.",
            "When state and in-flight data are written: acknowledge. When a write fails: decline.",
        ),
    ),
    Rule(
        CheckpointBarrier,
        "task → task, in the channel",
        (
            "Older than the current checkpoint: ignore. Newer while one is pending: decline the pending one first.",
            "Aligned: block this channel. At the last barrier: send the barrier on, copy the state, unblock all.",
            "Unaligned: overtake the queue. At the first barrier: send it on and copy the state. Store what arrives "
            "on each channel before its barrier.",
            "Timeout (from the trigger): continue as unaligned. A blocked channel stays blocked to the last barrier.",
        ),
    ),
    Rule(
        CancelCheckpointMarker,
        "task → task, in place of a barrier",
        ("End the alignment, unblock, decline, and send the marker on. A second marker changes nothing.",),
    ),
    Rule(
        EndOfPartition,
        "task → task, end of the channel",
        ("Counts as the barrier of the pending checkpoint. If it was the last one missing: take the snapshot.",),
    ),
    Rule(
        AcknowledgeCheckpoint,
        "task → JobMaster",
        (
            "Pending: record the state. After the last one: write the metadata, then store the checkpoint.",
            "Twice: ignore, keep the files. Checkpoint unknown, or ended without completing: ignore, delete the files.",
            "Of another job: ignore, and leave its files alone.",
        ),
    ),
    Rule(
        DeclineCheckpoint,
        "task → JobMaster",
        ("Pending: abort the checkpoint with this reason, even if all others acknowledged. Otherwise: ignore.",),
    ),
    Rule(
        NotifyCheckpointComplete,
        "JobMaster → every task",
        ("Publish the output that this checkpoint covers. Never before: a failure could return behind it.",),
    ),
    Rule(
        NotifyCheckpointAborted,
        "JobMaster → every task",
        (
            "Snapshot in progress: cancel the write, delete what is written and staged, report the metrics.",
            "Barrier not here yet: remember the id. Blocked channels stay blocked: only the channel unblocks them.",
        ),
    ),
    Rule(ReportCheckpointMetrics, "task → JobMaster", ("Add the measurements to the statistics.",)),
)
"""The rules by message, in the order of a checkpoint's life."""

ASKED: Mapping[CheckpointState, tuple[type[Command], ...]] = MappingProxyType(
    {
        CheckpointState.LOCATING: (commands.InitializeLocation,),
        CheckpointState.COORDINATORS: (commands.ScheduleCoordinatorCheckpoint,),
        CheckpointState.HOOKS: (commands.TriggerMasterHook,),
        CheckpointState.TRIGGERING: (TriggerTaskCheckpoint,),
        CheckpointState.COLLECTING: (),
        CheckpointState.ACKNOWLEDGED: (),
        CheckpointState.WRITING: (commands.WriteMetadata,),
        CheckpointState.STORING: (commands.StoreCheckpoint,),
        CheckpointState.COMPLETED: (NotifyCheckpointComplete,),
        CheckpointState.ABORTED: (NotifyCheckpointAborted, commands.DiscardState),
    }
)
"""What the JobMaster asks for in each state of a checkpoint."""

AFTER_A_FAILURE = (
    "A task fails or a worker is lost: abort pending checkpoints (JOB_FAILOVER_REGION), ask the restart strategy.",
    "Stop all tasks, also those that survived, and wait until nothing of them can write.",
    "Restore the newest checkpoint of the store. Never fall back to an older one: its output is published already.",
    "Assign the state: keyed state by ranges of key groups, split lists in turn, union lists and broadcast state to "
    "all, in-flight data to the owners of its records.",
    "Reset hooks and operator coordinators, then deploy. A task reads its state and its in-flight data before it runs.",
    "No checkpoint begins before all tasks run. Sinks publish again what the restored checkpoint covers.",
    "A new JobMaster reads the store, continues its numbers, and deletes what no entry refers to.",
)
"""What the JobMaster does from a failure to the next checkpoint."""

COORDINATOR, TASK, SLOT, JOB, NOBODY = "coordinator", "task", "slot", "job", "(Flink only)"
GIVEN_BY: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.PERIODIC_SCHEDULER_SHUTDOWN: COORDINATOR,
        Reason.TOO_MANY_CHECKPOINT_REQUESTS: COORDINATOR,
        Reason.MINIMUM_TIME_BETWEEN_CHECKPOINTS: COORDINATOR,
        Reason.NOT_ALL_REQUIRED_TASKS_RUNNING: COORDINATOR,
        Reason.IO_EXCEPTION: COORDINATOR,
        Reason.BLOCKING_OUTPUT_EXIST: NOBODY,
        Reason.CHECKPOINT_ASYNC_EXCEPTION: TASK,
        Reason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION: SLOT,
        Reason.CHECKPOINT_EXPIRED: COORDINATOR,
        Reason.CHECKPOINT_SUBSUMED: COORDINATOR,
        Reason.CHECKPOINT_DECLINED: TASK,
        Reason.CHECKPOINT_DECLINED_TASK_NOT_READY: TASK,
        Reason.CHECKPOINT_DECLINED_TASK_CLOSING: TASK,
        Reason.CHECKPOINT_DECLINED_SUBSUMED: TASK,
        Reason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER: TASK,
        Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM: TASK,
        Reason.CHECKPOINT_COORDINATOR_SHUTDOWN: COORDINATOR,
        Reason.CHECKPOINT_COORDINATOR_SUSPEND: COORDINATOR,
        Reason.JOB_FAILOVER_REGION: JOB,
        Reason.TASK_FAILURE: NOBODY,
        Reason.TASK_CHECKPOINT_FAILURE: SLOT,
        Reason.UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE: NOBODY,
        Reason.FINALIZE_CHECKPOINT_FAILURE: COORDINATOR,
        Reason.TRIGGER_CHECKPOINT_FAILURE: COORDINATOR,
    }
)
"""The machine that gives a reason; a test compares it with the packages that use the reason."""
