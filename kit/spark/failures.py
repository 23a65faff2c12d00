"""What to answer a machine when carrying out its command raised what `kit.host` does not foresee.

`JobFiles` and `TaskFiles` turn what may go wrong outside into events themselves. What they let through is an error of a
user's own class, such as a source or a hook, or of ours; it ends in the same events, and stops no thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.protocol import commands, events
from kit.protocol.words import Word


def failure_of(command: Word, error: Exception) -> Word | None:
    """The event that says that `command` failed with `error`; None for a command without an answer."""
    answer = _ANSWERS.get(type(command))
    return None if answer is None else answer(command, f"{type(error).__name__}: {error}")


def _of_hook(command: Any, error: str) -> Word:
    hook = getattr(command, "hook", "")
    return events.MasterHookFailed(checkpoint_id=command.checkpoint_id, hook=hook, error=error)


_ANSWERS: dict[type[Word], Callable[[Any, str], Word | None]] = {
    commands.EnumerateSplits: lambda command, error: events.StartFailed(error=error),
    commands.ResolveSnapshot: lambda command, error: events.StartFailed(error=error),
    commands.RecoverCheckpoints: lambda command, error: events.StartFailed(error=error),
    commands.RemoveOrphans: lambda command, error: events.OrphansRemoved(error=error),
    commands.StoreJobResult: lambda command, error: events.JobResultStored(error=error),
    commands.AllocateCheckpointId: lambda command, error: events.CheckpointIdFailed(error=error),
    commands.InitializeLocation: lambda command, error: events.LocationFailed(
        checkpoint_id=command.checkpoint_id, error=error
    ),
    commands.TriggerMasterHook: _of_hook,
    commands.RestoreMasterHooks: _of_hook,
    commands.WriteMetadata: lambda command, error: events.MetadataFailed(
        checkpoint_id=command.checkpoint_id, error=error
    ),
    commands.StoreCheckpoint: lambda command, error: events.CheckpointStoreFailed(
        checkpoint_id=command.checkpoint_id, error=error
    ),
    commands.DiscardState: lambda command, error: (
        None if command.location is None else events.StateDiscarded(checkpoint_id=command.checkpoint_id)
    ),
    commands.ReadSplit: lambda command, error: events.SplitReadFailed(split_id=str(command.split["id"]), error=error),
    commands.ReadState: lambda command, error: events.StateReadFailed(error=error),
    commands.WriteSnapshot: lambda command, error: events.SnapshotFailed(
        checkpoint_id=command.checkpoint_id, error=error
    ),
    commands.WriteChannelStateFile: lambda command, error: events.ChannelStateFileFailed(
        checkpoint_id=command.checkpoint_id, file_name=command.file_name, error=error
    ),
    commands.CommitEffects: lambda command, error: events.EffectsFailed(
        operator_id=command.operator_id, checkpoint_id=command.checkpoint_id, error=error
    ),
}
