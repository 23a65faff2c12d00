"""The files that one subtask of a sink writes between two barriers.

A file is *in progress* while rows go to it, *pending* once it has ended and until the checkpoint that covers it is
complete, and *finished* when it is published (`kit.stream.connectors.sink`). Most files are small: their rows are held
until the barrier, and staged with the snapshot. A file that outgrows what a subtask may hold is written piece by piece
under a name in the staging directory, which no checkpoint refers to.

Follows Flink's `FileWriter`, `FileWriterBucket` and `InProgressFileWriter`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from kit.stream.connectors.rolling import RollingPolicy, bytes_of

MOST_IN_PROGRESS = 64
"""Files that a subtask writes at once; the host holds each of them open."""


class RowsToWrite(NamedTuple):
    """Rows to append to a file in progress; the first make the file, and after the last it is pending."""

    path: str
    table: pa.Table
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class PendingFile:
    """Rows of one file that has ended: in memory, or written to `path`."""

    bucket: str
    rows: int
    table: pa.Table | None = None
    path: str = ""


@dataclass(slots=True)
class _FileInProgress:
    begun_ms: int
    last_ms: int
    rows: int = 0
    size: int = 0
    path: str = ""
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_rows: int = 0


class PartWriter:
    """Rows of one subtask by bucket, with at most about `policy.held_rows` of them in memory.

    `write` is given rows that are to leave the memory, `new_path` names a file for them. Without a policy every row is
    held until the barrier.
    """

    def __init__(
        self,
        schema: pa.Schema,
        policy: RollingPolicy | None,
        write: Callable[[RowsToWrite], None],
        new_path: Callable[[], str],
    ) -> None:
        self.held_rows = 0
        self._schema = schema
        self._policy = policy
        self._write = write
        self._new_path = new_path
        self._files: dict[str, _FileInProgress] = {}
        self._pending: list[PendingFile] = []

    @property
    def rows(self) -> int:
        """The rows since the last barrier, held or written."""
        return sum(each.rows for each in self._files.values()) + sum(each.rows for each in self._pending)

    def add(self, bucket: str, batch: pa.RecordBatch, now_ms: int) -> None:
        """Take rows."""
        while batch.num_rows:
            file = self._files.setdefault(bucket, _FileInProgress(now_ms, now_ms))
            taken = batch.slice(0, self._fit(file, batch))
            batch = batch.slice(taken.num_rows)
            file.held.append(taken)
            file.held_rows += taken.num_rows
            file.rows += taken.num_rows
            file.last_ms = now_ms
            self.held_rows += taken.num_rows
            if self._policy is None:
                continue
            file.size += bytes_of(taken) if self._policy.max_bytes is not None else 0
            if self._policy.is_full(file.rows, file.size):
                self._end(bucket)
            elif self.held_rows >= self._policy.held_rows:
                self._write_held(max(self._files.values(), key=lambda each: each.held_rows), last=False)
                self._end_beyond(MOST_IN_PROGRESS)

    def _fit(self, file: _FileInProgress, batch: pa.RecordBatch) -> int:
        """Return how many rows to take at once: up to the end of the file, and as many as may be held."""
        if self._policy is None:
            return batch.num_rows
        room = max(1, self._policy.held_rows - self.held_rows)
        return max(1, min(room, self._policy.ends_at(batch.slice(0, room), file.rows, file.size)))

    def take_back(self, bucket: str, table: pa.Table, now_ms: int) -> bool:
        """Put rows of an aborted checkpoint before those of the file in progress; False if some of that are written."""
        file = self._files.get(bucket)
        if file is not None and (file.path or any(each.bucket == bucket for each in self._pending)):
            return False
        later = [] if file is None else file.held
        if file is not None:
            self.held_rows -= file.held_rows
            del self._files[bucket]
        for batch in (*table.to_batches(), *later):
            self.add(bucket, batch, now_ms)
        return True

    def end_due(self, now_ms: int) -> None:
        """End the files whose time has come."""
        for bucket, due_ms in list(self._due()):
            if due_ms <= now_ms:
                self._end(bucket)

    def next_due_ms(self) -> int | None:
        """Return when time ends a file."""
        return min((due_ms for _, due_ms in self._due()), default=None)

    def _due(self) -> Iterator[tuple[str, int]]:
        if self._policy is not None:
            for bucket, file in self._files.items():
                due_ms = self._policy.due_ms(file.begun_ms, file.last_ms)
                if due_ms is not None:
                    yield bucket, due_ms

    def end_all(self) -> list[PendingFile]:
        """End every file at a barrier. Returns what is pending since the last one, in an order that rows decide."""
        for bucket, file in list(self._files.items()):
            if file.path:
                self._end(bucket)
                continue
            self._pending.append(PendingFile(bucket, file.rows, self._take_held(file)))
        self._files = {}
        ended, self._pending = self._pending, []
        return sorted(ended, key=lambda each: each.bucket)

    def written(self, ended: PendingFile) -> PendingFile:
        """Write the rows of an ended file that are in memory."""
        assert ended.table is not None, ended
        path = self._new_path()
        self._write(RowsToWrite(path, ended.table, first=True, last=True))
        return replace(ended, table=None, path=path)

    def _end(self, bucket: str) -> None:
        file = self._files.pop(bucket)
        self._write_held(file, last=True)
        self._pending.append(PendingFile(bucket, file.rows, path=file.path))

    def _end_beyond(self, most: int) -> None:
        written = [bucket for bucket, file in self._files.items() if file.path]
        if len(written) > most:
            self._end(min(written, key=lambda bucket: (self._files[bucket].last_ms, bucket)))

    def _write_held(self, file: _FileInProgress, *, last: bool) -> None:
        first = not file.path
        if first:
            file.path = self._new_path()
        self._write(RowsToWrite(file.path, self._take_held(file), first, last))

    def _take_held(self, file: _FileInProgress) -> pa.Table:
        table = pa.Table.from_batches(file.held, schema=self._schema)
        self.held_rows -= file.held_rows
        file.held, file.held_rows = [], 0
        return table

    def __repr__(self) -> str:
        limit = sys.maxsize if self._policy is None else self._policy.held_rows
        return f"PartWriter({len(self._files)} files in progress, {self.held_rows} rows held of {limit})"
