"""Simple values that Flink's KryoSerializer wrote (`tests/interop/KryoValues.java`), held to Java's text of each."""

from __future__ import annotations

import csv
import struct
from pathlib import Path
from typing import Any

import pytest

import kit
from kit import CheckpointError
from kit.snapshots.serializers.kryo import KRYO_DECODERS, decode_kryo
from tests.snapshots.written import header, savepoint, snapshot, utf

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
    with pytest.raises(CheckpointError, match=r"an object of com\.acme\.Money"):
        decode_kryo("com.acme.Money", bytes.fromhex("570105"))


def test_a_state_of_a_savepoint_is_decoded_with_them(tmp_path: Path) -> None:
    body = utf("java.util.ArrayList") + struct.pack(">qi", 0x4F2C69A3D70, 0) * 3
    kryo = snapshot("org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot", body)
    held = [bytes.fromhex("570184020002" + "04d804"), bytes.fromhex("5701070202030161e20904000a000000000000f03f0303")]
    head = header(kryo)
    rows = b""
    for key, value in enumerate(held):
        last = 0x80 if key + 1 == len(held) else 0
        rows += struct.pack(">iBqB", 10, last, key, 0) + struct.pack(">i", len(value)) + value
    path = savepoint(tmp_path / "savepoint", head + b"\0\0" + rows + b"\xff\xff", (len(head),))
    assert kit.open_checkpoint(path).state("sums", "total")["value"].to_pylist() == held
    decoded = kit.open_checkpoint(path, decoders=KRYO_DECODERS).state("sums", "total")
    assert decoded["value"].to_pylist() == ["[1, 2, 300]", '[1, "ab", 2, null, 1.0, "ab"]'], (
        "lists without a common type"
    )
