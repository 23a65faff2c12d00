"""The durable store in a SQLite database, shared by jobs and drivers, and a database that cannot be used."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kit.files.storage import CheckpointStorage
from kit.files.stores import sqlite
from kit.files.stores.errors import StoreError
from kit.files.stores.opening import open_store
from kit.files.stores.sqlite import SqliteRecords
from kit.files.stores.stores import DurableStore
from tests.files.contract import OpenRecords, StoreContract, begun, ids_given_to_threads, stored

JOB = "0" * 32


class TestSqlite(StoreContract):
    """A database for each test."""

    @pytest.fixture
    def opened(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenRecords:
        monkeypatch.setattr(sqlite, "PATIENCE_S", 2.0)
        return lambda: SqliteRecords(str(tmp_path / "new" / "kit.db"), JOB)


def test_jobs_share_a_database_and_see_their_own_records_only(tmp_path: Path) -> None:
    setting = f"sqlite://{tmp_path}/kit.db"
    one, other = (open_store(setting, CheckpointStorage("/c", job * 32)) for job in "0a")
    for store in (one, other):
        store.begin(recover=False)
    one.add(stored(12))
    assert (one.next_id(), other.next_id()) == (1, 1)
    assert other.checkpoints() == []
    with closing(sqlite3.connect(tmp_path / "kit.db")) as database:
        names = database.execute("SELECT name FROM records WHERE job = ?", (JOB,)).fetchall()
    assert sorted(names) == [
        ("checkpointID",),
        ("checkpoints/0000000000000000012",),
        ("leader",),
        ("run",),
    ]


def test_threads_of_a_driver_never_get_the_same_id(tmp_path: Path) -> None:
    store = begun(SqliteRecords(str(tmp_path / "kit.db"), JOB))
    assert sorted(ids_given_to_threads(store)) == list(range(1, 61))


def test_a_database_that_another_process_holds_can_be_read_and_who_leads_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE_S", 0.05)
    store = begun(SqliteRecords(str(tmp_path / "kit.db"), JOB), driver="process 7 on here")
    store.add(stored(1))
    with closing(sqlite3.connect(tmp_path / "kit.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # as a driver that was frozen within a write
        store.check_leadership()
        assert store.checkpoints() == [stored(1)]
        held = (
            rf"sqlite://{tmp_path}/kit.db: database is locked: .* driver 1 \(process 7 on here\): .* resume or kill it"
        )
        with pytest.raises(StoreError, match=held):
            store.add(stored(2))
        with pytest.raises(StoreError, match=held):
            begun(SqliteRecords(str(tmp_path / "kit.db"), JOB), recover=True)
        other.execute("ROLLBACK")
    store.add(stored(2))
    assert store.checkpoints() == [stored(1), stored(2)]


def test_who_reads_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE_S", 0.05)
    reader, store = (begun(SqliteRecords(str(tmp_path / "kit.db"), job * 32)) for job in "01")

    def write_meanwhile(records: SqliteRecords, database: sqlite3.Connection, name: str) -> bytes | None:
        monkeypatch.undo()
        store.add(stored(1))
        return records._value(database, name)

    monkeypatch.setattr(SqliteRecords, "_value", write_meanwhile)
    assert reader.checkpoints() == []
    assert store.checkpoints() == [stored(1)]


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "kit.db"
    mine.write_text("my notes " * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        DurableStore(SqliteRecords(str(mine), JOB)).begin(recover=True)
    assert mine.read_text() == "my notes " * 100


def test_what_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    records = SqliteRecords(str(tmp_path / "kit.db"), JOB)
    store = begun(records)
    records.write("checkpointID", b"many")
    with pytest.raises(StoreError, match=r"checkpointID in .*, holds b'many', which is no number"):
        store.next_id()
    assert records.read("checkpointID") == b"many"


def test_a_commit_is_on_the_disk_when_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's default in a write-ahead log survives a killed process, and not a loss of power."""
    seen: list[tuple[str, int]] = []

    class Noting(sqlite3.Connection):
        def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
            if statement == "COMMIT":
                ask = super().execute
                (journal,), (synchronous,) = (ask(f"PRAGMA {of}").fetchone() for of in ("journal_mode", "synchronous"))
                seen.append((journal, synchronous))
            return super().execute(statement, *given)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Noting))
    store = begun(SqliteRecords(str(tmp_path / "kit.db"), JOB))
    store.add(stored(1))
    assert len(seen) >= 2
    assert set(seen) == {("wal", 2)}, "2 is FULL: each commit is synced"
