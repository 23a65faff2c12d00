"""Sources: what there is to read, cut into splits, and how a position in a split is found again.

A `Source` is a description that travels with the job. Its host-side half (`enumerate_splits`, `open_reader`,
`read_split`) may touch files; the operator in the task never does, it asks for reads and is handed batches
(`kit.stream.operators.sources.source_operator`). A split is JSON-like and has an `"id"`; a *position* is an int that is
0 at the beginning of a split and otherwise means what its source likes, here the number of rows read. Reading again
from a position gives the same rows again: exactly-once rests on that.

To write a source of your own, derive from `Source` and define `schema`, `enumerate_splits` and `read_split` (and
`open_reader` where something is worth keeping open between reads). One that is to confirm outside how far it has been
read, as to a message queue, also defines `create_listener`.

A source without an end says so in one of two ways, or in both. Its splits are `endless` when each may always get more
rows: a reader takes all splits that are meant for it and reads them in turn. With `discover_every_ms` splits are added
while the job runs. A read that returns no rows, the same position and `finished=False` means that there is nothing now:
the reader waits for `has_rows` before it reads that split again, and reads the others meanwhile.

`read_split` may wait, since reads that take long are done beside the tasks. `has_rows` may be called by another thread
while a split is read; two reads of one task never meet.

Follows Flink's `Source`, `SplitEnumerator` and `SourceReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.display import described_html

Split = dict[str, Any]

DEFAULT_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Rows read from a split, the position after them, and whether the split has no more."""

    batch: pa.RecordBatch | None
    position: int
    finished: bool


class SplitReader(Protocol):
    """Reads splits one after the other, keeping open what it needs between reads."""

    def read(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """At most `max_rows` rows of the split from `position` on."""

    def close(self) -> None:
        """Let go of files."""


class SourceListener(CheckpointListener):
    """A user's object, one for each subtask of a source, that is notified of how checkpoints end.

    Follows Flink's `SourceReader`, with `snapshotState` and `notifyCheckpointComplete`.
    """

    def snapshot_state(self, checkpoint_id: int, splits: Sequence[tuple[Split, int]]) -> None:
        """Note how far the subtask has read when this checkpoint is taken: each split with the position in it.

        `splits` are those that the subtask holds, and those that it has read to the end since the last checkpoint.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """Base of all sources.

    `rows_per_second`: at most this many rows per second in each subtask; None is no limit. `batch_rows`: rows of a
    batch. `backlog_splits`: this many splits, the first ones, are what had piled up before the job began; while they
    are read, checkpoints come at `CheckpointConfig.interval_during_backlog_ms`.
    """

    rows_per_second: float | None = field(default=None, repr=False)
    batch_rows: int = field(default=DEFAULT_BATCH_ROWS, repr=False)
    backlog_splits: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.rows_per_second is not None and not self.rows_per_second > 0:
            raise ValueError(
                f"{type(self).__name__}: rows_per_second is {self.rows_per_second}, but must be above 0, or None"
            )
        if self.backlog_splits < 0:
            raise ValueError(f"{type(self).__name__}: backlog_splits is {self.backlog_splits}, but must be 0 or more")
        if self.batch_rows < 1:
            raise ValueError(f"{type(self).__name__}: batch_rows is {self.batch_rows}, but must be 1 or more")

    def __deepcopy__(self, memo: dict[int, object]) -> Source:
        """Itself: it never changes."""
        return self

    def _repr_html_(self) -> str:
        return described_html(type(self).__name__, {"": repr(self)}, self.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        raise NotImplementedError(f"{type(self).__name__} does not say its schema")

    def enumerate_splits(self) -> list[Split]:
        """All splits in the order in which they are to be read; each is JSON-like and has an `"id"` of its own."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its splits are")

    @property
    def sequences(self) -> int:
        """The number of sequences that the splits belong to; more than one where it is not known."""
        return 2 if self.endless else 1

    def sequence_of(self, split: Split) -> str:
        """Return the sequence of a split: within one, event time goes on from split to split (by their order); between
        two it may begin again, and a reader reads them side by side (`kit.stream.operators.sources.split_watermarks`).
        An endless split is one by itself.
        """
        return str(split["id"]) if self.endless else ""

    def splits_for(self, parallelism: int) -> list[Split]:
        """What this many subtasks are to read: `enumerate_splits()`, unless the source leaves the number open.

        Asked once, when the job begins for the first time: from then on the splits are in its checkpoints, whatever
        its parallelism is later.
        """
        return self.enumerate_splits()

    def check_split(self, split: Split) -> None:
        """Raise ValueError for a split that this source would not make. A checkpoint may come from a stranger, and says
        what is to be read.
        """

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """At most `max_rows` rows of the split from `position` on (0 is its beginning)."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to read a split")

    @property
    def endless(self) -> bool:
        """Return True if a split may always get more rows (Flink's `Boundedness.CONTINUOUS_UNBOUNDED`)."""
        return False

    @property
    def poll_every_ms(self) -> int:
        """The time in ms between two questions whether a split that had no rows has some now."""
        return 100

    def has_rows(self, split: Split, position: int) -> bool:
        """Return True if reading the split from `position` on may give rows, or its end. Asked of splits that had none
        when they were read last; should cost much less than a read.
        """
        return True

    @property
    def discover_every_ms(self) -> int | None:
        """The time in ms between two calls of `discover_splits` while the job runs; None if splits never change.

        With it a job ends only when it is stopped.
        """
        return None

    def discover_splits(self) -> list[Split]:
        """All splits that there are now. A split with a new `"id"` is added, behind all others."""
        return self.enumerate_splits()

    @property
    def removes_splits(self) -> bool:
        """Return True if a split that `discover_splits` no longer lists is taken away from its reader, with the rows
        that are left in it.
        """
        return False

    def create_listener(self) -> SourceListener | None:
        """Return a listener for one subtask, None if the source is not to be notified of checkpoints."""
        return None

    def open_reader(self) -> SplitReader:
        """A reader for many reads in a row; for most sources `read_split` is all there is to it."""
        return _StatelessReader(self.read_split)


class _StatelessReader:
    """A reader that has nothing to keep open."""

    def __init__(self, read: Callable[[Split, int, int], ReadResult]) -> None:
        self.read = read

    def close(self) -> None:
        """Nothing to let go of."""
