"""A host's answers to the commands of a coordinator or JobMaster: each favourable answer, and each failure, once."""

from __future__ import annotations

from typing import Any

from kit.core.protocol import commands, events
from kit.core.protocol.words import ProtocolMessage


def favourable(command: Any) -> ProtocolMessage | None:
    """Return the answer to a command that was carried out, None for one without; only the host knows the next id."""
    match command:
        case commands.InitializeLocation(checkpoint_id=checkpoint_id):
            return events.LocationInitialized(checkpoint_id=checkpoint_id, location=f"chk-{checkpoint_id}")
        case commands.ScheduleCoordinatorCheckpoint(checkpoint_id=checkpoint_id, operator_id=operator):
            return events.CheckpointOperatorCoordinator(checkpoint_id=checkpoint_id, operator_id=operator)
        case commands.TriggerMasterHook(checkpoint_id=checkpoint_id, hook=hook):
            return events.MasterHookTriggered(checkpoint_id=checkpoint_id, hook=hook, version=3, state=hook.encode())
        case commands.ResetMasterHooks():
            return events.MasterHooksReset()
        case commands.RestoreMasterHooks(checkpoint_id=checkpoint_id):
            return events.MasterHooksRestored(checkpoint_id=checkpoint_id)
        case commands.WriteMetadata(checkpoint_id=checkpoint_id, location=location, data=data):
            path = f"{location}/_metadata"
            return events.MetadataWritten(checkpoint_id=checkpoint_id, path=path, size_bytes=len(data))
        case commands.StoreCheckpoint(checkpoint_id=checkpoint_id):
            return events.CheckpointStored(checkpoint_id=checkpoint_id)
        case commands.StopEpoch(epoch=epoch):
            return events.EpochEnded(epoch=epoch)
        case commands.StopTasks(epoch=epoch, restart=restart, tasks=tasks):
            return events.TasksStopped(epoch=epoch, restart=restart, tasks=tasks)
        case commands.RecoverCheckpoints():
            return events.CheckpointsRecovered()
        case commands.RemoveOrphans():
            return events.OrphansRemoved()
        case commands.StoreJobResult():
            return events.JobResultStored()
        case commands.StoreParallelism(request_id=request_id):
            return events.ParallelismStored(request_id=request_id)
    return None


def refusal(command: Any, error: str = "no", *, hook: str = "") -> ProtocolMessage | None:
    """Return the answer to a failed command, None if it cannot fail; `hook` is the one that cannot be restored."""
    match command:
        case commands.AllocateCheckpointId():
            return events.CheckpointIdFailed(error=error)
        case commands.InitializeLocation(checkpoint_id=checkpoint_id):
            return events.LocationFailed(checkpoint_id=checkpoint_id, error=error)
        case commands.TriggerMasterHook(checkpoint_id=checkpoint_id, hook=triggered):
            return events.MasterHookFailed(checkpoint_id=checkpoint_id, hook=triggered, error=error)
        case commands.RestoreMasterHooks(checkpoint_id=checkpoint_id):
            return events.MasterHookFailed(checkpoint_id=checkpoint_id, hook=hook, error=error)
        case commands.ResetMasterHooks():
            return events.MasterHooksReset(error=error)
        case commands.WriteMetadata(checkpoint_id=checkpoint_id):
            return events.MetadataFailed(checkpoint_id=checkpoint_id, error=error)
        case commands.StoreCheckpoint(checkpoint_id=checkpoint_id):
            return events.CheckpointStoreFailed(checkpoint_id=checkpoint_id, error=error)
        case commands.StoreParallelism(request_id=request_id):
            return events.ParallelismStored(request_id=request_id, error=error)
    return None
