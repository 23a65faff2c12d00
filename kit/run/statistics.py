"""Everything that Flink's web UI shows of a job's checkpoints, as tables, and the phases of unfinished subtasks.

    statistics.counts, .latest, .history, .summary, .configuration     what the four tabs show
    statistics.detail(3), .operators(3), .subtasks(3), .spread(3)      one checkpoint, opened
    statistics.initialization                                          how the tasks came to run
    statistics.metrics, .task_metrics, .operator_metrics, .spans       what Flink reports to a metrics system

Every column has one unit, which its name ends in: `_ms`, `_bytes`. Unknown figures are missing (`<NA>`). A subtask that
never finished shows the phase it was in (`open_phase`) and how long that lasted, which is read from the trace.

Follows the web UI's checkpoint pages and `CheckpointStatistics` of Flink's REST API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kit.core.display import display
from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.core.protocol.notes import CheckpointRestored
from kit.core.protocol.properties import SavepointType
from kit.core.protocol.tasks import task_name, vertex_of
from kit.core.trace.trace import TraceRecord
from kit.machines.coordinator.statistics import NOT_YET, CheckpointStats, CheckpointStatsSnapshot, SubtaskStats
from kit.machines.coordinator.stats_summary import PERCENTILES
from kit.run.kinds import kind_of
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.job_settings import CheckpointConfig
from kit.stream.settings.setting_rules import rules_of

if TYPE_CHECKING:
    import pandas as pd

HISTORY = {
    "id": "checkpoint_id",
    "kind": "properties.snapshot_type.name",
    "status": "status.name",
    "acknowledged": "acked",
    "subtasks": "total",
    "triggered_at_ms": "triggered_at_ms",
    "latest_ack_at_ms": "last_ack_at_ms",
    "duration_ms": "duration_ms",
    "checkpointed_bytes": "checkpointed_size",
    "full_bytes": "state_size",
    "processed_bytes": "processed_data",
    "persisted_bytes": "persisted_data",
}
"""The columns of the history, and the attribute of `CheckpointStats` that each shows."""
SUBTASKS = (
    "task",
    "vertex",
    "subtask",
    "status",
    "open_phase",
    "ack_at_ms",
    "end_to_end_ms",
    "checkpointed_bytes",
    "full_bytes",
    "sync_ms",
    "async_ms",
    "processed_bytes",
    "persisted_bytes",
    "alignment_ms",
    "start_delay_ms",
    "unaligned",
    "waits_for",
)
FROM_TRACE = ("sync_ms", "async_ms", "alignment_ms", "start_delay_ms")
OF_SUBTASKS = (50, 90, 99)
"""The percentiles over the subtasks of a vertex."""
SPREAD = tuple(name for name in SUBTASKS if name.endswith(("_ms", "_bytes")) and name != "ack_at_ms")
LATE_ROWS = "numLateRecordsDropped"


class CheckpointStatistics:
    """The checkpoints of a run up to now; get the statistics again to see what is new.

    `trace` and `job` belong to the run; `late_rows` counts the rows that each task's operators have dropped as late.
    """

    def __init__(
        self,
        snapshot: CheckpointStatsSnapshot,
        job: JobGraph,
        trace: Sequence[TraceRecord],
        late_rows: Mapping[str, Mapping[str, int]],
    ) -> None:
        self._snapshot = snapshot
        self._job = job
        self._trace = trace
        self._late_rows = late_rows

    # --- the overview -----------------------------------------------------------------------------------------------

    @property
    def counts(self) -> pd.DataFrame:
        """One row: triggered, in_progress, completed, failed, restored."""
        import pandas as pd

        counts = self._snapshot.counts
        row = (counts.total, counts.in_progress, counts.completed, counts.failed, counts.restored)
        return pd.DataFrame([row], columns=["triggered", "in_progress", "completed", "failed", "restored"])

    @property
    def latest(self) -> pd.DataFrame:
        """The latest of each kind that exists: completed, failed, savepoint, restore (the index).

        Columns: id, kind, at_ms (of its end), duration_ms, checkpointed_bytes, full_bytes, format, path, failure.
        """
        snapshot = self._snapshot
        found = {
            "completed": snapshot.latest_completed,
            "failed": snapshot.latest_failed,
            "savepoint": snapshot.latest_savepoint,
        }
        rows = {name: _latest_row(stats) for name, stats in found.items() if stats is not None}
        back = snapshot.restored
        if back is not None:
            whence = (back.checkpoint_id, back.properties.snapshot_type.name, back.restored_at_ms)
            rows["restore"] = (*whence, None, None, back.state_size, "", back.path, "")
        figures = ["duration_ms", "checkpointed_bytes", "full_bytes"]
        return _table(rows.values(), ["id", "kind", "at_ms", *figures, "format", "path", "failure"], index=list(rows))

    @property
    def history(self) -> pd.DataFrame:
        """One row per checkpoint, newest first, with the columns of `HISTORY`."""
        return _table(map(attrgetter(*HISTORY.values()), self._snapshot.checkpoints), [*HISTORY])

    @property
    def summary(self) -> pd.DataFrame:
        """Statistics over all completed checkpoints: count, min, average, max, p50, p90, p99, p99.9 of each figure (the
        index).
        """
        import pandas as pd

        found = self._snapshot.summary
        figures = ("end_to_end_ms", "checkpointed_bytes", "full_bytes", "processed_bytes", "persisted_bytes")
        summaries = (getattr(found, figure) for figure in figures)
        rows = [(each.count, each.least, each.average, each.most, *each.percentiles()) for each in summaries]
        columns = ["count", "min", "average", "max", *(f"p{percent:g}" for percent in PERCENTILES)]
        return pd.DataFrame(rows, columns=columns, index=list(figures))

    @property
    def configuration(self) -> pd.Series[Any]:
        """The checkpoint settings, named as in `settings_table()`; None if one is not set."""
        import pandas as pd

        config = self._job.settings.checkpoint
        values = {name: getattr(config, name) for name in rules_of(CheckpointConfig)}
        values = {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}
        fixed = {"state_backend": "heap, in Arrow columns", "changelog": False}
        return pd.Series(values | fixed, name="configuration", dtype=object)

    # --- one checkpoint ---------------------------------------------------------------------------------------------

    def detail(self, checkpoint_id: int) -> pd.Series[Any]:
        """Return the figures of one checkpoint: its row of the history, and its path, format, failure and more.

        Raises KeyError if the checkpoint is no longer remembered.
        """
        import pandas as pd

        stats = self._snapshot.find(checkpoint_id)
        (row,) = self.history[self.history["id"] == checkpoint_id].to_dict("records")
        more = {
            "ended_at_ms": pd.NA if stats.ended_at_ms == NOT_YET else stats.ended_at_ms,
            "metadata_bytes": stats.metadata_size,
            "unaligned": stats.unaligned,
            "discarded": stats.discarded,
            "format": _format(stats),
            "path": stats.path,
            "failure": stats.failure,
        }
        return pd.Series(row | more, name=f"checkpoint {checkpoint_id}", dtype=object)

    def operators(self, checkpoint_id: int) -> pd.DataFrame:
        """Return one checkpoint by vertex, upstream first.

        Columns: vertex, operators (names), acknowledged, subtasks, latest_ack_at_ms, duration_ms, checkpointed_bytes,
        full_bytes, processed_bytes, persisted_bytes.
        """
        import pandas as pd

        table = self.subtasks(checkpoint_id)
        began = self._snapshot.find(checkpoint_id).triggered_at_ms
        sums = ["checkpointed_bytes", "full_bytes", "processed_bytes", "persisted_bytes"]
        rows = []
        for vertex in self._job.vertices:
            of_vertex = table[table["vertex"] == vertex.name]
            acked = of_vertex[of_vertex["status"] == "acknowledged"]
            latest = acked["ack_at_ms"].max() if len(acked) else pd.NA
            names = ", ".join(operator.name for operator in vertex.operators)
            sizes = [of_vertex[name].sum() for name in sums]
            rows.append((vertex.name, names, len(acked), len(of_vertex), latest, latest - began, *sizes))
        columns = ["vertex", "operators", "acknowledged", "subtasks", "latest_ack_at_ms", "duration_ms", *sums]
        return _table(rows, columns)

    def subtasks(self, checkpoint_id: int) -> pd.DataFrame:
        """Return one checkpoint by subtask, with the columns of `SUBTASKS`.

        `status` is acknowledged, declined, unfinished, or reported: the subtask sent its figures after the checkpoint
        had failed. `open_phase` is the phase of an unfinished subtask: start_delay, alignment, sync, async, in_flight
        or ack. `waits_for` is what it waits for there. As in Flink, `async_ms` also covers the writing of in-flight
        data.
        """
        stats = self._snapshot.find(checkpoint_id)
        phases = self._phases(checkpoint_id)
        rows = (
            _subtask_row(vertex, subtask, report, stats.triggered_at_ms, phases.get(task_name(vertex, subtask), {}))
            for vertex, reports in stats.subtasks.items()
            for subtask, report in enumerate(reports)
        )
        return _table(rows, SUBTASKS)

    def _phases(self, checkpoint_id: int) -> dict[str, dict[Any, Any]]:
        if all(report is not None for _, report in _reports(self._snapshot.find(checkpoint_id))):
            return {}
        table = display("phases", self._trace, checkpoint_id)
        return {row["task"]: row for row in table.to_dict("records")}

    def spread(self, checkpoint_id: int) -> pd.DataFrame:
        """Return min, mean, max and percentiles of each vertex's known figures (the index: vertex, figure)."""
        import pandas as pd

        table = self.subtasks(checkpoint_id)
        by_vertex = table.groupby("vertex", sort=False)[list(SPREAD)]
        parts = {"min": by_vertex.min(), "mean": by_vertex.mean(), "max": by_vertex.max()}
        parts |= {f"p{percent}": by_vertex.quantile(percent / 100) for percent in OF_SUBTASKS}
        return pd.concat(parts, names=["figure"]).swaplevel().sort_index(level="vertex", sort_remaining=False)

    # --- the beginning ----------------------------------------------------------------------------------------------

    @property
    def initialization(self) -> pd.DataFrame:
        """One row per task of the newest epoch that runs or failed to start: how long its start took, and its restored
        state.

        Columns: task, attempt, status, deployed_at_ms, duration_ms (until it ran), read_state_ms, gate_restore_ms
        (processing what had been in flight), restored_bytes.
        """
        figures = ("deployed_at_ms", "duration_ms", "read_state_ms", "gate_restore_ms", "restored_bytes")
        rows = (
            (
                each.task,
                each.attempt,
                "COMPLETED" if each.metrics.completed else "FAILED",
                *attrgetter(*figures)(each.metrics),
            )
            for each in self._snapshot.initialization
        )
        return _table(rows, ["task", "attempt", "status", *figures])

    # --- metrics ----------------------------------------------------------------------------------------------------

    @property
    def metrics(self) -> pd.Series[Any]:
        """The job's metrics under Flink's names (`lastCheckpointDuration`, ...); ms and bytes, -1 for "not yet"."""
        import pandas as pd

        return pd.Series(self._snapshot.metrics(), name="metrics", dtype=object)

    @property
    def task_metrics(self) -> pd.DataFrame:
        """The checkpointAlignmentTime and checkpointStartDelayNanos of each task's latest checkpoint, both in ns."""
        found: dict[str, tuple[int, int, int]] = {}
        for stats in reversed(self._snapshot.checkpoints):
            for task, report in _reports(stats):
                if report is not None:
                    measured = report.metrics
                    times = (_nanos(measured.alignment_ms), _nanos(measured.start_delay_ms))
                    found[task] = (stats.checkpoint_id, *times)
        rows = [(task, *figures) for task, figures in found.items()]
        return _table(rows, ["task", "checkpoint_id", "checkpointAlignmentTime", "checkpointStartDelayNanos"])

    @property
    def operator_metrics(self) -> pd.DataFrame:
        """One row per operator of each task in the current epoch: task, operator, numLateRecordsDropped."""
        operators = {vertex.name: [each.name for each in vertex.operators] for vertex in self._job.vertices}
        rows = [
            (task, operator, dropped.get(operator, 0))
            for task, dropped in self._late_rows.items()
            for operator in operators[vertex_of(task)]
        ]
        return _table(rows, ["task", "operator", LATE_ROWS])

    @cached_property
    def spans(self) -> pd.DataFrame:
        """The trace spans that Flink reports: one row per checkpoint that ended, and one per restore until all tasks
        ran.

        Columns: name (Checkpoint, JobInitialization), start_ms, end_ms, checkpoint_id, full_bytes, status.
        """
        columns = ["name", "start_ms", "end_ms", "checkpoint_id", "full_bytes", "status"]
        shown = attrgetter("triggered_at_ms", "ended_at_ms", "checkpoint_id", "state_size", "status.name")
        ended = (each for each in reversed(self._snapshot.checkpoints) if each.ended_at_ms != NOT_YET)
        rows = [("Checkpoint", *shown(each)) for each in ended]
        return _table(sorted([*rows, *self._initializations()], key=lambda row: row[1]), columns)

    def _initializations(self) -> Iterator[tuple[Any, ...]]:
        began: TraceRecord | None = None
        for record in self._trace:
            span = kind_of(record).span
            if span == "begins":
                began = record
            elif span == "ends" and began is not None:
                size = began.note(CheckpointRestored).size_bytes
                yield ("JobInitialization", began.at_ms, record.at_ms, began.checkpoint_id, size, "COMPLETED")
                began = None

    # --- helpers ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        counts = self._snapshot.counts
        return (
            f"CheckpointStatistics({counts.total} triggered, {counts.in_progress} in progress, "
            f"{counts.completed} completed, {counts.failed} failed, {counts.restored} restored)"
        )

    def _repr_html_(self) -> str:
        parts = {
            "Counts": self.counts,
            "Latest": self.latest,
            "History": self.history.head(10),
            "Summary": self.summary,
        }
        metrics = self.operator_metrics
        if metrics[LATE_ROWS].any():
            parts["Late rows"] = metrics[metrics[LATE_ROWS] > 0]
        shown = (
            f"<h4>{name}</h4>{frame_html(table, NOTEBOOK_ROWS, are_labelled=table.index.dtype == object)}"
            for name, table in parts.items()
        )
        return notebook_html("", *shown)


def _reports(stats: CheckpointStats) -> Iterator[tuple[str, SubtaskStats | None]]:
    for vertex, reports in stats.subtasks.items():
        for subtask, report in enumerate(reports):
            yield task_name(vertex, subtask), report


def _format(stats: CheckpointStats) -> str:
    kind = stats.properties.snapshot_type
    return kind.format.name if isinstance(kind, SavepointType) else ""


def _latest_row(stats: CheckpointStats) -> tuple[Any, ...]:
    figures = attrgetter("ended_at_ms", "duration_ms", "checkpointed_size", "state_size")(stats)
    kind = stats.properties.snapshot_type.name
    return (stats.checkpoint_id, kind, *figures, _format(stats), stats.path, stats.failure)


def _nanos(ms: int) -> int:
    return NOT_YET if ms < 0 else ms * 1_000_000


def _subtask_row(
    vertex: str, subtask: int, report: SubtaskStats | None, began_ms: int, phases: dict[Any, Any]
) -> tuple[Any, ...]:
    """Return a subtask's figures; those of a subtask that has not reported come from the trace."""
    name = (task_name(vertex, subtask), vertex, subtask)
    if report is None:
        known = {figure: phases.get(figure) for figure in FROM_TRACE}
        status = "declined" if phases.get("status") == "declined" else "unfinished"
        row = {"status": status, "open_phase": phases.get("open_phase", ""), "waits_for": phases.get("waits_for", "")}
        row |= known | {"async_ms": _sum(phases.get("async_ms"), phases.get("in_flight_ms"))}
        return (*name, *(row.get(column) for column in SUBTASKS[3:]))
    metrics = report.metrics
    return (
        *name,
        "acknowledged" if report.completed else "reported",
        "",
        report.acked_at_ms,
        report.acked_at_ms - began_ms,
        metrics.bytes_persisted,
        metrics.total_bytes_persisted,
        metrics.sync_ms,
        metrics.async_ms,
        metrics.bytes_processed_during_alignment,
        metrics.bytes_persisted_during_alignment,
        metrics.alignment_ms,
        metrics.start_delay_ms,
        metrics.unaligned,
        "",
    )


def _sum(*figures: Any) -> Any:
    import pandas as pd

    known = [figure for figure in figures if not pd.isna(figure)]
    return sum(known) if known else pd.NA


WHOLE = ("id", "checkpoint_id", "subtask", "subtasks", "acknowledged")


def _table(rows: Any, columns: Sequence[str], index: list[str] | None = None) -> pd.DataFrame:
    """Return a table whose figures are integers or missing, whatever its rows are."""
    import pandas as pd

    table = pd.DataFrame(list(rows), columns=list(columns), index=index)
    for name in columns:
        if name in WHOLE or name.endswith(("_ms", "_bytes")):
            figures = pd.to_numeric(table[name]).astype("Int64")
            table[name] = figures.mask(figures == NOT_YET)
    return table
