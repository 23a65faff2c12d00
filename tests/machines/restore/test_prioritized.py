"""Task-local copies of state: which of them may stand in for the truth, and in which order."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from kit.core.state.handles import (
    ChannelStateContent,
    FileStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    MergedInputChannelStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import EMPTY_SUBTASK_STATE, OperatorSubtaskState
from kit.machines.restore.prioritized import NOT_RESTORED, PrioritizedOperatorSubtaskState, mixed_alternative


def keyed(number: int, where: str) -> KeyGroupsStateHandle:
    span = KeyGroupRange(2 * number, 2 * number + 1)
    return KeyGroupsStateHandle(span, (0, 8), FileStateHandle(f"{where}-keyed-{number}", 16))


def operator(number: int, where: str) -> OperatorStreamStateHandle:
    entries = StateMetaInfo((0, 8 * number + 8), OperatorStateMode.SPLIT_DISTRIBUTE)
    return OperatorStreamStateHandle({"items": entries}, FileStateHandle(f"{where}-operator-{number}", 16))


def span(handle: KeyGroupsStateHandle) -> KeyGroupRange:
    return handle.key_group_range


# --- keyed state: handle by handle ------------------------------------------------------------------------------------


@pytest.mark.flink("PrioritizedOperatorSubtaskStateTest.testTryCreateMixedLocalAndRemoteAlternative")
def test_each_handle_is_replaced_by_the_first_copy_of_its_key_groups() -> None:
    truth = [keyed(number, "remote") for number in range(4)]
    first = [keyed(0, "first"), keyed(3, "first")]
    second = [keyed(1, "second"), keyed(3, "second"), keyed(5, "second")]
    mixed = mixed_alternative(truth, [first, [], second], span)
    assert mixed == (keyed(0, "first"), keyed(1, "second"), keyed(2, "remote"), keyed(3, "first"))


@pytest.mark.flink("PrioritizedOperatorSubtaskStateTest.testTryCreateMixedLocalAndRemoteAlternativeEmptyAlternative")
def test_without_copies_there_is_nothing_to_mix() -> None:
    truth = [keyed(number, "remote") for number in range(4)]
    assert mixed_alternative(truth, [], span) is None
    assert mixed_alternative(truth, [[]], span) is None
    assert mixed_alternative(truth, [[keyed(9, "local")]], span) is None


@pytest.mark.flink("PrioritizedOperatorSubtaskStateTest.testTryCreateMixedLocalAndRemoteAlternativeEmptyJMState")
def test_where_the_truth_is_empty_copies_are_not_used() -> None:
    assert mixed_alternative([], [[keyed(0, "local"), keyed(3, "local")]], span) is None
    assert mixed_alternative([], [], span) is None


# --- all kinds --------------------------------------------------------------------------------------------------------

SIZES = (0, 1, 2)
COPIES = ("same", "empty", "other")


def state(where: str, sizes: tuple[int, int, int, int], shift: int = 0) -> OperatorSubtaskState:
    """Return state with these numbers of handles of each kind; `shift` gives them other entries and key groups."""
    managed_operator, raw_operator, managed_keyed, raw_keyed = sizes
    return OperatorSubtaskState(
        tuple(operator(number + shift, where) for number in range(managed_operator)),
        tuple(operator(number + shift, where) for number in range(raw_operator)),
        tuple(keyed(number + shift, where) for number in range(managed_keyed)),
        tuple(keyed(number + shift, where) for number in range(raw_keyed)),
    )


def copy_of(kind: str, where: str, sizes: tuple[int, int, int, int]) -> OperatorSubtaskState:
    """A copy of the first handle of each kind, of nothing, or of something else."""
    if kind == "empty":
        return EMPTY_SUBTASK_STATE
    managed_operator, raw_operator, managed_keyed, raw_keyed = (min(size, 1) for size in sizes)
    one_each = (managed_operator, raw_operator, managed_keyed, raw_keyed)
    return state(where, one_each) if kind == "same" else state(where, (1, 1, 1, 1), shift=9)


def expected_operator(truth: Any, copies: list[Any], valid: list[bool]) -> tuple[Any, ...]:
    return (*(copy for copy, is_valid in zip(copies, valid, strict=True) if is_valid and len(truth) == 1), truth)


def expected_keyed(truth: Any, copies: list[Any], valid: list[bool]) -> tuple[Any, ...]:
    best = next((copy for copy, is_valid in zip(copies, valid, strict=True) if is_valid), None)
    return ((*best, *truth[1:]), truth) if truth and best else (truth,)


@pytest.mark.flink("PrioritizedOperatorSubtaskStateTest.testPrioritization")
@pytest.mark.parametrize("kinds", list(product(COPIES, COPIES)), ids="-".join)
def test_every_mixture_of_truth_and_copies(kinds: tuple[str, str]) -> None:
    for sizes in product(SIZES, repeat=4):
        truth = state("remote", sizes)  # type: ignore[arg-type]
        copies = [copy_of(kind, f"local-{n}", sizes) for n, kind in enumerate(kinds)]  # type: ignore[arg-type]
        valid = [kind == "same" for kind in kinds]
        found = PrioritizedOperatorSubtaskState.of(truth, copies, 7)
        for kind in ("managed_operator_state", "raw_operator_state"):
            of_copies = [getattr(copy, kind) for copy in copies]
            assert getattr(found, kind) == expected_operator(getattr(truth, kind), of_copies, valid)
        for kind in ("managed_keyed_state", "raw_keyed_state"):
            of_copies = [getattr(copy, kind) for copy in copies]
            assert getattr(found, kind) == expected_keyed(getattr(truth, kind), of_copies, valid)


def test_channel_state_is_taken_whole_where_it_is_of_the_same_channel() -> None:
    def buffers(channel: int, where: str) -> InputChannelStateHandle:
        return InputChannelStateHandle(0, InputChannelInfo(0, channel), (4,), 10, FileStateHandle(where, 14))

    def merged(where: str) -> MergedInputChannelStateHandle:
        contents = tuple(ChannelStateContent(InputChannelInfo(0, channel), (4,), 10) for channel in range(2))
        return MergedInputChannelStateHandle(0, contents, 20, FileStateHandle(where, 24))

    def alternatives(truth: Any, *copies: Any) -> tuple[Any, ...]:
        states = [OperatorSubtaskState(input_channel_state=handles) for handles in (truth, *copies)]
        return PrioritizedOperatorSubtaskState.of(states[0], states[1:]).input_channel_state

    one, same, other = ((buffers(channel, where),) for channel, where in ((0, "a"), (0, "b"), (1, "c")))
    assert alternatives(one, other, same) == (same, one)
    assert alternatives((merged("a"),), (merged("b"),), one) == ((merged("b"),), (merged("a"),))


def test_a_copy_that_is_gone_is_passed_over() -> None:
    truth = state("remote", (1, 0, 1, 0))
    found = PrioritizedOperatorSubtaskState.of(truth, [None, state("local", (1, 0, 1, 0))], 7)
    assert [len(alternatives) for alternatives in (found.managed_operator_state, found.managed_keyed_state)] == [2, 2]


def test_an_operator_is_restored_even_without_state() -> None:
    assert PrioritizedOperatorSubtaskState.of(EMPTY_SUBTASK_STATE, restored_checkpoint_id=7).is_restored
    assert not NOT_RESTORED.is_restored
    assert NOT_RESTORED.managed_keyed_state == ((),)
