"""One key of a state: the rows that it has in the whole state, read from its key group only."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kit
from kit.core.state.errors import CheckpointError
from kit.snapshots.checkpoints import Checkpoint
from tests.flink_data import value_cases, values
from tests.snapshots.written import longs

OTHER_TYPES = 12, "x", 1.5, True, (1, "x"), {"a": 1}


def is_same(one: Any, other: Any) -> bool:
    """Equal keys; the text of a NaN is that of another."""
    return repr(one) == repr(other)


def keyed_states(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    states = checkpoint.states
    keyed = states[(states["key"] != "") & (states["kind"] != "BROADCAST") & (states["error"] == "")]
    return list(zip(keyed["operator"], keyed["name"], strict=True))


def unless_opaque(checkpoint: Checkpoint, operator: str, name: str, key: Any) -> pa.Table | None:
    """The rows of a key; None for keys that only Java code reads."""
    try:
        return checkpoint.state(operator, name, key=key)
    except CheckpointError as error:
        if "not decoded here" not in str(error):
            raise
        return None


@pytest.mark.parametrize(("version", "case"), value_cases())
def test_a_key_has_the_rows_that_it_has_in_the_whole_state(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    looked_up = 0
    for operator, name in keyed_states(checkpoint):
        try:
            whole = checkpoint.state(operator, name)
        except CheckpointError:
            continue
        if not whole.num_rows or "key" not in whole.column_names:
            continue
        keys = whole["key"].to_pylist()
        groups = whole["key_group"].to_pylist()
        for place in {0, len(keys) // 2, len(keys) - 1}:
            key = keys[place]
            found = unless_opaque(checkpoint, operator, name, key)
            if found is None:
                continue
            rows = [row for row, each in enumerate(keys) if is_same(each, key)]
            assert found.num_rows == len(rows) > 0
            # A time that Arrow cannot hold makes its column text in its key group only.
            same = [each.name for each in whole.schema if each in found.schema]
            assert set(same) >= {"key_group", "key"}
            assert repr(found.select(same).to_pylist()) == repr(whole.select(same).take(pa.array(rows)).to_pylist())
            assert checkpoint.key_group_of(operator, name, key) in (None, groups[place])
            looked_up += checkpoint.key_group_of(operator, name, key) is not None
    assert looked_up > 10, "most keys are of types whose hash is known"


def struct_job(key_type: pa.DataType, keys: list[Any]) -> kit.StreamEnvironment:
    """Sums by a key of two columns, or of one."""
    env = kit.StreamEnvironment("keys", parallelism=3, max_parallelism=64)
    columns = list(key_type) if pa.types.is_struct(key_type) else [pa.field("one", key_type)]
    schema = pa.schema([*columns, pa.field("n", pa.int64())])
    parts = [list(key.values()) if isinstance(key, dict) else [key] for key in keys]
    rows = [dict(zip(schema.names, [*part, n], strict=True)) for n, part in enumerate(parts)]
    stream = env.from_source(
        kit.CollectionSource(pa.Table.from_pylist(rows, schema=schema), batch_rows=4, rows_per_second=100), uid="rows"
    )
    names = [each.name for each in columns]
    stream.key_by(*names).aggregate(total=kit.sum_("n")).uid("sums").sink_to(kit.CollectSink("out"), uid="out")
    return env


def savepoint(env: kit.StreamEnvironment, directory: Path) -> Checkpoint:
    lab = kit.Lab(env)
    lab.run_until(at_ms=450)
    lab.look.files.export(directory, lab.savepoint(wait=True))
    return kit.open_checkpoint(directory)


DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(200)]
TWO = pa.struct([("carrier", pa.string()), ("day", pa.date32())])
KEYS: dict[str, tuple[pa.DataType, list[Any], Any, str]] = {
    "integers": (pa.int64(), list(range(200)), 77, "77"),
    "texts": (pa.string(), [f"key {n}" for n in range(200)], "key 77", "key 77"),
    "texts of digits": (pa.string(), [str(n) for n in range(200)], "77", "77"),
    "dates": (pa.date32(), DAYS, DAYS[77], "2026-03-19"),
    "bools": (pa.bool_(), [n % 2 == 0 for n in range(200)], True, "true"),
    "two fields": (
        TWO,
        [{"carrier": "UA", "day": day} for day in DAYS],
        {"carrier": "UA", "day": DAYS[77]},
        json.dumps({"carrier": "UA", "day": "2026-03-19"}),
    ),
}


@pytest.mark.parametrize("what", KEYS)
def test_a_key_of_the_kits_own_state_is_found_by_value_and_by_text(what: str, tmp_path: Path) -> None:
    key_type, keys, key, text = KEYS[what]
    checkpoint = savepoint(struct_job(key_type, keys), tmp_path)
    whole = checkpoint.state("sums", "totals")
    groups = whole["key_group"].to_pylist()
    assert groups == sorted(groups)
    assert what == "bools" or len(set(groups)) > 30
    rows = [row for row, each in enumerate(whole["key"].to_pylist()) if each == key]
    assert len(rows) == 1, "the fixture has the key once"
    assert checkpoint.key_from_text("sums", "totals", text) == key
    found = checkpoint.state("sums", "totals", key=key)
    assert found.to_pylist() == whole.take(pa.array(rows)).to_pylist()
    assert found["key_group"].to_pylist() == [checkpoint.key_group_of("sums", "totals", key)]
    page = checkpoint.page("sums", "totals", key=key)
    assert (page.rows.to_pylist(), page.next, len(page.units)) == (found.to_pylist(), None, 1)
    if pa.types.is_struct(key_type):
        assert checkpoint.state("sums", "totals", key=tuple(key.values())).to_pylist() == found.to_pylist()
        assert checkpoint.key_from_text("sums", "totals", '["UA", "2026-03-19"]') == key


@pytest.mark.parametrize("what", KEYS)
def test_a_key_of_another_type_is_refused(what: str, tmp_path: Path) -> None:
    key_type, keys, key, _ = KEYS[what]
    checkpoint = savepoint(struct_job(key_type, keys), tmp_path)
    others = [each for each in OTHER_TYPES if type(each) is not type(key)]
    for other in others:
        with pytest.raises(CheckpointError, match="give a key of that type"):
            checkpoint.state("sums", "totals", key=other)
        assert checkpoint.key_group_of("sums", "totals", other) is None
    absent = {pa.int64(): 999, pa.string(): "none", pa.date32(): dt.date(1999, 1, 1)}.get(key_type)
    if absent is not None:
        assert checkpoint.state("sums", "totals", key=absent).num_rows == 0


def test_texts_that_are_no_key_are_refused(tmp_path: Path) -> None:
    checkpoint = savepoint(struct_job(TWO, KEYS["two fields"][1]), tmp_path)
    for text in ("UA", '["UA"]', '["UA", "2026-03-19", 1]', '{"carrier": "UA"}', '["UA", "yesterday"]', "12"):
        with pytest.raises(CheckpointError, match="no key of type struct"):
            checkpoint.key_from_text("sums", "totals", text)
    with pytest.raises(KeyError, match="has no state"):
        checkpoint.state("sums", "nothing", key=1)


def test_only_the_key_group_of_the_key_is_read(tmp_path: Path) -> None:
    """All other key groups of the file are damaged."""
    path = longs(tmp_path, np.arange(5_000))
    whole = kit.open_checkpoint(path).state("sums", "total")
    (handle,) = kit.open_checkpoint(path).metadata.operator_states[0].subtask_states[0].managed_keyed_state
    key, group = whole["key"][700].as_py(), whole["key_group"][700].as_py()
    (file,) = [each for each in path.iterdir() if each.name != "_metadata"]
    held = bytearray(file.read_bytes())
    begin, end = handle.offsets[group], handle.offsets[group + 1]
    held[end:] = b"\x07" * (len(held) - end)
    held[handle.offsets[0] : begin] = b"\x07" * (begin - handle.offsets[0])
    file.write_bytes(held)
    damaged = kit.open_checkpoint(path)
    with pytest.raises(CheckpointError):
        damaged.state("sums", "total")
    assert damaged.state("sums", "total", key=key).to_pylist() == [{"key_group": group, "key": key, "value": -key}]
    assert damaged.page("sums", "total", key=key).rows.num_rows == 1
