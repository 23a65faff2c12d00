"""A trigger that comes while a task closes its operators, or when it has closed them, or has left: it is answered, and
the job goes on to its end with the rows that it would have made without.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    Lab,
    StreamEnvironment,
    count,
)
from kit.lab.actions import Action, ActionKind

ROWS = [{"k": f"k{number % 5}", "n": number} for number in range(40)]
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def a_lab(*, after_finish: bool) -> Lab:
    """`rows` x2, each a source with a map behind it, -> `counts` x2, which sends its rows to a collecting sink."""
    env = StreamEnvironment(
        "closing",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=5_000, checkpoints_after_tasks_finish=after_finish),
    )
    rows = env.from_source(CollectionSource(ROWS, SCHEMA), uid="rows").map(lambda row: row, returns=SCHEMA).uid("same")
    rows.key_by("k").aggregate(rows=count()).uid("counts").sink_to(CollectSink("out"), uid="out")
    return Lab(env)


def last_counts(lab: Lab) -> dict[str, int]:
    rows = lab.output()
    return dict(rows.groupby("k")["rows"].max())


def advance(lab: Lab, until: Callable[[], bool], *, without: Callable[[Action], bool] = lambda action: False) -> None:
    """Step, by any action but some, until something is so."""
    for _ in range(5_000):
        if until():
            return
        lab.step(next(action for action in lab.enabled() if not without(action)))
    raise AssertionError("it did not come to that")


def is_trigger(action: Action) -> bool:
    return action.kind is ActionKind.MESSAGE and action.detail.startswith("TriggerTaskCheckpoint")


def records(lab: Lab, kind: str) -> pd.DataFrame:
    return pd.DataFrame([record.data | {"machine": record.machine} for record in lab.trace if record.kind == kind])


def test_print() -> None:
    lab = a_lab(after_finish=False)
    lab.run()
    print(lab.output())
    print(lab._world.graph.tasks)
    for r in lab.trace:
        if r.machine.startswith("rows"): print(r.machine, r.role, r.kind, str(r.data)[:100])
