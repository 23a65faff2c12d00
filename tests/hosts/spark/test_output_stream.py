"""The files that a streaming query of Spark reads between two offsets if several jobs write to one directory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kit.hosts.spark.frames.output_stream import CommittedStream
from kit.stream.connectors.part_names import PublishedName

COLUMNS = pa.schema([("writer", pa.string()), ("checkpoint", pa.int64())])


def published(directory: Path, *parts: tuple[str, int]) -> None:
    for writer, checkpoint_id in parts:
        for subtask in (0, 1):
            rows = pa.table({"writer": [writer], "checkpoint": [checkpoint_id]}, schema=COLUMNS)
            pq.write_table(rows, directory / str(PublishedName(writer, subtask, checkpoint_id)))


def read(directory: Path, start: dict[str, int], end: dict[str, int]) -> list[tuple[str, int]]:
    stream = CommittedStream(str(directory), COLUMNS)
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    rows = pa.Table.from_batches(batches, COLUMNS).to_pylist()
    return sorted((row["writer"], row["checkpoint"]) for row in rows)


def test_each_job_is_read_from_its_own_start_to_its_own_end(tmp_path: Path) -> None:
    published(tmp_path, ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 4))
    assert read(tmp_path, {}, {"a": 2, "b": 1}) == [("a", 1), ("a", 1), ("a", 2), ("a", 2), ("b", 1), ("b", 1)]
    assert read(tmp_path, {"a": 2}, {"a": 3, "b": 2}) == [("a", 3)] * 2 + [("b", 1)] * 2 + [("b", 2)] * 2
    assert read(tmp_path, {"a": 3, "b": 2}, {"a": 3, "b": 2}) == []


def test_a_job_that_the_end_does_not_know_is_left_to_the_next_batch(tmp_path: Path) -> None:
    """Its rows came after the end was determined: they would be read twice, now and with the next end."""
    published(tmp_path, ("a", 1), ("a", 2), ("b", 1))
    assert read(tmp_path, {"a": 1}, {"a": 2}) == [("a", 2)] * 2
    assert read(tmp_path, {"a": 2}, {"a": 2, "b": 1}) == [("b", 1)] * 2
