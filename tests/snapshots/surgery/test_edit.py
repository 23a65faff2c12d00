"""Changes to checkpoints, written into new savepoints, for every real one of which each value is known."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit.core.metadata import read_metadata, write_metadata
from kit.core.state.handles import KeyGroupsSavepointStateHandle, RelativeFileStateHandle
from kit.snapshots.checkpoints import Checkpoint
from kit.snapshots.leaf_streams import leaf_streams
from kit.snapshots.python_values import python_values
from kit.stream.graph.hashing import operator_id_of_uid
from tests.flink_data import checkpoint_cases, checkpoints, value_cases, values, values_truth
from tests.snapshots.surgery.truths import KRYO, differences, digests, elements, without_group
from tests.snapshots.truth import called

CASES = pytest.mark.parametrize(("version", "case"), value_cases())
NEWEST = value_cases()[-1][0]
FEW = pytest.mark.parametrize("case", [case for version, case in value_cases() if version == NEWEST])
MANY_TYPES = ("rocksdb-heap-timers", "savepoint-canonical", "savepoint-canonical-rocksdb")
KEYS_OF_MANY_TYPES = pytest.mark.parametrize("case", [each for each in MANY_TYPES if (NEWEST, each) in value_cases()])


@cache
def opened(version: str, case: str) -> Checkpoint:
    return kit.open_checkpoint(values(version) / case)


def opaque(checkpoint: Checkpoint, truth: dict[str, Any]) -> list[str]:
    """The operators with values whose ends only Java code can find."""
    found = []
    for uid, operator in truth["operators"].items():
        names = [name for state in operator.get("states", {}).values() for name in state["valueSerializers"]]
        if any(KRYO in name for name in names):
            with suppress(kit.CheckpointError):
                checkpoint.edit().to_canonical(operator["operatorId"]).rehearse()
                continue
            found.append(uid)
    return found


@CASES
def test_every_layout_becomes_canonical_with_the_same_values(version: str, case: str, tmp_path: Path) -> None:
    checkpoint, truth = opened(version, case), values_truth(version, case)
    before = digests(values(version) / case)
    edited, refused = checkpoint.edit(), opaque(checkpoint, truth)
    assert bool(refused) == (case in ("savepoint-native", "checkpoint-hashmap", "checkpoint-hashmap-compressed"))
    for uid in refused:
        with pytest.raises(kit.CheckpointError, match="this type cannot be read"):
            edited.to_canonical(uid).rehearse()
        edited = edited.drop(uid)
    written = edited.to_canonical().write(tmp_path / "new")
    shutil.move(tmp_path / "new", tmp_path / "moved")
    moved = kit.open_checkpoint(tmp_path / "moved")
    compared: Counter[str] = Counter()
    assert list(differences(moved, truth, left_out=refused, compared=compared)) == []
    assert compared.total() > 500
    assert written.metadata_version == checkpoint.metadata_version
    kinds = {
        type(handle)
        for operator in moved.metadata.operator_states
        for state in operator.subtask_states.values()
        for handle in state.managed_keyed_state
    }
    assert kinds == {KeyGroupsSavepointStateHandle}
    assert digests(values(version) / case) == before


@KEYS_OF_MANY_TYPES
def test_every_key_gets_the_key_group_of_another_max_parallelism(case: str, tmp_path: Path) -> None:
    checkpoint, truth = opened(NEWEST, case), values_truth(NEWEST, case)
    refused = [uid for uid in ("by-pojo",) if uid in truth["operators"]]
    edited = checkpoint.edit()
    for uid in refused:
        said = rf"{called(checkpoint, uid)}, state .* only their Java class knows.*: drop this operator"
        with pytest.raises(kit.CheckpointError, match=said):
            edited.set_max_parallelism(256, uid).rehearse()
        edited = edited.drop(uid)
    wide = edited.set_max_parallelism(300).write(tmp_path / "wide")
    assert set(wide.operators["max_parallelism"]) == {300}
    assert list(differences(wide, truth, change=without_group, left_out=refused)) == []
    assert max(wide.state("scalars", "long")["key_group"].to_pylist()) > 128
    back = wide.edit().set_max_parallelism(128).write(tmp_path / "back")
    assert list(differences(back, truth, left_out=refused)) == []


def test_a_key_group_that_its_key_does_not_have_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    shutil.copytree(values(NEWEST) / "savepoint-canonical", folder)
    metadata, layout = read_metadata((folder / "_metadata").read_bytes(), str(folder))
    wrong = [each for each in metadata.operator_states if each.operator_id == operator_id_of_uid("scalars")]
    state = wrong[0].subtask_states[0].managed_keyed_state[0]
    path = Path(state.delegate.path)
    held = bytearray(path.read_bytes())
    at = next(offset for offset in state.offsets if offset) + 2 + 4 + 1
    held[at + 7] ^= 0x01  # the last byte of the first key
    path.write_bytes(held)
    assert write_metadata(metadata, layout) == (folder / "_metadata").read_bytes()
    with pytest.raises(kit.CheckpointError, match="hashes its keys in a way that is not known here"):
        kit.open_checkpoint(folder).edit().set_max_parallelism(256, "scalars").rehearse()


@CASES
def test_an_operator_is_renamed_and_another_dropped(version: str, case: str, tmp_path: Path) -> None:
    checkpoint, truth = opened(version, case), values_truth(version, case)
    edited = checkpoint.edit().rename("scalars", "numbers").drop("collections").rename("timers", uid_hash="ab" * 16)
    written = edited.write(tmp_path / "new")
    ids = {each.operator_id for each in written.metadata.operator_states}
    old = {each.operator_id for each in checkpoint.metadata.operator_states}
    gone = {operator_id_of_uid(uid) for uid in ("scalars", "collections", "timers")}
    assert ids == old - gone | {operator_id_of_uid("numbers"), "ab" * 16}
    truth["operators"]["scalars"]["operatorId"] = operator_id_of_uid("numbers")
    truth["operators"]["timers"]["operatorId"] = "ab" * 16
    assert list(differences(written, truth, left_out=["collections"])) == []
    for operator in written.metadata.operator_states:
        for state in operator.subtask_states.values():
            for handle in state.handles():
                for stream in leaf_streams(handle):
                    assert stream.path is None or isinstance(stream, RelativeFileStateHandle)


@FEW
def test_one_state_is_dropped(case: str, tmp_path: Path) -> None:
    checkpoint, truth = opened(NEWEST, case), values_truth(NEWEST, case)
    edited = checkpoint.edit().drop("scalars", "long").drop("operator-state", "union-list")
    written = edited.write(tmp_path / "new")
    names = written.states.groupby("operator")["name"].agg(set)
    before = checkpoint.states.groupby("operator")["name"].agg(set)
    changed = {label: before[label] - names.get(label, set()) for label in before.index}
    assert sorted(sorted(each) for each in changed.values() if each) == [["long"], ["union-list"]]
    del truth["operators"]["scalars"]["states"]["long"]
    assert list(differences(written, truth)) == []
    for name in ("split-list", "broadcast-map"):
        assert elements(written, "operator-state", name) == elements(checkpoint, "operator-state", name) != []
    with pytest.raises(KeyError, match="has no state 'long'; it has "):
        written.state("scalars", "long")


@FEW
def test_keys_are_deleted_from_every_state_and_timer(case: str, tmp_path: Path) -> None:
    checkpoint, truth = opened(NEWEST, case), values_truth(NEWEST, case)
    chosen = sorted({row["key"] for row in truth["operators"]["timers"]["states"]["seen"]["rows"]}, key=str)[:5]
    edited = checkpoint.edit().delete_keys("timers", [int(each) for each in chosen])
    edited = edited.delete_keys("collections", lambda keys: [bool(key) for key in keys.to_pylist()])
    written = edited.write(tmp_path / "new")
    for uid in ("timers", "collections"):
        for state in (*truth["operators"][uid]["states"].values(), *truth["operators"][uid]["timers"].values()):
            before = len(state["rows"])
            keys = {row["key"] for row in state["rows"] if row["key"]} if uid == "collections" else chosen
            state["rows"] = [row for row in state["rows"] if row["key"] not in keys]
            assert len(state["rows"]) < before or not before
    assert list(differences(written, truth)) == []


@pytest.mark.parametrize(("version", "case"), [each for each in checkpoint_cases() if "unaligned" in each[1]])
def test_data_in_flight_is_left_out(version: str, case: str, tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(checkpoints(version) / case, follow=True)
    written = checkpoint.edit().without_in_flight().write(tmp_path / "new")
    assert len(checkpoint.channel_state) > 0 == len(written.channel_state)
    assert written.operators["keyed_bytes"].sum() == checkpoint.operators["keyed_bytes"].sum()


@pytest.mark.parametrize(("version", "case"), checkpoint_cases())
def test_every_real_checkpoint_is_copied_complete(version: str, case: str, tmp_path: Path) -> None:
    newest = max((checkpoints(version) / case).rglob("_metadata"))
    checkpoint = kit.open_checkpoint(newest, follow=True)
    if checkpoint.files["problem"].any():
        with pytest.raises(kit.CheckpointError, match="is missing"):
            checkpoint.edit().write(tmp_path / "new")
        assert not (tmp_path / "new").exists()
        return
    written = checkpoint.edit().write(tmp_path / "new")
    assert written.size == checkpoint.size
    assert not written.files["problem"].any()
    assert {Path(path).parent for path in written.files["found"]} <= {tmp_path / "new"}


def halved(table: pa.Table) -> pa.Array:
    """Halve odd numbers, and leave the others as they are."""
    values = table["value"].to_pylist()
    return pa.array([each // 2 if each is not None and each % 2 else each for each in values], pa.int64())


@FEW
def test_values_are_changed_by_a_function_and_the_others_keep_their_bytes(case: str, tmp_path: Path) -> None:
    checkpoint = opened(NEWEST, case)
    numbers = (("collections", "map-string-long"), ("scalars", "long"))
    edited = checkpoint.edit()
    for operator, state in numbers:
        edited = edited.map(operator, state, halved)
    edited = edited.map("collections", "list-long", lambda table: pa.array([[1, 2]] * table.num_rows))
    edited = edited.map("scalars", "string", lambda table: table.set_column(2, "value", [["ü😀"] * table.num_rows]))
    written = edited.write(tmp_path / "new")
    for operator, state in numbers:
        before, after = (each.state(operator, state).to_pylist() for each in (checkpoint, written))
        wanted = [{**row, "value": halved(pa.table({"value": [row["value"]]})).to_pylist()[0]} for row in before]
        assert sorted(map(str, after)) == sorted(map(str, wanted))
        assert sorted(map(str, after)) != sorted(map(str, before))
    assert set(map(str, written.state("collections", "list-long")["value"].to_pylist())) == {"[1, 2]"}
    assert set(written.state("scalars", "string")["value"].to_pylist()) == {"ü😀"}
    truth = values_truth(NEWEST, case)
    for operator, state in (*numbers, ("collections", "list-long"), ("scalars", "string")):
        del truth["operators"][operator]["states"][state]
    assert list(differences(written, truth)) == []


def test_values_that_do_not_fit_are_refused() -> None:
    edited = opened(NEWEST, "savepoint-canonical").edit()
    for operator, state, function, said in (
        ("scalars", "long", lambda table: pa.array(["x"] * table.num_rows), "expected int64 for Long"),
        ("scalars", "long", lambda table: table["value"].slice(1), "rows: return an Arrow array with as many"),
        ("scalars", "long", lambda table: table.drop_columns("value"), "without 'value'"),
        ("scalars", "byte", lambda table: pa.array([200] * table.num_rows), "expected int8 for Byte"),
        ("rich", "kryo", lambda table: table["value"], "only Java code can read"),
        ("rich", "ttl-list", lambda table: pa.array([["a"] * 9] * table.num_rows), "a list of 9 elements for one of"),
        ("collections", "list-long", lambda table: pa.array([[]] * table.num_rows), "delete the key instead"),
        ("timers", "_timer_state/event_user-timers", lambda table: table["time_ms"], "no values that could be changed"),
    ):
        with pytest.raises(kit.CheckpointError, match=said):
            edited.map(operator, state, function).rehearse()
    with pytest.raises(KeyError, match="has no state 'nothing'"):
        edited.map("scalars", "nothing", lambda table: table)


ROWS = {
    "count": pa.table({"key": ["a", "b", "ü😀"], "value": pa.array([1, 2, 3], pa.int64())}),
    "recent": pa.table({"key": ["a", "b"], "value": [[1.5, 2.5], [0.0]]}),
    "flags": pa.table({"key": ["a", "a"], "map_key": pa.array([1, 2], pa.int32()), "value": [True, None]}),
}


def test_a_new_operator_gets_its_state_from_tables(tmp_path: Path) -> None:
    edited = opened(NEWEST, "savepoint-canonical").edit()
    for name, rows in ROWS.items():
        edited = edited.bootstrap("words", name, rows.to_pandas() if name == "count" else rows, parallelism=3)
    written = edited.write(tmp_path / "new")
    for name, rows in ROWS.items():
        found = written.state("words", name).drop_columns("key_group")
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, rows.to_pylist()))
    table = written.operators.set_index("operator").loc[called(written, "words")]
    assert (table["parallelism"], table["max_parallelism"], table["subtasks"]) == (3, 128, 3)
    again = written.edit().set_max_parallelism(500, "words").write(tmp_path / "again")  # hashes are what the keys say
    assert again.state("words", "count").num_rows == 3


CITY = pa.struct([("name", pa.string()), ("founded", pa.timestamp("us")), ("kind", pa.string())])
ULM, NOWHERE = {"name": "Ulm", "founded": datetime.fromisoformat("1954-07-22"), "kind": None}, dict.fromkeys(CITY.names)
NESTED = {
    "row": (CITY, [ULM, NOWHERE]),
    "row in a row": (
        pa.struct([("city", CITY), ("rank", pa.int32())]),
        [{"city": ULM, "rank": 1}, dict.fromkeys(["city", "rank"])],
    ),
    "lists": (pa.list_(pa.list_(CITY)), [[[], [ULM, NOWHERE]], [[]]]),
    "large list in a row": (pa.struct([("of", pa.large_list(pa.string()))]), [{"of": ["a", "b"]}, {"of": None}]),
    "maps": (pa.map_(pa.string(), pa.map_(pa.int32(), CITY)), [[("a", [(1, None), (2, ULM)]), ("b", None)], []]),
    "price": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-3.00")]),
    "time": (pa.time64("us"), [time(1, 2, 3, 4), time(0)]),
    "moment": (
        pa.timestamp("ms", "Europe/Berlin"),
        [datetime(2000, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)],
    ),
}


def _in_flink(value: Any) -> Any:
    """Return a value as a state of Flink has it: rows have a kind and no names, decimals are text."""
    if isinstance(value, dict):
        return {"kind": "+I"} | {f"f{place}": _in_flink(each) for place, each in enumerate(value.values())}
    if isinstance(value, list | tuple):
        return type(value)(map(_in_flink, value))
    return str(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("name", NESTED)
def test_a_new_state_may_have_values_made_of_others(name: str, tmp_path: Path) -> None:
    arrow, values = NESTED[name]
    keys = [{"id": number, "of": "é"} for number in (0, 1, 2)]
    rows = pa.table({"key": keys, "value": pa.array([values[1], *values], arrow)}).slice(1)
    written = opened(NEWEST, "savepoint-canonical").edit().bootstrap("new", "state", rows).write(tmp_path / "new")
    found = written.state("new", "state")
    by_key = dict(zip((each["f0"] for each in found["key"].to_pylist()), python_values(found["value"]), strict=True))
    assert by_key == {number: _in_flink(value) for number, value in zip((1, 2), values, strict=True)}
    again = written.edit().set_max_parallelism(500, "new").write(tmp_path / "again")  # the hashes are those of tuples
    assert again.state("new", "state").num_rows == 2


@FEW
def test_a_state_gets_other_rows_and_the_others_keep_theirs(case: str, tmp_path: Path) -> None:
    checkpoint, truth = opened(NEWEST, case), values_truth(NEWEST, case)
    old = checkpoint.state("tumbling", "window-contents")
    rows = old.slice(0, 5).append_column("more", old.slice(0, 5)["key"])
    written = checkpoint.edit().bootstrap("tumbling", "window-contents", rows).write(tmp_path / "new")
    assert sorted(map(str, written.state("tumbling", "window-contents").to_pylist())) == sorted(
        map(str, old.slice(0, 5).to_pylist())
    )
    del truth["operators"]["tumbling"]["states"]["window-contents"]
    assert list(differences(written, truth)) == []


@FEW
def test_a_state_that_was_dropped_comes_back_with_the_rows_that_are_given_later(case: str, tmp_path: Path) -> None:
    checkpoint, truth = opened(NEWEST, case), values_truth(NEWEST, case)
    rows = checkpoint.state("tumbling", "window-contents").slice(0, 5)
    edited = checkpoint.edit().drop("tumbling", "window-contents").drop("scalars", "long")
    written = edited.bootstrap("tumbling", "window-contents", rows).write(tmp_path / "new")
    assert sorted(map(str, written.state("tumbling", "window-contents").to_pylist())) == sorted(
        map(str, rows.to_pylist())
    )
    with pytest.raises(KeyError, match="has no state 'long'"):
        written.state("scalars", "long")
    del truth["operators"]["tumbling"]["states"]["window-contents"]
    del truth["operators"]["scalars"]["states"]["long"]
    assert list(differences(written, truth)) == []


def test_given_rows_are_not_changed_by_a_later_step_in_silence(tmp_path: Path) -> None:
    checkpoint = opened(NEWEST, "savepoint-canonical")
    rows = checkpoint.state("scalars", "long").slice(0, 3)
    edited = checkpoint.edit().bootstrap("scalars", "long", rows)
    for change in (
        lambda: edited.delete_keys("scalars", [1]),
        lambda: edited.map("scalars", "long", lambda table: table["value"]),
    ):
        with pytest.raises(kit.CheckpointError, match="state 'long' has the rows given to bootstrap in this plan"):
            change()
    other = next(name for name in checkpoint.states.query("operator == 'scalars'")["name"] if name != "long")
    written = edited.map("scalars", other, lambda table: table["value"]).write(tmp_path / "new")
    assert written.state("scalars", "long").num_rows == 3
    assert edited.drop("scalars", "long").delete_keys("scalars", [1]).title


def test_rows_that_do_not_fit_a_state_are_refused() -> None:
    edited = opened(NEWEST, "savepoint-canonical").edit()
    pojo = next(iter(values_truth(NEWEST, "savepoint-canonical")["operators"]["by-pojo"]["states"]))
    with pytest.raises(kit.CheckpointError, match="expected key and value"):
        edited.bootstrap("scalars", "long", pa.table({"key": [1]}))
    for operator, state, rows, said in (
        ("scalars", "long", {"key": ["x"], "value": [1]}, "column 'key' is of type string, expected int64 for Long"),
        ("scalars", "new", {"key": ["x"], "value": [1]}, "cast the column key"),
        ("tumbling", "window-contents", {"key": ["x"], "value": [1]}, "no column 'namespace'"),
        ("new", "new", {"key": [[1]], "value": [1]}, "no serializer is known for a new state of type list"),
        ("new", "new", {"key": [1], "value": pa.array([1], pa.uint8())}, "no serializer is known .* uint8"),
        ("rich", "row", {"key": [1], "value": [{"a": 1}]}, "found a struct of 1 fields, expected"),
        ("by-pojo", pojo, {"key": [{"a": 1, "b": ""}], "value": [1]}, "only their Java class knows"),
    ):
        with pytest.raises(kit.CheckpointError, match=said):
            edited.bootstrap(operator, state, pa.table(rows)).rehearse()
