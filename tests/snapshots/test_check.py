"""An opened checkpoint checked against a job: with the types of its states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment
from kit.restore_check import Effect, RestoreCheck, Severity
from tests.flink_data import value_cases, values, values_truth


def job(total: Any, *, key: str = "key", uid: str = "totals") -> StreamEnvironment:
    env = StreamEnvironment("typed", parallelism=2, max_parallelism=16, checkpoint=CheckpointConfig())
    rows = [{"key": n % 7, "other": n % 3, "value": n} for n in range(400)]
    keyed = env.from_source(CollectionSource(rows, batch_rows=3), uid="rows").key_by(key)
    keyed.aggregate(total=total).uid(uid).sink_to(CollectSink("out"), uid="out")
    return env


def savepoint_of(env: StreamEnvironment, directory: Path) -> kit.Checkpoint:
    lab = Lab(env)
    lab.run_until(record="AllTasksRunning")
    for _ in range(40):
        lab.step()
    path = lab.savepoint(wait=True)
    lab.look.files.export(directory, path)
    return kit.open_checkpoint(directory)


def failing(check: RestoreCheck) -> list[str]:
    return [each.found for each in check.findings if each.severity is Severity.FAILS]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> kit.Checkpoint:
    return savepoint_of(job(kit.sum_("value")), tmp_path_factory.mktemp("savepoint"))


def test_the_same_job_restores_at_another_parallelism(opened: kit.Checkpoint) -> None:
    check = opened.check(job(kit.sum_("value")), 3)
    assert check.restores
    assert set(check.assigned["task"]) >= {"totals/0", "totals/2"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [(job(kit.max_("value")), "sum"), (job(kit.sum_("value"), key="other"), "key")],
    ids=["another aggregate", "another key"],
)
def test_state_of_another_meaning_does_not_restore(
    opened: kit.Checkpoint, changed: StreamEnvironment, said: str
) -> None:
    check = opened.check(changed)
    assert not check.restores
    assert check.error is None, "the assignment itself would succeed"
    assert said in failing(check)[0]
    assert "does not restore" in check.verdict


class Kept(kit.KeyedProcessFunction):
    """Keeps the last row of each key, in the type that a subclass says."""

    last: kit.ValueStateDescriptor

    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        names = [each.name for each in self.last.stored_type]
        ctx.state(self.last).update({name: row.get(name) for name in names})


def keeping(**columns: pa.DataType) -> StreamEnvironment:
    env = StreamEnvironment("kept", parallelism=2, max_parallelism=16, checkpoint=CheckpointConfig())
    rows = [{"key": n % 7, "value": n} for n in range(400)]
    kept = type("Last", (Kept,), {"last": kit.ValueStateDescriptor("last", pa.struct(list(columns.items())))})
    keyed = env.from_source(CollectionSource(rows, batch_rows=3), uid="rows").key_by("key")
    keyed.process(kept, returns={"key": pa.int64()}).uid("kept").sink_to(CollectSink("out"), uid="out")
    return env


INT32, INT64 = pa.int32(), pa.int64()
CHANGED = {
    "added": ({"value": INT32, "more": pa.string()}, Severity.TELLS, "column more (string) was added"),
    "widened": ({"value": INT64}, Severity.TELLS, "value: int32 became int64"),
    "lost": ({"more": INT64}, Severity.FAILS, "columns value became more"),
    "narrowed": ({"value": pa.int16()}, Severity.FAILS, "value: int32 became int16"),
}


@pytest.mark.parametrize("against", ["the job", "a newer checkpoint"])
@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_type_of_the_kits_own_state_is_told_before_the_restore(
    what: str, against: str, tmp_path: Path
) -> None:
    columns, severity, told = CHANGED[what]
    opened = savepoint_of(keeping(value=INT32), tmp_path / "old")
    newer = keeping(**columns)
    check = opened.check(newer if against == "the job" else savepoint_of(newer, tmp_path / "new"))
    (finding,) = [each for each in check.findings if told in each.found]
    assert finding.severity is severity
    assert check.restores == (severity is not Severity.FAILS)


@pytest.mark.parametrize("against", ["the job", "a newer checkpoint"])
def test_a_lost_column_is_a_warning(against: str, tmp_path: Path) -> None:
    opened = savepoint_of(keeping(key=INT64, value=INT32), tmp_path / "old")
    newer = keeping(key=INT64)
    check = opened.check(newer if against == "the job" else savepoint_of(newer, tmp_path / "new"))
    (finding,) = [each for each in check.findings if "column value (int32) was removed" in each.found]
    assert (finding.severity, finding.effect) == (Severity.WARNS, Effect.LOST)
    assert check.restores
    assert not any(each.effect is Effect.EXACTLY_ONCE for each in check.findings)


def test_a_renamed_operator_does_not_restore(opened: kit.Checkpoint) -> None:
    assert "have no operator in the job" in failing(opened.check(job(kit.sum_("value"), uid="sums")))[0]


def test_against_a_newer_checkpoint_types_are_compared(opened: kit.Checkpoint, tmp_path: Path) -> None:
    assert opened.check(opened).restores
    newer = savepoint_of(job(kit.avg("value")), tmp_path)
    changed = opened.check(newer)
    assert not changed.restores
    assert any("became" in each for each in failing(changed))


@pytest.mark.parametrize(("version", "case"), value_cases())
def test_each_checkpoint_of_flink_restores_to_itself_and_not_without_its_operators(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    assert checkpoint.check(checkpoint).restores
    with_state = {each.operator_id for each in checkpoint.metadata.operator_states if each.has_state()}
    nobody = checkpoint.check({"nobody": 1})
    assert len(failing(nobody)) == len(with_state)
    assert checkpoint.check({"nobody": 1}, allow_non_restored_state=True).restores


def flink_states(types: dict[str, object], **numbers: object) -> RestoreCheck:
    (version, case) = next(each for each in value_cases() if each[1] == "savepoint-canonical")
    checkpoint = kit.open_checkpoint(values(version) / case)
    uids = {name: {"parallelism": 3} for name in values_truth(version, case)["operators"]}
    ids = {each["operatorId"]: name for name, each in values_truth(version, case)["operators"].items()}
    job = {identity: {**uids[name]} for identity, name in ids.items()}
    collections = next(identity for identity, name in ids.items() if name == "collections")
    job[collections] |= {"states": types, **numbers}
    return checkpoint.check(job)


def names_of_collections() -> dict[str, str]:
    (version, case) = next(each for each in value_cases() if each[1] == "savepoint-canonical")
    checkpoint = kit.open_checkpoint(values(version) / case)
    operator = values_truth(version, case)["operators"]["collections"]["operatorId"]
    return {name: info.value for name, info in checkpoint.declared()[operator]["keyed"].items() if info.kind != "TIMER"}


def test_uids_may_have_the_types_of_their_states() -> None:
    names = names_of_collections()
    assert flink_states(names).restores
    changed = flink_states({**names, "list-long": "List<String>"})
    assert not changed.restores
    assert "list-long" in failing(changed)[0]
    (named,) = failing(flink_states({"list-long": "List<String>"}))
    assert "list-long" in named


@pytest.mark.parametrize(
    ("types", "error", "said"),
    [
        ({"list-long": "Money"}, kit.CheckpointError, "the type 'Money' has 'Money'"),
        (["list-long"], TypeError, "must be types by name"),
        ({"list-long": 5}, TypeError, "must be types by name"),
    ],
)
def test_types_that_cannot_be_are_named(types: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        flink_states(types)
    with pytest.raises(TypeError, match="is given color, but may have parallelism, max_parallelism, states"):
        flink_states({}, color="red")


def test_no_notes_are_given_about_operators_that_fail() -> None:
    (version, case) = next(each for each in value_cases() if each[1] == "savepoint-canonical")
    checkpoint = kit.open_checkpoint(values(version) / case)
    check = checkpoint.check(checkpoint, 3, max_parallelism=64)
    assert failing(check)
    told = {each.operator for each in check.findings if each.severity is Severity.TELLS}
    assert not told & {each.operator for each in check.findings if each.severity is Severity.FAILS}
