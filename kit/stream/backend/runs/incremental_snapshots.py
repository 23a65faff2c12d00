"""Incremental snapshots of one keyed backend: the runs of each checkpoint, and those that the next one reuses.

A snapshot builds on the last checkpoint that is known to be complete. It refers to that one's runs, and writes one run
of its own with what has changed since. If the snapshot before it is not known to be complete yet, its rows are written
again. So it is in Flink, where a file is uploaded until a checkpoint with it is complete.

Runs are merged without being read, because all entries are in memory. The new run replaces the youngest ones: it then
has everything that has changed since the run before these. This happens

- when there are as many runs as allowed: of the younger half, and of as many before it as are needed for each
  remaining run to have as many rows as all after it together;
- when the other runs together have more rows than the first: of all, which is a full snapshot.

Follows Flink's `RocksIncrementalSnapshotStrategy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kit.core.protocol.properties import SharingFilesStrategy
from kit.core.state.handles import (
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    PlaceholderStreamStateHandle,
    StreamStateHandle,
)
from kit.stream.backend.keys.changed_rows import Intervals
from kit.stream.backend.runs.manifest import RunEntry


@dataclass(frozen=True, slots=True)
class Run:
    """A run: its name, its rows, the last interval whose changes it has, and its file once it is written."""

    name: str
    rows: int
    last_interval: int
    handle: StreamStateHandle | None = None

    @property
    def entry(self) -> RunEntry:
        """The run in a manifest."""
        return RunEntry(self.name, self.rows)

    def reused(self) -> HandleAndLocalPath:
        """Return the run as a file of an earlier checkpoint."""
        assert self.handle is not None, f"{self.name} is not written yet"
        return HandleAndLocalPath(self.name, PlaceholderStreamStateHandle.of(self.handle))


class IncrementalSnapshots:
    """The runs of the last complete checkpoint, and those of snapshots under way."""

    def __init__(self, most_runs: int) -> None:
        self.backend_identifier = ""
        """The name of the backend that wrote the first of its runs; "" until there is one. Its user gives the name."""
        self.intervals = Intervals()
        self._most_runs = most_runs
        self._complete: tuple[Run, ...] = ()
        self._under_way: dict[int, tuple[Run, ...]] = {}

    def __repr__(self) -> str:
        return f"IncrementalSnapshots({len(self._complete)} runs, {len(self._under_way)} under way)"

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of the last complete checkpoint, oldest first."""
        return self._complete

    @property
    def first_interval(self) -> int:
        """The earliest interval after which a later snapshot may ask what has changed: that of a first run.

        Snapshots under way count too. One that was taken before the last complete one may complete after it.
        """
        chains = [self._complete, *self._under_way.values()]
        return min((runs[0].last_interval for runs in chains if runs), default=self.intervals.now - 1)

    def to_reuse(self, sharing: SharingFilesStrategy) -> tuple[Run, ...]:
        """Return the runs that the next snapshot builds on: none if it must be a full one."""
        if sharing is not SharingFilesStrategy.FORWARD_BACKWARD:
            return ()
        return self._complete[: _kept([run.rows for run in self._complete], self._most_runs)]

    def taken(self, checkpoint_id: int, reused: tuple[Run, ...], name: str, rows: int) -> tuple[Run, ...]:
        """Note a snapshot that builds on `reused`, and end the interval. Return its runs.

        With no `rows` it has no run of its own.
        """
        last = self.intervals.now
        runs = (*reused, Run(name, rows, last)) if rows else reused
        self._under_way[checkpoint_id] = runs
        self.intervals.now = last + 1
        return runs

    def written(self, checkpoint_id: int, handle: IncrementalRemoteKeyedStateHandle) -> None:
        """Note that the run of a snapshot is written."""
        runs = self._under_way.get(checkpoint_id, ())
        files = {part.local_path: part.handle for part in handle.shared_state}
        self._under_way[checkpoint_id] = tuple(
            run if run.handle is not None else replace(run, handle=files[run.name]) for run in runs
        )

    def complete(self, checkpoint_id: int) -> bool:
        """Let later snapshots build on this one. Return False if it was not incremental, such as a savepoint."""
        runs = self._under_way.pop(checkpoint_id, None)
        self._under_way = {number: runs for number, runs in self._under_way.items() if number > checkpoint_id}
        if runs is None:
            return False
        self._complete = runs
        return True

    def aborted(self, checkpoint_id: int) -> None:
        """Forget a snapshot: its files may be gone."""
        self._under_way.pop(checkpoint_id, None)

    def restored(self, key_group_range: KeyGroupRange, parts: Sequence[tuple[Any, Any]]) -> None:
        """Begin the interval after a restore, and build on the restored snapshot if it has the same key groups.

        Each run has ended the interval of its place among the runs. Flink: `RocksDBIncrementalRestoreOperation`, which
        keeps the files of a single handle.
        """
        self.intervals.now += 1
        if len(parts) != 1 or not isinstance(parts[0][0], IncrementalRemoteKeyedStateHandle):
            return
        handle, runs = parts[0]
        if handle.key_group_range == key_group_range:
            self.backend_identifier = handle.backend_identifier
            self._complete = tuple(
                Run(run.entry.name, run.entry.rows, place, run.key_groups.delegate) for place, run in enumerate(runs)
            )

    def restart(self) -> None:
        """Let the next snapshot be a full one: the runs say too little about what has changed."""
        self._complete = ()
        self._under_way.clear()


def _kept(rows: Sequence[int], most_runs: int) -> int:
    """Return how many runs of these sizes the next snapshot builds on."""
    if not rows or sum(rows[1:]) > rows[0]:
        return 0
    if len(rows) < most_runs:
        return len(rows)
    kept = most_runs // 2
    while kept > 1 and rows[kept - 1] < sum(rows[kept:]):
        kept -= 1
    return kept
