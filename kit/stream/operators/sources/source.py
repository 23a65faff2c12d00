"""Sources: the input of a job, divided into splits, each with positions from which it can be read again.

A `Source` is a description that travels with the job. Its host-side half (`enumerate_splits`, `open_reader`,
`read_split`) may access files. The operator in the task never does: it requests reads and receives batches
(`kit.stream.operators.sources.source_operator`). A split is JSON-like and has an `"id"`. A *position* is an int; it is
0 at the beginning of a split, and otherwise defined by the source, here as the number of rows read. Reading again from
a position must return the same rows, or exactly-once is lost.

To write your own source, derive from `Source` and define `schema`, `enumerate_splits` and `read_split` (and
`open_reader`, to keep something open between reads). A source that confirms its progress to an outside system, such as
a message queue, also defines `create_listener`.

An unbounded source says so in one of two ways, or in both. Its splits are `endless` if each may always get more rows; a
reader then takes all its splits and reads them in turn. With `discover_every_ms`, splits are added while the job runs.
A read that returns no rows, the same position and `finished=False` means that the split has no rows now. The reader
then waits for `has_rows` before it reads that split again, and reads the others meanwhile.

`read_split` may block, because long reads run in the background. `has_rows` may be called by another thread while a
split is read, but two reads of one task never overlap.

Follows Flink's `Source`, `SplitEnumerator` and `SourceReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from kit.core.arguments.allowed import Allowed, check_allowed, count, number, or_none
from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.display import described_html

Split = dict[str, Any]

DEFAULT_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Rows read from a split, the position after them, and True in `finished` at the end of the split."""

    batch: pa.RecordBatch | None
    position: int
    finished: bool


class SplitReader(Protocol):
    """A reader of splits that keeps resources open between reads."""

    def read(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Return at most `max_rows` rows of the split, from `position` on."""

    def close(self) -> None:
        """Close files."""


class SourceListener(CheckpointListener):
    """A user-defined object, one for each subtask of a source, that is notified when checkpoints end.

    Follows Flink's `SourceReader`, with `snapshotState` and `notifyCheckpointComplete`.
    """

    def snapshot_state(self, checkpoint_id: int, splits: Sequence[tuple[Split, int]]) -> None:
        """Note the progress of the subtask in this checkpoint: each split with its position.

        `splits` are those that the subtask holds, and those that it has read to the end since the last checkpoint.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """The base class of sources.

    `rows_per_second` limits the rate of each subtask; None means unlimited. `batch_rows` is the number of rows per
    batch. `backlog_splits` is the number of splits, the first ones, that accumulated before the job started. While they
    are read, the checkpoint interval is `CheckpointConfig.interval_during_backlog_ms`.
    """

    rows_per_second: float | None = field(default=None, repr=False)
    batch_rows: int = field(default=DEFAULT_BATCH_ROWS, repr=False)
    backlog_splits: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self._check(
            rows_per_second=or_none(number("a number above 0", lambda found: found > 0), "no limit"),
            batch_rows=count(1),
            backlog_splits=count(0),
        )

    def _check(self, **allowed: Allowed) -> None:
        """Check these settings of the source. Raises SettingError."""
        check_allowed(self, allowed, type(self).__name__)

    def __deepcopy__(self, memo: dict[int, object]) -> Source:
        """Return the source itself, which is immutable."""
        return self

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, {"": repr(self)}, self.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        raise NotImplementedError(f"{type(self).__name__} does not say its schema")

    def enumerate_splits(self) -> list[Split]:
        """Return all splits in reading order; each is JSON-like and has a unique `"id"`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its splits are")

    @property
    def sequences(self) -> int:
        """The number of sequences that the splits belong to; more than one if unknown."""
        return 2 if self.endless else 1

    def sequence_of(self, split: Split) -> str:
        """Return the sequence of a split.

        Within a sequence, event time continues from split to split, in their order. Between two sequences it may start
        again, so a reader reads them side by side (`kit.stream.operators.sources.split_watermarks`). An endless split
        is a sequence of its own.
        """
        return str(split["id"]) if self.endless else ""

    def splits_for(self, parallelism: int) -> list[Split]:
        """Return the splits for this number of subtasks: `enumerate_splits()`, unless the source leaves the number
        open.

        It is called once, when the job first starts. From then on the splits are in its checkpoints, whatever its
        parallelism is later.
        """
        return self.enumerate_splits()

    def check_split(self, split: Split) -> None:
        """Raise ValueError for a split that this source would not make. A checkpoint says what to read, and may come
        from an untrusted place.
        """

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Return at most `max_rows` rows of the split, from `position` on (0 is its beginning)."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to read a split")

    @property
    def endless(self) -> bool:
        """Return True if a split may always get more rows (Flink's `Boundedness.CONTINUOUS_UNBOUNDED`)."""
        return False

    @property
    def poll_every_ms(self) -> int:
        """The time, in ms, between two calls of `has_rows` for a split without rows.

        On Spark it grows while there are none, up to 400 ms, so that a job that waits costs next to nothing.
        """
        return 100

    def has_rows(self, split: Split, position: int) -> bool:
        """Return True if reading the split from `position` on may return rows, or its end. It is called for splits
        whose last read returned none, and should cost much less than a read.
        """
        return True

    @property
    def discover_every_ms(self) -> int | None:
        """The time, in ms, between two calls of `discover_splits` while the job runs; None if splits never change.

        With it, a job ends only when it is stopped.
        """
        return None

    def discover_splits(self) -> list[Split]:
        """Return all present splits. A split with a new `"id"` is added after all others."""
        return self.enumerate_splits()

    @property
    def removes_splits(self) -> bool:
        """Return True if a split that `discover_splits` no longer lists is removed from its reader, with its unread
        rows.
        """
        return False

    def create_listener(self) -> SourceListener | None:
        """Return a listener for one subtask, or None if the source needs no notifications of checkpoints."""
        return None

    def open_reader(self) -> SplitReader:
        """Return a reader for successive reads; by default it calls `read_split`."""
        return _StatelessReader(self.read_split)


class _StatelessReader:
    """A reader that keeps nothing open."""

    def __init__(self, read: Callable[[Split, int, int], ReadResult]) -> None:
        self.read = read

    def close(self) -> None:
        """Do nothing."""
