"""Values as Flink's `truth-values.json` has them, made of Arrow columns without the kit's own formatting."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kit.snapshots.checkpoints import Checkpoint
from kit.stream.graph.hashing import operator_id_of_uid

SAFE = 1 << 53
PLACES = re.compile(r"f\d+")


def called(checkpoint: Checkpoint, uid: str) -> str:
    """Return what tables and errors call an operator: its uid, or its id where the checkpoint stores no uids."""
    return uid if checkpoint.operators["uid"].any() else operator_id_of_uid(uid)


def told(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column's values in the JSON of the truth files."""
    if isinstance(array, pa.ChunkedArray):
        return [each for chunk in array.chunks for each in told(chunk)]
    made = _told(array)
    return [each if valid else None for each, valid in zip(made, array.is_valid().to_pylist(), strict=True)]


def _told(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [told(field) for field in array.flatten()]
        return [_struct([field.name for field in kind], row) for row in zip(*columns, strict=True)]
    if pa.types.is_map(kind):
        pairs = [list(pair) for pair in zip(told(array.keys), told(array.items), strict=True)]
        return [sorted(part, key=lambda pair: json.dumps(pair[0])) for part in _cut(array, pairs)]
    if pa.types.is_list(kind):
        return _cut(array, told(array.values))
    if pa.types.is_temporal(kind):
        return _times(array)
    if pa.types.is_floating(kind):
        return [_number(each) for each in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if each is None else f"{each:f}" for each in array.to_pylist()]
    if pa.types.is_binary(kind):
        return [None if each is None else each.hex() for each in array.to_pylist()]
    if pa.types.is_int64(kind):
        return [each if each is None or abs(each) <= SAFE else str(each) for each in array.to_pylist()]
    return array.to_pylist()


def _cut(array: pa.Array, values: list[Any]) -> list[list[Any]]:
    offsets = array.offsets.to_pylist()
    return [values[start:end] for start, end in pairwise(offsets)]


def _struct(names: list[str], row: tuple[Any, ...]) -> Any:
    if names[:1] == ["kind"] and all(PLACES.fullmatch(name) for name in names[1:]):
        return dict(zip(["$kind", *names[1:]], row, strict=True))
    if all(PLACES.fullmatch(name) for name in names):
        return list(row)
    if names == ["side", "left", "right"]:
        return None if row[0] is None else {row[0]: row[1 if row[0] == "left" else 2]}
    return dict(zip(names, row, strict=True))


def _number(value: float | None) -> Any:
    if value is None or np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _times(array: pa.Array) -> list[Any]:
    kind, unit = array.type, getattr(array.type, "unit", "D")
    if pa.types.is_date32(kind):
        numbers, unit = array.cast(pa.int32()), "D"
    elif pa.types.is_time32(kind):
        numbers = array.cast(pa.int32())
    else:
        numbers = array.cast(pa.int64())
    texts = [None if each is None else str(np.datetime64(each, unit)) for each in numbers.to_pylist()]
    zone = "Z" if getattr(kind, "tz", None) else ""
    return [None if each is None else _iso(each, zone, is_time=pa.types.is_time(kind)) for each in texts]


def _iso(text: str, zone: str, *, is_time: bool) -> str:
    text = text.partition("T")[2] if is_time else text
    whole, dot, fraction = text.partition(".")
    fraction = fraction.ljust(9, "0")
    return f"{whole}{'.' + fraction if dot and int(fraction) else ''}{zone}"


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_of(table: pa.Table, kind: str) -> Counter[str]:
    """Count the rows of a state as `rows_told` does."""
    columns = {name: told(table[name]) for name in table.column_names}
    return Counter(json.dumps(row, sort_keys=True) for row in _rows(columns, kind))


def _rows(columns: dict[str, list[Any]], kind: str) -> Iterator[dict[str, Any]]:
    names = {"time_ms": "timestamp", "last_access": "ttl_timestamp"}
    for row in zip(*columns.values(), strict=True):
        made = {names.get(name, name): each for name, each in zip(columns, row, strict=True)}
        if kind != "LIST":
            yield made
            continue
        accesses = made.pop("ttl_timestamp", None)
        for place, value in enumerate(made.pop("value")):
            access = {} if accesses is None else {"ttl_timestamp": accesses[place]}
            yield {**made, "list_index": place, "value": value, **access}


def rows_told(state: dict[str, Any]) -> Counter[str]:
    """Count the rows that Flink says a state has. A map without entries has none."""
    return Counter(json.dumps(_plain(row), sort_keys=True) for row in state["rows"] if not row.get("empty"))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    made = dict(row)
    if "ttl_timestamp" in made:
        text = str(np.datetime64(int(made["ttl_timestamp"]), "ms"))
        made["ttl_timestamp"] = _iso(text, "Z", is_time=False)
    return _raw(made)


def _raw(value: Any) -> Any:
    """RAW columns are bytes; floats of 32 bits are written with the digits they need."""
    if isinstance(value, dict):
        return value["$raw"] if set(value) == {"$raw"} else {key: _raw(each) for key, each in value.items()}
    return [_raw(each) for each in value] if isinstance(value, list) else value


def as_single(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state of 32-bit floats with its numbers as 64-bit ones: truth has a decimal that rounds to them."""
    rows = [{**row, "value": _number(float(np.float32(row["value"])))} for row in state["rows"]]
    return {**state, "rows": rows}
