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
from kit.protocol.trace import TraceRecord

ROWS = [{"k": f"k{number % 5}", "n": number} for number in range(40)]
SOURCES = "rows/0", "rows/1"
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
    return Lab(env, order="first")


def advance(lab: Lab, until: Callable[[], bool], *, without: Callable[[Action], bool]) -> None:
    """Step, by any action but some, until something is so."""
    for _ in range(5_000):
        if until():
            return
        lab.step(next(action for action in lab.enabled() if not (without(action) or action.kind is ActionKind.WAIT)))
    raise AssertionError("it did not come to that")


def records(lab: Lab, kind: str) -> list[TraceRecord]:
    return [record for record in lab.trace if record.kind == kind]


def is_trigger(action: Action) -> bool:
    return action.kind is ActionKind.MESSAGE and action.detail.startswith("TriggerTaskCheckpoint")


def a_trigger_under_way(*, after_finish: bool) -> Lab:
    """A lab with one checkpoint complete, and the triggers of another on their way to both sources, which know that
    there is no more to read, and have not had the turn yet in which they end their data.
    """
    lab = a_lab(after_finish=after_finish)
    turns = {Action(ActionKind.RUN, source) for source in SOURCES}
    lab.run_until(record="SplitRead")
    lab.trigger_checkpoint()
    advance(lab, lambda: bool(records(lab, "CheckpointCompleted")), without=turns.__contains__)

    def knows_its_end(action: Action) -> bool:
        told = [record for record in records(lab, "OperatorEventToTask") if record.machine == action.subject]
        return action in turns and len(told) == 2

    advance(lab, lambda: all(map(knows_its_end, turns)), without=knows_its_end)
    lab.trigger_checkpoint()
    advance(lab, lambda: sum(map(is_trigger, lab.enabled())) == 2, without=lambda a: a in turns or is_trigger(a))
    return lab


def let_rows_0_close(lab: Lab, turns: int) -> None:
    """Let it end its data and then take so many turns, all before its trigger comes; `rows/1` stays as it is."""

    def turns_taken() -> int:
        mine = [record for record in lab.trace if record.machine == "rows/0"]
        ends = [i for i, record in enumerate(mine) if record.data.get("end_of_data")]
        return sum(record.kind == "ProcessInput" for record in mine[ends[0] :]) if ends else -1

    others_turn = Action(ActionKind.RUN, "rows/1")
    advance(lab, lambda: turns_taken() == turns, without=lambda a: is_trigger(a) or a == others_turn)


def test_print() -> None:
    for turns in (0,1,2,3):
        lab = a_trigger_under_way(after_finish=False)
        other = lab.fork()
        let_rows_0_close(lab, turns)
        (trigger,) = [a for a in lab.enabled() if is_trigger(a) and a.subject == "rows/0"]
        step = lab.step(trigger)
        print(turns, [(r.machine, r.kind, r.data) for r in step.records])
        lab.run()
        other.run()
        print(lab.output(), other.output())
        print(lab.checkpoints())
