"""Plans of parallelisms: held to the key groups of the keys, and to checkpoints that hold them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kit
from kit.advice import plan_key_groups, plan_parallelism
from kit.core.state.key_groups import operator_index_for_key_group
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from tests.flink_data import value_cases, values, values_truth


def test_each_subtask_has_the_keys_that_flink_sends_it() -> None:
    keys = [f"user-{n}" for n in range(500)]
    plan = plan_parallelism(keys, [3, 7], [128, 200])
    for parallelism in (3, 7):
        for most in (128, 200):
            wanted = np.zeros(parallelism)
            for key in keys:
                group = assign_to_key_group(key, most, pa.string())
                wanted[operator_index_for_key_group(most, parallelism, group)] += 1
            assert plan.subtask_loads(parallelism, most).tolist() == wanted.tolist()
            row = plan.table.query(f"max_parallelism == {most} and parallelism == {parallelism}").iloc[0]
            assert row["busiest"] == pytest.approx(wanted.max() / wanted.mean(), abs=0.001)


def test_a_larger_maximum_is_recommended_only_where_it_helps() -> None:
    keys = np.arange(200_000)
    assert plan_parallelism(keys, [2, 4, 8]).recommended_max_parallelism == 128
    plan = plan_parallelism(keys, [100])
    assert plan.recommended_max_parallelism > 128, "of 128 key groups, 28 of 100 subtasks have two"
    assert plan.table.query("max_parallelism == 128")["busiest"].iloc[0] > 1.4
    assert f"Use maximum parallelism {plan.recommended_max_parallelism}" in plan.verdict


def test_a_hot_key_is_named_and_no_maximum_is_said_to_help() -> None:
    plan = plan_parallelism({"hot": 900, **{f"key-{n}": 1 for n in range(100)}}, [8])
    assert plan.keys[0] == ("hot", 0.9)
    assert "Key 'hot' alone has 90.0% of the load" in plan.verdict
    assert plan.recommended_max_parallelism == 128
    group = plan.hot_groups().iloc[0]
    assert group["key_group"] == assign_to_key_group("hot", 128, pa.string())


def test_of_several_hot_keys_the_hottest_is_named() -> None:
    plan = plan_parallelism({"warm": 200, "hot": 500, "hotter": 900, **{f"key-{n}": 1 for n in range(100)}}, [8])
    assert [key for key, _ in plan.keys[:3]] == ["hotter", "hot", "warm"]
    assert "Key 'hotter' alone has 52.9% of the load" in plan.verdict


def test_frequencies_count_as_the_same_number_of_records() -> None:
    counted = plan_parallelism(["a", "b"], [2], weights=[3, 5])
    listed = plan_parallelism(["a"] * 3 + ["b"] * 5, [2])
    assert counted.table.equals(listed.table)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([], [2]), "there are no keys"),
        ((["a"], []), "there is no parallelism"),
        ((["a"], [200], [128]), "maximum parallelism 128 is below the parallelism 200"),
        ((["a"], [0]), "0"),
    ],
)
def test_what_cannot_be_planned_is_said(arguments: tuple[list[str], list[int]], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        plan_parallelism(*arguments)
    with pytest.raises(ValueError, match="1 keys and 2 weights"):
        plan_parallelism(["a"], [2], weights=[1, 2])


def test_key_groups_alone_suffice() -> None:
    plan = plan_key_groups([1, 1, 1, 5], [2])
    assert plan.subtask_loads(2, 4).tolist() == [2, 6]
    assert plan.recommended_max_parallelism == 4


@pytest.mark.parametrize(
    ("version", "case"), [each for each in value_cases() if each[1] in ("savepoint-canonical", "rocksdb-incremental")]
)
def test_a_checkpoint_is_planned_by_the_keys_in_it(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    plan = checkpoint.plan("scalars", [2, 3], state="long")
    rows = checkpoint.state("scalars", "long")
    assert sum(plan.loads[128]) == rows.num_rows
    assert np.flatnonzero(plan.loads[128]).tolist() == sorted(set(rows["key_group"].to_pylist()))
    assert set(plan.loads) > {128}, "the keys' hash is known, so other maxima are compared"
    assert "<table" in plan._repr_html_()
    with pytest.raises(ValueError, match="has no keyed state"):
        checkpoint.plan("operator-state", [2])


@pytest.mark.parametrize(("version", "case"), [each for each in value_cases() if each[1] == "savepoint-canonical"])
def test_keys_of_sql_are_planned_by_their_key_groups(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    sql = next(each for each in values_truth(version, case)["operators"] if each.endswith("group-aggregate"))
    assert set(checkpoint.plan(sql, [2]).loads) == {128}
    with pytest.raises(ValueError, match="cannot be computed here"):
        checkpoint.plan(sql, [2], [256])
