"""Records in flight: cut out of the buffers of channels, whether they span buffers, or are with both sides."""

from __future__ import annotations

import json

import pytest

import kit
from kit import CheckpointError
from kit.draw.views.checkpoints.snapshot_contents import snapshot_contents
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.snapshots.checkpoints import Checkpoint
from kit.snapshots.values import rows_in_flight
from tests.flink_data import checkpoint_cases, checkpoints
from tests.snapshots.flink_types import savepoints

RECORD = "Tuple2<Long, String>"
UNALIGNED = [each for each in checkpoint_cases() if each[1].startswith("unaligned")]
SPLITS = {"1": 0, "2": 1000}
"""The first number of each split of the source in `InFlightRecords.java`."""


def opened() -> Checkpoint:
    return kit.open_checkpoint(savepoints() / "in-flight")


def text(number: int) -> str:
    return "".join("€" if place % 10 == 9 else chr(97 + (number + place) % 26) for place in range(7919 * number % 9000))


def test_what_was_emitted_and_not_processed_is_in_flight_once() -> None:
    checkpoint = opened()
    splits = checkpoint.state("numbers", "SourceReaderState").to_pylist()
    emitted = {number for each in splits for number in range(SPLITS[each["split"]], each["next"])}
    processed = set(checkpoint.state("slow", "processed")["value"].to_pylist())
    rows = [row for uid in ("numbers", "slow") for row in checkpoint.in_flight(uid, RECORD).to_pylist()]
    assert {row["element"] for row in rows} == {"record", "watermark"}
    records = [row for row in rows if row["element"] == "record"]
    assert sorted(row["record"]["f0"] for row in records) == sorted(emitted - processed)
    for row in records:
        assert row["record"]["f1"] == text(row["record"]["f0"])
        assert row["time_ms"] == row["record"]["f0"]
    assert {row["side"] for row in records} == {"input", "output"}


def test_records_go_on_where_the_sender_had_not_sent_them() -> None:
    received = opened().channel_state.query("operator == 'slow'").set_index(["subtask", "channel"])["bytes"]
    longer = [
        row
        for row in opened().in_flight("slow", RECORD).to_pylist()
        if row["element"] == "record" and len(row["record"]["f1"].encode()) > received[row["subtask"], row["channel"]]
    ]
    assert longer


@pytest.mark.parametrize(("version", "case"), UNALIGNED)
def test_all_in_flight_data_of_every_version_are_whole_records(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(checkpoints(version) / case)
    found = 0
    for operator in checkpoint.channel_state["operator"].unique():
        table = checkpoint.in_flight(operator, RECORD)
        assert set(table["element"].to_pylist()) <= {"record"}
        for record in table["record"].to_pylist():
            assert record["f1"].startswith(f"v{record['f0']}")
        found += table.num_rows
    assert found > 100


def test_without_their_type_records_are_bytes() -> None:
    for row in opened().in_flight("slow").to_pylist():
        if row["element"] == "record":
            assert int.from_bytes(row["record"][:8], "big") == row["time_ms"]


def test_the_type_may_be_that_of_a_state() -> None:
    checkpoint = kit.open_checkpoint(savepoints() / "in-flight")
    with pytest.raises(CheckpointError, match="the end of a record of Long"):
        checkpoint.in_flight("slow", ("slow", "processed"))
    with pytest.raises(KeyError, match="no state 'sum'"):
        checkpoint.in_flight("slow", ("slow", "sum"))


@pytest.mark.parametrize(
    "name", ["Tuple2<Long>", "Money", "List<Long, Long>", "Tuple2<Long, String", "", "Long Long", "?"]
)
def test_an_unknown_type_is_named(name: str) -> None:
    with pytest.raises(CheckpointError, match="known are"):
        opened().in_flight("slow", name)


def test_rows_in_flight_in_a_checkpoint_of_the_kit() -> None:
    lab = Lab(ready_job("keyed-sum", interval_ms=20, rows=60, unaligned=True), seed=1)
    lab.run_until(checkpoint=2)
    (path,) = [each for each in lab.look.files.paths() if each.endswith("/chk-2/_metadata")]
    checkpoint = kit.open_checkpoint(path, file_system=lab.look.files.filesystem)
    wanted = rows_in_flight(snapshot_contents(lab, 2).values)
    found = [row for each in checkpoint.operators["operator"] for row in checkpoint.in_flight(each).to_pylist()]
    assert wanted
    assert sorted(json.dumps(row["record"]) for row in found if row["element"] == "record") == sorted(
        row["record"] for row in wanted if row["record"].startswith("{")
    )
