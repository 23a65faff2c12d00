"""Every value in real checkpoints and savepoints, compared with Flink's report."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit.snapshots.checkpoints import Checkpoint
from kit.snapshots.serializers.basic import read_string
from kit.snapshots.serializers.reading import Reader
from tests.flink_data import value_cases, values, values_truth
from tests.snapshots.truth import as_single, rows_of, rows_told, told

CASES = pytest.mark.parametrize(("version", "case"), value_cases())
KRYO = "KryoSerializer"


@cache
def opened(version: str, case: str) -> Checkpoint:
    return kit.open_checkpoint(values(version) / case)


@CASES
def test_every_keyed_value_is_what_flink_says(version: str, case: str) -> None:
    checkpoint, truth = opened(version, case), values_truth(version, case)
    compared = 0
    for uid, operator in truth["operators"].items():
        for name, state in operator.get("states", {}).items():
            if any(KRYO in each for each in state["valueSerializers"]):
                continue
            table = checkpoint.state(operator["operatorId"], name)
            wanted = rows_told(as_single(state) if state["valueType"] == "Float" else state)
            found = rows_of(table, state["kind"])
            assert found - wanted == Counter(), f"{uid}.{name}"
            assert wanted - found == Counter(), f"{uid}.{name}"
            compared += wanted.total()
    assert compared > 500


@CASES
def test_every_timer_is_what_flink_says(version: str, case: str) -> None:
    checkpoint, truth = opened(version, case), values_truth(version, case)
    compared = 0
    for uid, operator in truth["operators"].items():
        for name, timers in operator.get("timers", {}).items():
            if timers["in"] != "managed keyed state" and not timers["rows"]:
                continue
            wanted = rows_told(timers)
            assert rows_of(checkpoint.state(operator["operatorId"], name), "TIMER") == wanted, f"{uid}.{name}"
            compared += wanted.total()
    assert compared > 50


@CASES
def test_every_element_of_operator_state_is_what_flink_says(version: str, case: str) -> None:
    checkpoint, truth = opened(version, case), values_truth(version, case)
    compared = 0
    for operator in truth["operators"].values():
        for name, state in operator.get("operatorStates", {}).items():
            table = checkpoint.state(operator["operatorId"], name)
            columns = [told(table[each]) for each in table.column_names if each != "entry"]
            found: dict[str, list[Any]] = {subtask: [] for subtask in state["subtasks"]}
            for subtask, *element in zip(*columns, strict=True):
                found[str(subtask)].append(element[0] if len(element) == 1 else element)
            if state["mode"] == "BROADCAST":
                assert {key: sorted(map(str, each)) for key, each in found.items()} == {
                    key: sorted(map(str, each)) for key, each in state["subtasks"].items()
                }
            else:
                assert found == state["subtasks"]
            compared += sum(map(len, found.values()))
    assert compared > 10


@CASES
def test_what_a_stream_yields_is_the_whole_by_key_group(version: str, case: str) -> None:
    checkpoint, truth = opened(version, case), values_truth(version, case)
    operator = truth["operators"]["collections"]["operatorId"]
    for name in truth["operators"]["collections"]["states"]:
        parts = list(checkpoint.stream(operator, name))
        assert all(len(set(part["key_group"].to_pylist())) == 1 for part in parts)
        assert pa.concat_tables(parts).sort_by("key_group").num_rows == checkpoint.state(operator, name).num_rows
        group = parts[0]["key_group"][0].as_py()
        assert checkpoint.state(operator, name, key_groups=[group]).num_rows == parts[0].num_rows


def money(held: bytes) -> dict[str, Any]:
    """Decode what Kryo wrote of a class with a long and a string, as a user does who knows the class."""
    at, bits, shift, more = 2, 0, 0, True
    while more:
        size = 7 if shift < 56 else 8
        bits |= (held[at] & (1 << size) - 1) << shift
        more = size == 7 and held[at] >= 0x80
        at, shift = at + 1, shift + size
    cents = bits >> 1 ^ -(bits & 1)
    if held[at] == 0:
        return {"cents": cents, "currency": None}
    at += 1
    if held[at] < 0x80:  # the last character of ASCII text has its high bit set
        text = held[at:-1].decode() + chr(held[-1] & 0x7F)
    else:
        at += 2 if held[at] & 0x40 else 1
        halves = held[at:].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        text = halves.encode("utf-16", "surrogatepass").decode("utf-16")
    return {"cents": cents, "currency": text}


@CASES
def test_a_users_decoder_reads_what_only_java_can(version: str, case: str) -> None:
    truth = values_truth(version, case)
    for operator in truth["operators"].values():
        for name, state in operator.get("states", {}).items():
            if any(KRYO in each for each in state["valueSerializers"]):
                plain = opened(version, case)
                assert plain.state(operator["operatorId"], name)["value"].type == pa.binary()
                class_name = plain.states.set_index("name").loc[name, "value"].removeprefix("bytes of ")
                decoding = kit.open_checkpoint(values(version) / case, decoders={class_name: money})
                assert rows_of(decoding.state(operator["operatorId"], name), state["kind"]) == rows_told(state)


def test_strings_are_read_as_java_writes_them() -> None:
    assert read_string(Reader(b"\0")) is None
    assert read_string(Reader(b"\1")) == ""
    assert read_string(Reader(bytes([3, 0xBD, 0xB0, 0x03, 0x80, 0xB8, 0x03]))) == "\U0001f400"
