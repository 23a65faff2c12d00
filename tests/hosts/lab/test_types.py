"""Every Arrow type is either restored from a checkpoint unchanged, or rejected where it is declared.

Rows with a column of any type, also nested, pass a keyed function that keeps them in value, list, map, reducing and
aggregating state. Buffers of the channels are smaller than a row, so an unaligned checkpoint has rows in flight. The
job is restored at another parallelism, and every row and every state must be unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from kit import (
    AggregatingStateDescriptor,
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    KeyedProcessFunction,
    Lab,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RetentionPolicy,
    StreamEnvironment,
    ValueStateDescriptor,
    count,
    min_,
)
from kit.core.state.errors import StateDescriptorError
from kit.hosts.lab.lab import LabError
from kit.machines.job.status import JobStatus
from kit.stream.backend.states.descriptors import AggregateFunction
from kit.stream.operators.spec import SchemaError
from kit.stream.settings.job_settings import NoRestart
from tests.arrow_values import LEAVES, NESTED, column
from tests.properties import examples_of_each

KEYS = 3


class Last(AggregateFunction):
    """The value added last."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, one: Any, other: Any) -> Any:
        return other


def environment(batch: pa.RecordBatch, parallelism: int, buffer_bytes: int = 48) -> StreamEnvironment:
    """A job whose every buffer is too small for a row, unless said otherwise, and which keeps its checkpoints."""
    return StreamEnvironment(
        "types",
        parallelism=parallelism,
        max_parallelism=8,
        buffer_bytes=buffer_bytes,
        restart=NoRestart(),
        checkpoint=CheckpointConfig(
            unaligned=True,
            memory_threshold_bytes=0,
            tolerable_failures=3,
            retention=RetentionPolicy.RETAIN_ON_CANCELLATION,
        ),
    )


def rows_of(values: pa.Array) -> pa.RecordBatch:
    numbers = list(range(len(values)))
    keys = [number % KEYS for number in numbers]
    return pa.record_batch([pa.array(numbers), pa.array(keys), values], names=["n", "k", "v"])


def parts(arrow_type: pa.DataType) -> Iterator[pa.DataType]:
    """The type and all that it is made of."""
    yield arrow_type
    if isinstance(arrow_type, pa.BaseExtensionType):
        return
    if pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
        yield from parts(arrow_type.value_type)
        return
    for number in range(arrow_type.num_fields):
        yield from parts(arrow_type.field(number).type)


def may_be_refused(arrow_type: pa.DataType) -> bool:
    """Return True if the type has a part that a checkpoint, or a function on rows, may not preserve."""
    return pa.types.is_null(arrow_type) or any(
        pa.types.is_union(part)
        or isinstance(part, pa.BaseExtensionType)
        or part == pa.time64("ns")
        or (pa.types.is_struct(part) and len({field.name for field in part}) < part.num_fields)
        for part in parts(arrow_type)
    )


def run_and_rescale(
    job: Any, data: st.DataObject, parallelisms: tuple[int, ...] = (1, 3, 2), begins_ms: tuple[int, int] = (0, 8)
) -> tuple[Lab, list[Any]]:
    """The job run at one parallelism after the other, each from a checkpoint of the one before that begins so long
    after its tasks run; its rows.
    """
    lab: Lab | None = None
    path = None
    for parallelism in parallelisms:
        lab = Lab(job(parallelism), seed=data.draw(st.integers(0, 99)), restore_path=path, after=lab)
        if parallelism == parallelisms[-1]:
            break
        lab.run_until(lambda lab: lab.ended or lab.look.master.tasks.all_running)
        lab.run_until(at_ms=lab.look.at_ms + data.draw(st.integers(*begins_ms)), ended=True)
        path = None if lab.ended else checkpoint(lab)
        if path is None:
            break
        lab.cancel()
        while lab.enabled():
            lab.step()
    assert lab is not None
    if not lab.ended:
        lab.run()
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    tables = lab._world.edge.output.published.values()
    return lab, [row for table in tables for row in table.to_pylist()]


def checkpoint(lab: Lab) -> str | None:
    """Take a checkpoint now and return its path; None if the job ends before."""
    request = lab.trigger_checkpoint()
    try:
        lab.run_until(lambda lab: lab.look.answer(request) is not None, ended=True)
        return lab.look.answer(request)
    except LabError:
        return None


def keeping(arrow_type: pa.DataType) -> type[KeyedProcessFunction]:
    """A function that says what it finds in states of the type, and keeps the row's value in each."""
    value = ValueStateDescriptor("value", arrow_type)
    listed = ListStateDescriptor("listed", arrow_type)
    mapped = MapStateDescriptor("mapped", pa.int64(), arrow_type)
    reduced = ReducingStateDescriptor("reduced", arrow_type, lambda one, other: other)
    aggregated = AggregatingStateDescriptor("aggregated", arrow_type, Last())

    class Keep(KeyedProcessFunction):
        def process_element(self, row: dict[str, Any], ctx: Any) -> None:
            found = [
                ctx.state(value).value(),
                ctx.state(listed).get(),
                sorted(ctx.state(mapped).items(), key=lambda entry: entry[0]),
                ctx.state(reduced).get(),
                ctx.state(aggregated).get(),
            ]
            states = dict(zip("abcde", map(repr, found), strict=True))
            ctx.emit({"n": row["n"], "v": row["v"], "rows": len(found[2]), **states})
            if row["v"] is not None:
                ctx.state(value).update(row["v"])
                ctx.state(listed).add(row["v"])
                ctx.state(reduced).add(row["v"])
                ctx.state(aggregated).add(row["v"])
            ctx.state(mapped).put(row["n"], row["v"])

    return Keep


def expected(batch: pa.RecordBatch, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what `keeping` must emit for the rows, in the order in which it reports that they arrived."""
    values = batch.column("v").to_pylist()
    said = []
    for key in range(KEYS):
        before: list[int] = []
        for row in sorted((row for row in found if row["n"] % KEYS == key), key=lambda row: row["rows"]):
            kept = [values[number] for number in before if values[number] is not None]
            last = kept[-1] if kept else None
            entries = [(number, values[number]) for number in sorted(before)]
            states = dict(zip("abcde", map(repr, [last, kept, entries, last, last]), strict=True))
            said.append({"n": row["n"], "v": values[row["n"]], "rows": len(before), **states})
            before.append(row["n"])
    return said


def refusal(job: Any) -> str | None:
    """Return the reason why the job cannot be built, or None."""
    try:
        job(1)
    except (StateDescriptorError, SchemaError) as error:
        event("refused")
        return str(error)
    return None


@pytest.mark.parametrize("name", [*LEAVES, *NESTED])
@settings(max_examples=examples_of_each(2), deadline=None, phases=[Phase.generate])
@given(st.data())
def test_a_state_of_any_type_comes_back_as_it_was_or_is_refused(name: str, data: st.DataObject) -> None:
    batch = rows_of(column(data.draw, 7, name))
    arrow_type = batch.schema.field("v").type

    def job(parallelism: int) -> StreamEnvironment:
        env = environment(batch, parallelism)
        stream = env.from_source(CollectionSource(batch, batch_rows=1), uid="rows")
        words = {name: pa.string() for name in "abcde"}
        kept = stream.rebalance().filter(lambda row: True).uid("all").key_by("k")
        returns = {"n": pa.int64(), "v": stream.schema.field("v").type, "rows": pa.int64(), **words}
        kept.process(keeping(arrow_type), returns).uid("keep").sink_to(CollectSink("out"), uid="out")
        return env

    refused = refusal(job)
    if refused is not None:
        assert may_be_refused(arrow_type), refused
        assert str(arrow_type) in refused or "column 'v'" in refused
        assert "use " in refused or "another name" in refused
        return
    _, found = run_and_rescale(job, data)
    assert len(found) == batch.num_rows
    order = sorted(found, key=lambda row: (row["n"] % KEYS, row["rows"]))
    assert list(map(repr, order)) == list(map(repr, expected(batch, found)))


@pytest.mark.parametrize("name", [*LEAVES, *NESTED])
@settings(max_examples=examples_of_each(2), deadline=None, phases=[Phase.generate])
@given(st.data())
def test_rows_of_any_type_come_back_from_what_was_in_flight(name: str, data: st.DataObject) -> None:
    """Batches only: no value becomes Python's on its way."""
    batch = rows_of(column(data.draw, 6, name))

    def job(parallelism: int) -> StreamEnvironment:
        env = environment(batch, parallelism)
        stream = env.from_source(CollectionSource(batch, batch_rows=2), uid="rows").rebalance()
        passed = stream.map_batches(lambda batch: batch).uid("same").key_by("n")
        passed.map_batches(lambda batch: batch).uid("again").sink_to(CollectSink("out"), uid="out")
        return env

    refused = refusal(job)
    if refused is not None:
        assert may_be_refused(batch.schema.field("v").type), refused
        return
    lab, _ = run_and_rescale(job, data)
    tables = [table.combine_chunks() for table in lab._world.edge.output.published.values()]
    found = {
        number.as_py(): said(part.column("v"), row)
        for table in tables
        for part in table.to_batches()
        for row, number in enumerate(part.column("n"))
    }
    assert found == {number: said(batch.column("v"), number) for number in range(batch.num_rows)}


NUMBERS = {
    name: arrow_type
    for name, (arrow_type, _) in LEAVES.items()
    if pa.types.is_integer(arrow_type) or (pa.types.is_temporal(arrow_type) and not pa.types.is_interval(arrow_type))
}
"""What a state keeps in arrays of numbers, with others beside them that say which are null."""
SOME = (
    *((0, None), (1, None), (2, 5), (0, None), (1, 9), (2, None), (0, None), (1, None), (2, 3), (0, None), (1, 7)),
    *((2, 4), (0, None), (1, 8), (2, None)),
)
"""Rows of key and number: key 0 never has one, key 1 at last, key 2 at once."""


def of_type(numbers: Sequence[int | None], arrow_type: pa.DataType) -> pa.Array:
    """These numbers, as large as the type needs it: no nanosecond is to be lost, and a date64 is of whole days."""
    if arrow_type in (pa.timestamp("ns"), pa.duration("ns")):
        numbers = [None if number is None else 1_700_000_000_000_000_000 + number for number in numbers]
    elif arrow_type == pa.date64():
        numbers = [None if number is None else 86_400_000 * number for number in numbers]
    if not pa.types.is_temporal(arrow_type):
        return pa.array(numbers, arrow_type)
    return pa.array(numbers, pa.int64() if arrow_type.bit_width == 64 else pa.int32()).view(arrow_type)


@settings(max_examples=3, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_totals_know_after_a_rescale_which_of_them_are_null_and_each_nanosecond(data: st.DataObject) -> None:
    """Columns only, as in the test above: Python's times have no nanoseconds."""
    keys, numbers = zip(*SOME)
    columns = {name: of_type(numbers, arrow_type) for name, arrow_type in NUMBERS.items()}
    batch = pa.record_batch({"k": pa.array(keys), **columns})

    def job(parallelism: int) -> StreamEnvironment:
        env = environment(batch, parallelism, buffer_bytes=1 << 20)
        stream = env.from_source(CollectionSource(batch, batch_rows=1), uid="rows").key_by("k")
        lows = {f"low {name}": min_(name) for name in NUMBERS}
        stream.aggregate(rows=count(), **lows).uid("lows").sink_to(CollectSink("out"), uid="out")
        return env

    lab, _ = run_and_rescale(job, data, (1, 3), begins_ms=(20, 40))
    found = pa.concat_tables(lab._world.edge.output.published.values()).sort_by(
        [("k", "ascending"), ("rows", "ascending")]
    )
    least: list[int | None] = []
    for key in (0, 1, 2):
        there = [number for each, number in SOME if each == key]
        so_far = [[number for number in there[:end] if number is not None] for end in range(1, len(there) + 1)]
        least += [min(some, default=None) for some in so_far]
    for name, arrow_type in NUMBERS.items():
        low = found.column(f"low {name}").combine_chunks()
        assert (name, low) == (name, of_type(least, arrow_type))


def said(values: pa.Array, row: int) -> str:
    """A value as Arrow says it, whatever form it is in."""
    if pa.types.is_dictionary(values.type):
        index = values.indices[row].as_py()
        return "None" if index is None else said(values.dictionary, index)
    scalar = values[row]
    try:
        return str(scalar.as_py() if isinstance(scalar, pa.RunEndEncodedScalar) else scalar)
    except (ValueError, OverflowError):
        return str(scalar.value)
