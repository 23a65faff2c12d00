"""The report of the demonstration: a table of checkpoints, a table of restores, and the page to step through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from kit.core.protocol.events import SlotLost
from kit.core.trace.trace import Trace, TraceRecord
from kit.draw.page.page import export_html
from kit.hosts.spark import SparkJob
from kit.run.steps import steps

MOST_DIFFERENCES = 10
INTRO = (
    "The flights of New York 2013, counted per carrier and per destination and day. The job starts with two subtasks "
    "an operator; one of its workers is killed; it goes on from the latest checkpoint; it is stopped with a "
    "savepoint, and resumed from that with three subtasks."
)


def compare(what: str, found: pd.DataFrame, expected: pd.DataFrame) -> list[str]:
    """The groups in which two tables differ, in words; the last two columns are the figures, the others the key."""
    keys = list(expected.columns[:-2])
    expected = expected.astype({key: found[key].dtype for key in keys})
    both = expected.merge(found, how="outer", on=keys, suffixes=("_expected", "_found"), indicator=True)
    differs = both["_merge"] != "both"
    for figure in expected.columns[-2:]:
        left, right = both[f"{figure}_expected"], both[f"{figure}_found"]
        differs |= ~((left == right) | (left.isna() & right.isna()))
    wrong = both[differs]
    if wrong.empty:
        return []
    rows = wrong.head(MOST_DIFFERENCES).to_string(index=False)
    return [f"{what}: {len(wrong)} of {len(expected)} groups differ from Spark SQL, for instance\n{rows}"]


def checkpoint_table(runs: Sequence[SparkJob]) -> pd.DataFrame:
    """All checkpoints and savepoints of the runs, oldest first: id, kind, when, how long, how large, who
    acknowledged.
    """
    every = pd.concat([run.checkpoints().assign(run=number) for number, run in enumerate(runs, 1)])
    every = every.sort_values(["run", "id"], ignore_index=True)
    return pd.DataFrame(
        {
            "run": every["run"],
            "id": every["id"],
            "kind": every["kind"],
            "triggered": pd.to_datetime(every["triggered_at_ms"], unit="ms").dt.strftime("%H:%M:%S.%f").str[:-3],
            "duration_ms": every["duration_ms"],
            "size_bytes": every["checkpointed_size"],
            "acked": every["acked"].astype(str) + "/" + every["total"].astype(str),
            "status": every["status"],
            "failure": every["failure"],
        }
    )


def restore_table(runs: Sequence[SparkJob]) -> pd.DataFrame:
    """Return the state that each restore assigned, one row for each task, operator and kind of state."""
    every = pd.concat([run.look.restores().assign(run=number) for number, run in enumerate(runs, 1)], ignore_index=True)
    return pd.DataFrame(
        {
            "run": every["run"],
            "checkpoint": every["checkpoint_id"],
            "task": every["task"],
            "operator": every["operator"],
            "state": every["kind"],
            "from subtasks": every["from"].map(lambda subtasks: ", ".join(map(str, subtasks))),
            "key groups": every["key_groups"].map(lambda groups: "" if groups is None else f"{groups[0]}-{groups[1]}"),
            "entries": every["entries"],
            "bytes": every["bytes"],
        }
    )


def story(runs: Sequence[SparkJob]) -> str:
    """Both tables as text."""
    return (
        f"\nCheckpoints and savepoints\n\n{checkpoint_table(runs).to_string(index=False)}\n"
        f"\nThe state that each restore assigned\n\n{restore_table(runs).to_string(index=False)}\n"
    )


def write_page(path: Path, runs: Sequence[SparkJob]) -> None:
    """The whole run, to step through offline."""
    path.parent.mkdir(parents=True, exist_ok=True)
    run = joined(runs)
    export_html(run, path, "Flights: checkpointed, killed, restored, rescaled", intro=INTRO, at=at_the_kill(run))


def at_the_kill(trace: Trace) -> int:
    """The number of records up to the loss of a worker, causes before effects; 0 if none was lost."""
    n = 0
    for group in steps(trace):
        n += len(group)
        if any(record.is_a(SlotLost) for record in group):
            return n
    return 0


def joined(runs: Sequence[SparkJob]) -> Trace:
    """The traces of several runs as one: time counts from the first record, later runs' epochs follow those of earlier
    ones, and ids are kept apart.
    """
    trace = Trace()
    began_ms = min(record.at_ms for run in runs for record in run.trace)
    for number, run in enumerate(runs, 1):
        before = max((stage.epoch for stage in trace.stages), default=0)
        trace.extend(_shifted(record, number, before, began_ms) for record in run.trace)
        trace.stages += [replace(stage, epoch=stage.epoch + before) for stage in run.look.stages]
    return trace


def _shifted(record: TraceRecord, run: int, epochs: int, began_ms: int) -> TraceRecord:
    data = {key: value + epochs if key in ("epoch", "attempt") else value for key, value in record.data.items()}
    cause = record.cause and f"run {run}: {record.cause}"
    return replace(record, id=f"run {run}: {record.id}", cause=cause, at_ms=record.at_ms - began_ms, data=data)
