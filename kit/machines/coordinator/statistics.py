"""Statistics of each checkpoint: times, sizes and acknowledgements, also of pending and failed ones.

`CheckpointStatsTracker.to_pandas()` is the table of checkpoints, `subtasks(id)` the table of one checkpoint's subtasks.
The history is bounded; the newest completed one, failed one and savepoint are kept beyond it.

Follows Flink's `DefaultCheckpointStatsTracker`, `CheckpointStatsCounts`, `CheckpointStatsHistory`,
`PendingCheckpointStats` and `SubtaskStateStats`. A checkpoint that fails while it is being triggered counts as one
failure; Flink counts it twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.core.protocol.messages import CheckpointMetrics, InitializationMetrics
from kit.core.protocol.properties import CheckpointProperties
from kit.core.protocol.tasks import task_name
from kit.machines.coordinator.stats_summary import CompletedCheckpointStatsSummary

if TYPE_CHECKING:
    import pandas as pd

NOT_YET = -1
"""The value of a time that has not come yet."""
DEFAULT_HISTORY = 10


class CheckpointStatus(Enum):
    """The status of a checkpoint (`CheckpointStatsStatus`)."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class SubtaskStats:
    """A subtask's report at `acked_at_ms`; `completed` is False for a report that is not an acknowledgement.

    Flink: `SubtaskStateStats`.
    """

    acked_at_ms: int
    metrics: CheckpointMetrics
    completed: bool = True


FINISHED_METRICS = CheckpointMetrics()
"""The metrics of a task that had finished before the checkpoint began."""


def _nothing() -> None:
    """Do nothing: no observer is attached."""


@dataclass(slots=True)
class CheckpointStats:
    """One checkpoint. `subtasks` are its subtasks' reports, by vertex and index, None where there is none yet.

    Sizes are in bytes: `checkpointed_size` was written for this checkpoint, `state_size` is all it refers to,
    `processed_data` and `persisted_data` passed during alignment.

    Follows Flink's `PendingCheckpointStats`, `CompletedCheckpointStats` and `FailedCheckpointStats`.
    """

    checkpoint_id: int
    triggered_at_ms: int
    properties: CheckpointProperties
    subtasks: dict[str, list[SubtaskStats | None]]
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    acked: int = 0
    state_size: int = 0
    checkpointed_size: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    unaligned: bool = False
    last_ack_at_ms: int = NOT_YET
    ended_at_ms: int = NOT_YET
    metadata_size: int = 0
    path: str = ""
    failure: str = ""
    discarded: bool = False
    _changed: Callable[[], None] = field(default=_nothing, repr=False)

    @property
    def total(self) -> int:
        """The number of subtasks, including finished ones."""
        return sum(len(subtasks) for subtasks in self.subtasks.values())

    @property
    def duration_ms(self) -> int:
        """The time from the trigger to the end, or to the last acknowledgement; `NOT_YET` before the first."""
        last = self.ended_at_ms if self.status is CheckpointStatus.FAILED else self.last_ack_at_ms
        return NOT_YET if last == NOT_YET else last - self.triggered_at_ms

    def report(
        self, vertex: str, subtask: int, at_ms: int, metrics: CheckpointMetrics, *, completed: bool = True
    ) -> bool:
        """Record a subtask's report; return False if there is one already, or for an unknown subtask.

        Flink: `reportSubtaskStats`.
        """
        reports = self.subtasks.get(vertex)
        if reports is None or not 0 <= subtask < len(reports) or reports[subtask] is not None:
            return False
        reports[subtask] = SubtaskStats(at_ms, metrics, completed)
        if completed:
            self.acked += 1
            self.last_ack_at_ms = at_ms
        self.state_size += metrics.total_bytes_persisted
        self.checkpointed_size += metrics.bytes_persisted
        self.processed_data += max(metrics.bytes_processed_during_alignment, 0)
        self.persisted_data += max(metrics.bytes_persisted_during_alignment, 0)
        self.unaligned |= metrics.unaligned
        self._changed()
        return True

    def complete(self, at_ms: int, path: str, metadata_size: int) -> None:
        """Complete the checkpoint, which is at `path`."""
        self.status, self.ended_at_ms = CheckpointStatus.COMPLETED, at_ms
        self.path, self.metadata_size = path, metadata_size
        self._changed()

    def fail(self, at_ms: int, failure: str) -> None:
        """Fail the checkpoint; late reports are still recorded."""
        self.status, self.ended_at_ms, self.failure = CheckpointStatus.FAILED, at_ms, failure
        self._changed()

    def mark_discarded(self) -> None:
        """Record that its files are being deleted.

        Flink's `CompletedCheckpoint` has a callback for it in 1.11 (`setDiscardCallback`).
        """
        self.discarded = True
        self._changed()

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per subtask, acknowledged or not; times in ms from the trigger, -1 if unknown.

        Columns: task, vertex, subtask, status (acked, waiting, reported: sent its figures of a failed checkpoint),
        end_to_end_ms, start_delay_ms, alignment_ms, sync_ms, async_ms, checkpointed_size, state_size (bytes),
        processed_data, persisted_data (bytes), unaligned.
        """
        import pandas as pd

        rows = [
            self._row(vertex, subtask, stats)
            for vertex, reports in self.subtasks.items()
            for subtask, stats in enumerate(reports)
        ]
        return pd.DataFrame(rows, columns=_SUBTASK_COLUMNS)

    def _row(self, vertex: str, subtask: int, stats: SubtaskStats | None) -> tuple[object, ...]:
        status = "waiting" if stats is None else "acked" if stats.completed else "reported"
        metrics = stats.metrics if stats else FINISHED_METRICS
        return (
            task_name(vertex, subtask),
            vertex,
            subtask,
            status,
            stats.acked_at_ms - self.triggered_at_ms if stats else NOT_YET,
            metrics.start_delay_ms,
            metrics.alignment_ms,
            metrics.sync_ms,
            metrics.async_ms,
            metrics.bytes_persisted,
            metrics.total_bytes_persisted,
            max(metrics.bytes_processed_during_alignment, 0),
            max(metrics.bytes_persisted_during_alignment, 0),
            metrics.unaligned,
        )

    def __repr__(self) -> str:
        return f"CheckpointStats({self.checkpoint_id}, {self.status.name}, {self.acked} of {self.total} acked)"


_SUBTASK_COLUMNS = (
    "task",
    "vertex",
    "subtask",
    "status",
    "end_to_end_ms",
    "start_delay_ms",
    "alignment_ms",
    "sync_ms",
    "async_ms",
    "checkpointed_size",
    "state_size",
    "processed_data",
    "persisted_data",
    "unaligned",
)


@dataclass(slots=True)
class CheckpointStatsCounts:
    """The number of checkpoints by outcome (`CheckpointStatsCounts`); `total` excludes the restored ones."""

    restored: int = 0
    total: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0

    def restore(self) -> None:
        """Count a restore from a checkpoint."""
        self.restored += 1

    def begin(self) -> None:
        """Count a checkpoint that begins."""
        self.in_progress += 1
        self.total += 1

    def complete(self) -> None:
        """Count a pending checkpoint that completed; harmless if none is pending."""
        self.in_progress = max(self.in_progress - 1, 0)
        self.completed += 1

    def fail(self) -> None:
        """Count a pending checkpoint that failed; harmless if none is pending."""
        self.in_progress = max(self.in_progress - 1, 0)
        self.failed += 1

    def fail_before_start(self) -> None:
        """Count a checkpoint that failed before it was pending."""
        self.failed += 1
        self.total += 1


@dataclass(slots=True)
class CheckpointStatsHistory:
    """The last `max_size` checkpoints in order of their begin, and the newest of each outcome beyond that."""

    max_size: int = DEFAULT_HISTORY
    checkpoints: list[CheckpointStats] = field(default_factory=list)
    latest_completed: CheckpointStats | None = None
    latest_failed: CheckpointStats | None = None
    latest_savepoint: CheckpointStats | None = None

    def add(self, stats: CheckpointStats) -> None:
        """Add a checkpoint that begins; the oldest is forgotten if there are too many."""
        self.checkpoints.append(stats)
        del self.checkpoints[: max(len(self.checkpoints) - self.max_size, 0)]

    def ended(self, stats: CheckpointStats) -> None:
        """Record a checkpoint that has completed or failed."""
        if stats.status is CheckpointStatus.FAILED:
            self.latest_failed = _newer(self.latest_failed, stats)
        elif stats.properties.is_savepoint:
            self.latest_savepoint = _newer(self.latest_savepoint, stats)
        else:
            self.latest_completed = _newer(self.latest_completed, stats)

    def find(self, checkpoint_id: int) -> CheckpointStats | None:
        """Return the checkpoint with this id, if it is still remembered."""
        return next((stats for stats in self.newest_first() if stats.checkpoint_id == checkpoint_id), None)

    def newest_first(self) -> list[CheckpointStats]:
        """Return all remembered checkpoints, each once."""
        latest = (self.latest_completed, self.latest_failed, self.latest_savepoint)
        kept = {stats.checkpoint_id: stats for stats in (*latest, *self.checkpoints) if stats is not None}
        return [kept[checkpoint_id] for checkpoint_id in sorted(kept, reverse=True)]


def _newer(known: CheckpointStats | None, stats: CheckpointStats) -> CheckpointStats:
    return stats if known is None or stats.checkpoint_id > known.checkpoint_id else known


@dataclass(frozen=True, slots=True)
class RestoredCheckpointStats:
    """The checkpoint that the job was last restored from. Flink: `RestoredCheckpointStats`."""

    checkpoint_id: int
    restored_at_ms: int
    properties: CheckpointProperties
    path: str
    state_size: int


@dataclass(frozen=True, slots=True)
class TaskInitialization:
    """The initialization of one attempt of a task, successful or not."""

    task: str
    attempt: int
    metrics: InitializationMetrics
    epoch: int


@dataclass(frozen=True, slots=True)
class NeverBegun:
    """A checkpoint that failed before there was an id for it."""

    at_ms: int
    kind: str
    failure: str


@dataclass(frozen=True, slots=True)
class CheckpointStatsSnapshot:
    """All statistics at one time; later events do not change it."""

    counts: CheckpointStatsCounts
    checkpoints: tuple[CheckpointStats, ...]
    """The checkpoints, newest first."""
    restored: RestoredCheckpointStats | None
    latest_completed: CheckpointStats | None
    latest_failed: CheckpointStats | None
    latest_savepoint: CheckpointStats | None
    summary: CompletedCheckpointStatsSummary
    initialization: tuple[TaskInitialization, ...] = ()
    """The tasks of the newest epoch that have started, or failed to."""
    never_begun: tuple[NeverBegun, ...] = ()
    """The checkpoints that failed before they had an id, oldest first."""

    def find(self, checkpoint_id: int) -> CheckpointStats:
        """Return the checkpoint with this id. Raises KeyError if it is forgotten."""
        for stats in self.checkpoints:
            if stats.checkpoint_id == checkpoint_id:
                return stats
        known = [stats.checkpoint_id for stats in self.checkpoints]
        raise KeyError(f"no statistics of checkpoint {checkpoint_id}; there are {known}")

    def metrics(self) -> dict[str, int | str]:
        """Return the job's metrics under the names that Flink documents: times in ms, sizes in bytes.

        Values that do not exist yet are -1 and "n/a".
        """
        last, restored = self.latest_completed, self.restored
        return {
            "totalNumberOfCheckpoints": self.counts.total,
            "numberOfInProgressCheckpoints": self.counts.in_progress,
            "numberOfCompletedCheckpoints": self.counts.completed,
            "numberOfFailedCheckpoints": self.counts.failed,
            "lastCheckpointRestoreTimestamp": NOT_YET if restored is None else restored.restored_at_ms,
            "lastCheckpointSize": NOT_YET if last is None else last.checkpointed_size,
            "lastCheckpointFullSize": NOT_YET if last is None else last.state_size,
            "lastCheckpointDuration": NOT_YET if last is None else last.duration_ms,
            "lastCheckpointProcessedData": NOT_YET if last is None else last.processed_data,
            "lastCheckpointPersistedData": NOT_YET if last is None else last.persisted_data,
            "lastCheckpointExternalPath": "n/a" if last is None else last.path,
            "lastCompletedCheckpointId": NOT_YET if last is None else last.checkpoint_id,
            "lastCheckpointCompletedTimestamp": NOT_YET if last is None else last.last_ack_at_ms,
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per checkpoint, newest first.

        Columns: id, kind, status, triggered_at_ms, duration_ms (until the last acknowledgement so far, NA before the
        first; for a failed one until its end), acked, total (subtasks), checkpointed_size, state_size, processed_data,
        persisted_data, metadata_size (bytes), unaligned, discarded, path, failure. A checkpoint that failed before it
        had an id, because the store could not be reached, has the id -1.
        """
        import pandas as pd

        rows = [
            (
                stats.checkpoint_id,
                stats.properties.snapshot_type.name,
                stats.status.name,
                stats.triggered_at_ms,
                pd.NA if stats.duration_ms == NOT_YET else stats.duration_ms,
                *attrgetter(*_FIGURES)(stats),
            )
            for stats in self.checkpoints
        ]
        for each in self.never_begun:
            nothing = (pd.NA, *[0] * 7, False, False, "", each.failure)
            row = (NOT_YET, each.kind, CheckpointStatus.FAILED.name, each.at_ms, *nothing)
            older = (place for place, other in enumerate(rows) if other[3] <= each.at_ms)
            rows.insert(next(older, len(rows)), row)
        return pd.DataFrame(rows, columns=_COLUMNS).astype({"duration_ms": "Int64"})


_FIGURES = (
    "acked",
    "total",
    "checkpointed_size",
    "state_size",
    "processed_data",
    "persisted_data",
    "metadata_size",
    "unaligned",
    "discarded",
    "path",
    "failure",
)
_COLUMNS = ("id", "kind", "status", "triggered_at_ms", "duration_ms", *_FIGURES)


class CheckpointStatsTracker:
    """The recorder of the coordinator's reports; it returns snapshots."""

    def __init__(self, max_history: int = DEFAULT_HISTORY) -> None:
        self.counts = CheckpointStatsCounts()
        self.history = CheckpointStatsHistory(max_history)
        self.restored: RestoredCheckpointStats | None = None
        self.initialization: dict[str, TaskInitialization] = {}
        self.summary = CompletedCheckpointStatsSummary()
        self._snapshot: CheckpointStatsSnapshot | None = None
        self._never_begun: deque[NeverBegun] = deque(maxlen=max_history)

    def begin(
        self, checkpoint_id: int, at_ms: int, properties: CheckpointProperties, parallelism: Mapping[str, int]
    ) -> CheckpointStats:
        """Record a pending checkpoint; `parallelism` gives the subtasks of each vertex (`reportPendingCheckpoint`)."""
        subtasks: dict[str, list[SubtaskStats | None]] = {name: [None] * count for name, count in parallelism.items()}
        stats = CheckpointStats(checkpoint_id, at_ms, properties, subtasks, _changed=self._touch)
        self.counts.begin()
        self.history.add(stats)
        self._touch()
        return stats

    def completed(self, stats: CheckpointStats, at_ms: int, path: str, metadata_size: int) -> None:
        """Record that a pending checkpoint completed (`reportCompletedCheckpoint`)."""
        stats.complete(at_ms, path, metadata_size)
        self.counts.complete()
        self.summary.add(
            end_to_end=stats.duration_ms,
            checkpointed=stats.checkpointed_size,
            full=stats.state_size,
            processed=stats.processed_data,
            persisted=stats.persisted_data,
        )
        self.history.ended(stats)

    def failed(self, stats: CheckpointStats, at_ms: int, failure: str) -> None:
        """Record that a pending checkpoint failed (`reportFailedCheckpoint`)."""
        stats.fail(at_ms, failure)
        self.counts.fail()
        self.history.ended(stats)

    def failed_before_start(self, failed: NeverBegun | None = None) -> None:
        """Record that a checkpoint failed before it was pending (`reportFailedCheckpointsWithoutInProgress`).

        `failed` is listed; None for a request that was only postponed.
        """
        self.counts.fail_before_start()
        if failed is not None:
            self._never_begun.append(failed)
        self._touch()

    def report_incomplete(
        self, checkpoint_id: int, vertex: str, subtask: int, at_ms: int, metrics: CheckpointMetrics
    ) -> None:
        """Record a task's measurements of a checkpoint that is no longer pending (`reportIncompleteStats`)."""
        stats = self.history.find(checkpoint_id)
        if stats is not None and stats.status is not CheckpointStatus.COMPLETED:
            stats.report(vertex, subtask, at_ms, metrics, completed=False)

    def report_restored(self, restored: RestoredCheckpointStats) -> None:
        """Record that the job was restored (`reportRestoredCheckpoint`)."""
        self.counts.restore()
        self.restored = restored
        self._touch()

    def report_initialization(self, task: str, attempt: int, metrics: InitializationMetrics, *, epoch: int) -> None:
        """Record that a task runs, or failed to; earlier epochs are forgotten (`reportInitializationMetrics`)."""
        kept = {name: each for name, each in self.initialization.items() if each.epoch == epoch}
        self.initialization = kept | {task: TaskInitialization(task, attempt, metrics, epoch)}
        self._touch()

    def discarded(self, checkpoint_id: int) -> None:
        """Record that a completed checkpoint's files are being deleted."""
        stats = self.history.find(checkpoint_id)
        if stats is not None:
            stats.mark_discarded()

    def snapshot(self) -> CheckpointStatsSnapshot:
        """Return all current statistics; the same object as long as nothing changes (`createSnapshot`)."""
        if self._snapshot is None:
            checkpoints = tuple(_frozen(stats) for stats in self.history.newest_first())
            frozen = {stats.checkpoint_id: stats for stats in checkpoints}
            latest = (self.history.latest_completed, self.history.latest_failed, self.history.latest_savepoint)
            completed, failed, savepoint = (None if each is None else frozen[each.checkpoint_id] for each in latest)
            begun = tuple(self.initialization.values())
            self._snapshot = CheckpointStatsSnapshot(
                copy(self.counts),
                checkpoints,
                self.restored,
                completed,
                failed,
                savepoint,
                self.summary.copy(),
                begun,
                tuple(self._never_begun),
            )
        return self._snapshot

    def subtasks(self, checkpoint_id: int) -> pd.DataFrame:
        """Return the subtasks of one checkpoint, see `CheckpointStats.to_pandas`. KeyError if it is forgotten."""
        return self.snapshot().find(checkpoint_id).to_pandas()

    def to_pandas(self) -> pd.DataFrame:
        """Return the checkpoints, newest first, see `CheckpointStatsSnapshot.to_pandas`."""
        return self.snapshot().to_pandas()

    def _touch(self) -> None:
        self._snapshot = None

    def _repr_html_(self) -> str:
        return notebook_html("", frame_html(self.to_pandas(), NOTEBOOK_ROWS, all_in=".to_pandas()"))

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"CheckpointStatsTracker({counts.completed} completed, {counts.failed} failed, "
            f"{counts.in_progress} in progress)"
        )


class NoOpCheckpointStatsTracker(CheckpointStatsTracker):
    """A tracker that remembers nothing, for a run without observers. Flink: `NoOpCheckpointStatsTracker`."""

    def begin(
        self, checkpoint_id: int, at_ms: int, properties: CheckpointProperties, parallelism: Mapping[str, int]
    ) -> CheckpointStats:
        """Return the checkpoint's own figures, which live as long as it is pending."""
        return CheckpointStats(checkpoint_id, at_ms, properties, {name: [None] * n for name, n in parallelism.items()})

    def completed(self, stats: CheckpointStats, at_ms: int, path: str, metadata_size: int) -> None:
        """Count nothing."""

    def failed(self, stats: CheckpointStats, at_ms: int, failure: str) -> None:
        """Count nothing."""

    def failed_before_start(self, failed: NeverBegun | None = None) -> None:
        """Count nothing."""

    def report_restored(self, restored: RestoredCheckpointStats) -> None:
        """Count nothing."""

    def report_initialization(self, task: str, attempt: int, metrics: InitializationMetrics, *, epoch: int) -> None:
        """Remember nothing."""


def _frozen(stats: CheckpointStats) -> CheckpointStats:
    same = copy(stats)
    same.subtasks = {vertex: list(reports) for vertex, reports in stats.subtasks.items()}
    same._changed = _nothing
    return same
