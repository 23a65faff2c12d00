"""Records in a SQLite database: one file on a disk that outlives the driver, for any number of jobs.

A write is durable when it returns, and an update is one transaction that locks out other drivers meanwhile. Reading
locks out nobody and waits for nobody (write-ahead log), so a driver that is frozen while it reads stops no other. Each
operation opens the file again: there is one for each checkpoint and id, and no connection that could break in between.
The file must be on a local disk; SQLite's locks do not work on most network file systems. Flink has no such store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kit.files.stores.errors import LeadershipLostError, StoreError
from kit.files.stores.stores import LEADER, Leader, Records, look_up, lost, only_reads

PATIENCE_S = 10.0
"""The longest wait for another process that holds the file."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS records (job TEXT, name TEXT, value BLOB NOT NULL, PRIMARY KEY (job, name)) "
    "WITHOUT ROWID"
)
_READ = "SELECT value FROM records WHERE job = ? AND name = ?"
_WRITE = "INSERT INTO records VALUES (?, ?, ?) ON CONFLICT (job, name) DO UPDATE SET value = excluded.value"


class SqliteRecords(Records):
    """The records of one job in the database file `path`, which is created if it does not exist."""

    def __init__(self, path: str, job_id: str) -> None:
        self._path = Path(path)
        self._job_id = job_id
        self._token: int | None = None

    def lead(self, driver: str) -> None:
        """Replace the leader's row, with the next token."""
        self._token = None
        with self._transaction() as database:
            found = self._leader(database)
            leader = Leader(1 if found is None else found.token + 1, driver)
            database.execute(_WRITE, (self._job_id, LEADER, leader.encode()))
        self._token = leader.token

    def leader(self) -> Leader | None:
        with self._opened() as database:
            return self._leader(database)

    def read(self, name: str) -> bytes | None:
        with self._reading() as database:
            return self._value(database, name)

    def write(self, name: str, data: bytes) -> None:
        """Insert or replace the row; read it again if that seems to have failed."""
        self._check_leads()
        try:
            with self._transaction() as database:
                database.execute(_WRITE, (self._job_id, name, data))
        except LeadershipLostError:
            raise
        except StoreError as error:
            look_up(self, name, data, error)

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Read and replace the row in one transaction."""
        self._check_leads()
        with self._transaction() as database:
            data = change(self._value(database, name))
            database.execute(_WRITE, (self._job_id, name, data))
        return data

    def remove(self, name: str) -> None:
        self._check_leads()
        with self._transaction() as database:
            database.execute("DELETE FROM records WHERE job = ? AND name = ?", (self._job_id, name))

    def names(self, below: str) -> list[str]:
        prefix = f"{below}/"
        ask = "SELECT substr(name, ?) FROM records WHERE job = ? AND substr(name, 1, ?) = ?"
        with self._reading() as database:
            return [name for (name,) in database.execute(ask, (len(prefix) + 1, self._job_id, len(prefix), prefix))]

    def _check_leads(self) -> None:
        if self._token is None:
            raise only_reads(self)

    def _leader(self, database: sqlite3.Connection) -> Leader | None:
        data = self._value(database, LEADER)
        return None if data is None else Leader.decode(data)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the database and lock it until the end of the block; changes are kept if it succeeds.

        Raises LeadershipLostError if this driver led and another one leads now.
        """
        with self._opened() as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise  # of the disk
                raise StoreError(
                    f"{self!r}: {error}: for {PATIENCE_S:g} s another process has held it. The job was led last by "
                    f"{self._leader(database) or 'no driver'}: if that process is frozen, resume or kill it"
                ) from error
            self._check_led(database)
            yield database
            database.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Open the database for a consistent read.

        Raises LeadershipLostError if this driver led and another one leads now.
        """
        with self._opened() as database:
            database.execute("BEGIN")
            self._check_led(database)
            yield database

    def _check_led(self, database: sqlite3.Connection) -> None:
        if self._token is not None:
            leader = self._leader(database)
            if leader is None or leader.token != self._token:
                raise lost(self, leader)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=PATIENCE_S, isolation_level=None)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
                database.execute(_TABLE)
                yield database
        except StoreError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self!r}: {error}: can this user write the file, and is there room?") from error

    def _value(self, database: sqlite3.Connection, name: str) -> bytes | None:
        row = database.execute(_READ, (self._job_id, name)).fetchone()
        return None if row is None else bytes(row[0])

    def __repr__(self) -> str:
        return f"sqlite://{self._path}"
