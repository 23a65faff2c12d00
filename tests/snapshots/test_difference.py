"""The changes from one checkpoint to another."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import kit
from kit import Lab
from kit.snapshots.checkpoints import difference
from tests.cli.test_commands import SAVEPOINTS, ran
from tests.flink_data import value_cases, values
from tests.snapshots.test_check import job
from tests.snapshots.truth import called
from tests.snapshots.written import longs

CHANGES = ["added", "removed", "changed"]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[kit.Checkpoint, kit.Checkpoint]:
    """Two savepoints of one run, some rows apart."""
    lab = Lab(job(kit.sum_("value")))
    lab.run_until(record="AllTasksRunning")
    opened = []
    for _ in range(2):
        for _ in range(30):
            lab.step()
        directory = tmp_path_factory.mktemp("savepoint")
        lab.look.files.export(directory, lab.savepoint(wait=True))
        opened.append(kit.open_checkpoint(directory))
    return opened[0], opened[1]


def totals(checkpoint: kit.Checkpoint, name: str) -> dict[object, object]:
    rows = checkpoint.state("totals", name).to_pylist()
    return {str({n: v for n, v in row.items() if n != "value"}): row["value"] for row in rows}


def test_rows_are_counted_as_their_values_say(two: tuple[kit.Checkpoint, kit.Checkpoint]) -> None:
    diff = two[0].diff(two[1])
    (row,) = diff.states.query("operator == 'totals'").to_dict("records")
    old, new = (totals(each, row["name"]) for each in two)
    assert row["added"] == len(new.keys() - old.keys())
    assert row["removed"] == len(old.keys() - new.keys())
    assert row["changed"] == len([key for key in old.keys() & new.keys() if old[key] != new[key]]) > 0
    assert (row["rows_before"], row["rows_after"]) == (len(old), len(new))
    told = diff.values("totals", row["name"])
    assert sorted(told["change"].value_counts().to_dict().items()) == sorted(
        (change, row[change]) for change in CHANGES if row[change]
    )
    changed = told[told["change"] == "changed"]
    assert (changed["value_before"] != changed["value_after"]).all()
    assert f"{row['changed']:,} changed" in diff._repr_html_()


@pytest.mark.parametrize(("version", "case"), value_cases())
def test_a_checkpoint_of_flink_does_not_differ_from_itself(version: str, case: str) -> None:
    one, other = (kit.open_checkpoint(values(version) / case) for _ in range(2))
    diff = one.diff(other)
    assert (diff.states[CHANGES].sum() == 0).all()
    assert (diff.states["error"] == "").all()
    assert diff.states["rows_before"].sum() > 100
    assert set(diff.operators["change"]) == {"unchanged"}


def test_an_operator_with_another_id_is_another_operator(tmp_path: Path) -> None:
    version, case = next(each for each in value_cases() if each[1] == "savepoint-canonical")
    before = kit.open_checkpoint(values(version) / case)
    after = before.edit().rename("scalars", "numbers").write(tmp_path / "new")
    diff, old, new = before.diff(after), called(before, "scalars"), called(after, "numbers")
    rows = diff.states.query("operator in (@old, @new) and name == 'long'").set_index("operator")
    many = before.state("scalars", "long").num_rows
    assert rows.loc[old, CHANGES].tolist() == [0, many, 0]
    assert rows.loc[new, CHANGES].tolist() == [many, 0, 0]
    same = diff.states.query("operator not in (@old, @new) and error == ''")
    assert same[CHANGES].to_numpy().sum() == 0


def test_keys_that_came_went_and_changed(tmp_path: Path) -> None:
    old = kit.open_checkpoint(longs(tmp_path / "old", np.arange(100), max_parallelism=4))
    for max_parallelism in (4, 8):  # a key's group is not the key
        directory = tmp_path / f"new-{max_parallelism}"
        new = kit.open_checkpoint(longs(directory, np.arange(90, 150), max_parallelism=max_parallelism))
        (row,) = old.diff(new).states.to_dict("records")
        assert [row[change] for change in CHANGES] == [50, 90, 0]
    with pytest.raises(KeyError, match="neither checkpoint has the state"):
        old.diff(old).values("sums", "nothing")


@SAVEPOINTS
def test_the_command_exits_with_1_if_something_changed(version: str, case: str, tmp_path: Path) -> None:
    folder = values(version) / case
    assert ran("diff", folder, folder)[0] == 0
    old, new = longs(tmp_path / "old", np.arange(10)), longs(tmp_path / "new", np.arange(12))
    code, out, _ = ran("diff", old, new)
    assert code == 1
    assert "added" in out
    code, out, _ = ran("diff", old, new, "--values", "sums", "total", "--json")
    assert code == 1
    assert len(out.splitlines()) == 2


def test_rows_count_for_the_subtask_that_has_them(tmp_path: Path) -> None:
    numbers = np.arange(400)
    whole = kit.open_checkpoint(longs(tmp_path / "whole", numbers))
    before = whole.edit().bootstrap("new", "n", _rows(numbers[:300], 1), parallelism=4).write(tmp_path / "before")
    after = whole.edit().bootstrap("new", "n", _rows(numbers[100:], 2), parallelism=2).write(tmp_path / "after")
    found = before.diff(after).subtasks.query("operator == 'new'").set_index("subtask")
    there = [_by_subtask(each) for each in (before, after)]
    for subtask in range(4):
        old, new = (each.get(subtask, set()) for each in there)
        assert found.loc[subtask, "removed"] == len(old & set(range(100)))
        assert found.loc[subtask, "added"] == len(new & set(range(300, 400)))
        assert found.loc[subtask, "changed"] == len(new & set(range(100, 300)))
    assert (found["grown_bytes"] == found["bytes_after"] - found["bytes_before"]).all()
    assert found["bytes_after"].tolist()[2:] == [0, 0]
    assert before.diff(before).subtasks[["grown_bytes", *CHANGES]].to_numpy().sum() == 0


def _rows(keys: np.ndarray[tuple[int], np.dtype[np.int64]], value: int) -> pa.Table:
    return pa.table({"key": keys, "value": np.full(len(keys), value)})


def _by_subtask(checkpoint: kit.Checkpoint) -> dict[int, set[int]]:
    """Return the keys of each subtask of the operator `new`."""
    found: dict[int, set[int]] = {}
    for row in checkpoint.subtasks.query("operator == 'new'").itertuples():
        groups = range(row.first_key_group, row.last_key_group + 1)
        found[row.subtask] = set(checkpoint.state("new", "n", key_groups=groups)["key"].to_pylist())
    return found


def test_rows_of_operator_state_count_for_their_subtask(tmp_path: Path) -> None:
    version, case = next(each for each in value_cases() if each[1] == "savepoint-canonical")
    checkpoint = kit.open_checkpoint(values(version) / case)
    lists = checkpoint.state("operator-state", "split-list")["subtask"].to_pylist()
    without = checkpoint.edit().drop("operator-state", "split-list").write(tmp_path / "new")
    subtasks = checkpoint.diff(without).subtasks
    found = subtasks[subtasks["operator"] == called(checkpoint, "operator-state")]
    assert Counter(dict(zip(found["subtask"], found["removed"], strict=True))) == Counter(lists)
    code, out, _ = ran("diff", checkpoint.directory, without.directory, "--subtasks", "--json")
    assert code == 1
    assert [each["removed"] for each in map(json.loads, out.splitlines())] == found["removed"].tolist()


# --- large states -----------------------------------------------------------------------------------------------------


def test_key_groups_that_are_compared_one_after_another_differ_as_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, case = next(each for each in value_cases() if each[1] == "savepoint-canonical")
    before = kit.open_checkpoint(values(version) / case)
    keys = before.state("rich", "pojo")["key"].to_pylist()[::3]
    after = before.edit().delete_keys("rich", keys).drop("scalars", "string").write(tmp_path / "new")
    at_once = before.diff(after)
    monkeypatch.setattr(difference, "MOST_BYTES", before.operators["keyed_bytes"].max() // 3)
    in_parts = before.diff(after)
    read: list[Any] = []
    state = kit.Checkpoint.state
    monkeypatch.setattr(
        kit.Checkpoint, "state", lambda self, *names, **of: read.append(of["key_groups"]) or state(self, *names, **of)
    )
    pd.testing.assert_frame_equal(in_parts.states, at_once.states)
    pd.testing.assert_frame_equal(in_parts.subtasks, at_once.subtasks)
    assert len(read) > 2 * len(at_once.states)
    assert len({tuple(each) for each in read if each is not None}) > 2
    columns = ["change", "key"]
    once, parts = (each.values("rich", "pojo")[columns].sort_values("key") for each in (at_once, in_parts))
    assert once.to_dict("records") == parts.to_dict("records")
    assert len(once) == len(keys)


VALUES_OF: dict[pa.DataType, list[Any]] = {
    pa.int64(): [None, 0, 1, 2],
    pa.float64(): [None, 0.0, -0.0, math.nan, 1.5],
    pa.string(): [None, "", "a", "b"],
    pa.list_(pa.int64()): [None, [], [1], [1, 2]],
    pa.struct([("a", pa.float32())]): [None, {"a": None}, {"a": math.nan}, {"a": 1.0}],
}
KEYS_OF: dict[pa.DataType, list[Any]] = {
    pa.int32(): [None, *range(8)],
    pa.string(): [None, "", *"abcdef"],
    pa.float64(): [0.0, -0.0, math.nan, 1.0],
    pa.struct([("x", pa.int64())]): [{"x": each} for each in (None, 1, 2, 3)],
}


@pytest.mark.parametrize("key_type", KEYS_OF, ids=str)
@pytest.mark.parametrize("value_type", VALUES_OF, ids=str)
def test_rows_that_are_equal_are_dropped_and_no_others(key_type: pa.DataType, value_type: pa.DataType) -> None:
    chance, changes, dropped = Random(7), Counter[str](), 0
    for _ in range(12):
        before, after = (_drawn(chance, key_type, value_type) for _ in range(2))
        expected = difference._side_by_side(difference._frame(before), difference._frame(after))
        left = difference._apart(before, after)
        found = difference._side_by_side(*map(difference._frame, left))
        described = [sorted(map(repr, each.to_dict("records"))) for each in (expected, found)]
        assert described[0] == described[1]
        changes.update(found["change"])
        dropped += left[0].num_rows < before.num_rows
    assert all(changes[change] > 0 for change in CHANGES)
    assert dropped > 0 or not difference._is_plain(key_type)


def _drawn(chance: Random, key_type: pa.DataType, value_type: pa.DataType) -> pa.Table:
    """Return rows of a few keys, in any order; in every third table a key may have several rows."""
    pick = chance.choices if chance.random() < 0.3 else chance.sample
    keys = pick(KEYS_OF[key_type], k=chance.randint(0, len(KEYS_OF[key_type])))
    return pa.table(
        {
            "key_group": pa.array([0] * len(keys), pa.int32()),
            "key": pa.array(keys, key_type),
            "value": pa.array([chance.choice(VALUES_OF[value_type]) for _ in keys], value_type),
        }
    )
