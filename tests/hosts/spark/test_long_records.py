"""Records that are larger than a buffer, between slots that die."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit import CheckpointConfig, ParquetSink, StreamEnvironment
from kit.hosts.spark.job import SparkJob
from tests.hosts.spark.jobs import RESTARTS, ThreadGang, await_checkpoint, generator, read

ROWS = 3_000
BUFFER_BYTES = 1_000


def with_text(row: dict[str, Any]) -> dict[str, Any]:
    """Every seventh record is larger than a buffer, some by far."""
    return row | {"text": f"{row['key']},{row['value']};" * (1 if row["key"] % 7 else row["key"])}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("unaligned", [False, True])
def test_each_is_published_once_and_whole(unaligned: bool, tmp_path: Path) -> None:
    env = StreamEnvironment(
        "long-records",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=50, directory=str(tmp_path / "checkpoints"), unaligned=unaligned),
        restart=RESTARTS,
        buffer_bytes=BUFFER_BYTES,
    )
    columns = {"key": "int64", "value": "int64", "text": "string"}
    rows = env.from_source(generator(ROWS, rows_per_second=6_000), uid="rows")
    texts = rows.map(with_text, returns=columns).uid("texts")
    texts.rebalance().sink_to(ParquetSink(str(tmp_path / "copy")), uid="copy")
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 2)
        ThreadGang.current.kill(1)
        assert job.wait() == "FINISHED"
    copy = read(tmp_path / "copy")
    wanted = generator(ROWS).slice(0, ROWS).to_pylist()
    assert len(copy) == ROWS
    assert sorted(copy["text"]) == sorted(with_text(row)["text"] for row in wanted)
