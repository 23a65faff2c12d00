"""Every figure that Flink's web UI shows of checkpoints is in `lab.statistics`: by its name, ours, in our tables.

Flink's names are those of the templates under `flink-runtime-web/web-dashboard/src/app/pages/job/checkpoints`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from kit.hosts.lab import Lab
from kit.run.statistics import CheckpointStatistics
from tests.draw.labs import lab_of

Table = Callable[[CheckpointStatistics], "pd.DataFrame | pd.Series[Any]"]

TABLES: dict[str, Table] = {
    "counts": lambda found: found.counts,
    "latest": lambda found: found.latest,
    "history": lambda found: found.history,
    "summary": lambda found: found.summary,
    "configuration": lambda found: found.configuration,
    "detail(id)": lambda found: found.detail(3),
    "operators(id)": lambda found: found.operators(3),
    "subtasks(id)": lambda found: found.subtasks(3),
    "spread(id)": lambda found: found.spread(3),
    "metrics": lambda found: found.metrics,
    "task_metrics": lambda found: found.task_metrics,
}

SIZES = {"Checkpointed Data Size": "checkpointed_bytes", "Full Checkpoint Data Size": "full_bytes"}
IN_FLIGHT = {"Processed in-flight data": "processed_bytes", "Persisted in-flight data": "persisted_bytes"}
FIGURES = {"End to End Duration": "end_to_end_ms", **SIZES, **IN_FLIGHT}

UI: dict[tuple[str, str], dict[str, str]] = {
    ("Overview", "counts"): {
        "Triggered": "triggered",
        "In Progress": "in_progress",
        "Completed": "completed",
        "Failed": "failed",
        "Restored": "restored",
    },
    ("Overview: Latest Completed, Failed, Savepoint, Restore", "latest"): {
        "ID": "id",
        "Completion Time, Failure Time, Restore Time": "at_ms",
        "End to End Duration": "duration_ms",
        **SIZES,
        "Type": "kind",
        "Savepoint Format": "format",
        "Path": "path",
        "Cause": "failure",
    },
    ("History", "history"): {
        "ID": "id",
        "Status": "status",
        "(the savepoint icon)": "kind",
        "Acknowledged": "acknowledged",
        "(of so many)": "subtasks",
        "Trigger Time": "triggered_at_ms",
        "Latest Acknowledgement": "latest_ack_at_ms",
        "End to End Duration": "duration_ms",
        **SIZES,
        **IN_FLIGHT,
    },
    ("Summary", "summary"): {
        "Minimum": "min",
        "Average": "average",
        "Maximum": "max",
        "50% percentile": "p50",
        "90% percentile": "p90",
        "99% percentile": "p99",
        "99.9% percentile": "p99.9",
    },
    ("Configuration", "configuration"): {
        "Checkpointing Mode": "mode",
        "Checkpoint Storage": "directory",
        "State Backend": "state_backend",
        "Interval": "interval_ms",
        "Timeout": "timeout_ms",
        "Minimum Pause Between Checkpoints": "min_pause_ms",
        "Maximum Concurrent Checkpoints": "max_concurrent",
        "Unaligned Checkpoints": "unaligned",
        "Aligned checkpoint timeout": "aligned_timeout_ms",
        "Persist Checkpoints Externally": "retention",
        "Tolerable Failed Checkpoints": "tolerable_failures",
        "Checkpoints With Finished Tasks": "checkpoints_after_tasks_finish",
        "State Changelog": "changelog",  # never on, so it has neither a storage nor an interval
    },
    ("Checkpoint", "detail(id)"): {
        "Path": "path",
        "Discarded": "discarded",
        "Checkpoint Type": "kind",
        "Savepoint Format": "format",
        "Failure Message": "failure",
    },
    ("Checkpoint: Operators", "operators(id)"): {
        "Name": "operators",
        "Acknowledged": "acknowledged",
        "(of so many)": "subtasks",
        "Latest Acknowledgment": "latest_ack_at_ms",
        "End to End Duration": "duration_ms",
        **SIZES,
        **IN_FLIGHT,
    },
    ("Checkpoint: Subtasks", "subtasks(id)"): {
        "ID": "subtask",
        "Acknowledged": "ack_at_ms",
        "End to End Duration": "end_to_end_ms",
        **SIZES,
        "Sync Duration": "sync_ms",
        "Async Duration": "async_ms",
        **IN_FLIGHT,
        "Alignment Duration": "alignment_ms",
        "Start Delay": "start_delay_ms",
        "Unaligned Checkpoint": "unaligned",
        "(n/a and a link to the log)": "waits_for",
    },
    ("Checkpoint: Subtasks, first rows", "spread(id)"): {
        **FIGURES,
        "Sync Duration": "sync_ms",
        "Async Duration": "async_ms",
        "Alignment Duration": "alignment_ms",
        "Start Delay": "start_delay_ms",
    },
    ("Metrics of the job", "metrics"): {
        name: name
        for name in (
            "lastCheckpointDuration",
            "lastCheckpointSize",
            "lastCheckpointFullSize",
            "lastCompletedCheckpointId",
            "lastCheckpointCompletedTimestamp",
            "lastCheckpointExternalPath",
            "lastCheckpointRestoreTimestamp",
            "numberOfInProgressCheckpoints",
            "numberOfCompletedCheckpoints",
            "numberOfFailedCheckpoints",
            "totalNumberOfCheckpoints",
        )
    },
    ("Metrics of a task", "task_metrics"): {
        "checkpointAlignmentTime": "checkpointAlignmentTime",
        "checkpointStartDelayNanos": "checkpointStartDelayNanos",
    },
}
"""By the page of the UI and our table: a column there, and its name here."""


@pytest.fixture(scope="module")
def lab() -> Lab:
    """A lab with three checkpoints; the third one is pending."""
    lab = lab_of(1, rows=80)
    lab.run_until(checkpoint=2)
    lab.run_until(lambda lab: 3 in lab.checkpoints()["id"].tolist())
    lab.run_until(record="BarrierAligned")
    return lab


@pytest.mark.parametrize(("page", "table"), UI, ids=[page for page, _ in UI])
def test_every_column_of_the_page_is_there(page: str, table: str, lab: Lab) -> None:
    shown = TABLES[table](lab.statistics)
    names = set(shown.columns) if isinstance(shown, pd.DataFrame) else set(shown.index)
    assert set(UI[page, table].values()) <= names
    assert len(shown) > 0


def test_the_summary_has_a_row_for_each_figure(lab: Lab) -> None:
    assert list(lab.statistics.summary.index) == list(FIGURES.values())


def test_the_first_rows_of_a_vertex_are_least_mean_most_and_percentiles(lab: Lab) -> None:
    spread = lab.statistics.spread(2)
    subtasks = lab.statistics.subtasks(2)
    of_totals = subtasks[subtasks["vertex"] == "totals"]["end_to_end_ms"]
    told = spread.loc["totals", "end_to_end_ms"]
    assert list(told.index) == ["min", "mean", "max", "p50", "p90", "p99"]
    assert (told["min"], told["max"]) == (of_totals.min(), of_totals.max())
    assert told["p50"] == of_totals.median()


def test_instead_of_not_available_it_says_what_a_subtask_waits_for(lab: Lab) -> None:
    table = lab.statistics.subtasks(3).set_index("task")
    unfinished = table[table["status"] == "unfinished"]
    assert len(unfinished) > 0
    assert unfinished["waits_for"].str.len().min() > 0
    waiting = lab.trace[-1]
    sources = [lab.look.stages[-1].ends()[number][0] for number in waiting.data["awaited"]]
    assert sources[0] in table.loc[waiting.machine.partition("@")[0], "waits_for"]
    assert set(table[table["status"] == "acknowledged"]["waits_for"]) <= {""}
