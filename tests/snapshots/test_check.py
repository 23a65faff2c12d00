"""An opened checkpoint checked against a job: with the types of its states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kit
from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment
from kit.restore_check import RestoreCheck, Severity
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
