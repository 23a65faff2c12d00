"""The state of sinks in a checkpoint: FileSink's part files in Flink's savepoints, KafkaSink's items made by hand."""

from __future__ import annotations

import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.snapshots.checkpoints.versioned_items import COMMITTER_STATE, WRITER_STATE, decoded_items
from tests.interop.restoring import SAVED
from tests.snapshots.written import collected, item, utf


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> kit.Checkpoint:
    rows = [json.loads(line) for line in (SAVED / "cases.jsonl").read_text().splitlines()]
    name = next(row["before"] for row in rows if row["case"] == "file sink rescaled")
    folder: Path = tmp_path_factory.mktemp("savepoint")
    with tarfile.open(SAVED / "savepoints.tar.xz") as archive:
        archive.extractall(folder, [each for each in archive if each.name.startswith(f"{name}/")], filter="data")
    return kit.open_checkpoint(folder / name)


def test_part_files_that_wait_for_their_commit_have_names(savepoint: kit.Checkpoint) -> None:
    rows = savepoint.state("Sink Committer: out", COMMITTER_STATE).to_pylist()
    assert {row["of_subtask"] for row in rows} == {0, 1}
    for row in rows:
        assert row["checkpoint_id"] == savepoint.checkpoint_id
        assert row["commit_state"] == "received"
        assert row["path"].startswith("file:")
        assert row["path"].removeprefix("file:") == row["target"]
        assert row["temporary"].rpartition("/")[2].startswith("." + row["target"].rpartition("/")[2] + ".inprogress")
        assert row["written_bytes"] == row["file_bytes"] > 0
        assert row["target"].rpartition("/")[0].endswith(row["bucket"])


def test_a_writers_buckets_have_names(savepoint: kit.Checkpoint) -> None:
    rows = savepoint.state("out", WRITER_STATE).to_pylist()
    assert len(rows) == 2
    for row in rows:
        assert row["bucket"]
        assert row["bucket_path"].endswith("/" + row["bucket"])
        assert (row["path"], row["created_ms"]) == (None, None), "each part file is complete when the barrier comes"


def test_transactions_of_kafka_that_wait_for_their_commit_have_names() -> None:
    kafka = [item(struct.pack(">hq", epoch, 4000 + epoch) + utf(f"orders-0-{epoch}")) for epoch in (0, 3)]
    assert decoded_items(COMMITTER_STATE, collected(*kafka)) == [
        {
            "checkpoint_id": 7,
            "of_subtask": 1,
            "commit_state": "retry",
            "retries": 2,
            "transactional_id": f"orders-0-{epoch}",
            "producer_id": 4000 + epoch,
            "epoch": epoch,
        }
        for epoch in (0, 3)
    ]


def test_items_of_other_sinks_keep_their_bytes() -> None:
    (found,) = decoded_items(COMMITTER_STATE, collected(item(b"\xff\xfe", version=9))) or [{}]
    assert (found["committable_version"], found["committable"]) == (9, b"\xff\xfe")


TRANSACTIONS = struct.pack(">i", 1) + utf("orders-0-9") + struct.pack(">q", 9)


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (utf("orders"), {"transactional_id_prefix": "orders"}),
        (utf("orders") + TRANSACTIONS, {"transactional_id": "orders-0-9", "checkpoint_id": 9}),
        (
            utf("orders") + struct.pack(">iii", 2, 4, 1) + TRANSACTIONS,
            {"of_subtask": 2, "of_subtasks": 4, "ownership": "explicit by writer state", "checkpoint_id": 9},
        ),
    ],
    ids=["a prefix", "with transactions", "with their owner"],
)
def test_a_kafka_writers_transactions_have_names(held: bytes, told: dict[str, Any]) -> None:
    (found,) = decoded_items(WRITER_STATE, item(held)) or [{}]
    assert told.items() <= found.items()


def test_an_open_part_file_has_a_name_and_the_time_when_it_was_begun() -> None:
    local = b"/out/part-0/out/.part-0.inprogress"
    recoverable = struct.pack("<IqII", 0x1E744B57, 55, 11, len(local) - 11) + local
    part = item(struct.pack(">I?", 0xB3A4073D, True) + utf("file:/out/part-0") + item(recoverable), version=2)
    name = item(struct.pack("<i", 4) + "täg".encode())
    held = struct.pack(">I", 0x1E764B79) + name + utf("file:/out") + struct.pack(">q?", 1_700_000, True) + part
    (found,) = decoded_items(WRITER_STATE, item(held, version=3)) or [{}]
    assert found == {
        "bucket": "täg",
        "bucket_path": "file:/out",
        "created_ms": 1_700_000,
        "path": "file:/out/part-0",
        "target": "/out/part-0",
        "temporary": "/out/.part-0.inprogress",
        "written_bytes": 55,
    }


def test_damaged_items_are_no_items() -> None:
    whole = collected(item(struct.pack(">hq", 1, 2) + utf("t")))
    for cut in range(8, len(whole)):
        assert decoded_items(COMMITTER_STATE, whole[:cut]) is None
