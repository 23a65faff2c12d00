"""The state of operators that Flink provides (joins, CEP, asynchronous functions, SQL), with their own serializers.

`OperatorStates.java` sends twelve rows through them: row n has the key n % 3.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

import kit
from kit.snapshots.checkpoints import Checkpoint
from tests.snapshots.flink_types import operator_cases, savepoints

CASES = pytest.mark.parametrize("case", operator_cases())
NUMBERS = range(12)
START_MS = -10_000


@cache
def opened(case: str) -> Checkpoint:
    return kit.open_checkpoint(savepoints() / case)


def time_ms(number: int) -> int:
    return START_MS + 1001 * number


def name(number: int) -> str | None:
    return None if number % 5 == 4 else f"n{number} 😀"


def places(number: int) -> list[int | None] | None:
    return None if number % 4 == 3 else [number, None, -1]


def inner(number: int) -> dict[str, Any] | None:
    return None if number % 3 == 2 else {"a": f"inner {number}" if number % 2 else None, "b": -0.5 * number}


def row(number: int) -> tuple[Any, ...]:
    """Return what a row of the stream has, but its time."""
    counts = [] if number % 4 == 1 else [("x", -number)]
    of_row = inner(number)
    return (
        number % 3,
        number,
        name(number),
        places(number),
        counts,
        None if of_row is None else {"kind": "+I", "f0": of_row["a"], "f1": of_row["b"]},
    )


def pair(number: int) -> dict[str, Any]:
    return {"f0": number % 3, "f1": f"n{number}"}


def without_time(held: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(held[f"f{place}"] for place in (0, 1, 2, 4, 5, 6))


def sql_state(case: str, state: str, first: str = "") -> list[dict[str, Any]]:
    """Return the rows of the state of this name, in the operator whose name begins so."""
    states = opened(case).states
    (operator,) = [each for each in states[states["name"] == state]["operator"] if str(each).startswith(first)]
    return opened(case).state(operator, state).to_pylist()


@CASES
def test_every_state_is_decoded(case: str) -> None:
    states = opened(case).states
    assert not states["error"].any()
    assert not [each for each in states["value"] if "bytes of" in each]
    rows = {
        (operator, each): opened(case).state(operator, each).num_rows
        for operator, each in zip(states["operator"], states["name"], strict=True)
    }
    assert len(rows) > 40
    assert sum(map(bool, rows.values())) > 25


@CASES
def test_an_interval_join_keeps_the_rows_of_both_sides(case: str) -> None:
    left = opened(case).state("interval-join", "LEFT_BUFFER").to_pylist()
    found = {each["map_key"]: [without_time(entry["element"]) for entry in each["value"]] for each in left}
    assert found == {time_ms(number): [row(number)] for number in NUMBERS}
    right = opened(case).state("interval-join", "RIGHT_BUFFER").to_pylist()
    assert {each["map_key"]: each["value"] for each in right} == {
        time_ms(number): [{"joined": False, "element": pair(number)}] for number in NUMBERS
    }


@CASES
def test_a_co_group_keeps_rows_by_their_input(case: str) -> None:
    (operator,) = [each for each in opened(case).operators["operator"] if each.startswith("TumblingEventTime")]
    held = opened(case).state(operator, "window-contents").to_pylist()
    for number in NUMBERS:
        start = time_ms(number) // 5000 * 5000
        (window,) = [
            each["value"]
            for each in held
            if each["key"] == number % 3 and each["namespace"] == {"start": start, "end": start + 5000}
        ]
        assert row(number) in [without_time(each["first"]) for each in window if each["input"] == 1]
        assert pair(number) in [each["second"] for each in window if each["input"] == 2]
    assert sum(len(each["value"]) for each in held) == 2 * len(NUMBERS)


@CASES
def test_an_asynchronous_function_keeps_what_it_waits_for(case: str) -> None:
    held = opened(case).state("async", "_async_wait_operator_state_")["value"].to_pylist()
    records = {each["time_ms"]: each["record"] for each in held if each["element"] == "record"}
    assert records == {time_ms(number): pair(number) for number in NUMBERS}


@CASES
def test_cep_keeps_partial_matches_and_their_events(case: str) -> None:
    events = opened(case).state("cep", "sharedBuffer-events").to_pylist()
    matching = [number for number in NUMBERS if f"n{number}" < "n4"]
    assert Counter(each["value"]["element"]["f1"] for each in events) == Counter(f"n{number}" for number in matching)
    found = Counter[tuple[int, str]]()
    for each in opened(case).state("cep", "nfaStateName").to_pylist():
        assert each["value"]["completed"] == []
        for match in each["value"]["partial"]:
            found[each["key"], match["state"]] += 1
            if match["state"] == "two":
                assert match["previous"] == {"event": match["start"], "page": "one"}
                assert match["start_ms"] == match["start"]["time_ms"]
    assert found == Counter({(key, "one"): 1 for key in range(3)}) + Counter((number % 3, "two") for number in matching)


@CASES
def test_sql_keeps_rows_with_arrays_maps_and_rows_in_them(case: str) -> None:
    counts = {number: [] if number % 4 == 1 else [("x", -number)] for number in NUMBERS}
    best = [entry for each in sql_state(case, "data-state-with-append") for entry in each["value"]]
    wanted = {
        (number % 3, number, name(number), str(places(number)), str(counts[number]), str(inner(number)))
        for number in NUMBERS
    }
    found = {(each["f0"], each["f1"], each["f2"], str(each["f3"]), str(each["f4"]), str(each["f5"])) for each in best}
    assert found <= wanted
    assert {each["f1"] for each in best} >= {6, 7, 8, 9, 10, 11}
    last = {each["key"]["f0"]: each["value"] for each in sql_state(case, "deduplicate-state")}
    assert {key: (each["f1"], each["f3"], each["f5"]) for key, each in last.items()} == {
        number % 3: (number, places(number), inner(number)) for number in (9, 10, 11)
    }


@CASES
def test_a_join_of_sql_counts_rows(case: str) -> None:
    states = opened(case).states
    for operator in states[states["name"] == "right-records"]["operator"]:
        held = opened(case).state(operator, "right-records").to_pylist()
        assert {each["value"] for each in held} == {1}
        assert len(held) in (12, 6)
    left = [
        each
        for operator in states[states["name"] == "left-records"]["operator"]
        for each in opened(case).state(operator, "left-records").to_pylist()
    ]
    outer = {each["key"]["f0"]: each["value"] for each in left if isinstance(each["value"], dict)}
    assert outer == {number: {"f0": 1, "f1": int(number > 5)} for number in NUMBERS}
