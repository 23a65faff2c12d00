"""Records as files beside the checkpoints: `<base>/<job id>/store/leader-3-<driver>/checkpoints/<id>`, and so on.

The number is the fencing token, and the driver's name follows it, escaped. A driver takes over by renaming the
directory: `leader-3-<one>` becomes `leader-4-<other>`, in one step and for one driver only. So there is no moment at
which a driver leads and others cannot read its name. A record is written outside the directory and renamed into it, so
a pending write of the previous driver fails because its directory is gone. There is no lock that a frozen driver could
leave behind. The directory `store` appears together with the first `leader-1-<driver>` in it: if it exists, a driver
leads.

Works on any file system that holds the checkpoints and renames a directory in one step. An object store does not, and
keeps the records in one object instead (`kit.files.stores.object_records`). Flink has no such records beside its
checkpoints; see `FileSystemJobResultStore`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote, unquote

from kit.core.state.errors import StorageError
from kit.files.storage import CheckpointLocation, CheckpointStorage
from kit.files.stores.errors import LeadershipLostError, StoreError
from kit.files.stores.stores import CHECKPOINTS, Leader, Records, look_up, lost, only_reads

_DIRECTORY = re.compile(r"leader-(\d+)(?:-(.+))?")
_UNFINISHED = re.compile(r"\.leader-(\d+)-.*\.part")
_UNFINISHED_STORE = re.compile(r"\.store-.*\.part")
T = TypeVar("T")
_TRIES = 1_000
"""Attempts while other drivers take over; a directory that is being renamed may not be listed at all."""


class FileRecords(Records):
    """Records as files in `store/leader-<token>-<driver>/` of the job's checkpoint directory.

    `led` is the leadership that this driver has taken; None while it only reads.
    """

    def __init__(self, storage: CheckpointStorage, led: Leader | None = None) -> None:
        self._storage = storage
        self._led = led

    def lead(self, driver: str) -> None:
        """Rename the directory to the next token and this driver's name, or create the first."""
        for _ in range(_TRIES):
            found = self.leader()
            leader = Leader(1 if found is None else found.token + 1, driver)
            try:
                if found is None:
                    self._found(leader)
                else:
                    self._storage.move(self._directory(found), self._directory(leader))
            except StorageError as error:
                if self.leader() == found:
                    raise StoreError(str(error)) from error
                continue  # another driver was faster
            self._led = leader
            self._sync_names(self._directory(leader))
            self._remove_unfinished(leader)
            return
        raise StoreError(f"{self!r} cannot be taken over: other drivers took it over {_TRIES} times meanwhile")

    def _found(self, leader: Leader) -> None:
        """Create the directory of the first leader together with `store`, in one step."""
        self._storage.make_job_directory()
        prepared = f"{self._storage.job_directory}/.store-{_file_safe(leader.driver)}.part"  # as in _UNFINISHED_STORE
        with suppress(StorageError):  # left by a driver of this name in a power failure
            self._storage.dispose_on_failure(CheckpointLocation(prepared))
        try:
            self._storage.make_new_directory(prepared)
            self._storage.make_new_directory(f"{prepared}/{_name(leader)}")
            self._storage.move(prepared, self._root)
        except StorageError:
            with suppress(StorageError):
                self._storage.dispose_on_failure(CheckpointLocation(prepared))
            raise

    def _sync_names(self, directory: str) -> None:
        """Wait until the names of all records are on the disk: the last driver may have died before it synced them.

        This driver relies on what it reads, and deletes and publishes accordingly.
        """
        try:
            for each in (directory, f"{directory}/{CHECKPOINTS}"):
                self._storage.sync_names(each)
        except StorageError as error:
            raise StoreError(str(error)) from error

    def _remove_unfinished(self, leader: Leader) -> None:
        """Delete what drivers were writing when they died; one that is only frozen can no longer rename it."""
        with suppress(StorageError):  # they do no harm
            self._storage.discard(
                f"{self._root}/{name}"
                for name in self._storage.names(self._root)
                if (found := _UNFINISHED.fullmatch(name)) and int(found[1]) < leader.token
            )
            for name in filter(_UNFINISHED_STORE.fullmatch, self._storage.names(self._storage.job_directory)):
                self._storage.dispose_on_failure(CheckpointLocation(f"{self._storage.job_directory}/{name}"))

    def leader(self) -> Leader | None:
        """Return the driver in the name of the newest directory, None if no driver ever led."""
        try:
            for _ in range(_TRIES):
                found = [each for name in self._storage.names(self._root) if (each := _DIRECTORY.fullmatch(name))]
                if found:
                    newest = max(found, key=lambda each: int(each[1]))
                    return Leader(int(newest[1]), unquote(newest[2] or ""))
                if not self._storage.exists(self._root):
                    return None
        except OSError as error:
            raise StoreError(str(error)) from error
        raise StoreError(f"{self._root} has no directory leader-<number>: it was removed; remove {self._root} as well")

    def read(self, name: str) -> bytes | None:
        def content(directory: str) -> bytes | None:
            path = f"{directory}/{name}"
            return self._storage.read(path).to_pybytes() if self._storage.exists(path) else None

        return self._in_own_directory(content, None)

    def write(self, name: str, data: bytes) -> None:
        """Write the file, which appears completely or not at all; read it again if the write seems to have failed."""
        leader = self._leadership()
        directory = self._directory(leader)
        if "/" in name:
            with suppress(StorageError):  # it exists, or the driver no longer leads: the rename will show which
                self._storage.make_new_directory(f"{directory}/{name.rpartition('/')[0]}")
        try:
            self._storage.replace(
                f"{self._root}/.leader-{leader.token}-{name.replace('/', '-')}.part",  # as in _UNFINISHED
                f"{directory}/{name}",
                data,
            )
        except StorageError as error:
            self._check(directory)
            look_up(self, name, data, StoreError(str(error)))

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Read and write; no other driver changes what is in this driver's directory."""
        data = change(self.read(name))
        self.write(name, data)
        return data

    def remove(self, name: str) -> None:
        directory = self._directory(self._leadership())
        self._storage.discard([f"{directory}/{name}"])
        self._check(directory)

    def names(self, below: str) -> list[str]:
        return self._in_own_directory(lambda directory: self._storage.names(f"{directory}/{below}"), [])

    def copy(self, storage: CheckpointStorage) -> FileRecords:
        """Return the records of the same driver in a copy of the files."""
        return FileRecords(storage, self._led)

    @property
    def _root(self) -> str:
        return f"{self._storage.job_directory}/store"

    def _directory(self, leader: Leader) -> str:
        return f"{self._root}/{_name(leader)}"

    def _in_own_directory(self, look: Callable[[str], T], nothing: T) -> T:
        """Read in this driver's directory; a driver that only reads uses the newest, and retries if it was renamed."""
        for _ in range(_TRIES):
            leader = self._led or self.leader()
            if leader is None:
                return nothing
            try:
                found = look(self._directory(leader))
            except OSError as error:
                self._check(self._directory(leader))
                if self._led is not None or self.leader() == leader:
                    raise StoreError(str(error)) from error
                continue
            self._check(self._directory(leader))
            if self._led is not None or self.leader() == leader:
                return found
        raise StoreError(f"{self!r} cannot be read: drivers took it over {_TRIES} times meanwhile")

    def _leadership(self) -> Leader:
        if self._led is None:
            raise only_reads(self)
        return self._led

    def _check(self, directory: str) -> None:
        """Raise LeadershipLostError if this driver led, and its directory is gone."""
        if self._led is None or self._storage.exists(directory):
            return
        try:
            newest = self.leader()
        except StoreError:
            newest = None
        if newest is None:
            raise LeadershipLostError(
                f"{self!r} was removed while this driver led the job. Another driver may have led since, so this one "
                "stops and publishes nothing more. Start the job again from a checkpoint or savepoint that is left, "
                "with restore_path; do not remove the checkpoint directory of a job that runs"
            )
        raise lost(self, newest)

    def __repr__(self) -> str:
        return self._root


def _name(leader: Leader) -> str:
    return f"leader-{leader.token}" + (f"-{_file_safe(leader.driver)}" if leader.driver else "")


def _file_safe(name: str) -> str:
    """Return a name with all characters escaped that are special in paths."""
    return quote(name, safe="").replace(".", "%2E")
