"""Jobs whose states have changed types go on with the values of the old job, and are refused otherwise."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CollectionSource,
    CollectSink,
    KeyedProcessFunction,
    Lab,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StreamEnvironment,
    ValueStateDescriptor,
)

LETTERS = "abcdefgh"
ROWS = [{"letter": LETTERS[n % 8], "n": n} for n in range(96)]
OLD = pa.struct([("n", pa.int32()), ("text", pa.string())])
NEW = pa.struct([("more", pa.list_(pa.string())), ("n", pa.int64())])


def old_value(n: int) -> dict[str, Any]:
    return {"n": n, "text": f"row {n}"}


def new_value(n: int) -> dict[str, Any]:
    return {"more": [f"row {n}"], "n": n}


def evolved(value: dict[str, Any]) -> dict[str, Any]:
    return {"more": None, "n": value["n"]}


class Kept(KeyedProcessFunction):
    """Keeps rows in states of all kinds, and emits what it found there; from row `begin` on, of these letters only."""

    def __init__(self, kind: pa.DataType, make: Any, begin: int = 0, letters: str = LETTERS) -> None:
        self.kind, self.make, self.begin, self.letters = kind, make, begin, letters

    def process_element(self, row: dict[str, Any], ctx: Any) -> None:
        if row["n"] < self.begin or row["letter"] not in self.letters:
            return
        # Declared when they are used: a subtask that has not used them keeps what it restored.
        last = ctx.state(ValueStateDescriptor("last", self.kind))
        every = ctx.state(ListStateDescriptor("every", self.kind))
        by_n = ctx.state(MapStateDescriptor("by n", pa.int64(), self.kind))
        most = ctx.state(ReducingStateDescriptor("most", self.kind, lambda one, other: max(one, other, key=_n)))
        found = {"last": last.value(), "every": every.get(), "by n": dict(by_n.items()), "most": most.get()}
        value = self.make(row["n"])
        last.update(value)
        every.add(value)
        by_n.put(row["n"], value)
        most.add(value)
        ctx.emit({"letter": row["letter"], "n": row["n"], "found": repr(found)})


def _n(value: dict[str, Any]) -> int:
    return int(value["n"])


def job(*function: Any, parallelism: int = 3) -> StreamEnvironment:
    env = StreamEnvironment("evolving", parallelism=parallelism, max_parallelism=16)
    rows = env.from_source(CollectionSource(ROWS, splits=1, batch_rows=1, rows_per_second=100), uid="rows")
    returns = {"letter": pa.string(), "n": pa.int64(), "found": pa.string()}
    kept = rows.key_by("letter").process(lambda: Kept(*function), returns=returns).uid("kept")
    kept.sink_to(CollectSink("out"), uid="out")
    return env


def first_found(lab: Lab, begin: int) -> dict[str, tuple[int, dict[str, Any]]]:
    """By letter the first row of the run that began with this row, and what it found in the states."""
    rows = lab.output("out").query(f"n >= {begin}").sort_values("n").drop_duplicates("letter")
    return {each.letter: (each.n, eval(each.found)) for each in rows.itertuples()}


def expected(n: int, values: list[dict[str, Any]]) -> dict[str, Any]:
    """What is in the states of a letter whose rows made these values."""
    by_n = {each["n"]: each for each in values}
    return {
        "last": values[-1] if values else None,
        "every": values,
        "by n": by_n,
        "most": values[-1] if values else None,
    }


def stopped(lab: Lab, at_ms: int) -> str:
    lab.run_until(at_ms=at_ms)
    return lab.stop(wait=True)


@pytest.mark.parametrize("parallelism", [2, 3, 4])
def test_states_of_all_kinds_keep_their_values(parallelism: int) -> None:
    first = Lab(job(OLD, old_value))
    savepoint = stopped(first, 300)
    before = first.output("out").n.max() + 1
    assert 16 < before < 80, "every letter has several rows before and after"
    second = Lab(job(NEW, new_value, parallelism=parallelism), restore_path=savepoint, after=first)
    second.run()
    found = first_found(second, before)
    assert set(found) == set(LETTERS)
    for letter, (n, states) in found.items():
        values = [evolved(old_value(each["n"])) for each in ROWS[:before] if each["letter"] == letter]
        assert states == expected(n, values)
    last = second.output("out").sort_values("n").drop_duplicates("letter", keep="last")
    for each in last.itertuples():
        ns = [row["n"] for row in ROWS if row["letter"] == each.letter and row["n"] < each.n]
        values = [evolved(old_value(n)) if n < before else new_value(n) for n in ns]
        assert eval(each.found) == expected(each.n, values)


@pytest.mark.parametrize("parallelism", [2, 3, 4])
def test_files_of_types_before_and_after_a_change_are_restored_together(parallelism: int) -> None:
    """The second job uses the states of two letters only: the subtasks of the others store what they restored."""
    first = Lab(job(OLD, old_value))
    savepoint = stopped(first, 300)
    before = first.output("out").n.max() + 1
    used = "ab"
    second = Lab(job(NEW, new_value, 0, used), restore_path=savepoint, after=first)
    again = stopped(second, 300)
    until = second.output("out").n.max() + 1
    third = Lab(job(NEW, new_value, until + 8, parallelism=parallelism), restore_path=again, after=second)
    third.run()
    found = first_found(third, until)
    assert set(found) == set(LETTERS)
    for letter, (n, states) in found.items():
        ns = [each["n"] for each in ROWS if each["letter"] == letter]
        values = [evolved(old_value(each)) for each in ns if each < before]
        if letter in used:
            values += [new_value(each) for each in ns if before <= each < until]
        assert states == expected(n, values)
