"""Jobs in the lab that leave checkpoints and savepoints of every kind that this kit takes, on a real disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from examples.flights.job import flights_job, write_flights
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.settings.job_settings import CheckpointConfig
from tests.hosts.lab.jobs import WAYS, Shape, environment, settle

INLINE_BYTES = 20 * 1024
SETTINGS: dict[str, dict[str, Any]] = {
    "files": {"memory_threshold_bytes": 0},
    "inline": {"memory_threshold_bytes": INLINE_BYTES},
    "unaligned": {"memory_threshold_bytes": 0, "unaligned": True},
    "unaligned-inline": {"memory_threshold_bytes": INLINE_BYTES, "unaligned": True},
}


def lab_directories(folder: Path) -> Iterator[Path]:
    """Run each job through checkpoints and savepoints, then cancel it; yield the directory of each `_metadata` left."""
    for way, env in _jobs(folder):
        lab = Lab(env)
        lab.run_until(record="AllTasksRunning")
        for completed in (1, 2, 3):
            lab.run_until(checkpoint=completed, ended=True)
            if not lab.ended:
                lab.savepoint()
        lab.run_until(lambda lab: len(lab.look.files.paths("/savepoints")) > 0, ended=True)
        if not lab.ended:
            lab.cancel()
        settle(lab)
        disk = lab.look.files.export(folder / way)
        yield from sorted(path.parent for path in disk.rglob("_metadata"))


def _jobs(folder: Path) -> Iterator[tuple[str, StreamEnvironment]]:
    for name, settings in SETTINGS.items():
        for way in sorted(WAYS):
            yield f"{way}-{name}", environment(Shape(way, rows=120), **settings, max_retained=3)
        flights = write_flights(folder / "flights.parquet", rows=6_000, rows_per_split=500)
        retained = CheckpointConfig(
            interval_ms=20, max_retained=3, retention=RetentionPolicy.RETAIN_ON_CANCELLATION, **settings
        )
        yield f"flights-{name}", flights_job(flights, None, checkpoint=retained, batch_rows=200)
