"""The faults around a job in the lab that is being stopped, besides a killed worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kit.core.protocol.snapshots import Effect
from kit.core.protocol.stored import StoredCheckpoint
from kit.files.stores.errors import InconsistentStoreError, StoreError
from kit.hosts.lab.lab import Lab
from kit.stream.connectors import CommitError
from tests.machines.restore.in_the_lab import FullDisk


class _Instead:
    """Another object, except for what a subclass does differently the next `times` times."""

    def __init__(self, real: Any, times: int = 1) -> None:
        self._real, self._times = real, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _now(self) -> bool:
        self._times -= 1
        return self._times >= 0


class FailingPublication(_Instead):
    """Output of which the next publication fails: before anything of it is visible, or after all of it is."""

    def __init__(self, real: Any, *, after: bool) -> None:
        super().__init__(real)
        self._after = after

    def commit(self, effects: Iterable[Effect]) -> None:
        effects = list(effects)
        fails = self._now()
        if not fails or self._after:
            self._real.commit(effects)
        if fails:
            raise CommitError("the directory went away")


class FailingStore(_Instead):
    """A store that cannot be reached for the next entry; where that is `unknown`, it may be there all the same."""

    def __init__(self, real: Any, *, unknown: bool, written: bool) -> None:
        super().__init__(real)
        self._unknown, self._written = unknown, written

    def add(self, checkpoint: StoredCheckpoint) -> None:
        fails = self._now()
        if not fails or self._written:
            self._real.add(checkpoint)
        if fails:
            raise (InconsistentStoreError if self._unknown else StoreError)("the connection broke")


def break_publication(lab: Lab, *, after: bool) -> None:
    """Let the next publication of a sink fail."""
    files = lab._world.edge.for_tasks
    files._output = FailingPublication(files._output, after=after)


def break_store(lab: Lab, *, unknown: bool, written: bool) -> None:
    """Let the next entry in the store fail."""
    files = lab._world.edge.for_job
    files._store = FailingStore(files._store, unknown=unknown, written=written)


def break_disk(lab: Lab, part: str) -> None:
    """Let the next file whose path has `part` fail to be written."""
    FullDisk(lab, part, times=1)
