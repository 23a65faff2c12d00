"""What the demonstration shows at its end: one table of checkpoints, who was given what, and the page to step
through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from kit.draw import export_html
from kit.graph.execution_graph import ExecutionGraph
from kit.protocol.trace import Trace
from kit.spark import SparkJob

MOST_DIFFERENCES = 10


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
    """All checkpoints and savepoints of the runs, one row each."""
    return pd.concat([run.checkpoints() for run in runs], keys=range(1, len(runs) + 1), names=["run"]).reset_index(
        level="run"
    )


def restore_table(runs: Sequence[SparkJob]) -> pd.DataFrame:
    """What each restore gave to whom, one row for each task, operator and kind of state."""
    return pd.concat([run.restores() for run in runs], keys=range(1, len(runs) + 1), names=["run"]).reset_index(
        level="run"
    )


def story(runs: Sequence[SparkJob]) -> str:
    """Both tables as text."""
    return (
        f"\nCheckpoints and savepoints\n\n{checkpoint_table(runs).to_string(index=False)}\n"
        f"\nWhat each restore gave to whom\n\n{restore_table(runs).to_string(index=False)}\n"
    )


def write_page(path: Path, runs: Sequence[SparkJob]) -> None:
    """The whole run, to step through offline."""
    trace, stages = joined(runs)
    tables = {
        "Checkpoints and savepoints": checkpoint_table(runs),
        "What each restore gave to whom": restore_table(runs),
    }
    export_html(trace, stages, path, "Flights: checkpointed, killed, restored, rescaled", tables=tables)


def joined(runs: Sequence[SparkJob]) -> tuple[Trace, list[tuple[int, ExecutionGraph]]]:
    """The traces of several runs as one, their records' ids kept apart."""
    trace = Trace()
    stages: list[tuple[int, ExecutionGraph]] = []
    for number, run in enumerate(runs, 1):
        before = len(trace)
        stages += [(before + at, graph) for at, graph in run.stages]
        trace.extend(
            replace(record, id=f"run {number}: {record.id}", cause=record.cause and f"run {number}: {record.cause}")
            for record in run.trace
        )
    return trace, stages
