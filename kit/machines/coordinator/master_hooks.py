"""State outside the job that goes with its checkpoints: master hooks.

A hook is triggered when a checkpoint begins and may give a value, which its serializer turns into bytes with a version
number; on a restore it is given the value back. The coordinator knows the hooks by their identifiers only. The host
calls them, through `MasterHooks`, which turns whatever they do into events.

Follows Flink's `MasterTriggerRestoreHook` and `MasterHooks`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

from kit.core.protocol.commands import RestoreMasterHooks, TriggerMasterHook
from kit.core.protocol.events import MasterHookFailed, MasterHooksReset, MasterHooksRestored, MasterHookTriggered
from kit.core.state.operator_state import MasterState

logger = logging.getLogger(__name__)
NO_STATE = 0
"""The version that is stored beside "no state"."""


class MasterStateSerializer(Protocol):
    """Turns a hook's value into bytes and back (`SimpleVersionedSerializer`)."""

    @property
    def version(self) -> int:
        """Of the bytes that `serialize` gives."""

    def serialize(self, value: Any) -> bytes:
        """The value as bytes."""

    def deserialize(self, version: int, data: bytes) -> Any:
        """The value in bytes that a serializer of `version` gave."""


class MasterHook(Protocol):
    """What takes part in checkpoints beside the tasks (`MasterTriggerRestoreHook`)."""

    @property
    def identifier(self) -> str:
        """Its name in checkpoints; no two hooks of a job have the same."""

    @property
    def serializer(self) -> MasterStateSerializer | None:
        """For its values; None when it never has any."""

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> Any:
        """A checkpoint begins: give the value that belongs to it, or None."""

    def restore_checkpoint(self, checkpoint_id: int, value: Any) -> None:
        """The job goes back to this checkpoint; `value` is None when it held none of this hook."""

    def reset(self) -> None:
        """The job begins again from nothing."""

    def close(self) -> None:
        """The job is over."""


class MasterHooks:
    """The hooks of one job, by identifier, in the order they were added. Follows Flink's `MasterHooks`."""

    def __init__(self, hooks: Sequence[MasterHook] = ()) -> None:
        self._hooks: dict[str, MasterHook] = {}
        self._is_closed = False
        for hook in hooks:
            if not self.add(hook):
                raise ValueError(f"two master hooks have the identifier {hook.identifier!r}; give one another name")

    def add(self, hook: MasterHook) -> bool:
        """Register a hook; False when its identifier is taken. Raises ValueError for a blank identifier."""
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
        """Call the hook, and serialize what it gives. Flink: `triggerHook`."""
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
        """Give every hook its value back; none is called before all values could be read.

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
        """The job begins from nothing: tell every hook, up to the first that raises."""
        self._is_closed = False
        for identifier, hook in self._hooks.items():
            try:
                hook.reset()
            except Exception as error:
                return MasterHooksReset(error=_text(identifier, "cannot be reset", error))
        return MasterHooksReset()

    def close(self) -> None:
        """The job is over: tell every hook, once. What goes wrong is logged and stops nothing, as in Flink.

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


def restore_command(
    hooks: Collection[str], checkpoint_id: int, states: Sequence[MasterState], *, allow_unmatched: bool
) -> RestoreMasterHooks | None:
    """Hand each state to its hook, and None to hooks without; None when there are no states or no hooks.

    Raises ValueError for a state without a hook, unless `allow_unmatched`.
    """
    if not states or not hooks:
        return None
    by_name = {state.name: state for state in states}
    unmatched = [name for name in by_name if name not in hooks]
    if unmatched and not allow_unmatched:
        raise ValueError(
            f"checkpoint {checkpoint_id} holds state of the master hook(s) {unmatched}, but the job has "
            f"{list(hooks)}: add them, or allow non-restored state"
        )
    matched = [state for state in by_name.values() if state.name in hooks]
    return RestoreMasterHooks(
        checkpoint_id=checkpoint_id,
        states=(
            *((state.name, state.version, state.data) for state in matched),
            *((name, NO_STATE, None) for name in hooks if name not in by_name),
        ),
    )


def _failed(checkpoint_id: int, identifier: str, what: str, error: Exception) -> MasterHookFailed:
    return MasterHookFailed(
        checkpoint_id=checkpoint_id,
        hook=identifier,
        error=_text(identifier, what, error),
    )


def _text(identifier: str, what: str, error: Exception) -> str:
    return f"master hook {identifier!r} {what}: {type(error).__name__}: {error}"
