"""Findings of several kinds at once: the worst is told, and none hides another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kit
from kit.core.metadata import CheckpointMetadata
from kit.core.state.handles import (
    ByteStreamStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.restore_check import Effect, Finding, Severity, check_restore
from kit.snapshots.checkpoints.checking import types_changed, with_types
from kit.snapshots.checkpoints.keyed_parts import StateInfo
from kit.snapshots.serializers.basic import LONG, STRING
from kit.snapshots.serializers.pojo import Pojo
from kit.stream.graph.hashing import operator_id_of_uid
from tests.restore_check.test_check_restore import operator
from tests.snapshots.written import longs


def lists(*names: str) -> OperatorSubtaskState:
    """State of lists, one entry each."""
    infos = {name: StateMetaInfo((place,), OperatorStateMode.SPLIT_DISTRIBUTE) for place, name in enumerate(names)}
    return OperatorSubtaskState(
        managed_operator_state=(OperatorStreamStateHandle(infos, ByteStreamStateHandle("l", b"12345")),)
    )


def in_flight() -> OperatorSubtaskState:
    """State with rows in flight."""
    handle = InputChannelStateHandle(0, InputChannelInfo(0, 0), ByteStreamStateHandle("flight", b"12345678"), 8, (0,))
    return OperatorSubtaskState(input_channel_state=(handle,))


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (4, 1), (1, 2)])
def test_rows_in_flight_are_told_of_when_a_job_grows_and_when_it_shrinks(before: int, after: int) -> None:
    metadata = operator("joins", {subtask: in_flight() for subtask in range(before)}, before)
    warned = [each for each in check_restore(metadata, {"joins": after}).findings if each.severity is Severity.WARNS]
    assert [each.operator for each in warned] == ["joins"]
    assert f"redistributed from {before} to {after} subtasks" in warned[0].found
    same = check_restore(metadata, {"joins": before}).findings
    assert all(each.severity is not Severity.WARNS for each in same)


@pytest.mark.parametrize(
    ("names", "effect"),
    [
        (("SourceReaderState",), Effect.REPEATED),
        (("SourceReaderState", "file-monitoring-state"), Effect.REPEATED),
        (("SourceReaderState", "writer_raw_states"), Effect.LOST),
        (("writer_raw_states", "SourceReaderState"), Effect.LOST),
        (("my-list", "committables"), Effect.LOST),
    ],
)
def test_what_is_lost_is_told_although_rows_are_repeated_too(names: tuple[str, ...], effect: Effect) -> None:
    metadata = operator("both", {0: lists(*names)}, 1)
    check = check_restore(metadata, {"other": 1}, allow_non_restored_state=True)
    (dropped,) = [each for each in check.findings if each.operator == "both"]
    assert dropped.effect is effect
    assert check.costs
    assert ("is lost" in check.verdict) == (effect is Effect.LOST)


def test_one_operator_repeats_and_another_loses() -> None:
    ids = {uid: operator_id_of_uid(uid) for uid in ("one", "two")}
    states = tuple(
        OperatorState(ids[uid], 1, 128, {0: lists(name)}, name=uid, uid=uid)
        for uid, name in (("one", "SourceReaderState"), ("two", "committables"))
    )
    check = check_restore(CheckpointMetadata(3, states), {"other": 1}, allow_non_restored_state=True)
    assert check.verdict.endswith("but state of two is lost and rows of one are repeated")


@pytest.mark.parametrize(
    ("after", "severity"),
    [
        ({"kept": LONG}, Severity.WARNS),
        ({"kept": LONG, "new": STRING}, Severity.WARNS),
        ({"new": STRING, "kept": LONG}, Severity.WARNS),
        ({"kept": LONG, "gone": STRING, "new": LONG}, Severity.TELLS),
    ],
)
def test_a_lost_field_is_told_beside_a_new_one(after: dict[str, object], severity: Severity) -> None:
    def declared(fields: dict[str, object]) -> dict[str, dict[str, dict[str, StateInfo]]]:
        value = Pojo("com.acme.Order", list(fields.items()), [], [])
        info = StateInfo("orders", "VALUE", "Long", "", value.name, {"key": LONG, "value": value})
        return {"id": {"keyed": {"orders": info}}}

    (found,) = types_changed(declared({"kept": LONG, "gone": STRING}), declared(after), {"id": "totals"})
    assert found.severity is severity
    assert (found.effect is Effect.LOST) == (severity is Severity.WARNS)


def test_a_note_beside_a_warning_does_not_say_that_nothing_is_lost(tmp_path: Path) -> None:
    answer = kit.open_checkpoint(longs(tmp_path / "chk-1", np.arange(5), 8)).check({"sums": 2})
    assert Effect.EXACTLY_ONCE in {each.effect for each in answer.findings}
    note = Finding(Severity.TELLS, "sums", "A field is new.")
    warning = replace(note, severity=Severity.WARNS, effect=Effect.LOST)
    for found in ([note, warning], [warning, note]):
        assert Effect.EXACTLY_ONCE not in {each.effect for each in with_types(answer, found).findings}
    assert Effect.EXACTLY_ONCE in {each.effect for each in with_types(answer, [note]).findings}
