"""Late rows: processor time of the operators of event time when 0.2 % of their rows come late, against none.

    python -m benchmarks late_rows
    python -m benchmarks.late_rows --batches 60 --share 0.02

Each operator takes batches of 16,384 rows of 20,000 keys, 1 s of event time each, and a watermark after each batch. A
row that comes late is up to 5 s behind the watermark. The operator drops it, or adds it to a session that continues.
Where lateness is allowed, a late row makes its window fire again, which is more work and more output. Each time is the
least of several runs; runs with and without late rows take turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks._options import options
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.base import OperatorSpec
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.windows.interval_join import IntervalJoin
from kit.stream.operators.windows.window import WindowAggregate
from kit.stream.operators.windows.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from kit.stream.operators.windows.window_join import WindowJoin
from tests.stream.operators.harness import Harness

ROWS = pa.schema([("key", pa.int64()), ("at", pa.int64()), ("value", pa.int64())])
OTHERS = pa.schema([("key", pa.int64()), ("other_at", pa.int64()), ("other", pa.int64())])
LATE = OutputTag("late", ROWS)
BATCH_MS = 1_000
OUT_OF_ORDER_MS = 500
LATEST_MS = 5_000


@dataclass(frozen=True)
class Sizes:
    """The number and size of the batches, and the share of the rows that comes late."""

    batches: int
    share: float
    batch_rows: int = 16_384
    keys: int = 20_000
    runs: int = 3


def windows(assigner: WindowAssigner, **settings: object) -> OperatorSpec:
    """Return an aggregate over such windows."""
    return WindowAggregate(ROWS, "key", assigner, "at", (count(), sum_("value")), **settings)


def sides() -> tuple[FunctionInput, FunctionInput]:
    """Return the inputs of a join."""
    return FunctionInput(ROWS, ("key",), "at"), FunctionInput(OTHERS, ("key",), "other_at")


OPERATORS: dict[str, Callable[[], OperatorSpec]] = {
    "tumbling windows": lambda: windows(TumblingEventTimeWindows(2_000)),
    "sliding windows": lambda: windows(SlidingEventTimeWindows(2_000, 1_000)),
    "tumbling, 5 s of lateness": lambda: windows(TumblingEventTimeWindows(2_000), allowed_lateness_ms=LATEST_MS),
    "sessions": lambda: windows(EventTimeSessionWindows(1_000)),
    "sessions, late rows kept apart": lambda: windows(EventTimeSessionWindows(1_000), late_tag=LATE),
    "sessions, 5 s of lateness": lambda: windows(EventTimeSessionWindows(1_000), allowed_lateness_ms=LATEST_MS),
    "window join": lambda: WindowJoin(*sides(), TumblingEventTimeWindows(2_000), name="window-join"),
    "interval join": lambda: IntervalJoin(*sides(), -1_000, 1_000, name="interval-join"),
}


def batches(sizes: Sizes, share: float, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the rows; whatever the share that comes late, the others are the same."""
    draw = np.random.default_rng(0)
    made = []
    for number in range(sizes.batches):
        keys = draw.integers(0, sizes.keys, sizes.batch_rows)
        times = number * BATCH_MS + draw.integers(-OUT_OF_ORDER_MS, BATCH_MS, sizes.batch_rows)
        late = draw.random(sizes.batch_rows) < share
        behind = number * BATCH_MS - OUT_OF_ORDER_MS - draw.integers(1, LATEST_MS, sizes.batch_rows)
        columns = [keys, np.where(late, behind, times), np.arange(sizes.batch_rows)]
        made.append(pa.record_batch([pa.array(column) for column in columns], schema=schema))
    return made


def seconds(spec: OperatorSpec, inputs: Sequence[Sequence[pa.RecordBatch]]) -> float:
    """Return the processor time that a subtask takes for the rows of its inputs."""
    harness = Harness(spec)
    begin = time.process_time()
    for number, given in enumerate(zip(*inputs, strict=True), 1):
        for index, batch in enumerate(given):
            harness.operator.process_batch(batch, index)
        harness.current_watermark_ms = number * BATCH_MS - OUT_OF_ORDER_MS
        harness.operator.process_watermark(harness.current_watermark_ms)
        harness.output.elements.clear()
    return time.process_time() - begin


def main() -> int:
    """Print a line for each operator."""
    parser = options(__doc__)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--share", type=float, default=0.002)
    given = parser.parse_args()
    sizes = Sizes(3, given.share, 1_000, 1_000, 1) if given.smallest else Sizes(given.batches, given.share)
    for name, make in OPERATORS.items():
        spec = make()
        takes: dict[float, float] = {}
        for _ in range(sizes.runs):
            for share in (0.0, sizes.share):
                inputs = [batches(sizes, share, schema) for schema in spec.input_schemas]
                takes[share] = min(takes.get(share, np.inf), seconds(spec, inputs))
        without, with_late = takes[0.0], takes[sizes.share]
        million = sizes.batches * sizes.batch_rows * len(spec.input_schemas) / 1e6
        print(
            f"{name:32} {without / million:6.3f} s a million rows, "
            f"{with_late / million:6.3f} with late ones: {with_late / without:5.2f} times",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
