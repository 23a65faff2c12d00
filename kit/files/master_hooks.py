"""Master hooks: state outside the job that belongs to its checkpoints.

A hook is triggered when a checkpoint begins and may return a value, which its serializer turns into bytes with a
version number. On a restore it gets the value back. No machine calls a hook: the coordinator knows the identifiers, and
a host carries out its commands with `MasterHooks`, which turns the results into events.

Follows Flink's `MasterTriggerRestoreHook` and `MasterHooks`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from kit.core.protocol.commands import RestoreMasterHooks, TriggerMasterHook
from kit.core.protocol.events import MasterHookFailed, MasterHooksReset, MasterHooksRestored, MasterHookTriggered
from kit.core.protocol.outages import may_pass

logger = logging.getLogger(__name__)


class MasterStateSerializer(Protocol):
    """A serializer of a hook's value (`SimpleVersionedSerializer`)."""

    @property
    def version(self) -> int:
        """The version of the bytes that `serialize` returns."""

    def serialize(self, value: Any) -> bytes:
        """Return the value as bytes."""

    def deserialize(self, version: int, data: bytes) -> Any:
        """Return the value from bytes that a serializer of `version` wrote."""


class MasterHook(Protocol):
    """A participant in checkpoints besides the tasks (`MasterTriggerRestoreHook`)."""

    @property
    def identifier(self) -> str:
        """The hook's name in checkpoints, unique in a job."""

    @property
    def serializer(self) -> MasterStateSerializer | None:
        """The serializer of its values; None if it never has any."""

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> Any:
        """Return the value that belongs to the checkpoint, which begins now, or None."""

    def restore_checkpoint(self, checkpoint_id: int, value: Any) -> None:
        """Restore this checkpoint; `value` is None if it holds none for this hook."""

    def reset(self) -> None:
        """Reset, because the job starts again without state."""

    def close(self) -> None:
        """Close, because the job is over."""


class MasterHooks:
    """The hooks of one job, by identifier, in the order they were added. Follows Flink's `MasterHooks`."""

    def __init__(self, hooks: Sequence[MasterHook] = ()) -> None:
        self._hooks: dict[str, MasterHook] = {}
        self._is_closed = False
        if isinstance(hooks, str) or not isinstance(hooks, Iterable):
            raise TypeError(f"hooks = {hooks!r}: expected a list of hooks; kit.MasterHook lists what one needs")
        for hook in hooks:
            if not self.add(hook):
                raise ValueError(f"two master hooks have the identifier {hook.identifier!r}; give one another name")

    def add(self, hook: MasterHook) -> bool:
        """Register a hook; return False if its identifier is taken.

        Raises ValueError for a blank identifier, TypeError for an object that is not a hook.
        """
        if not hasattr(hook, "identifier"):
            raise TypeError(f"{hook!r} is no master hook: it has no `identifier`; kit.MasterHook lists what it needs")
        identifier = hook.identifier
        if not isinstance(identifier, str) or not identifier.strip():
            raise ValueError(f"{hook!r} has the identifier {identifier!r}: expected a name that is not blank")
        if identifier in self._hooks:
            return False
        self._hooks[identifier] = hook
        return True

    def __len__(self) -> int:
        return len(self._hooks)

    def __iter__(self) -> Iterator[str]:
        return iter(self._hooks)

    def trigger(self, command: TriggerMasterHook) -> MasterHookTriggered | MasterHookFailed:
        """Call the hook, and serialize the value it returns. Flink: `triggerHook`."""
        self._is_closed = False
        checkpoint_id, identifier = command.checkpoint_id, command.hook
        hook = self._hooks[identifier]
        try:
            value = hook.trigger_checkpoint(checkpoint_id, command.timestamp_ms)
        except Exception as error:
            return _failed(checkpoint_id, identifier, "cannot be triggered", error)
        if value is None:
            return MasterHookTriggered(checkpoint_id=checkpoint_id, hook=identifier)
        serializer = hook.serializer
        if serializer is None:
            missing = TypeError(f"it gave {value!r} but has no serializer")
            return _failed(checkpoint_id, identifier, "cannot be stored", missing)
        try:
            data = serializer.serialize(value)
        except Exception as error:
            return _failed(checkpoint_id, identifier, "cannot be stored", error)
        return MasterHookTriggered(checkpoint_id=checkpoint_id, hook=identifier, version=serializer.version, state=data)

    def restore(self, command: RestoreMasterHooks) -> MasterHooksRestored | MasterHookFailed:
        """Return every hook its value; no hook is called before all values have been read.

        Flink: `restoreMasterHooks`.
        """
        self._is_closed = False
        values: list[tuple[str, Any]] = []
        for identifier, version, data in command.states:
            try:
                values.append((identifier, self._deserialize(identifier, version, data)))
            except Exception as error:
                return _failed(command.checkpoint_id, identifier, "cannot read its state", error)
        for identifier, value in values:
            try:
                self._hooks[identifier].restore_checkpoint(command.checkpoint_id, value)
            except Exception as error:
                return _failed(command.checkpoint_id, identifier, "cannot be restored", error)
        return MasterHooksRestored(checkpoint_id=command.checkpoint_id)

    def _deserialize(self, identifier: str, version: int, data: bytes | None) -> Any:
        if data is None:
            return None
        serializer = self._hooks[identifier].serializer
        if serializer is None:
            raise TypeError(f"the checkpoint holds {len(data)} B for it but it has no serializer")
        return serializer.deserialize(version, data)

    def reset(self) -> MasterHooksReset:
        """Reset every hook, up to the first that raises, because the job starts without state."""
        self._is_closed = False
        for identifier, hook in self._hooks.items():
            try:
                hook.reset()
            except Exception as error:
                return MasterHooksReset(error=_text(identifier, "cannot be reset", error), may_pass=may_pass(error))
        return MasterHooksReset()

    def close(self) -> None:
        """Close every hook once, because the job is over. Errors are logged and stop nothing, as in Flink.

        A lab that goes back to a moment before that calls the same hooks again, and closes them again at the end.
        """
        if self._is_closed:
            return
        self._is_closed = True
        for identifier, hook in self._hooks.items():
            try:
                hook.close()
            except Exception as error:
                logger.warning("master hook %r cannot be closed: %s: %s", identifier, type(error).__name__, error)

    def __repr__(self) -> str:
        return f"MasterHooks({', '.join(self._hooks)})"


def _failed(checkpoint_id: int, identifier: str, what: str, error: Exception) -> MasterHookFailed:
    return MasterHookFailed(
        checkpoint_id=checkpoint_id,
        hook=identifier,
        error=_text(identifier, what, error),
        may_pass=may_pass(error),
    )


def _text(identifier: str, what: str, error: Exception) -> str:
    return f"master hook {identifier!r} {what}: {type(error).__name__}: {error}"
