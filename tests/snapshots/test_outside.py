"""The logs, brokers and files around a job, as a restore would find them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kit
from kit.cli.planning import app
from kit.restore_check import Effect, Finding, Severity
from kit.snapshots.checkpoints import Outside
from tests.snapshots.written import collected, item, lists, utf

JOB = {"orders": 1, "sink": 1}


def split(partition: int, offset: int, topic: str = "orders") -> bytes:
    return item(utf(topic) + struct.pack(">iqq", partition, offset, -(1 << 63)))


@pytest.fixture
def savepoint(tmp_path: Path) -> kit.Checkpoint:
    transactions = [item(struct.pack(">hq", 0, 7) + utf(f"tx-{n}")) for n in range(5)]
    states = {
        ("orders", "SourceReaderState"): [split(0, 100), split(1, 40), split(2, -2)],
        ("sink", "streaming_committer_raw_states"): [collected(*transactions)],
    }
    return kit.open_checkpoint(lists(tmp_path / "savepoint", states))


def told(savepoint: kit.Checkpoint, outside: Outside, operator: str) -> list[Finding]:
    return [each for each in savepoint.check(JOB, outside=outside).findings if each.operator == operator]


def test_without_knowledge_positions_and_transactions_are_listed(savepoint: kit.Checkpoint) -> None:
    check = savepoint.check(JOB)
    assert check.restores
    found = {each.operator: each for each in check.findings}
    assert "topic 'orders' again from 3 positions" in found["orders"].found
    assert "5 transactions wait for their commit: tx-0, tx-1, tx-2 and 2 more." in found["sink"].found
    assert {found["orders"].effect, found["sink"].effect} == {Effect.NONE}


def test_positions_that_the_log_still_has_are_exactly_once(savepoint: kit.Checkpoint) -> None:
    retained = {"orders": {0: (50, 130), 1: (40, 41), 2: (0, 9)}}
    (found,) = told(savepoint, Outside(retained), "orders")
    assert (found.severity, found.effect) == (Severity.TELLS, Effect.EXACTLY_ONCE)
    assert "all 3 positions; 31 rows behind them" in found.found


@pytest.mark.parametrize(
    ("of_zero", "said"),
    [
        ((120, 200), "the 20 rows from offset 100 on are no longer in the log"),
        ((0, 99), "offset 100 is beyond the log's end at 99"),
        (None, "the partition does not exist"),
    ],
)
def test_positions_that_the_log_lost_are_lost_rows(
    savepoint: kit.Checkpoint, of_zero: tuple[int, int] | None, said: str
) -> None:
    (found,) = told(savepoint, Outside(lambda _, n: of_zero if n == 0 else (0, 1000)), "orders")
    assert (found.severity, found.effect) == (Severity.WARNS, Effect.LOST)
    assert said in found.found
    assert "partition 0" in found.found


def test_each_position_of_each_topic_is_looked_up(tmp_path: Path) -> None:
    """Two topics have all, one has lost two partitions of four, and one source reads files as well."""
    orders = [split(0, 100), split(1, 40), split(2, -2)]
    bills = [split(0, 10, "bills"), split(1, 20, "bills"), split(2, 30, "bills"), split(3, 40, "bills")]
    refunds = [split(0, 7, "refunds"), split(1, -1, "refunds")]
    states = {("orders", "SourceReaderState"): [*orders, *bills, *refunds]}
    savepoint = kit.open_checkpoint(lists(tmp_path / "savepoint", states))
    unknown = told(savepoint, Outside(), "orders")
    assert [each.found.partition(".")[0] for each in unknown] == [
        "It reads topic 'orders' again from 3 positions",
        "It reads topic 'bills' again from 4 positions",
        "It reads topic 'refunds' again from 2 positions",
    ]
    retained = {
        "orders": {0: (50, 130), 1: (40, 41), 2: (0, 9)},
        "bills": {"0": (10, 10), 1: (0, 15), 2: (31, 99), 3: (0, 44)},
        "refunds": {0: (0, 7), 1: (0, 50)},
    }
    found = told(savepoint, Outside(retained), "orders")
    assert [(each.severity, each.effect) for each in found] == [
        *[(Severity.WARNS, Effect.LOST)] * 2,
        *[(Severity.TELLS, Effect.EXACTLY_ONCE)] * 2,
    ]
    beyond, early, of_orders, of_refunds = (each.found for each in found)
    assert beyond == "Topic 'bills', partition 1: offset 20 is beyond the log's end at 15: it was cut off or recreated."
    assert early == "Topic 'bills', partition 2: the 1 rows from offset 30 on are no longer in the log."
    assert "'orders': the log still has all 3 positions; 31 rows behind them" in of_orders
    assert "'refunds': the log still has all 2 positions; 0 rows behind them" in of_refunds


def test_transactions_that_the_broker_has_aborted_are_lost(savepoint: kit.Checkpoint) -> None:
    (found,) = told(savepoint, Outside(transaction_timeout_ms=900_000, age_ms=900_000), "sink")
    assert found.effect is Effect.LOST
    assert "their rows are gone" in found.found
    (found,) = told(savepoint, Outside(transaction_timeout_ms=900_000, age_ms=600_000), "sink")
    assert found.effect is Effect.EXACTLY_ONCE
    assert "A restore within 5 min" in found.found


def part_file(name: str) -> bytes:
    """A part file of 5 bytes that waits for its commit as `/out/<name>`."""
    local = f"/out/{name}/out/.{name}".encode()
    recoverable = item(struct.pack("<IqII", 0x1E744B57, 5, len(name) + 5, len(local) - len(name) - 5) + local)
    pending = struct.pack(">I?", 0x2C853C89, True) + utf(f"file:/out/{name}") + struct.pack(">q", 5) + recoverable
    return item(struct.pack(">I", 0x1E765C80) + utf("day") + b"\1" + item(pending, version=2) + b"\0\0", version=2)


def test_part_files_that_are_gone_are_lost(tmp_path: Path) -> None:
    names = [f"part-{n}" for n in range(6)]
    states = {("sink", "streaming_committer_raw_states"): [collected(*map(part_file, names))]}
    savepoint = kit.open_checkpoint(lists(tmp_path / "savepoint", states))
    published, temporary = [f"/out/{name}" for name in names], [f"/out/.{name}" for name in names]
    for there in (published, temporary, [*published[:3], *temporary[3:]]):
        check = savepoint.check({"sink": 1}, outside=Outside(exists=there.__contains__))
        (found,) = [each for each in check.findings if each.operator == "sink"]
        assert found.effect is Effect.EXACTLY_ONCE, there
        assert found.found.startswith("6 part files, 30 B, wait for their commit.")
    for there, gone in (
        ([*published[:1], *temporary[2:4], *published[5:]], ["part-1", "part-4"]),
        ([], ["part-0", "part-1", "part-2"]),
    ):
        check = savepoint.check({"sink": 1}, outside=Outside(exists=there.__contains__))
        lost = [each for each in check.findings if each.operator == "sink"]
        assert {each.effect for each in lost} == {Effect.LOST}
        assert [each.found.split()[3].rpartition("/")[2] for each in lost] == gone, "the first three are named"


def file_split(name: str, offset: int) -> bytes:
    def text(value: str | None) -> bytes:
        return b"\0" if value is None else b"\1" + bytes([len(value) + 1]) + value.encode()

    path = b"\1" + text("file") + text(None) + text(None) + struct.pack(">i", -1) + text(f"/in/{name}")
    rest = struct.pack(">qqqqi?qq", 0, 900, 1_000, 900, 0, True, offset, 3)
    return item(utf(f"split-{name}") + path + text(None) + text(None) + rest)


def test_files_of_a_source_that_are_gone_are_lost(tmp_path: Path) -> None:
    states = {("files", "SourceReaderState"): [file_split("a", 100), file_split("b", 0)]}
    more = {("files", "SourceReaderState"): [file_split(name, 0) for name in "abcdef"]}
    many = kit.open_checkpoint(lists(tmp_path / "many", more))
    for left, named in (("bdef", "ac"), ("e", "abc")):
        there = {f"file:/in/{name}" for name in left}
        gone = many.check({"files": 1}, outside=Outside(exists=there.__contains__)).findings
        assert [each.found.split()[2] for each in gone if each.effect is Effect.LOST] == [
            f"file:/in/{n}" for n in named
        ]
    savepoint = kit.open_checkpoint(lists(tmp_path / "savepoint", states))
    assert savepoint.state("files", "SourceReaderState")["path"].to_pylist() == ["file:/in/a", "file:/in/b"]
    for there, effect, said in (
        ({"file:/in/a", "file:/in/b"}, Effect.EXACTLY_ONCE, "all 2 splits are there"),
        ({"file:/in/b"}, Effect.LOST, "file:/in/a is missing"),
    ):
        check = savepoint.check({"files": 1}, outside=Outside(exists=there.__contains__))
        (found,) = [each for each in check.findings if each.operator == "files"]
        assert found.effect is effect
        assert said in found.found
    found_in_shell = CliRunner().invoke(app, ["check", savepoint.directory, "--uid", "files=1", "--files"])
    assert "file:/in/a is missing" in found_in_shell.stdout


def test_offsets_of_another_form_are_refused(savepoint: kit.Checkpoint) -> None:
    with pytest.raises(ValueError, match="expected \\(first offset, end offset\\)"):
        savepoint.check(JOB, outside=Outside({"orders": {0: (9, 3)}}))


def test_the_shell_takes_offsets_from_a_file(savepoint: kit.Checkpoint, tmp_path: Path) -> None:
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"orders": {"0": [120, 200], "1": [0, 50], "2": [0, 9]}}))
    arguments = ["check", savepoint.directory, "--uid", "orders=1", "--uid", "sink=1", "--retained", str(offsets)]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 3, "it would restore, and rows are lost"
    assert "the 20 rows from offset 100 on are no longer in the log" in found.stdout
