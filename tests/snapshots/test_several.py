"""Several checkpoints, each with several operators, subtasks, states and files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kit
from kit.core.metadata import NEWEST, CheckpointMetadata, write_metadata
from kit.core.state.handles import (
    ByteStreamStateHandle,
    FileStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.snapshots.surgery.values import MapValues
from kit.stream.graph.hashing import operator_id_of_uid
from tests.flink_data import value_cases, values
from tests.snapshots.test_outside import split
from tests.snapshots.written import BASE, LONG, header_of, lists, longs, of_subtasks, snapshot

LONGS = ("VALUE", snapshot(BASE + LONG))


def entries(values: dict[int, int]) -> bytes:
    """Return the entries of a value state of one key group in the heap's layout."""
    return struct.pack(">i", len(values)) + b"".join(
        struct.pack(">Bqq", 0, key, value) for key, value in values.items()
    )


@pytest.fixture
def uneven(tmp_path: Path) -> kit.Checkpoint:
    """Four subtasks of two key groups each: the first and the third do not have the state `total` yet."""
    few, many = header_of({"seen": LONGS}), header_of({"seen": LONGS, "total": LONGS, "zero": LONGS})
    parts = [
        (few, [[entries({1: 10})], [entries({2: 20})]]),
        (
            many,
            [[entries({3: 1}), entries({3: 30, 33: 31}), entries({})], [entries({}), entries({4: 40}), entries({})]],
        ),
        (few, [[entries({5: 50})], [entries({})]]),
        (many, [[entries({}), entries({}), entries({})], [entries({8: 1}), entries({8: 80}), entries({8: 2})]]),
    ]
    return kit.open_checkpoint(of_subtasks(tmp_path / "chk-1", parts))


@pytest.mark.parametrize(("version", "case"), [each for each in value_cases() if each[1] == "rocksdb-heap-timers"])
def test_timers_beside_other_keyed_state_are_streamed_too(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    timers = checkpoint.states.query("kind == 'TIMER'")
    assert len(timers) > 4
    rows = 0
    for row in timers.itertuples():
        streamed = sum(part.num_rows for part in checkpoint.stream(row.operator, row.name))
        rows += streamed
        assert streamed == checkpoint.state(row.operator, row.name).num_rows
    assert rows > 0


def test_subtasks_without_a_state_hide_none_that_have_it(uneven: kit.Checkpoint) -> None:
    wanted = {3: 30, 33: 31, 4: 40, 8: 80}
    table = uneven.state("sums", "total")
    assert dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == wanted
    assert table["key_group"].to_pylist() == [2, 2, 3, 7]
    parts = list(uneven.stream("sums", "total"))
    assert [part["key_group"].to_pylist() for part in parts] == [[2, 2], [3], [7]]
    chosen = list(uneven.stream("sums", "total", key_groups=[0, 3, 4, 7]))
    assert [part["value"].to_pylist() for part in chosen] == [[40], [80]]
    assert list(uneven.stream("sums", "total", key_groups=[0, 6])) == []
    page = uneven.page("sums", "total", rows=2)
    assert page.rows["value"].to_pylist() == [30, 31]
    assert page.next is not None
    assert uneven.page("sums", "total", at=page.next, rows=9).rows["value"].to_pylist() == [40, 80]
    states = uneven.storage.states.set_index("state")["entries"].dropna().to_dict()
    assert states == {"seen": 5, "total": 4, "zero": 1}
    assert uneven.states.set_index("name")["kind"].to_dict() == dict.fromkeys(("seen", "total", "zero"), "VALUE")
    counted = [uneven.key_group_entries("sums", subtask) for subtask in range(4)]
    assert [sum(each.values()) for each in counted] == [2, 4, 1, 3]
    with pytest.raises(KeyError, match="has no state 'none'"):
        list(uneven.stream("sums", "none", key_groups=[0]))


def test_states_of_any_subtask_are_listed(tmp_path: Path) -> None:
    """Each of three subtasks has a state that the others do not have, and one that is common."""
    names = (("a", "common"), ("b", "common"), ("c", "common"))
    parts = [
        (header_of(dict.fromkeys(own, LONGS)), [[entries({place: place}), entries({place: 9})]])
        for place, own in enumerate(names)
    ]
    checkpoint = kit.open_checkpoint(of_subtasks(tmp_path / "chk-1", parts))
    assert checkpoint.states["name"].tolist() == ["a", "common", "b", "c"]
    for place, name in enumerate("abc"):
        assert checkpoint.page("sums", name).rows["value"].to_pylist() == [place]
    (tmp_path / "chk-1" / "keyed-1").unlink()
    damaged = kit.open_checkpoint(tmp_path / "chk-1").states
    assert damaged["name"].tolist() == ["a", "common", "c", ""]
    assert "keyed-1" in damaged["error"].iloc[-1]
    (tmp_path / "chk-1" / "keyed-0").unlink()
    assert kit.open_checkpoint(tmp_path / "chk-1").states["name"].tolist() == [""], "one sentence"


def test_each_subtask_has_its_own_differences(uneven: kit.Checkpoint, tmp_path: Path) -> None:
    """Of the rows of two states, some are added, removed and changed in each of two subtasks."""
    head = header_of({"seen": LONGS, "total": LONGS})
    parts = [
        (head, [[entries({1: 11}), entries({})], [entries({}), entries({2: 1, 22: 2})]]),
        (head, [[entries({3: 1}), entries({3: 30})], [entries({}), entries({4: 41})]]),
        (head, [[entries({5: 50}), entries({})], [entries({66: 6}), entries({})]]),
        (head, [[entries({}), entries({})], [entries({8: 2}), entries({8: 81})]]),
    ]
    after = kit.open_checkpoint(of_subtasks(tmp_path / "chk-2", parts))
    diff = uneven.diff(after)
    columns = ["added", "removed", "changed"]
    assert {row["name"]: [row[each] for each in columns] for row in diff.states.to_dict("records")} == {
        "seen": [1, 1, 2],
        "total": [2, 1, 2],
        "zero": [0, 1, 0],
    }
    found = diff.subtasks
    assert found["subtask"].tolist() == [0, 1, 2, 3]
    assert found[columns].to_numpy().tolist() == [[2, 1, 1], [0, 1, 1], [1, 0, 0], [0, 1, 2]]
    sizes = [
        sum(
            part.managed_keyed_state[0].state_size
            for part in [checkpoint.metadata.operator_states[0].subtask_states[0]]
        )
        for checkpoint in (uneven, after)
    ]
    assert found["grown_bytes"].tolist()[0] == sizes[1] - sizes[0]


SIZES = {"a": 1_000, "b": 200, "c": 30, "d": 4}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Four checkpoints that refer to shared files: 1 to a and b, 2 to c too, 9 to c, 10 to a again, c and d."""
    (tmp_path / "shared").mkdir()
    for name, size in (SIZES | {"left": 7}).items():
        (tmp_path / "shared" / name).write_bytes(bytes(size))
    for number, names in {1: "ab", 2: "abc", 9: "c", 10: "acd"}.items():
        referring(tmp_path / f"chk-{number}", number, {f"{tmp_path}/shared/{name}": SIZES[name] for name in names})
    return tmp_path


def referring(folder: Path, number: int, files: dict[str, int]) -> None:
    """Write a checkpoint that refers to files of these sizes, one per subtask, and has `number` bytes inline."""
    info = {"own": StateMetaInfo((0,), OperatorStateMode.SPLIT_DISTRIBUTE)}
    parts = {
        subtask: OperatorSubtaskState(
            managed_operator_state=(OperatorStreamStateHandle(info, FileStateHandle(path, size)),)
        )
        for subtask, (path, size) in enumerate(files.items())
    }
    inline = OperatorStreamStateHandle(info, ByteStreamStateHandle("x", bytes(number)))
    small = OperatorSubtaskState(managed_operator_state=(inline,))
    operators = (
        OperatorState(operator_id_of_uid("lists"), 3, 128, parts, name="lists", uid="lists"),
        OperatorState(operator_id_of_uid("small"), 1, 128, {0: small}),
    )
    folder.mkdir()
    (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(number, operators), NEWEST))


@pytest.mark.parametrize("names", ["there outside gone", "outside there gone", "gone outside there"])
def test_a_missing_file_counts_beside_one_that_was_not_looked_at(names: str, tmp_path: Path) -> None:
    paths = {"there": "job/shared/there", "gone": "job/shared/gone", "outside": "other/file"}
    for folder in ("job/shared", "other"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("there", "outside"):
        (tmp_path / paths[name]).write_bytes(b"123")
    files = {name: f"{tmp_path}/{paths[name]}" for name in names.split()}
    referring(tmp_path / "job" / "chk-1", 1, {path: 3 for name, path in files.items() if name != "gone"})
    referring(tmp_path / "job" / "chk-2", 2, dict.fromkeys(files.values(), 3))
    referring(tmp_path / "job" / "chk-3", 3, {files["there"]: 3})
    found = kit.open_checkpoints(tmp_path / "job").to_pandas()
    assert [None if each is pd.NA else each for each in found["restorable"]] == [None, False, True]
    assert "gone" in found["problem"][1].partition("(and 1 more files)")[0]


def test_a_shared_file_is_listed_with_every_checkpoint_that_refers_to_it(history: Path) -> None:
    found = kit.open_checkpoints(history)
    assert [each.checkpoint_id for each in found] == [1, 2, 9, 10], "by number, not by name"
    assert (len(found), repr(found)) == (4, f"Checkpoints({str(history)!r}, 4 of 4 complete)")
    assert [found[number].checkpoint_id for number in (10, 1, 9)] == [10, 1, 9]
    with pytest.raises(KeyError, match=r"there is no checkpoint 3 in .*; there are 1, 2, 9, 10"):
        found[3]
    shared = found.shared_files.set_index("file")
    assert shared.index.tolist() == sorted(shared.index)
    assert shared["checkpoints"].to_dict() == {
        "shared/a": [1, 2, 10],
        "shared/b": [1, 2],
        "shared/c": [2, 9, 10],
        "shared/d": [10],
    }
    assert shared["bytes"].tolist() == list(SIZES.values())
    assert found.orphans.to_dict("records") == [{"file": "shared/left", "bytes": 7}]
    (history / "chk-2" / "_metadata").unlink()
    (history / "chk-2" / "part").write_bytes(b"1")
    (history / "savepoint-3").mkdir()
    (history / "savepoint-3" / "part").write_bytes(b"12")
    left = kit.open_checkpoints(history)
    assert [path.rpartition("/")[2] for path in left.in_progress] == ["savepoint-3", "chk-2"]
    assert left.orphans["file"].tolist() == ["chk-2/part", "savepoint-3/part", "shared/left"]
    for number in (1, 10):
        (history / f"chk-{number}" / "_metadata").unlink()
    fewer = kit.open_checkpoints(history).orphans["file"].tolist()
    assert fewer == ["chk-2/part", "savepoint-3/part", "shared/a", "shared/b", "shared/d", "shared/left"]
    (history / "chk-1" / "_metadata").write_bytes(b"no")
    assert not len(kit.open_checkpoints(history).orphans), "what the first refers to is not known"
    with pytest.raises(KeyError, match=r"there is no checkpoint 10 in .*; there are 9"):
        kit.open_checkpoints(history)[10]


def test_growth_counts_what_each_checkpoint_adds_to_all_before_it(history: Path) -> None:
    growth = kit.open_checkpoints(history).growth
    assert growth["bytes"].tolist() == [1_201, 1_232, 39, 1_044]
    assert growth["grown_bytes"].tolist() == [0, 31, -1_193, 1_005]
    assert growth["files"].tolist() == [2, 3, 1, 3]
    assert growth["new_files"].tolist() == [2, 1, 0, 1]
    assert growth["new_bytes"].tolist() == [1_200, 30, 0, 4]
    assert growth["fair_bytes"].tolist() == [434, 445, 19, 357]
    assert growth["freed_bytes"].tolist() == [0, 0, 0, 4]


def test_incremental_checkpoints_are_compared_with_the_one_before(tmp_path: Path) -> None:
    for number, keys in {2: np.arange(80), 9: np.arange(20, 100), 10: np.arange(20, 120), 11: np.arange(40)}.items():
        longs(tmp_path / f"chk-{number}", keys)
    found = kit.open_checkpoints(tmp_path).incremental
    assert found["directory"].tolist() == ["chk-9", "chk-10", "chk-11"]
    sizes = {
        int(each.directory.rpartition("-")[2]): each.storage.states.set_index("state").loc["total", "bytes"]
        for each in kit.open_checkpoints(tmp_path)
    }
    shares = [20 / 80, 20 / 100, 20 / 40]
    wanted = [round(sizes[number] * share) for number, share in zip((9, 10, 11), shares, strict=True)]
    assert found["changed_bytes"].tolist() == wanted


def test_changes_reach_every_subtask_and_none_replaces_the_one_before(uneven: kit.Checkpoint, tmp_path: Path) -> None:
    def plus(many: int) -> MapValues:
        return lambda table: pc.add(table["value"], many)

    plan = uneven.edit().drop("sums", "seen").map("sums", "total", plus(1)).map("sums", "total", plus(2))
    plan = plan.delete_keys("sums", [33]).map("sums", "zero", plus(5)).delete_keys("sums", [4, 99])
    written = plan.write(tmp_path / "new")
    found = {name: written.state("sums", name) for name in ("total", "zero")}
    assert found["total"].select(["key", "value"]).to_pylist() == [{"key": 3, "value": 33}, {"key": 8, "value": 83}]
    assert found["zero"].select(["key", "value"]).to_pylist() == [{"key": 8, "value": 7}]
    assert written.states["name"].tolist() == ["total", "zero"]
    details = plan.changes.query("operation == 'delete keys'")["detail"].tolist()
    assert details == ["1 key: 1 rows of 1 state", "2 keys: 1 rows of 1 state"]
    with pytest.raises(KeyError, match="has no state 'seen'; it has total, zero"):
        plan.drop("sums", "seen")


def test_offsets_that_are_set_one_after_the_other_all_hold(tmp_path: Path) -> None:
    states = {("orders", "SourceReaderState"): [split(0, 100), split(1, 40), split(2, 7), split(0, 5, "bills")]}
    plan = kit.open_checkpoint(lists(tmp_path / "old", states)).edit()
    plan = plan.set_offsets("orders", {("orders", 0): 1, ("bills", 0): 2})
    written = (
        plan.set_offsets("orders", {("orders", 1): 3}).set_offsets("orders", {("bills", 0): 4}).write(tmp_path / "new")
    )
    table = written.state("orders", "SourceReaderState")
    assert table["offset"].to_pylist() == [1, 3, 7, 4]


def test_a_state_that_got_rows_can_be_dropped_after_all(tmp_path: Path) -> None:
    rows = pa.table({"key": [1, 2], "value": [3, 4]})
    plan = kit.open_checkpoint(longs(tmp_path / "old", np.arange(5), 8)).edit().bootstrap("sums", "more", rows)
    plan = plan.bootstrap("sums", "total", rows).drop("sums", "total")
    plan = plan.bootstrap("sums", "late", rows).drop("sums", "late")
    written = plan.write(tmp_path / "new")
    assert written.states["name"].tolist() == ["more"]
    assert written.state("sums", "more").num_rows == 2


def test_each_directory_is_told_as_it_is_read_and_its_files_are_listed_once(history: Path) -> None:
    told: list[tuple[int, int]] = []
    found = kit.open_checkpoints(history, progress=lambda read, of: told.append((read, of)))
    assert told == []
    assert len(found.found) == 4
    directories = {path.parent for path in history.rglob("*") if path.is_file()}
    assert told == [(read, len(directories)) for read in range(1, len(directories) + 1)]
    gone = next(path for path in found.shared_files["file"] if not path.endswith("_metadata"))
    (history / gone).unlink()
    assert len(found.shared_files) == len(kit.open_checkpoints(history).shared_files) + 1
    assert found.to_pandas()["restorable"].all()
    assert not kit.open_checkpoints(history).to_pandas()["restorable"].all()
