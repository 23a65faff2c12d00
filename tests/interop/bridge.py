"""A job that Flink starts, the kit continues on Spark, and Flink continues again: part of `make interop`.

The result must be that of one uninterrupted run of Flink. Each hand-over is a savepoint, and the kit stops in the
middle of its rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import kit
from kit.hosts.spark import SparkJob, create_session
from tests.interop.reported import reported
from tests.interop.surgery import KEYS, MADE, ROWS, Totals, made_by_flink, totals_of, without_other_state

PAUSE_S = 0.01


class Slowly(Totals):
    """Adds numbers as SurgeryJob does, slowly enough to be stopped before the last."""

    def process_element(self, row: Any, ctx: Any) -> None:
        """Add a number to the total of its key."""
        time.sleep(PAUSE_S)
        super().process_element(row, ctx)


def on_spark(folder: Path) -> kit.StreamEnvironment:
    """Return the job that continues the totals: its rows start at `ROWS`, where Flink's job stopped."""
    settings = kit.CheckpointConfig(interval_ms=200, directory=str(folder / "kit"))
    env = kit.StreamEnvironment("bridge", parallelism=2, checkpoint=settings)
    rows = [{"key": f"key {number % KEYS}", "n": number} for number in range(ROWS, 2 * ROWS)]
    stream = env.from_source(kit.CollectionSource(rows, batch_rows=1, splits=1), uid="numbers")
    stream.key_by("key").process(Slowly).uid("strings").sink_to(kit.CollectSink("out"), uid="out")
    return env


def continued_on_spark(savepoint: Path, folder: Path) -> tuple[pa.Table, int]:
    """Continue a savepoint on Spark, and stop with another one; return the totals in it, and the rows that it has."""
    spark = create_session(slots=2)
    try:
        with SparkJob(on_spark(folder), spark, restore_path=savepoint) as job:
            job.start()
            while not _rows_read(job.savepoint(folder / "looks")):
                pass
            stopped = job.stop(folder / "stopped")
    finally:
        spark.stop()
    return kit.open_checkpoint(stopped).state("strings", "total"), _rows_read(stopped)


def _rows_read(savepoint: str) -> int:
    checkpoint = kit.open_checkpoint(savepoint)
    (name,) = checkpoint.operator_state.query("operator == 'numbers'")["name"].unique()
    return sum(checkpoint.state("numbers", name)["position"].to_pylist())


def run(folder: Path) -> Iterator[str]:
    """Run the job in three parts and in one; yield everything in which the totals differ."""
    names = ("canonical", "uninterrupted")
    first, whole = made_by_flink(folder, {name: MADE[name] for name in names})
    without_other_state(kit.open_checkpoint(first).edit()).to_kit("strings").write(folder / "to-kit")
    totals, rows = continued_on_spark(folder / "to-kit", folder)
    print(f"bridge: Flink processed {ROWS} rows, the kit on Spark {rows}, Flink {ROWS - rows}")
    edit = kit.open_checkpoint(first).edit().bootstrap("strings", "total", totals)
    edit.set_offsets("numbers", {"1": ROWS + rows}).write(folder / "to-flink")
    job = {**MADE["uninterrupted"], "savepoint": f"file://{folder / 'to-flink'}", "first": str(ROWS + rows)}
    (last,) = made_by_flink(folder, {"continued": job})
    found, wanted = totals_of(last), totals_of(whole)
    yield from (
        f"bridge: {key} is {found.get(key)}, expected {wanted[key]}" for key in wanted if found.get(key) != wanted[key]
    )
    if found.keys() != wanted.keys() or not 0 < rows <= ROWS:
        yield f"bridge: keys {sorted(found)}, expected {sorted(wanted)}, and {rows} rows on Spark"


def main() -> int:
    """Run the job, and print whether the totals are the same."""
    with tempfile.TemporaryDirectory(prefix="bridge-") as folder:
        wrong = list(run(Path(folder)))
    return reported(wrong, "A job went from Flink to the kit on Spark and back")
