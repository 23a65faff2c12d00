"""The files that checkpoints share, and when the last user drops one: Flink's answers, and what our states register."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kit.core.protocol.properties import SharingFilesStrategy
from kit.core.state.handles import (
    FileStateHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    PlaceholderStreamStateHandle,
    SegmentFileStateHandle,
    StateScope,
    StreamStateHandle,
)
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.machines.coordinator.completed.shared_state_registry import (
    RecoveryClaimMode,
    SharedStateRegistry,
    private_files,
    register_shared_state,
)
from tests.flink_data import vectors

SHARING = {"checkpoint": SharingFilesStrategy.FORWARD_BACKWARD, "savepoint_native": SharingFilesStrategy.NO_SHARING}


class Handle:
    """A handle as the vectors have it: equal to others of the same `equality`, known by its `name`."""

    def __init__(self, name: str, equality: str) -> None:
        self.name = name
        self.equality = equality

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and self.equality == other.equality

    __hash__ = None  # type: ignore[assignment]


class Played:
    """A registry that takes the steps of a vector."""

    def __init__(self) -> None:
        self.registry: SharedStateRegistry[Handle] = SharedStateRegistry()
        self.discarded: list[str] = []

    def take(self, step: dict[str, Any]) -> object:
        """Carry out one step; returns what it returns."""
        self.discarded = []
        match step["op"]:
            case "register":
                return self._register(step)
            case "unregister_unused":
                unused, in_use = self.registry.unregister_unused(step["lowest_checkpoint_id"])
                self.discarded = [handle.name for handle in unused]
                return sorted(in_use)
            case "register_restored":
                handles = {name: Handle(name, name) for name in step["shared_handles"]}
                mode = RecoveryClaimMode[step["claim_mode"]]
                self.registry.register_restored(step["checkpoint_id"], handles, mode, SHARING[step["props"]])
            case "close":
                self.registry.close()
        return None

    def _register(self, step: dict[str, Any]) -> str:
        is_placeholder = step["handle"] == "PLACEHOLDER"
        found = (
            PlaceholderStreamStateHandle(step["key"], 0) if is_placeholder else Handle(step["handle"], step["equality"])
        )
        prevent = step["prevent_discard_created"]
        return self.registry.register(step["key"], found, step["checkpoint_id"], keep_creator=prevent).name


@pytest.mark.flink(
    "SharedStateRegistryTest.testRegistryNormal",
    "SharedStateRegistryTest.testUnregisterWithUnexistedKey",
    "SharedStateRegistryTest.testUnregisterUnusedSavepointState",
    "SharedStateRegistryTest.testUnregisterNonInitialCheckpoint",
    "SharedStateRegistryTest.testUnregisterInitialCheckpoint",
    "SharedStateRegistryTest.testUnregisterInitialCheckpointUsedInChangelog",
)
def test_registers_and_lets_go_as_flink_does() -> None:
    rows = 0
    for row in vectors("shared_registry"):
        played = Played()
        for step in row["steps"]:
            if step.get("error"):
                with pytest.raises(ValueError, match=r"which no earlier checkpoint registered|calls it|is closed"):
                    played.take(step)
            else:
                assert played.take(step) == (step.get("returned")), (row["id"], step)
            assert Counter(played.discarded) == Counter(step["discarded"]), (row["id"], step)
            played.registry.validate()
        rows += 1
    assert rows == 600


def incremental(checkpoint_id: int, *shared: str) -> TaskStateSnapshot:
    """Return an ack with incremental state: these shared files, a private one and a meta one."""
    handle = IncrementalRemoteKeyedStateHandle(
        "backend",
        KeyGroupRange(0, 127),
        checkpoint_id,
        tuple(HandleAndLocalPath(name, FileStateHandle(name, 10)) for name in shared),
        (HandleAndLocalPath("options", FileStateHandle(f"private-{checkpoint_id}", 1)),),
        FileStateHandle(f"meta-{checkpoint_id}", 1),
        10,
    )
    return TaskStateSnapshot({"op": OperatorSubtaskState(managed_keyed_state=(handle,))})


def test_an_ack_registers_its_shared_files_and_no_others() -> None:
    registry: SharedStateRegistry[StreamStateHandle] = SharedStateRegistry()
    register_shared_state(registry, incremental(1, "a", "b"), 1)
    register_shared_state(registry, incremental(2, "b", "c"), 2)
    assert set(registry.entries) == {"a", "b", "c"}
    unused, in_use = registry.unregister_unused(2)
    assert [file for handle in unused for file in handle.files()] == ["a"]
    assert in_use == set()


def test_private_files_are_those_that_are_not_shared() -> None:
    state = incremental(1, "a", "b").subtask_states["op"]
    assert list(private_files(state)) == ["meta-1", "private-1"]


def test_a_segment_of_a_merged_file_is_not_deleted_with_one_checkpoint() -> None:
    segment = SegmentFileStateHandle(0, 10, StateScope.SHARED, "merged", "logical")
    handle = KeyGroupsStateHandle(KeyGroupRange(0, 0), (0,), segment)
    assert list(private_files(OperatorSubtaskState(managed_keyed_state=(handle,)))) == []


def test_a_closed_registry_takes_nothing() -> None:
    registry: SharedStateRegistry[str] = SharedStateRegistry()
    registry.close()
    with pytest.raises(ValueError, match="the registry is closed"):
        registry.register("a", "a", 1)
