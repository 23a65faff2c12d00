"""Simple values that Flink's KryoSerializer wrote (`tests/interop/KryoValues.java`), held to Java's text of each."""

from __future__ import annotations

import csv
import json
import struct
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import kit
from kit import CheckpointError
from kit.core.metadata import NEWEST, MetadataVersion, read_metadata, write_metadata
from kit.core.metadata.versions import V4
from kit.snapshots.serializers.compatibility import opaque_classes, type_changes
from kit.snapshots.serializers.kryo import KRYO_DECODERS, KryoValue, decode_kryo
from kit.snapshots.serializers.opaque import Opaque
from kit.snapshots.serializers.pojo import NO_SUBCLASS
from kit.snapshots.serializers.serializer_snapshots import OPTIONAL_MAP
from tests.snapshots.test_serializers import LONGS, RUNTIME, frame, pojo
from tests.snapshots.written import header, header_of, native, savepoint, snapshot, utf

FILE = Path(__file__).resolve().parents[1] / "data" / "kryo_values.tsv"
with FILE.open(encoding="utf-8", newline="") as lines:
    VALUES = [tuple(row) for row in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]
OTHERWISE: dict[str, Any] = {
    "2020-01-02T03:04:05.000000006+01:00[Europe/Paris]": "2020-01-02T03:04:05.000000006[Europe/Paris]",
    "2020-01-02T03:04:05.600+01:00": "2020-01-02T03:04:05.600000000+01:00",
    "2020-01-02T03:04+01:00:30": "2020-01-02T03:04:00+01:00:30",
    "2020-01-02T03:04": "2020-01-02T03:04:00",
    "00:00": "00:00:00",
    "01:02": "01:02:00",
    "Thu Jan 01 00:00:00 UTC 1970": "1970-01-01T00:00:00.005000000Z",
    "Optional[x]": "x",
    "Optional.empty": "null",
}
"""The text of values that Java writes in another way."""
ARRAYS = [b"\x01\xfe", [1, -1], [5]]


def text(value: Any) -> str:
    """Return a value's text as Java has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        pairs = [each for each in value if isinstance(each, tuple)]
        if pairs:
            return "{" + ", ".join(f"{text(key)}={text(each)}" for key, each in pairs) + "}"
        return "[" + ", ".join(map(text, value)) + "]"
    return str(value)


@pytest.mark.parametrize("row", VALUES, ids=[f"{n}-{row[0]}" for n, row in enumerate(VALUES)])
def test_each_value_is_the_one_that_java_wrote(row: tuple[str, str, str]) -> None:
    declared, held, wanted = row
    found = KRYO_DECODERS[declared](bytes.fromhex(held))
    if wanted == "array":
        assert found in ARRAYS
    elif wanted == "{}":
        assert found == []
    else:
        assert text(found) == OTHERWISE.get(wanted, wanted)


def test_damaged_values_are_one_error() -> None:
    for declared, held, _ in VALUES:
        data = bytes.fromhex(held)
        for cut in range(len(data)):
            with pytest.raises(CheckpointError):
                decode_kryo(declared, data[:cut])
        for place in range(min(len(data), 12)):
            changed = bytes([*data[:place], data[place] ^ 0xFF, *data[place + 1 :]])
            try:
                decode_kryo(declared, changed)
            except CheckpointError:
                continue


def test_a_class_that_is_not_simple_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"values of com\.acme\.Money, which Kryo wrote, cannot be read"):
        decode_kryo("com.acme.Money", bytes.fromhex("570105"))


# --- inside other values, which have no lengths -----------------------------------------------------------------------

ARRAY_LIST = "java.util.ArrayList"
LISTS = [bytes.fromhex("570184020002" + "04d804"), bytes.fromhex("5701070202030161e20904000a000000000000f03f0303")]
MONEY_IN_A_LIST = bytes.fromhex("570102" + "0100" + b"com.acme.Mone".hex() + "f9" + "0105")


def kryo(
    class_name: str, *, registered: tuple[str, ...] = (), serializer: bytes = bytes(4), default: bytes = b""
) -> bytes:
    """Return the snapshot of Kryo's serializer for a class; `registered` are classes that a user registered besides."""
    listed = b"".join(
        utf(name) + b"\1" + struct.pack(">i", 2) + b"ab" + b"\1" + struct.pack(">i", 6 + len(serializer)) + b"\0\4name"
        + serializer
        for name in (class_name, *registered)
    )  # fmt: skip
    head = struct.pack(">qi", OPTIONAL_MAP, 1 + len(registered)) + listed
    defaults = struct.pack(">qi", OPTIONAL_MAP, bool(default)) + default + struct.pack(">qi", OPTIONAL_MAP, 0)
    return snapshot(RUNTIME + "kryo.KryoSerializerSnapshot", utf(class_name) + head + defaults)


def in_heap(folder: Path, value: bytes, held: list[bytes], version: MetadataVersion = NEWEST) -> Path:
    """Write a savepoint of one key group with a state of these values, and one of numbers behind it."""
    entries = b"".join(struct.pack(">Bq", 0, key) + each for key, each in enumerate(held))
    behind = struct.pack(">iBqq", 1, 0, 7, 70)
    states = {"total": ("VALUE", value), "behind": ("VALUE", LONGS)}
    path = native(folder, header_of(states), [[struct.pack(">i", len(held)) + entries, behind]])
    data = (path / "_metadata").read_bytes()
    (path / "_metadata").write_bytes(write_metadata(read_metadata(data, "test")[0], version))
    return path


@pytest.mark.parametrize("row", VALUES, ids=[f"{n}-{row[0]}" for n, row in enumerate(VALUES)])
def test_the_end_of_each_value_is_found_within_an_object(row: tuple[str, str, str], tmp_path: Path) -> None:
    """A value of Kryo stands between two numbers, in objects that stand behind each other."""
    declared, held, _ = row
    value = pojo("Order", frame("a", LONGS), frame("b", kryo(declared)), frame("c", LONGS))
    each = struct.pack(">B?q", NO_SUBCLASS, False, 1) + b"\0" + bytes.fromhex(held) + struct.pack(">?q", False, 3)
    path = in_heap(tmp_path, value, [each, each, each])
    rows = kit.open_checkpoint(path).state("sums", "total")["value"].to_pylist()
    assert [(found["a"], found["c"]) for found in rows] == [(1, 3)] * 3
    wanted = KRYO_DECODERS[declared](bytes.fromhex(held))
    found = rows[0]["b"]
    is_json = isinstance(found, str) and not isinstance(wanted, str)
    assert (json.loads(found) if is_json else found) == (
        json.loads(json.dumps(wanted, default=bytes.hex)) if is_json else wanted
    )
    assert kit.open_checkpoint(path).state("sums", "behind")["value"].to_pylist() == [70]
    decoded = kit.open_checkpoint(path, decoders={declared: bytes.hex}).state("sums", "total")["value"].to_pylist()
    assert [found["b"] for found in decoded] == [held] * 3


def test_an_object_of_another_class_is_named_and_other_states_are_read(tmp_path: Path) -> None:
    path = in_heap(tmp_path / "list", kryo(ARRAY_LIST), [LISTS[0], MONEY_IN_A_LIST])
    checkpoint = kit.open_checkpoint(path)
    for state in ("total", "behind"):
        with pytest.raises(CheckpointError, match=r"values of com\.acme\.Money, which Kryo wrote, cannot be read"):
            checkpoint.state("sums", state)


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (kryo(ARRAY_LIST), V4),
        (kryo(ARRAY_LIST, serializer=struct.pack(">i", 1) + utf("com.acme.Lists")), NEWEST),
        (kryo(ARRAY_LIST, default=utf("com.acme.Base") + bytes(2)), NEWEST),
        (kryo("com.acme.Money"), NEWEST),
    ],
    ids=["Flink 1", "a serializer of the user's", "one for a class above", "a class that is not simple"],
)
def test_what_another_serializer_wrote_stays_bytes(value: bytes, version: MetadataVersion, tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(in_heap(tmp_path, value, LISTS[:1], version))
    assert checkpoint.states.set_index("name").loc["total", "value"].startswith("bytes of ")


def test_registered_classes_have_the_ids_of_their_places(tmp_path: Path) -> None:
    value = kryo("java.lang.Object", registered=(ARRAY_LIST,))
    as_second = b"\x58" + LISTS[0][1:]
    assert kit.open_checkpoint(in_heap(tmp_path, value, [as_second])).state("sums", "total")["value"].to_pylist() == [
        "[1, 2, 300]"
    ]


def test_lists_are_json_and_columns_with_the_decoders(tmp_path: Path) -> None:
    """With lengths, as in a canonical savepoint, and without."""
    head = header(kryo(ARRAY_LIST))
    rows = b""
    for key, value in enumerate(LISTS):
        last = 0x80 if key + 1 == len(LISTS) else 0
        rows += struct.pack(">iBqB", 10, last, key, 0) + struct.pack(">i", len(value)) + value
    canonical = savepoint(tmp_path / "savepoint", head + b"\0\0" + rows + b"\xff\xff", (len(head),))
    for path in (canonical, in_heap(tmp_path / "heap", kryo(ARRAY_LIST), LISTS)):
        wanted = ["[1, 2, 300]", '[1, "ab", 2, null, 1.0, "ab"]']
        assert kit.open_checkpoint(path).state("sums", "total")["value"].to_pylist() == wanted
        decoded = kit.open_checkpoint(path, decoders=KRYO_DECODERS).state("sums", "total")
        assert decoded["value"].to_pylist() == wanted, "lists without a common type"
    first = kit.open_checkpoint(in_heap(tmp_path / "one", kryo(ARRAY_LIST), LISTS[:1]), decoders=KRYO_DECODERS)
    assert first.state("sums", "total")["value"].to_pylist() == [[1, 2, 300]]


def test_a_class_of_kryo_does_not_change_with_the_version_of_flink() -> None:
    """Flink 1 wrote it with Kryo 2, which is not read here: that is no change of the type, as it is none to Flink."""
    read, bytes_of = KryoValue("java.util.UUID", ["java.util.UUID"]), Opaque("java.util.UUID")
    others = [KryoValue("java.util.Optional", ["java.util.Optional"]), Opaque("java.util.Optional")]
    for one, other in permutations([read, bytes_of], 2):
        assert type_changes(one, other) == []
        assert [len(type_changes(one, another)) for another in others] == [1, 1]
    assert opaque_classes(read) == opaque_classes(bytes_of) == ["java.util.UUID"]
