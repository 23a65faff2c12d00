"""The check of a checkpoint against a job, held to Flink's answers and to restores that really happen."""

from __future__ import annotations

from typing import Any

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment, count, sum_
from kit.core.metadata import CheckpointMetadata, read_metadata
from kit.core.state.handles import (
    ByteStreamStateHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.machines.restore.errors import RestoreError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex
from kit.machines.restore.validate import load_and_validate
from kit.restore_check import Effect, JobShape, RestoreCheck, Severity, check_restore, shape_of
from kit.stream.graph.hashing import operator_id_of_uid
from tests.flink_data import vectors
from tests.machines.restore import build, test_state_assignment, test_validate

ROWS = [{"key": n % 7, "value": n} for n in range(200)]


# --- Flink's answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", test_state_assignment.FILES)
def test_it_fails_where_flink_fails_and_with_its_words(file: str) -> None:
    for row in vectors(file):
        shape = JobShape(tuple(build.vertices(row)), tuple(build.edges(row)))
        states = build.operator_states(row)
        check = check_restore(
            CheckpointMetadata(row["restore_checkpoint_id"], tuple(states.values())),
            shape,
            allow_non_restored_state=row["allow_non_restored_state"],
            recover_output_on_downstream=row["recover_output_on_downstream"],
        )
        answers = [test_state_assignment.expected(answer) for answer in row.get("alternatives", [row])]
        failing = {answer["error"] for answer in answers if "error" in answer}
        refused, dropped = _loaded(row, shape, states)
        if refused:
            assert (check.error and check.error.flink_message) == refused, f"{file} {row['id']}"
        elif {message for _, message in failing} & {f"There is no operator for the state {each}" for each in dropped}:
            assert check.restores, "what is empty was left out when the checkpoint was loaded"
        else:
            assert check.restores == (not failing), f"{file} {row['id']}"
            if check.error is not None:
                message = test_state_assignment.vertex_names_out(check.error.flink_message, row)
                assert (check.error.flink_class, message) in failing, f"{file} {row['id']}"
        fails = [finding for finding in check.findings if finding.severity is Severity.FAILS]
        assert bool(fails) == (check.error is not None), f"{file} {row['id']}"
        assert check.error is None or check.error.flink_message in {finding.flink for finding in fails}


def _loaded(row: build.Row, shape: JobShape, states: dict[str, OperatorState]) -> tuple[str | None, set[str]]:
    """Do what Flink does before the assignment, where the vectors begin. Returns the error, and the operators without
    state that Flink leaves out.
    """
    try:
        loaded = load_and_validate(
            shape.vertices,
            states.values(),
            pointer="this checkpoint",
            allow_non_restored_state=row["allow_non_restored_state"],
        )
    except RestoreError as error:
        return error.flink_message, set()
    return None, states.keys() - loaded.keys()


def test_it_fails_as_flink_does_when_a_savepoint_is_loaded() -> None:
    for row in vectors("savepoint_validate"):
        check = check_restore(
            CheckpointMetadata(1, tuple(test_validate.states(row))),
            JobShape(tuple(build.vertices(row)), ()),
            allow_non_restored_state=row["allow_non_restored_state"],
            path="/sp/1",
        )
        if row["error"]:
            assert check.error is not None
            assert (check.error.flink_class, check.error.flink_message) == (
                row["error"]["class"],
                row["error"]["message"],
            ), row["id"]
        else:
            assert check.restores, row["id"]


# --- restores that happen ---------------------------------------------------------------------------------------------


def job(parallelism: int, *, totals: str = "totals", max_parallelism: int | None = 16) -> StreamEnvironment:
    env = StreamEnvironment(
        "check",
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        checkpoint=CheckpointConfig(unaligned=True),
    )
    source = CollectionSource(ROWS, splits=4, batch_rows=3)
    keyed = env.from_source(source, uid="rows").key_by("key")
    keyed.aggregate(total=sum_("value"), n=count()).uid(totals).name("totals").sink_to(CollectSink("out"), uid="out")
    return env


def checkpoint_of(lab: Lab, path: str) -> CheckpointMetadata:
    return read_metadata(lab.look.files.contents[f"{path}/_metadata"], path)[0]


@pytest.fixture(scope="module", params=["a savepoint", "an unaligned checkpoint"])
def taken(request: pytest.FixtureRequest) -> tuple[Lab, str, CheckpointMetadata]:
    """Return a lab in the middle of its rows, a snapshot's path, and its metadata."""
    lab = Lab(job(2))
    lab.run_until(record="AllTasksRunning")
    for _ in range(60):
        lab.step()
    path = lab.savepoint(wait=True) if request.param == "a savepoint" else lab.trigger_checkpoint(wait=True)
    return lab, path, checkpoint_of(lab, path)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 16])
def test_who_gets_what_is_what_the_restore_gives(taken: tuple[Lab, str, CheckpointMetadata], parallelism: int) -> None:
    lab, path, metadata = taken
    check = check_restore(metadata, job(2), parallelism)
    restored = Lab(job(parallelism), restore_path=path, after=lab)
    restored.run_until(record="StateAssigned")
    (record,) = [record for record in restored.trace if record.kind == "StateAssigned"]
    assert [dict(row) for row in check.assignments] == record.data["assignments"]
    assert check.restores
    assert "exactly once" in check.to_pandas()["effect"].tolist()
    assert len(check.assigned) == len(check.assignments) > 0


# --- findings ---------------------------------------------------------------------------------------------------------


def one(check: RestoreCheck, severity: Severity) -> Any:
    (finding,) = [finding for finding in check.findings if finding.severity is severity]
    return finding


def test_a_renamed_uid_is_told_with_the_line_that_mends_it(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    _, path, metadata = taken
    check = check_restore(metadata, job(2, totals="renamed"), path=path)
    assert not check.restores
    assert sorted(check.operators["match"]) == ["matched", "matched", "missing", "new"]
    finding = one(check, Severity.FAILS)
    assert finding.fix.startswith("Set .uid('totals') on 'totals', which finds no state")
    assert "the operator is not available in the new program" in finding.flink
    assert "keyed state" in check.verdict
    assert check.assigned.empty


def test_what_is_dropped_says_what_is_lost(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    _, _, metadata = taken
    check = check_restore(metadata, job(2, totals="renamed"), allow_non_restored_state=True)
    assert check.restores
    finding = one(check, Severity.WARNS)
    assert (finding.operator, finding.effect) == ("totals", Effect.LOST)
    assert check.verdict.endswith("but state of totals is lost")
    assert "exactly once" not in check.to_pandas()["effect"].tolist()


def test_a_source_that_is_dropped_repeats_its_rows(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    _, _, metadata = taken
    check = check_restore(metadata, {"totals": 2, "out": 2}, allow_non_restored_state=True)
    (finding,) = [finding for finding in check.findings if finding.operator == "rows"]
    rows = next(state for state in metadata.operator_states if state.uid == "rows")
    in_flight = any(part.result_subpartition_state for part in rows.subtask_states.values())
    assert finding.effect is (Effect.LOST if in_flight else Effect.REPEATED)
    assert ("in-flight rows" in finding.found) == in_flight
    assert "a source's splits and positions (SourceReaderState)" in finding.found


def test_all_that_fails_is_listed(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    _, _, metadata = taken
    check = check_restore(metadata, {"rows": 2, "totals": (2, 64), "other": 1})
    fails = [(f.operator, f.flink.split(".")[0]) for f in check.findings if f.severity is Severity.FAILS]
    assert sorted(operator for operator, _ in fails) == ["out", "totals"]
    assert check.error is not None
    assert check.verdict.endswith("2 things must change")


def test_more_subtasks_than_key_groups_fail(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    _, _, metadata = taken
    check = check_restore(metadata, {"rows": 2, "totals": 17, "out": 2})
    finding = one(check, Severity.FAILS)
    assert "lower than the configured parallelism (17)" in finding.flink
    assert "it has 16 key groups, and 17 subtasks cannot share them. Use at most 16 subtasks." in str(check)


def test_a_newer_checkpoint_of_the_job_stands_for_the_job(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    _, _, metadata = taken
    newer = Lab(job(4, totals="sums"))
    newer.run_until(checkpoint=1)
    check = check_restore(metadata, checkpoint_of(newer, newer.checkpoints()["path"].dropna().iloc[-1]))
    assert set(check.operators.query("match == 'matched'")["operator"]) == {"rows", "out"}
    assert one(check, Severity.FAILS).operator == "totals"


def test_in_flight_data_cannot_be_judged_without_the_exchanges() -> None:
    lab = Lab(job(2))
    lab.run_until(record="AllTasksRunning")
    for _ in range(60):
        lab.step()
    held = checkpoint_of(lab, lab.trigger_checkpoint(wait=True))
    held_by = {
        state.label
        for state in held.operator_states
        for part in state.subtask_states.values()
        if part.input_channel_state or part.result_subpartition_state
    }
    assert held_by, "this checkpoint holds in-flight data"
    same = check_restore(held, {"rows": 2, "totals": 2, "out": 2})
    assert all(finding.severity is Severity.TELLS for finding in same.findings)
    check = check_restore(held, {"rows": 3, "totals": 3, "out": 3})
    assert {f.operator for f in check.findings if f.severity is Severity.WARNS} == held_by


def operator(uid: str, parts: dict[int, OperatorSubtaskState], parallelism: int = 2) -> CheckpointMetadata:
    operator_id = operator_id_of_uid(uid)
    return CheckpointMetadata(3, (OperatorState(operator_id, parallelism, 128, parts, name=uid, uid=uid),))


def test_a_union_list_that_grows_is_told() -> None:
    def part(subtask: int) -> OperatorSubtaskState:
        info = StateMetaInfo(tuple(range(600)), OperatorStateMode.UNION)
        few = StateMetaInfo(tuple(range(2)), OperatorStateMode.UNION)
        split = StateMetaInfo(tuple(range(600)), OperatorStateMode.SPLIT_DISTRIBUTE)
        states = {"few": few, "all": info, "mine": split}
        handle = OperatorStreamStateHandle(states, ByteStreamStateHandle(f"u{subtask}", bytes(600)))
        return OperatorSubtaskState(managed_operator_state=(handle,))

    metadata = operator("lists", {subtask: part(subtask) for subtask in range(2)})
    assert (
        "all 1,200 entries of the union list 'all': 12,000"
        in one(check_restore(metadata, {"lists": 10}), Severity.WARNS).found
    )
    alone = check_restore(metadata, {"lists": 1})
    assert all(finding.severity is Severity.TELLS for finding in alone.findings)


@pytest.mark.parametrize("step", [1, -1, 27], ids=["in order", "backwards", "mixed"])
def test_skewed_key_groups_are_told_and_the_balance_adds_up(step: int) -> None:
    """Key group 5 has 900 B; the others of its file 1 B each, in some order, and those of the other file 2 B each."""
    offsets, at = [0] * 64, 0
    for group in (step * number % 64 for number in range(64)):
        offsets[group] = at
        at += 900 if group == 5 else 1
    first = KeyGroupsStateHandle(KeyGroupRange(0, 63), tuple(offsets), ByteStreamStateHandle("a", bytes(at)))
    second = IncrementalRemoteKeyedStateHandle(
        "b", KeyGroupRange(64, 127), 3, (), (), ByteStreamStateHandle("m", bytes(128)), 128
    )
    parts = {n: OperatorSubtaskState(managed_keyed_state=(handle,)) for n, handle in enumerate((first, second))}
    check = check_restore(operator("keyed", parts), {"keyed": 4})
    assert check.balance["bytes"].tolist() == [31 + 900, 32, 64, 64]
    assert check.balance["first_group"].tolist() == [0, 32, 64, 96]
    assert check.findings[0].found.startswith("Subtask 0 gets 3.4 times the mean of the keyed state: 931 B")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (5, "expected a StreamEnvironment"),
        ("totals", "expected a StreamEnvironment"),
        ({"totals": "4"}, "expected a uid with a parallelism"),
        ({3: 4}, "expected a uid with a parallelism"),
    ],
)
def test_what_is_no_job_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        check_restore(CheckpointMetadata(1), wrong)


def test_a_parallelism_for_nobody_is_refused(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    with pytest.raises(ValueError, match=r"parallelism names 'nobody', but the job has only .*'totals'"):
        check_restore(taken[2], job(2), {"nobody": 3})
    unnamed = JobShape(
        (*shape_of({"totals": 1, "rows": 2}).vertices, AssignmentVertex("map", 2, (OperatorIDPair("a" * 32),))), None
    )
    with pytest.raises(ValueError, match=r"names 'nobody', 'none', but the job has only 'map', 'rows', 'totals'$"):
        check_restore(taken[2], unnamed, {"nobody": 3, "totals": 2, "map": 1, "none": 1})
    with pytest.raises(ValueError, match="not within bounds"):
        check_restore(taken[2], job(2), 0)


def test_its_tables_have_numbers_and_it_reads_well(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    check = check_restore(taken[2], job(2), 3)
    assert repr(check).startswith("RestoreCheck(restores: 3 matched")
    assert check.operators["parallelism_after"].tolist() == [3, 3, 3]
    assert str(check).splitlines()[0] == f"Checkpoint {check.checkpoint_id} restores to this job"
    assert check.operators["bytes"].sum() == taken[2].state_size
    assert set(check.to_pandas()["severity"]) == {"tells"}


def test_a_notebook_shows_the_verdict_what_to_do_and_flinks_words(taken: tuple[Lab, str, CheckpointMetadata]) -> None:
    shown = check_restore(taken[2], job(2, totals="renamed"))._repr_html_()
    for words in ("does not restore to this job", "finds no state", "is not available in the new program", "Operators"):
        assert words in shown
    assert "Who gets what" in check_restore(taken[2], job(3))._repr_html_()
    assert shown.count("<table") == shown.count('<table class="kit-table"'), "other tables have no colours here"
    assert " more</p>" in check_restore(taken[2], {f"uid-{n}": 1 for n in range(30)})._repr_html_()
