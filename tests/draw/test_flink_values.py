"""Keyed state that Flink wrote, decoded: every entry against what Flink itself says is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kit.core.state.errors import StateError
from kit.snapshots.flink_values import TIMER_FORM, Entry, FlinkKeyedFile, UnknownSerializerError
from kit.snapshots.pieces import KEYED
from kit.snapshots.source import inline_bytes, snapshot_at
from kit.snapshots.values import values_of
from tests.flink_data import uids_of, value_cases, values, values_truth

CASES = pytest.mark.parametrize(
    ("version", "case"),
    [each for each in value_cases() if each[1] in ("savepoint-canonical", "checkpoint-hashmap")],
)


def decoded(version: str, case: str) -> Iterator[tuple[str, int, Entry]]:
    """Operator (by its uid), key group and entry of all keyed state that can be decoded."""
    uids = uids_of(values_truth(version, case))
    snapshot = snapshot_at(values(version) / case)
    assert snapshot.files is not None
    assert snapshot.metadata is not None
    inline = inline_bytes(snapshot.metadata)
    files: dict[str, FlinkKeyedFile | None] = {}
    for piece in snapshot.pieces:
        if piece.kind != KEYED:
            continue
        if piece.file not in files:
            data = inline[piece.file] if piece.inline else snapshot.files.read(piece.file).to_pybytes()
            try:
                files[piece.file] = FlinkKeyedFile(data, canonical="Savepoint" in piece.handle, key_groups=128)
            except UnknownSerializerError:
                files[piece.file] = None
        file = files[piece.file]
        if file is not None:
            assert piece.key_group is not None
            for entry in file.key_group(piece.key_group, piece.start, piece.end):
                yield uids[piece.operator], piece.key_group, entry


def told(value: Any, *, single: bool = False) -> Any:
    """A value as both sides are compared: numbers as text, tuples and windows as text of their parts."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return tuple(told(each) for each in value)
    if isinstance(value, dict):
        return f"[{value['start']}, {value['end']})"
    if single or isinstance(value, float):
        return repr(np.float32(value) if single else float(value))
    return value if value is None else {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(value, str(value))


def rows_of(operator: str, group: int, entry: Entry) -> Iterator[tuple[Any, ...]]:
    """An entry as rows of Flink's: the elements of a list have one each."""
    state = entry.state
    head = (operator, state.name, told(entry.key), group, told(entry.namespace))
    if state.form == TIMER_FORM:
        yield (*head, entry.time_ms)
    elif state.form == "LIST":
        for place, each in enumerate(entry.value):
            yield (*head, place, told(each))
    else:
        yield (*head, told(entry.map_key), told(entry.value, single=state.name == "float"))


def rows_told(version: str, case: str, known: set[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    """What Flink says is in these states."""
    truth = values_truth(version, case)
    for uid, operator in truth["operators"].items():
        for name, state in {**operator.get("states", {}), **operator.get("timers", {})}.items():
            if (uid, name) not in known:
                continue
            for row in state["rows"]:
                if row.get("empty"):
                    continue
                head = (uid, name, told(row["key"]), row["key_group"], told(row.get("namespace")))
                if "timestamp" in row:
                    yield (*head, int(row["timestamp"]))
                else:
                    what = row["list_index"] if "list_index" in row else told(row.get("map_key"))
                    yield (*head, what, told(row["value"], single=name == "float"))


@CASES
def test_every_entry_is_what_flink_says(version: str, case: str) -> None:
    found = [row for each in decoded(version, case) for row in rows_of(*each)]
    known = {row[:2] for row in found}
    assert len({operator for operator, _ in known}) >= 6
    wanted = Counter(rows_told(version, case, known))
    assert Counter(found) - wanted == Counter()
    assert wanted - Counter(found) == Counter()


@CASES
def test_the_snapshot_shows_them_and_says_what_is_not_decoded(version: str, case: str) -> None:
    tables = values_of(snapshot_at(values(version) / case))
    uids = uids_of(values_truth(version, case))
    by_name = {(uids[table.operator], table.name): table.rows for table in tables.tables}
    longs = by_name["scalars", "long"].to_pandas()
    assert len(longs) == 40
    assert longs["value"].dtype == "int64"
    assert {"namespace", "key_group"} <= set(by_name["session", "window-contents"].column_names)
    assert "of keyed state, written with Flink's RowDataSerializer, which is not decoded here" in tables.note


def test_what_is_no_such_file_or_is_cut_is_refused() -> None:
    with pytest.raises(StateError, match="not keyed state of Flink"):
        FlinkKeyedFile(b"\0\0\0\1" + bytes(20), canonical=True, key_groups=128)
    with pytest.raises(StateError, match="ends at byte 4"):
        FlinkKeyedFile(b"\0\0\0\6", canonical=True, key_groups=128)
