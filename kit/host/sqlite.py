"""Records in a SQLite database: one file on a disk that outlives the driver, for any number of jobs.

A write is durable when it returns, and an update is one transaction that keeps other drivers out meanwhile. Each
operation opens the file anew: there is one for each checkpoint and id, and no connection that could break in between.
The file must be on a local disk; SQLite's locks do not hold on most network file systems. Flink has no such store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from kit.host.storage import CheckpointStorage
from kit.host.store_errors import StoreError
from kit.host.stores import look_up

PATIENCE_S = 10.0
"""How long another process may hold the file."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS records (job TEXT, name TEXT, value BLOB NOT NULL, PRIMARY KEY (job, name)) "
    "WITHOUT ROWID"
)
_READ = "SELECT value FROM records WHERE job = ? AND name = ?"
_WRITE = "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT (job, name) DO UPDATE SET value = excluded.value"


class SqliteRecords:
    """The records of one job in the database file `path`, which is made when it is not there."""

    def __init__(self, path: str, job_id: str) -> None:
        self._path = Path(path)
        self._job_id = job_id

    @classmethod
    def open(cls, address: Mapping[str, str], storage: CheckpointStorage) -> SqliteRecords:
        """The records that `sqlite://<path>` names, for the job of this storage."""
        return cls(address["path"], storage.job_id)

    def read(self, name: str) -> bytes | None:
        """The value of the row."""
        with self._transaction() as database:
            return self._value(database, name)

    def write(self, name: str, data: bytes) -> None:
        """Insert or replace the row; look again when that seems to have failed."""
        try:
            with self._transaction() as database:
                database.execute(_WRITE, (self._job_id, name, data))
        except StoreError as error:
            look_up(self, name, data, error)

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Read and replace the row in one transaction."""
        with self._transaction() as database:
            data = change(self._value(database, name))
            database.execute(_WRITE, (self._job_id, name, data))
        return data

    def remove(self, name: str) -> None:
        """Delete the row."""
        with self._transaction() as database:
            database.execute("DELETE FROM records WHERE job = ? AND name = ?", (self._job_id, name))

    def names(self, below: str) -> list[str]:
        """The names that begin so."""
        prefix = f"{below}/"
        ask = "SELECT substr(name, ?) FROM records WHERE job = ? AND substr(name, 1, ?) = ?"
        with self._transaction() as database:
            return [name for (name,) in database.execute(ask, (len(prefix) + 1, self._job_id, len(prefix), prefix))]

    def close(self) -> None:
        """There is nothing to let go of."""

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, held until the end of the block; what was done there is kept if it ends well."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=PATIENCE_S, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                database.execute(_TABLE)
                yield database
                database.execute("COMMIT")
        except StoreError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self!r}: {error}: can this user write the file, and is there room?") from error

    def _value(self, database: sqlite3.Connection, name: str) -> bytes | None:
        row = database.execute(_READ, (self._job_id, name)).fetchone()
        return None if row is None else bytes(row[0])

    def __repr__(self) -> str:
        return f"sqlite://{self._path}"
