"""Master hooks: registered once, called by the host, their values through their own serializers."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.protocol.commands import RestoreMasterHooks, TriggerMasterHook
from kit.core.protocol.events import MasterHookFailed, MasterHooksRestored, MasterHookTriggered
from kit.files.master_hooks import MasterHooks


class Text:
    """Serializes strings."""

    version = 77

    def serialize(self, value: Any) -> bytes:
        return value.encode()

    def deserialize(self, version: int, data: bytes) -> Any:
        if version != self.version:
            raise ValueError(f"version {version} is not {self.version}")
        return data.decode()


class Hook:
    """A hook that records its calls."""

    def __init__(self, identifier: Any, value: Any = None, *, serializer: Any = None, fails: bool = False) -> None:
        self.identifier = identifier
        self.value = value
        self.serializer = serializer
        self.fails = fails
        self.told: list[Any] = []

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> Any:
        self._tell(("trigger", checkpoint_id, timestamp_ms))
        return self.value

    def restore_checkpoint(self, checkpoint_id: int, value: Any) -> None:
        self._tell(("restore", checkpoint_id, value))

    def reset(self) -> None:
        self._tell("reset")

    def close(self) -> None:
        self._tell("close")

    def _tell(self, what: Any) -> None:
        if self.fails:
            raise RuntimeError("the hook is off")
        self.told.append(what)


def trigger(hook: Hook) -> MasterHookTriggered | MasterHookFailed:
    """Trigger the only hook of a job."""
    return MasterHooks([hook]).trigger(TriggerMasterHook(checkpoint_id=5, hook=hook.identifier, timestamp_ms=99))


def restore(*hooks: Hook, states: tuple[tuple[str, int, bytes | None], ...]) -> MasterHooksRestored | MasterHookFailed:
    """Restore hooks with these states."""
    return MasterHooks(hooks).restore(RestoreMasterHooks(checkpoint_id=5, states=states))


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.testDeduplicateOnRegister")
def test_an_identifier_is_taken_once() -> None:
    hooks = MasterHooks()
    assert hooks.add(Hook("mail"))
    assert not hooks.add(Hook("mail"))
    assert list(hooks) == ["mail"]
    with pytest.raises(ValueError, match="two master hooks have the identifier 'mail'"):
        MasterHooks([Hook("mail"), Hook("mail")])


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.testNullOrInvalidId")
@pytest.mark.parametrize("identifier", [None, "", "   "])
def test_an_identifier_is_not_blank(identifier: str | None) -> None:
    with pytest.raises(ValueError, match="expected a name that is not blank"):
        MasterHooks().add(Hook(identifier))


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.testHooksAreCalledOnTrigger")
def test_a_value_is_serialized_with_the_hooks_own_version() -> None:
    stateful, stateless = Hook("mail", "seven", serializer=Text()), Hook("ledger")
    assert trigger(stateful) == MasterHookTriggered(checkpoint_id=5, hook="mail", version=77, state=b"seven")
    assert trigger(stateless) == MasterHookTriggered(checkpoint_id=5, hook="ledger")
    assert stateful.told == stateless.told == [("trigger", 5, 99)]


@pytest.mark.flink(
    "CheckpointCoordinatorMasterHooksTest.testSerializationFailsOnTrigger",
    "CheckpointCoordinatorMasterHooksTest.testHookCallFailsOnTrigger",
    "CheckpointCoordinatorMasterHooksTest.testTypeIncompatibleWithSerializerOnStore",
)
@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (Hook("mail", fails=True), "cannot be triggered: RuntimeError: the hook is off"),
        (Hook("mail", 7, serializer=Text()), "cannot be stored: AttributeError"),
        (Hook("mail", "seven"), "it gave 'seven' but has no serializer"),
    ],
)
def test_what_fails_on_trigger_is_an_event(hook: Hook, error: str) -> None:
    failed = trigger(hook)
    assert isinstance(failed, MasterHookFailed)
    assert error in failed.error
    assert (failed.hook, failed.checkpoint_id) == ("mail", 5)


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.testHooksAreCalledOnRestore")
def test_each_hook_gets_its_own_value_back() -> None:
    mail, ledger = Hook("mail", serializer=Text()), Hook("ledger")
    done = restore(mail, ledger, states=(("mail", 77, b"seven"), ("ledger", 0, None)))
    assert done == MasterHooksRestored(checkpoint_id=5)
    assert (mail.told, ledger.told) == ([("restore", 5, "seven")], [("restore", 5, None)])


@pytest.mark.flink(
    "CheckpointCoordinatorMasterHooksTest.testDeserializationFailsOnRestore",
    "CheckpointCoordinatorMasterHooksTest.testHookCallFailsOnRestore",
    "CheckpointCoordinatorMasterHooksTest.testTypeIncompatibleWithHookOnRestore",
)
@pytest.mark.parametrize(
    ("hook", "version", "error"),
    [
        (Hook("mail", serializer=Text()), 1, "cannot read its state: ValueError: version 1 is not 77"),
        (Hook("mail", serializer=Text(), fails=True), 77, "cannot be restored: RuntimeError: the hook is off"),
        (Hook("mail"), 77, "the checkpoint holds 5 B for it but it has no serializer"),
    ],
)
def test_what_fails_on_restore_is_an_event(hook: Hook, version: int, error: str) -> None:
    other = Hook("ledger")
    failed = restore(other, hook, states=(("ledger", 0, None), ("mail", version, b"seven")))
    assert isinstance(failed, MasterHookFailed)
    assert error in failed.error
    assert bool(other.told) is ("cannot be restored" in error)


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.testHookReset")
def test_hooks_are_reset_and_closed_whatever_one_of_them_does(caplog: pytest.LogCaptureFixture) -> None:
    good, bad = Hook("good"), Hook("bad")
    hooks = MasterHooks([bad, good])
    hooks.reset()
    bad.fails = True
    hooks.close()
    assert caplog.messages == ["master hook 'bad' cannot be closed: RuntimeError: the hook is off"]
    assert good.told == ["reset", "close"]


def test_hooks_are_closed_once_and_again_when_they_were_called_meanwhile() -> None:
    hook = Hook("mail")
    hooks = MasterHooks([hook])
    hooks.close()
    hooks.close()
    assert hook.told == ["close"]
    hooks.reset()
    hooks.close()
    assert hook.told == ["close", "reset", "close"]
