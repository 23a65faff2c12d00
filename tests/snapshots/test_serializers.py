"""Types that no real savepoint here has: snapshots and values written byte by byte as Flink writes them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import kit
from kit import CheckpointError
from kit.snapshots.checkpoints.versioned_items import decoded_items, is_versioned, with_offset
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.serializer_snapshots import read_serializer
from kit.snapshots.serializers.types import Type, column
from tests.snapshots.written import BASE, LONG, header, savepoint, snapshot, utf

TABLE = "org.apache.flink.table.runtime.typeutils."
SCALA = "org.apache.flink.api.scala.typeutils."
RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
STRING = snapshot(BASE + "StringSerializer$StringSerializerSnapshot")
LONGS = snapshot(BASE + LONG)
ABC = b"\x04abc"


def nested(*inner: bytes, outer: bytes = b"", version: int = 1) -> bytes:
    """Return the body of a snapshot of a serializer that is made of others."""
    return struct.pack(">ii", 911108, version) + outer + struct.pack(">iii", 1333245, 1, len(inner)) + b"".join(inner)


def type_of(held: bytes) -> Type:
    reader = Reader(held)
    found = read_serializer(reader)
    assert reader.left == 0
    return found


def shown(type_: Type, held: bytes) -> Any:
    """Return a value as a column has it; all of its bytes must be read."""
    reader = Reader(held)
    value = type_.read(reader)
    assert reader.left == 0
    return column(type_, [value]).to_pylist()[0]


def long(value: int) -> bytes:
    return struct.pack(">q", value)


def test_nullable_values_have_a_padding() -> None:
    body = nested(LONGS, outer=struct.pack(">i", 8), version=3)
    found = type_of(snapshot(RUNTIME + "NullableSerializer$NullableSerializerSnapshot", body))
    assert shown(found, b"\0" + long(5)) == 5
    assert shown(found, b"\1" + bytes(8)) is None
    assert found.is_fixed


def test_options_and_eithers_say_which() -> None:
    option = type_of(snapshot(SCALA + "ScalaOptionSerializerSnapshot", nested(LONGS, version=2)))
    assert [shown(option, held) for held in (b"\1" + long(7), b"\0")] == [7, None]
    either = type_of(snapshot(RUNTIME + "JavaEitherSerializerSnapshot", nested(LONGS, STRING)))
    assert shown(either, b"\1" + long(7)) == {"side": "left", "left": 7, "right": None}
    assert shown(either, b"\0" + ABC) == {"side": "right", "left": None, "right": "abc"}


def test_arrays_may_have_nulls() -> None:
    found = type_of(snapshot(BASE + "GenericArraySerializerSnapshot", nested(STRING, outer=utf("java.lang.String"))))
    assert shown(found, struct.pack(">i", 2) + b"\1" + ABC + b"\0") == ["abc", None]
    body = nested(LONGS, outer=b"\1", version=3)
    masked = type_of(snapshot(TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot", body))
    assert shown(masked, struct.pack(">iB", 3, 0b01000000) + long(1) + long(2)) == [1, None, 2]


def test_a_list_with_a_mask_is_one_value_of_a_state_of_unknown_kind(tmp_path: Path) -> None:
    body = nested(LONGS, outer=b"\1", version=3)
    head = header(snapshot(TABLE + "LinkedListSerializer$LinkedListSerializerSnapshot", body), kind="UNKNOWN")
    value = struct.pack(">iB", 3, 0b01000000) + long(1) + long(2)
    pair = struct.pack(">HiBqBi", 0, 10, 0x80, 1, 0, len(value)) + value + b"\xff\xff"
    folder = savepoint(tmp_path, head + pair, (len(head),))
    assert kit.open_checkpoint(folder).state("sums", "total")["value"].to_pylist() == [[1, None, 2]]


def frame(name: str, inner: bytes) -> bytes:
    """Return an entry of a map of names whose second item is a snapshot."""
    return utf(name) + b"\0\1" + struct.pack(">i", len(inner)) + inner


def names(*frames: bytes) -> bytes:
    return struct.pack(">qi", 0x4F2C69A3D70, len(frames)) + b"".join(frames)


def pojo(name: str, *fields: bytes, tagged: bytes = b"", known: bytes = b"") -> bytes:
    body = utf(name) + names(*fields) + (tagged or names()) + (known or names())
    return snapshot(RUNTIME + "PojoSerializerSnapshot", body)


def test_a_pojo_may_be_of_a_subclass() -> None:
    dog = pojo("Dog", frame("name", STRING), frame("tail", LONGS))
    cat = pojo("Cat", frame("lives", LONGS), frame("name", STRING))
    animal = type_of(
        pojo("Animal", frame("name", STRING), tagged=names(frame("Dog", dog)), known=names(frame("Cat", cat)))
    )
    of_dog = b"\x08\0\x02\0" + ABC + b"\0" + long(3)
    of_cat = b"\x04" + utf("Cat") + b"\x02\0" + long(9) + b"\1"
    assert shown(animal, b"\x02\0" + ABC) == {"$class": "Animal", "name": "abc", "tail": None, "lives": None}
    assert shown(animal, of_dog) == {"$class": "Dog", "name": "abc", "tail": 3, "lives": None}
    assert shown(animal, of_cat) == {"$class": "Cat", "name": None, "tail": None, "lives": 9}
    assert shown(animal, b"\x01") is None
    with pytest.raises(CheckpointError, match="an object of Bird"):
        shown(animal, b"\x04" + utf("Bird") + b"\x02")


def test_avro_schemas_of_older_snapshots_are_read() -> None:
    schema = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
    snapshots = {1: utf(schema), 2: utf("com.acme.Order") + utf(schema)}
    for version, body in snapshots.items():
        held = utf("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot") + struct.pack(">i", version) + body
        assert shown(type_of(held), long(5)) == {"id": 5}


def test_a_change_inside_an_avro_map_names_its_place(tmp_path: Path) -> None:
    opened = []
    for wanted in ("string", "boolean"):
        values = {"type": "map", "values": wanted}
        schema = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "prices", "type": values}]})
        held = utf("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot") + struct.pack(">i", 1)
        head = header(held + utf(schema))
        opened.append(kit.open_checkpoint(savepoint(tmp_path / wanted, head + b"\xff\xff", (len(head),))))
    (finding,) = (each for each in opened[0].check(opened[1]).findings if "became" in each.found)
    assert "prices.value: string became Boolean" in finding.found


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "fixed", "name": "Fee"},
        {"type": "record", "name": "Order", "fields": [{"name": "id"}]},
        {"type": "array"},
    ],
)
def test_an_avro_schema_that_is_not_complete_is_named(wrong: dict[str, Any]) -> None:
    held = utf("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot") + struct.pack(">i", 1)
    with pytest.raises(CheckpointError, match=r"an Avro schema of type .* is not complete"):
        type_of(held + utf(json.dumps(wrong)))


@pytest.mark.parametrize("precision", ["many", None, 0, 2, 77])
def test_an_avro_decimal_that_cannot_be_is_bytes(precision: Any) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 3}
    held = utf("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot") + struct.pack(">i", 1)
    assert shown(type_of(held + utf(json.dumps(schema))), struct.pack(">i", 1) + b"a") == b"a"


def test_an_unknown_snapshot_with_nested_ones_is_skipped() -> None:
    own = snapshot("com.acme.BoxSerializerSnapshot", nested(LONGS, STRING, outer=b"own bytes"))
    found = type_of(snapshot(RUNTIME + "JavaEitherSerializerSnapshot", nested(own, STRING)))
    assert found.name == "Either<bytes of com.acme.BoxSerializerSnapshot, String>"
    assert shown(found, b"\0" + ABC) == {"side": "right", "left": None, "right": "abc"}


def test_variants_and_bitmaps_are_bytes() -> None:
    variant = type_of(snapshot(BASE + "VariantSerializer$VariantSerializerSnapshot"))
    assert shown(variant, struct.pack(">ii", 2, 3) + b"\x0c\x05\x01\0\0") == {
        "value": b"\x0c\x05",
        "metadata": b"\x01\0\0",
    }
    bitmap = type_of(snapshot(BASE + "BitmapSerializer$BitmapSerializerSnapshot"))
    assert shown(bitmap, struct.pack(">i", 2) + b"ab") == b"ab"


def item(held: bytes) -> bytes:
    return struct.pack(">ii", 1, len(held)) + held


def test_splits_of_sources_have_names() -> None:
    kafka = item(utf("orders") + struct.pack(">iqq", 3, 42, -(1 << 63)))
    assert is_versioned(kafka)
    assert decoded_items("SourceReaderState", kafka) == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 42,
            "stop_offset": None,
        }
    ]
    later = with_offset("SourceReaderState", kafka, 1_000)
    assert later == item(utf("orders") + struct.pack(">iqq", 3, 1_000, -(1 << 63)))
    path = b"\1\1\x05file\0\0" + struct.pack(">i", -1) + b"\1\x05/a/b\0\0"
    file = item(utf("0001") + path + struct.pack(">qqqqi", 0, 100, 5, 100, 0) + b"\1" + struct.pack(">qq", 60, 2))
    (found,) = decoded_items("SourceReaderState", file) or [{}]
    assert (found["path"], found["length"], found["offset"], found["records_after_offset"]) == ("file:/a/b", 100, 60, 2)
    with pytest.raises(CheckpointError, match="this split is of another source"):
        with_offset("SourceReaderState", file, 5)
    assert decoded_items("SourceReaderState", item(b"?")) is None
    assert decoded_items("other", kafka) is None


def test_splits_of_several_kafka_clusters_have_their_cluster() -> None:
    partition = utf("orders") + struct.pack(">iqq", 3, 42, -(1 << 63))
    wanted = {"cluster": "east", "topic": "orders", "partition": 3, "offset": 42, "stop_offset": None}
    first = struct.pack(">i", 1) + item(utf("east") + struct.pack(">i", 0) + partition)[4:]
    assert decoded_items("SourceReaderState", first) == [{**wanted, "retained_until_ms": None}]
    for flag, retained in ((b"\0", None), (b"\1" + long(9), 9)):
        held = utf("east") + flag + struct.pack(">i", 0) + partition
        second = struct.pack(">ii", 2, len(held)) + held
        assert decoded_items("SourceReaderState", second) == [{**wanted, "retained_until_ms": retained}]
    with pytest.raises(CheckpointError, match="this split is of another source"):
        with_offset("SourceReaderState", second, 5)
