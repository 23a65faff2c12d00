"""Event time that was in flight when its senders are rescaled: the new ones may still have earlier rows to send.

The watermark of a reader with one split says nothing of the split that it reads after a rescale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    EventTimeSessionWindows,
    Lab,
    OutputTag,
    ProcessFunction,
    StreamEnvironment,
    TumblingEventTimeWindows,
    count,
)
from kit.hosts.lab.world.actions import TakeTurn

ROWS = 24
WINDOW_MS = 10
ASIDE = OutputTag("aside", {"k": pa.string(), "t": pa.int64(), "n": pa.int64()})


class Aside(ProcessFunction):
    """Sends all rows to a side output."""

    def process_element(self, row: Any, ctx: Any) -> None:
        """Send the row there."""
        ctx.output(ASIDE, row)


class Same(ProcessFunction):
    """Sends rows on."""

    def process_element(self, row: Any, ctx: Any) -> None:
        """Send the row on."""
        ctx.emit(row)


def rows_of(env: StreamEnvironment, name: str = "rows") -> Any:
    """A stream of three splits, each with a third of the rows and of the time."""
    rows = [{"k": "abcdefgh"[n % 8], "t": 2 * n, "n": n} for n in range(ROWS)]
    return env.from_source(CollectionSource(rows, splits=3, batch_rows=2), uid=name).assign_timestamps("t")


def windows_of(stream: Any) -> Any:
    return stream.key_by("k").window(TumblingEventTimeWindows(WINDOW_MS)).aggregate(rows=count()).uid("taker")


def windows(env: StreamEnvironment) -> Any:
    return windows_of(rows_of(env))


def sessions(env: StreamEnvironment) -> Any:
    keyed = rows_of(env).key_by("k")
    return keyed.window(EventTimeSessionWindows(WINDOW_MS)).aggregate(rows=count()).uid("taker")


def union(env: StreamEnvironment) -> Any:
    return windows_of(rows_of(env).union(rows_of(env, "more")))


def side_output(env: StreamEnvironment) -> Any:
    return windows_of(rows_of(env).process(Aside).uid("aside").side_output(ASIDE))


def behind_another(env: StreamEnvironment) -> Any:
    """Windows behind an operator that is not rescaled, but receives from readers that are."""
    return windows_of(rows_of(env).rescale().process(Same).uid("same"))


def interval_join(env: StreamEnvironment) -> Any:
    """Each row with itself."""
    left, right = rows_of(env).key_by("k"), rows_of(env, "more").rename(n="n2", t="t2").key_by("k")
    return left.interval_join(right).between(0, 0).join().uid("taker")


JOBS: Mapping[str, Callable[[StreamEnvironment], Any]] = {
    each.__name__: each for each in (windows, sessions, union, side_output, behind_another, interval_join)
}


def lab_of(job: str, parallelism: int) -> Lab:
    checkpoint = CheckpointConfig(interval_ms=None, unaligned=True)
    env = StreamEnvironment(job, parallelism=parallelism, max_parallelism=16, checkpoint=checkpoint)
    JOBS[job](env).sink_to(CollectSink("out"), uid="out")
    return Lab(env)


def rows_taken(lab: Lab, steps: int, parallelism: Any) -> int:
    """Rescale after this many steps in which the taker took nothing; return how many rows it takes in all."""
    for _ in range(steps):
        ready = [each for each in lab.enabled() if not (isinstance(each, TakeTurn) and each.task.startswith("taker"))]
        if not ready:
            break
        lab.step(ready[0])
    lab.rescale(parallelism)
    lab.run()
    out = lab.output("out")
    return int(out["rows"].sum()) if "rows" in out else len(out)


@pytest.mark.parametrize(
    ("job", "parallelism", "wanted", "steps"),
    [
        ("windows", 3, 2, 28),
        ("windows", 3, 4, 28),
        ("windows", 3, {"rows": 2}, 28),
        ("sessions", 3, 2, 28),
        ("union", 4, {"rows": 2}, 31),
        ("side_output", 3, 4, 28),
        ("behind_another", 3, {"rows": 1}, 28),
        ("interval_join", 4, 2, 31),
        ("interval_join", 4, {"rows": 2}, 31),
    ],
)
def test_no_row_is_late_for_event_time_of_another_sender(job: str, parallelism: int, wanted: Any, steps: int) -> None:
    lab = lab_of(job, parallelism)
    assert rows_taken(lab, steps, wanted) == (2 * ROWS if job == "union" else ROWS)
    assert lab.look.late_rows_dropped == {}
