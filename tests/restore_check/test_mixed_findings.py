"""Findings of several kinds at once: the worst is reported, and none hides another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kit
from kit.core.metadata import CheckpointMetadata
from kit.core.state.handles import (
    ByteStreamStateHandle,
    IncrementalRemoteKeyedStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex
from kit.restore_check import Effect, Finding, JobShape, Severity, check_restore, shape_of
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
    arrived = InputChannelStateHandle(0, InputChannelInfo(0, 0), ByteStreamStateHandle("in", b"12345"), 5, (0,))
    sent = ResultSubpartitionStateHandle(0, ResultSubpartitionInfo(0, 0), ByteStreamStateHandle("out", b"678"), 3, (0,))
    return OperatorSubtaskState(input_channel_state=(arrived,), result_subpartition_state=(sent,))


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (4, 1), (1, 2)])
def test_rows_in_flight_are_told_of_when_a_job_grows_and_when_it_shrinks(before: int, after: int) -> None:
    metadata = operator("joins", {subtask: in_flight() for subtask in range(before)}, before)
    warned = [each for each in check_restore(metadata, {"joins": after}).findings if each.severity is Severity.WARNS]
    assert [each.operator for each in warned] == ["joins"]
    assert warned[0].found.startswith(
        f"{8 * before} B of in-flight data would be redistributed from {before} to {after}"
    )
    same = check_restore(metadata, {"joins": before}).findings
    assert all(each.severity is not Severity.WARNS for each in same)


def test_rows_in_flight_count_as_state_of_an_operator_that_the_job_does_not_have() -> None:
    metadata = operator("joins", {1: in_flight()})
    check = check_restore(metadata, {"other": 2})
    (failing,) = [each for each in check.findings if each.severity is Severity.FAILS]
    assert failing.found == "8 B of state have no operator in the job: in-flight rows."
    dropped = check_restore(metadata, {"other": 2}, allow_non_restored_state=True)
    assert dropped.verdict.endswith("but state of joins is lost")
    assert check_restore(metadata, {"joins": 2}).restores


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


def keyed(low: int, high: int, groups: int = 128) -> OperatorSubtaskState:
    """Keyed state with `low` bytes in the first key group and `high` bytes in the last."""
    offsets = (0, *(-1,) * (groups - 2), low)
    handle = KeyGroupsStateHandle(KeyGroupRange(0, groups - 1), offsets, ByteStreamStateHandle("k", bytes(low + high)))
    return OperatorSubtaskState(managed_keyed_state=(handle,))


def state_of(uid: str, parts: dict[int, OperatorSubtaskState], maximum: int = 128, **rest: bool) -> OperatorState:
    """An operator of two subtasks, with a uid that is its name too."""
    return OperatorState(operator_id_of_uid(uid), 2, maximum, parts, name=uid, uid=uid, **rest)


STATES = (
    state_of("kept", {0: keyed(900, 1), 1: keyed(1, 1)}),
    state_of("fewer", {0: keyed(900, 1), 1: keyed(1, 1)}),
    state_of("ended", {}, fully_finished=True),
    state_of("more", {0: keyed(1, 1, 64), 1: lists("committables")}, 64),
    state_of("gone", {0: lists("SourceReaderState")}),
    state_of("lost", {0: lists("SourceReaderState"), 1: keyed(5, 5)}),
    state_of(
        "also-lost",
        {
            0: replace(keyed(3, 4), input_channel_state=in_flight().input_channel_state),
            1: lists("SourceReaderState", "file-monitoring-state"),
        },
    ),
    state_of("also-gone", {0: lists("file-monitoring-state"), 1: lists("SourceReaderState")}),
    state_of("wide", {0: keyed(1, 1)}),
    state_of("wider", {1: keyed(1, 1)}),
    state_of("empty", {}),
)
JOB = {"kept": (2, 128), "ended": (2, 128), "new": 1, "newer": 1}


def test_each_operator_that_fails_is_listed_without_its_notes() -> None:
    """Key groups, operators and parallelism of several operators do not fit; each finding has its own numbers."""
    job = JOB | {"fewer": (2, 64), "more": (2, 128), "wide": 129, "wider": 130}
    check = check_restore(CheckpointMetadata(3, STATES), job)
    failing = ("fewer", "more", "gone", "lost", "also-lost", "also-gone", "wide", "wider")
    assert [(each.severity, each.operator) for each in check.findings] == [
        *((Severity.FAILS, name) for name in failing),
        *((Severity.TELLS, name) for name in ("kept", "ended")),
    ]
    found = {each.operator: each for each in check.findings}
    assert found["fewer"].found == "Its state is divided into 128 key groups; the job asks for 64."
    assert found["more"].found == "Its state is divided into 64 key groups; the job asks for 128."
    assert "(129)" in found["wide"].flink
    assert "(130)" in found["wider"].flink
    assert "Set .uid('lost') on its operator" in found["lost"].fix
    assert check.error is not None
    assert check.error.flink_message == found["fewer"].flink, "the first in the checkpoint's order"
    assert check.verdict.endswith("8 things must change")
    assert not check.restores
    assert not check.costs
    assert repr(check) == "RestoreCheck(does not restore: 6 matched, 4 missing, 1 empty, 2 new)"


def test_each_operator_that_is_dropped_has_its_own_effect() -> None:
    job = JOB | {"fewer": (2, 128), "more": (2, 64), "wide": 2, "wider": 3}
    check = check_restore(CheckpointMetadata(3, STATES), job, allow_non_restored_state=True)
    effects = {"gone": Effect.REPEATED, "lost": Effect.LOST, "also-lost": Effect.LOST, "also-gone": Effect.REPEATED}
    notes = ("kept", "fewer", "ended")
    assert [(each.severity, each.operator, each.effect) for each in check.findings] == [
        *((Severity.WARNS, name, effect) for name, effect in effects.items()),
        *((Severity.TELLS, name, Effect.NONE) for name in notes),
    ]
    assert check.restores
    assert check.costs
    costs = "state of lost, also-lost is lost and rows of gone, also-gone are repeated"
    assert check.verdict == f"Checkpoint 3 restores to this job, but {costs}"
    shared = [each.whose for each in check.shared_findings]
    assert shared == ["gone", "lost", "also-lost", "also-gone", "2 operators: kept, fewer", "ended"]
    found = {each.operator: each.found for each in check.findings}
    assert found["also-lost"].startswith(
        "17 B of state are dropped: keyed state, in-flight rows, a source's splits and positions (SourceReaderState), "
        "the time of the newest file that was read (file-monitoring-state). "
        "Then the state of each key is lost; these rows are lost."
    )
    fixes = {each.operator: each.fix for each in check.findings if each.severity is Severity.WARNS}
    assert fixes == {name: f"Set .uid({name!r}) on its operator." for name in effects}
    assert dict(check.balance.groupby("operator", sort=False)["bytes"].agg(list)) == {
        "kept": [901, 2],
        "fewer": [901, 2],
        "more": [1, 1],
        "wide": [1, 1],
        "wider": [1, 0, 1],
    }
    kinds = check.assigned.groupby("operator", sort=False)["kind"].agg(set)
    assert dict(kinds) == {
        "kept": {"keyed"},
        "fewer": {"keyed"},
        "more": {"keyed", "operator"},
        "wide": {"keyed"},
        "wider": {"keyed"},
    }


def test_an_operator_has_all_of_its_findings_and_a_warning_behind_a_note_counts() -> None:
    infos = {name: StateMetaInfo(tuple(range(count)), OperatorStateMode.UNION) for name, count in UNIONS.items()}
    unions = OperatorStreamStateHandle(infos, ByteStreamStateHandle("u", bytes(8)))
    both = replace(keyed(700, 1), managed_operator_state=(unions,), raw_operator_state=(unions,))
    one = replace(in_flight(), managed_keyed_state=keyed(1, 1).managed_keyed_state)
    states = (
        state_of("kept", {0: keyed(900, 1), 1: keyed(1, 1)}),
        state_of("both", {0: keyed(1, 1), 1: both}),
        *(state_of(uid, {0: in_flight(), 1: one}) for uid in ("joined", "split")),
        state_of("none", {}),
    )
    job = dict.fromkeys(("kept", "both", "joined", "split", "none"), (3, 128))
    check = check_restore(CheckpointMetadata(3, states), job)
    assert [(each.severity, each.operator, each.found[:40]) for each in check.findings] == [
        (Severity.WARNS, "joined", "16 B of in-flight data would be redistri"),
        (Severity.WARNS, "split", "16 B of in-flight data would be redistri"),
        (Severity.WARNS, "both", "Each of 3 subtasks gets all 800 entries "),
        (Severity.WARNS, "both", "Each of 3 subtasks gets all 1,200 entrie"),
        (Severity.TELLS, "kept", "Subtask 0 gets 3.0 times the mean of the"),
        (Severity.TELLS, "both", "Subtask 0 gets 3.0 times the mean of the"),
    ]
    assert check.findings[4].found.endswith("901 B of 903 B over 3 subtasks.")
    assert check.restores
    kept = check_restore(CheckpointMetadata(3, states[:1]), {"kept": (3, 128)})
    assert [each.effect for each in kept.findings] == [Effect.NONE, Effect.EXACTLY_ONCE]


def test_state_is_found_by_either_id_of_an_operator_and_by_the_users_id_first() -> None:
    ids = {uid: operator_id_of_uid(uid) for uid in ("kept", "fewer", "wide", "none")}
    pairs = [
        OperatorIDPair(ids["none"], ids["kept"], "by user", "a"),
        OperatorIDPair(ids["fewer"], ids["none"], "by default", "b"),
        OperatorIDPair("a" * 32, None, "new", "c"),
    ]
    shape = JobShape(tuple(AssignmentVertex(str(pair.name), 2, (pair,), 128) for pair in pairs), ())
    check = check_restore(CheckpointMetadata(3, STATES[:2]), shape)
    assert [(each.label, str(each.match)) for each in check.matches] == [
        ("a", "matched"),
        ("b", "matched"),
        ("c", "new"),
    ]
    assert check.assigned["operator"].tolist() == ["by user"] * 2 + ["by default"] * 2
    both = replace(pairs[0], generated_id=ids["wide"])
    vertex = AssignmentVertex("both", 2, (both,), 128)
    two = check_restore(CheckpointMetadata(3, (STATES[8], STATES[0])), JobShape((vertex,), ()))
    assert two.assigned["bytes"].sum() == 903, "of two states, the one under the user's id is restored"


def test_an_operator_that_fails_is_listed_once_whatever_its_place_in_a_chain() -> None:
    groups = {"a": 128, "b": 64, "c": 64, "d": 128, "e": 256, "f": 128, "g": 128, "h": 256, "k": 128}
    states = tuple(state_of(uid, {0: keyed(1, 1, many)}, many) for uid, many in groups.items())
    chains = {"ab": (2, 128), "cd": (2, 128), "ef": (129, None), "gh": (129, None), "ikj": (130, None)}
    vertices = [
        AssignmentVertex(
            name, parallelism, tuple(OperatorIDPair(operator_id_of_uid(uid), None, uid, uid) for uid in name), maximum
        )
        for name, (parallelism, maximum) in chains.items()
    ]
    check = check_restore(CheckpointMetadata(3, states), JobShape(tuple(vertices), ()))
    failing = [each.operator for each in check.findings if each.severity is Severity.FAILS]
    assert failing == ["b", "c", "ef", "gh", "ikj"]


def test_state_of_every_sort_counts() -> None:
    """An operator has managed and raw keyed state, and lists of both sorts; another has a coordinator's state only."""
    plain, raw = keyed(5, 1), keyed(40, 2)
    lists_of = {name: lists(name).managed_operator_state for name in ("committables", "SourceReaderState", "own")}
    everything = OperatorSubtaskState(
        managed_keyed_state=(*plain.managed_keyed_state, *plain.managed_keyed_state),
        raw_keyed_state=raw.managed_keyed_state,
        managed_operator_state=(*lists_of["committables"], *lists_of["SourceReaderState"]),
        raw_operator_state=lists_of["own"],
    )
    spread = IncrementalRemoteKeyedStateHandle(
        "b", KeyGroupRange(0, 127), 1, (), (), ByteStreamStateHandle("m", bytes(256)), 256
    )
    both = OperatorSubtaskState(managed_keyed_state=(spread, *plain.managed_keyed_state))
    states = (
        state_of("all", {1: everything}),
        state_of("both", {0: both}),
        replace(state_of("planned", {}), coordinator_state=ByteStreamStateHandle("c", b"123")),
    )
    check = check_restore(CheckpointMetadata(3, states), {"both": 2, "all": 2})
    assert check.balance["bytes"].tolist() == [50, 4, 133, 129]
    gone = check_restore(CheckpointMetadata(3, states), {"other": 1}, allow_non_restored_state=True)
    found = {each.operator: each for each in gone.findings}
    for held in ("(committables)", "(SourceReaderState)", "operator state (own)", "keyed state"):
        assert held in found["all"].found
    assert found["planned"].effect is Effect.REPEATED
    assert "the state of its coordinator" in found["planned"].found


def test_each_vertex_gets_the_parallelism_that_it_is_given() -> None:
    shape = shape_of({"a": 1, "b": (2, 64), "c": 3, "d": 4})
    assert [each.parallelism for each in shape.with_parallelism(7).vertices] == [7] * 4
    assert [each.parallelism for each in shape.with_parallelism({"d": 9, "b": 8}).vertices] == [1, 8, 3, 9]
    assert [each.max_parallelism for each in shape.with_max_parallelism(32).vertices] == [32] * 4
    assert [each.max_parallelism for each in shape.vertices] == [None, 64, None, None]
    assert [each.name for each in shape_of(["a", "b", "c"]).vertices] == ["a", "b", "c"]
    chain = replace(shape.vertices[0], operators=tuple(each.operators[0] for each in shape.vertices))
    named = JobShape((chain, shape_of(["e"]).vertices[0]), None)
    assert [each.parallelism for each in named.with_parallelism({"b": 5, "d": 5, "e": 6}).vertices] == [5, 6]
    with pytest.raises(ValueError, match=r"are one task: expected one parallelism, found \[5, 6\]"):
        named.with_parallelism({"d": 6, "b": 5})
    for wrong in (0, {"b": 0}):
        with pytest.raises(ValueError, match="not within bounds"):
            shape.with_parallelism(wrong)
    with pytest.raises(ValueError, match="not within bounds"):
        shape.with_max_parallelism(0)
    with pytest.raises(TypeError, match="uid 'a' is given most, least, but may have"):
        shape_of({"a": {"most": 1, "parallelism": 2, "least": 3}})


UNIONS = {"few": 3, "many": 400, "most": 600}


def test_of_several_operators_without_state_the_one_of_the_same_name_is_likely() -> None:
    new = [
        AssignmentVertex(name, 1, (OperatorIDPair(operator_id_of_uid(uid), None, name, uid),))
        for name, uid in (("first", "a"), ("lost", "b"), ("last", "c"))
    ]
    check = check_restore(CheckpointMetadata(3, STATES[4:6]), JobShape(tuple(new), ()))
    fixes = {each.operator: each.fix for each in check.findings}
    assert fixes["lost"].startswith("Set .uid('lost') on 'lost', which finds no state;")
    assert fixes["gone"].startswith("Set .uid('gone') on its operator;")
    alone = check_restore(CheckpointMetadata(3, STATES[:5]), {"kept": 2, "fewer": 2, "ended": 2, "more": 2, "new": 1})
    (fix,) = [each.fix for each in alone.findings if each.severity is Severity.FAILS]
    assert fix.startswith("Set .uid('gone') on 'new', which finds no state;")


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
