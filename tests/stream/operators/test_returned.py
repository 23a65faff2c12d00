"""Hooks that yield or return their rows, as PyFlink's do, and what is rejected because it would be lost otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kit.stream.backend.states.descriptors import MapStateDescriptor, ReducingStateDescriptor
from kit.stream.operators.functions.batch_process import KeyedBatchFunction, KeyedBatchProcess
from kit.stream.operators.functions.broadcast import (
    BroadcastProcess,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from kit.stream.operators.functions.checkpointed import CheckpointedFunction
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.functions.process import (
    CoProcess,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcess,
    KeyedProcessFunction,
    Process,
    ProcessFunction,
)
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import UserFunctionError
from kit.stream.operators.transform import Filter, FlatMap, Map
from kit.stream.operators.windows.window import WindowProcess
from kit.stream.operators.windows.window_assigners import TumblingEventTimeWindows
from tests.stream.operators.harness import Harness, Row

ROWS = pa.schema([("k", pa.string()), ("n", pa.int64())])
ODD = OutputTag("odd", ROWS)
RULES = MapStateDescriptor("rules", pa.string(), pa.int64())
TOTAL = ReducingStateDescriptor("total", pa.int64(), "sum")
GIVEN = [{"k": "ab"[n // 2 % 2], "n": n} for n in range(12)]
PLAIN, KEYED = FunctionInput(ROWS), FunctionInput(ROWS, ("k",), "n")

Made = Callable[[Row, Any], Any]


# --- the same rows, made in every way that there is -------------------------------------------------------------------


def made_of(row: Row) -> list[Any]:
    """No row, one, or several; of an odd row one more for a side output."""
    copies = [{"k": row["k"], "n": row["n"] * 10 + nth} for nth in range(row["n"] % 3)]
    return [*copies, (ODD, row)] if row["n"] % 2 else copies


def calls(row: Row, ctx: Any) -> None:
    for one in made_of(row):
        if isinstance(one, tuple):
            ctx.output(*one)
        else:
            ctx.emit(one)


def yields(row: Row, ctx: Any) -> Iterator[Any]:
    yield from made_of(row)


def yields_and_calls(row: Row, ctx: Any) -> Iterator[Any]:
    for nth, one in enumerate(made_of(row)):
        if isinstance(one, dict) and nth % 2:
            ctx.emit(one)
        else:
            yield one


def yields_and_returns(row: Row, ctx: Any) -> Any:
    *most, last = made_of(row) or [None]
    yield from most
    return last


def returns_one_or_several(row: Row, ctx: Any) -> Any:
    made = made_of(row)
    return made[0] if len(made) == 1 else made or None


WAYS: dict[str, Made] = {
    "yields": yields,
    "yields and calls": yields_and_calls,
    "yields and returns": yields_and_returns,
    "one or several": returns_one_or_several,
    "a list": lambda row, ctx: made_of(row),
    "a tuple": lambda row, ctx: tuple(made_of(row)) if len(made_of(row)) != 2 else made_of(row),
    "an iterator": lambda row, ctx: (one for one in made_of(row)),
    "a map": lambda row, ctx: map(dict, made_of(row)) if row["n"] % 2 == 0 else filter(None, made_of(row)),
}


def result(harness: Harness) -> tuple[list[Row], list[Row]]:
    return harness.rows(), harness.aside("odd")


def row_by_row(make: Made) -> Harness:
    class Function(ProcessFunction):
        def process_element(self, row, ctx):
            return make(row, ctx)

    harness = Harness(Process((PLAIN,), Function, ROWS))
    harness.process(GIVEN)
    return harness


def by_key(make: Made) -> Harness:
    class Function(KeyedProcessFunction):
        def process_element(self, row, ctx):
            return make(row, ctx)

    harness = Harness(KeyedProcess((KEYED,), Function, ROWS))
    harness.process(GIVEN)
    return harness


def by_timer(make: Made) -> Harness:
    class Function(KeyedProcessFunction):
        def process_element(self, row, ctx):
            ctx.timer_service.register_event_time_timer(row["n"])

        def on_timer(self, timestamp_ms, ctx):
            return make({"k": ctx.current_key, "n": timestamp_ms}, ctx)

    harness = Harness(KeyedProcess((KEYED,), Function, ROWS))
    harness.process(GIVEN)
    harness.watermark(20)
    return harness


def of_two(base: type, given: FunctionInput) -> Callable[[Made], Harness]:
    def run(make: Made) -> Harness:
        class Function(base):  # type: ignore[misc]
            def process_element1(self, row, ctx):
                return make(row, ctx)

            def process_element2(self, row, ctx):
                return make({"k": row["k"], "n": row["n"] + 1}, ctx)

        harness = Harness(CoProcess((given, given), Function, ROWS))
        harness.process(GIVEN)
        harness.process(GIVEN, 1)
        return harness

    return run


def broadcast(base: type, given: FunctionInput) -> Callable[[Made], Harness]:
    def run(make: Made) -> Harness:
        class Function(base):  # type: ignore[misc]
            def process_element(self, row, ctx):
                return make(row, ctx)

            def process_broadcast_element(self, row, ctx):
                return make({"k": row["k"], "n": row["n"] + 1}, ctx)

        harness = Harness(BroadcastProcess((given, PLAIN), Function, ROWS, (RULES,)))
        harness.process(GIVEN)
        harness.process(GIVEN, 1)
        return harness

    return run


HOOKS = {
    "process": row_by_row,
    "keyed": by_key,
    "timer": by_timer,
    "two": of_two(CoProcessFunction, PLAIN),
    "two keyed": of_two(KeyedCoProcessFunction, KEYED),
    "broadcast": broadcast(BroadcastProcessFunction, PLAIN),
    "broadcast keyed": broadcast(KeyedBroadcastProcessFunction, KEYED),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hook", HOOKS)
def test_rows_may_be_yielded_or_returned(hook: str, way: str) -> None:
    run = HOOKS[hook]
    expected = result(run(calls))
    assert len(expected[0]) > 8
    assert len(expected[1]) > 4
    assert result(run(WAYS[way])) == expected


# --- the same of batches ----------------------------------------------------------------------------------------------


def doubled(batch: pa.RecordBatch) -> dict[str, Any]:
    return {"k": batch["k"], "n": pc.multiply(batch["n"], 2)}


def calls_with_batches(batch: pa.RecordBatch, ctx: Any) -> None:
    ctx.emit(batch)
    ctx.emit(doubled(batch))
    ctx.output(ODD, batch)


def yields_batches(batch: pa.RecordBatch, ctx: Any) -> Iterator[Any]:
    yield batch
    yield doubled(batch)
    yield ODD, batch


def returns_batches(batch: pa.RecordBatch, ctx: Any) -> Any:
    return [batch, doubled(batch), (ODD, batch)]


def returns_one_batch(batch: pa.RecordBatch, ctx: Any) -> Any:
    ctx.emit(batch)
    ctx.output(ODD, batch)
    return doubled(batch)


def in_batches(make: Made) -> Harness:
    class Function(KeyedBatchFunction):
        def process_batch(self, batch, ctx):
            ctx.timer_service.register_event_time_timers(batch["n"])
            return make(batch, ctx)

        def on_timers(self, ctx):
            return make(pa.record_batch({"k": ctx.keys, "n": ctx.timestamps_ms}, schema=ROWS), ctx)

    harness = Harness(KeyedBatchProcess((KEYED,), Function, ROWS))
    harness.process(GIVEN)
    harness.watermark(20)
    return harness


@pytest.mark.parametrize("make", [yields_batches, returns_batches, returns_one_batch])
def test_batches_may_be_yielded_or_returned(make: Made) -> None:
    expected = result(in_batches(calls_with_batches))
    assert len(expected[0]) == 4 * len(GIVEN)
    assert len(expected[1]) == 2 * len(GIVEN)
    assert result(in_batches(make)) == expected


# --- a generator runs within the call ---------------------------------------------------------------------------------


class Sums(KeyedProcessFunction):
    """Uses key, state, time and timers behind a yield."""

    def process_element(self, row, ctx):
        yield {"k": ctx.current_key, "n": -1}
        ctx.state(TOTAL).add(row["n"])
        ctx.timer_service.register_event_time_timer(ctx.timestamp_ms + 100)
        yield {"k": ctx.current_key, "n": ctx.state(TOTAL).get()}

    def on_timer(self, timestamp_ms, ctx):
        yield {"k": ctx.current_key, "n": timestamp_ms}
        ctx.state(TOTAL).clear()
        yield {"k": ctx.current_key, "n": ctx.state(TOTAL).get() or 0}


def test_a_generator_has_the_key_and_state_of_its_row() -> None:
    harness = Harness(KeyedProcess((KEYED,), Sums, ROWS))
    rows = [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "a", "n": 3}]
    assert [(row["k"], row["n"]) for row in harness.process(rows)] == [
        ("a", -1),
        ("a", 1),
        ("b", -1),
        ("b", 2),
        ("a", -1),
        ("a", 4),
    ]
    fired = [(row["k"], row["n"]) for row in harness.watermark(103)]
    assert fired == [("a", 101), ("a", 0), ("b", 102), ("b", 0), ("a", 103), ("a", 0)]


# --- what is rejected -------------------------------------------------------------------------------------------------

FRAME = pa.table({"n": [1]})
WRONG: dict[str, tuple[Made, str]] = {
    "a number": (lambda row, ctx: 5, r"it returned 5 \(int\): write `yield row` or `ctx.emit\(row\)` \(a dict\)"),
    "text": (lambda row, ctx: "row", r"it returned 'row' \(str\): write `yield row`"),
    "True": (lambda row, ctx: True, r"it returned True \(bool\): write"),
    "a table": (lambda row, ctx: FRAME, r"it returned .* \(Table\): write"),
    "values": (lambda row, ctx: ("a", 5), r"it returned, among others, 'a' \(str\): write"),
    "a list of values": (lambda row, ctx: [{"k": "a", "n": 1}, 7], r"it returned, among others, 7 \(int\)"),
    "None among rows": (lambda row, ctx: (None for _ in range(1)), r"it yielded None \(NoneType\): write"),
    "a yielded list": (lambda row, ctx: ([row] for _ in range(1)), r"it yielded \[.*\] \(list\): write `yield row`"),
    "a row to no tag": (lambda row, ctx: (("odd", row) for _ in "1"), r"it yielded \('odd', .*\(tuple\)"),
    "an error": (lambda row, ctx: ({"k": "a", "n": 1 // n} for n in (1, 0)), "ZeroDivisionError: .*zero"),
    "another column": (lambda row, ctx: ({"m": 1} for _ in "1"), "there is no column 'k', 'n'"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("hook", ["process", "timer", "broadcast keyed"])
def test_what_is_no_row_is_rejected(hook: str, wrong: str) -> None:
    make, said = WRONG[wrong]
    with pytest.raises(UserFunctionError, match=f"(?s)function .*Function.* failed on .*{said}"):
        HOOKS[hook](make)


@pytest.mark.parametrize("made", [5, "batch", FRAME.to_pandas(), [None], [["k", "n"]]], ids=str)
def test_what_is_no_batch_is_rejected(made: Any) -> None:
    with pytest.raises(UserFunctionError, match=r"write `yield batch` or `ctx.emit\(batch\)` \(a record batch, or"):
        in_batches(lambda batch, ctx: made)


def test_a_hook_that_may_not_yield_is_rejected() -> None:
    class Opens(ProcessFunction):
        def open(self, ctx):
            yield {"k": "a", "n": 1}

        def process_element(self, row, ctx):
            yield row

    class Keeps(Opens, CheckpointedFunction):
        def open(self, ctx):
            pass

        def initialize_state(self, context):
            pass

        def snapshot_state(self, context):
            yield 1

    with pytest.raises(UserFunctionError, match=r"Opens\.open failed on no row yet: .* it runs nothing"):
        Harness(Process((PLAIN,), Opens, ROWS))
    with pytest.raises(UserFunctionError, match=r"snapshot_state failed on checkpoint 1: .* it runs nothing"):
        Harness(Process((PLAIN,), Keeps, ROWS)).snapshot()


def test_a_function_applied_to_keyed_state_may_not_yield() -> None:
    class Clears(KeyedBroadcastProcessFunction):
        def process_element(self, row, ctx):
            ctx.state(TOTAL).add(row["n"])

        def process_broadcast_element(self, row, ctx):
            def clear(key, state):
                state.clear()
                yield key

            ctx.apply_to_keyed_state(TOTAL, clear)

    harness = Harness(BroadcastProcess((KEYED, PLAIN), Clears, ROWS, (RULES,)))
    harness.process(GIVEN)
    with pytest.raises(UserFunctionError, match="apply_to_keyed_state: the function yields or is async"):
        harness.process(GIVEN, 1)


def test_a_hook_that_would_never_be_called_or_never_run_is_rejected() -> None:
    class Java(KeyedProcessFunction):
        def process_element(self, row, ctx):
            pass

        def onTimer(self, timestamp_ms, ctx):  # noqa: N802
            pass

    class Async(ProcessFunction):
        async def process_element(self, row, ctx):
            ctx.emit(row)

    class Fits(ProcessFunction):
        def __init__(self, most):
            self.most = most

    class Own:
        def process_element(self, row, ctx):
            pass

    with pytest.raises(TypeError, match=r"Java\.onTimer would never be called: the hook is named on_timer"):
        KeyedProcess((KEYED,), Java, ROWS)
    with pytest.raises(TypeError, match=r"Async\.process_element is async"):
        Process((PLAIN,), Async, ROWS)
    with pytest.raises(TypeError, match=r"Fits is called without arguments and needs most: give lambda: Fits\("):
        Process((PLAIN,), Fits, ROWS)
    with pytest.raises(TypeError, match="Own is not derived from ProcessFunction"):
        Process((PLAIN,), Own, ROWS)
    with pytest.raises(TypeError, match="needs row, ctx: give a class derived from ProcessFunction"):
        Process((PLAIN,), lambda row, ctx: None, ROWS)
    assert Harness(Process((PLAIN,), lambda: Fits(3), ROWS)).rows() == []


# --- functions without a context --------------------------------------------------------------------------------------


def window_of(function: Callable[..., Any]) -> Harness:
    harness = Harness(WindowProcess(ROWS, ("k",), TumblingEventTimeWindows(100), "n", function))
    harness.process(GIVEN)
    harness.watermark(200)
    return harness


def test_one_row_is_a_row_and_not_its_keys() -> None:
    assert Harness(FlatMap(ROWS, lambda row: row, ROWS)).process(GIVEN) == GIVEN
    assert sorted(row["n"] for row in window_of(lambda key, window, rows: rows[0]).rows()) == [0, 2]
    assert sorted(row["n"] for row in window_of(lambda key, window, rows: iter(rows[:1])).rows()) == [0, 2]


@pytest.mark.parametrize("made", [None, 5, "row", True], ids=str)
def test_what_holds_no_rows_is_rejected(made: Any) -> None:
    said = r"it returned .*: return a list of dicts \(empty for no row\), or yield each dict"
    with pytest.raises(UserFunctionError, match=said):
        Harness(FlatMap(ROWS, lambda row: made, ROWS)).process(GIVEN)
    with pytest.raises(UserFunctionError, match=said):
        window_of(lambda key, window, rows: made)


@pytest.mark.parametrize("made", [[], [{"k": "a", "n": 1}], None, iter(())], ids=lambda made: type(made).__name__)
def test_a_map_makes_one_row(made: Any) -> None:
    with pytest.raises(UserFunctionError, match=r"(?s)a row is a dict with .* flat_map makes any number of rows"):
        Harness(Map(ROWS, lambda row: made, ROWS)).process(GIVEN)


def forgets(row: Row) -> Any:
    row["n"] > 3  # noqa: B015


def forgets_in_branches(row: Row) -> Any:
    if row["n"]:
        return None
    return


def finds(row: Row) -> Any:
    if row["n"] > 3:
        return True
    return None


@pytest.mark.parametrize("predicate", [forgets, forgets_in_branches, lambda row: None])
def test_a_predicate_that_returns_nothing_is_rejected(predicate: Callable[[Row], Any]) -> None:
    with pytest.raises(TypeError, match=r"filter: .* returns nothing, so no row would be kept: .* `return`"):
        Filter(ROWS, predicate, name="filter")


def test_a_predicate_may_return_what_python_calls_true() -> None:
    assert len(Harness(Filter(ROWS, finds)).process(GIVEN)) == 8
    assert len(Harness(Filter(ROWS, lambda row: row["n"] % 3)).process(GIVEN)) == 8
    assert len(Harness(Filter(ROWS, lambda row: pc.greater(row["n"], 3))).process(GIVEN)) == 8


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        (lambda row: (each for each in "ab"), "it returned a generator, which is always true: return True or False"),
        (lambda row: pc.field("n") > 3, "Expression"),
    ],
)
def test_a_predicate_that_cannot_tell_is_rejected(predicate: Callable[[Row], Any], said: str) -> None:
    with pytest.raises(UserFunctionError, match=f"failed on row .*{said}"):
        Harness(Filter(ROWS, predicate)).process(GIVEN)


@pytest.mark.parametrize("wrong", ["n > 3", None, 3, {"n": 1}], ids=str)
def test_what_cannot_be_called_is_rejected_at_once(wrong: Any) -> None:
    for spec, takes in ((Filter, "a function of a row, or an expression"), (Map, "row"), (FlatMap, "row")):
        returns = () if spec is Filter else (ROWS,)
        with pytest.raises(TypeError, match=rf"{spec.__name__} takes .*{takes}.*; found .* \({type(wrong).__name__}\)"):
            spec(ROWS, wrong, *returns)
