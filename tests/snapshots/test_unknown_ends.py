"""Values whose end only Java code knows, in layouts without their length: refused, never called damaged or invented.

Operators whose lists are all empty are beside them: the snapshots that Flink wrote have both.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

import kit
from kit import CheckpointError
from kit.core.state.handles import KeyGroupsStateHandle
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from tests.cli.test_commands import ran
from tests.flink_data import kryo_cases
from tests.snapshots.test_serializers import LONGS, STRING, nested
from tests.snapshots.written import BASE, broadcast, header_of, lists, native, savepoint, snapshot, utf

RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
KRYO = snapshot(
    RUNTIME + "kryo.KryoSerializerSnapshot", utf("com.acme.Money") + struct.pack(">qi", 0x4F2C69A3D70, 0) * 3
)
MAP_OF_KRYO = snapshot(BASE + "MapSerializerSnapshot", nested(LONGS, KRYO))
KRYO_KEYS = snapshot(BASE + "MapSerializerSnapshot", nested(KRYO, LONGS))
LIST_OF_KRYO = snapshot(BASE + "ListSerializerSnapshot", nested(KRYO))
TUPLE = snapshot(
    RUNTIME + "TupleSerializerSnapshot", nested(KRYO, STRING, outer=utf("org.apache.flink.api.java.tuple.Tuple2"))
)
MONEY = bytes.fromhex("570105")
REFUSED = "this type cannot be read"


def longs_of(*keys: int) -> bytes:
    """Return entries of a value state: each key with its negative."""
    return struct.pack(">i", len(keys)) + b"".join(struct.pack(">Bqq", 0, key, -key) for key in keys)


def maps_of(*keys: int) -> bytes:
    """Return entries of a map state: each key has a map of two, whose values look like entries of other keys."""
    entry = struct.pack(">i", 2) + (struct.pack(">qB", 8, 0) + MONEY + struct.pack(">Bqi", 0, 5, 1)) * 2
    return struct.pack(">i", len(keys)) + b"".join(struct.pack(">Bq", 0, key) + entry for key in keys)


def each_error(folder: Path) -> Iterator[str]:
    """Yield the error of every state that cannot be read, by each reader of keys and values."""
    checkpoint = kit.open_checkpoint(folder)
    for row in checkpoint.states.itertuples():
        readers = (
            lambda row=row: checkpoint.state(row.operator, row.name),
            lambda row=row: list(checkpoint.stream(row.operator, row.name)),
            lambda row=row: checkpoint.page(row.operator, row.name),
            lambda row=row: checkpoint.plan(row.operator, 2, state=row.name),
        )
        for read in readers:
            try:
                read()
            except CheckpointError as error:
                yield str(error)
            except (KeyError, ValueError):  # operator state has no keys
                continue


@pytest.mark.parametrize(
    ("kind", "value"),
    [("MAP", MAP_OF_KRYO), ("MAP", KRYO_KEYS), ("LIST", LIST_OF_KRYO), ("VALUE", TUPLE)],
    ids=["map values", "map keys", "list", "tuple"],
)
def test_a_state_with_parts_of_unknown_ends_is_refused_by_each_reader(kind: str, value: bytes, tmp_path: Path) -> None:
    head = header_of({"before": ("VALUE", LONGS), "money": (kind, value), "after": ("VALUE", LONGS)})
    states = [longs_of(1, 2), maps_of(3, 4), longs_of(5)]
    folder = native(tmp_path / "native", head, [states])
    checkpoint = kit.open_checkpoint(folder)
    assert checkpoint.state("sums", "before")["key"].to_pylist() == [1, 2], "what stands before it is known"
    with pytest.raises(CheckpointError, match=f"state 'money': {REFUSED}"):
        checkpoint.state("sums", "money")
    with pytest.raises(CheckpointError, match=f"state 'after' comes after state 'money', .*{REFUSED}"):
        checkpoint.state("sums", "after")
    found = list(each_error(folder))
    assert len(found) == 8
    assert all(REFUSED in each and "damaged" not in each for each in found)
    with pytest.raises(CheckpointError, match=REFUSED):
        checkpoint.plan("sums", 2)
    with pytest.raises(CheckpointError, match=REFUSED):
        checkpoint.edit().delete_keys("sums", [3]).rehearse()


def test_other_states_are_read_if_a_key_group_has_none_of_it(tmp_path: Path) -> None:
    head = header_of({"money": ("MAP", MAP_OF_KRYO), "after": ("VALUE", LONGS)})
    folder = native(tmp_path / "native", head, [[maps_of(), longs_of(1)], [maps_of(), longs_of(7, 8)]])
    checkpoint = kit.open_checkpoint(folder)
    assert checkpoint.state("sums", "after")["key"].to_pylist() == [1, 7, 8]
    assert checkpoint.state("sums", "money").num_rows == 0
    assert checkpoint.measure(checkpoint.metadata.operator_states[0])["after"][0] == 3


def test_a_broadcast_state_is_refused_for_its_keys_or_values_and_the_others_are_read(tmp_path: Path) -> None:
    pairs = [struct.pack(">qq", number, 10 * number) for number in (7, 3, 5)]
    money = [struct.pack(">q", number) + MONEY for number in (1, 2)]
    states = {
        "first": (LONGS, LONGS, pairs),
        "values": (LONGS, KRYO, money),
        "keys": (KRYO, LONGS, money),
        "none": (LONGS, LONGS, []),
        "last": (LONGS, LONGS, pairs[1:]),
    }
    checkpoint = kit.open_checkpoint(broadcast(tmp_path, states))
    found = {name: checkpoint.state("rules", name) for name in ("first", "none", "last")}
    assert found["first"].select(["key", "value"]).to_pylist() == [
        {"key": number, "value": 10 * number} for number in (7, 3, 5)
    ]
    assert found["last"]["key"].to_pylist() == [3, 5]
    assert found["none"].num_rows == 0
    for name in ("values", "keys"):
        with pytest.raises(CheckpointError, match=f"state '{name}': {REFUSED}: bytes of com.acme.Money"):
            checkpoint.state("rules", name)


def test_a_key_of_unknown_end_is_refused(tmp_path: Path) -> None:
    head = header_of({"total": ("VALUE", LONGS)}, KRYO)
    folder = native(tmp_path / "native", head, [[struct.pack(">i", 1) + b"\0" + MONEY + struct.pack(">q", 1)]])
    pair = b"\0\0" + struct.pack(">i", 6) + b"\x80" + MONEY + b"\3\0" + struct.pack(">iq", 8, 1) + b"\xff\xff"
    canonical = savepoint(tmp_path / "canonical", head + pair, (len(head),))
    for each in (folder, canonical):
        assert all(REFUSED in error and "damaged" not in error for error in each_error(each))
        assert list(each_error(each))


KEYS = [key for key in range(10_000) if assign_to_key_group(key, 128) == 3]
"""Keys of one key group."""


def in_one_group(folder: Path, values: list[bytes], order: list[int]) -> Path:
    """Write a state of these values between two of numbers, in this order, in key group 3 of 128."""
    head = header_of({"before": ("VALUE", LONGS), "money": ("VALUE", KRYO), "after": ("VALUE", LONGS)})
    money = struct.pack(">i", len(values)) + b"".join(
        struct.pack(">Bq", 0, key) + value for key, value in zip(KEYS, values, strict=False)
    )
    states = [longs_of(*KEYS[:2]), money, longs_of(KEYS[2])]
    empty = b"".join(struct.pack(">hi", number, 0) for number in order)
    full = b"".join(struct.pack(">h", number) + states[number] for number in order)
    groups = [struct.pack(">i", group) + (full if group == 3 else empty) for group in range(128)]
    places = [len(head) + sum(map(len, groups[:group])) for group in range(128)]
    return savepoint(folder, head + b"".join(groups), tuple(places), handle_type=KeyGroupsStateHandle)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_ends_are_found_in_whichever_order_the_states_are(order: list[int], tmp_path: Path) -> None:
    values = [MONEY + bytes([number]) * number for number in range(1, 12)]
    checkpoint = kit.open_checkpoint(in_one_group(tmp_path, values, order))
    found = checkpoint.state("sums", "money")
    assert dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)) == dict(zip(KEYS, values))
    assert checkpoint.state("sums", "after")["key"].to_pylist() == [KEYS[2]]
    assert checkpoint.state("sums", "before")["key"].to_pylist() == KEYS[:2]


@pytest.mark.parametrize("many", [1, 2, 6])
def test_values_that_hold_what_looks_like_entries_are_refused(many: int, tmp_path: Path) -> None:
    """A search that takes the first end that fits would invent these keys, and lose others."""
    looks_like_one = struct.pack(">Bq", 0, KEYS[40]) + MONEY
    values = [MONEY + bytes([7]) * number for number in range(many - 1)] + [MONEY + looks_like_one * 3]
    found = list(each_error(in_one_group(tmp_path, values, [0, 1, 2])))
    assert found
    assert all(REFUSED in each and "damaged" not in each for each in found)


@pytest.mark.parametrize("groups", [1, 128])
def test_a_value_whose_end_no_search_finds_is_not_called_damaged(groups: int, tmp_path: Path) -> None:
    head = header_of({"money": ("VALUE", KRYO), "after": ("VALUE", LONGS)})
    held = struct.pack(">i", 2) + struct.pack(">Bq", 0, 1) + MONEY + struct.pack(">Bq", 9, 2) + MONEY
    empty = [[longs_of(), longs_of()]] * (groups - 1)
    found = list(each_error(native(tmp_path / "native", head, [[held, longs_of(5)], *empty])))
    assert found
    assert all(REFUSED in each and "damaged" not in each for each in found)


def test_a_list_of_unknown_ends_is_refused_in_canonical_format(tmp_path: Path) -> None:
    head = header_of({"money": ("LIST", LIST_OF_KRYO)})
    pair = struct.pack(">HiBqBi", 0, 10, 0x80, 1, 0, 7) + MONEY + b"," + MONEY + b"\xff\xff"
    found = list(each_error(savepoint(tmp_path / "one", head + pair, (len(head),))))
    assert found
    assert all(REFUSED in each and "damaged" not in each for each in found)


def test_a_savepoint_whose_lists_are_all_empty_is_read(tmp_path: Path) -> None:
    folder = lists(tmp_path / "empty", {("files", "splits"): [], ("sink", "parts"): [b"one"]})
    checkpoint = kit.open_checkpoint(folder)
    assert checkpoint.states["error"].tolist() == ["", ""]
    assert checkpoint.state("files", "splits").num_rows == 0
    assert checkpoint.state("sink", "parts")["value"].to_pylist() == [b"one"]
    for command in (("size", folder), ("check", folder), ("diff", folder, folder), ("show", folder)):
        assert ran(*command)[::2] == (0, ""), command
    assert ran("state", folder, "files", "splits")[0] == 0
    written = checkpoint.edit().rename("files", "others").write(tmp_path / "new")
    assert written.state("others", "splits").num_rows == 0


def test_what_flink_wrote_is_read_or_refused_and_no_key_is_invented() -> None:
    for folder in kryo_cases():
        truth = json.loads((folder / "truth.json").read_text())["state"]
        known = {tuple(text.split("|", 2)) for text in truth}
        for metadata in folder.rglob("_metadata"):
            checkpoint = kit.open_checkpoint(metadata.parent)
            assert not checkpoint.states["error"].any(), folder.name
            for error in each_error(metadata.parent):
                assert REFUSED in error, folder.name
                assert "damaged" not in error, folder.name
            for command in ("size", "check", "show"):
                assert ran(command, metadata.parent)[0] == 0, (folder.name, command)
            for row in checkpoint.states.itertuples():
                try:
                    keys = checkpoint.state(row.operator, row.name)["key"].to_pylist()
                except (CheckpointError, KeyError):
                    continue
                if (row.operator, row.name) in {each[:2] for each in known} and isinstance(keys[0], int | str):
                    assert {(row.operator, row.name, json.dumps(key)) for key in keys} <= known, folder.name
