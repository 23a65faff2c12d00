"""Jobs in the lab that leave checkpoints and savepoints of every kind that this kit takes, on a real disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kit.lab.lab import Lab
from tests.lab.jobs import WAYS, Shape, environment, settle

SETTINGS = {
    "files": {},
    "inline": {"memory_threshold_bytes": 1 << 20},
}


def lab_directories(folder: Path) -> Iterator[Path]:
    """Run each job through checkpoints and savepoints to its end; yield the directory of each `_metadata` left."""
    for way in sorted(WAYS):
        for name, checkpoint in SETTINGS.items():
            lab = Lab(environment(Shape(way, rows=60), **checkpoint, max_retained=3))
            for completed in (1, 2, 3):
                lab.run_until(checkpoint=completed)
                lab.savepoint()
            lab.run_until(lambda lab: len(lab.files.paths("/savepoints")) > 0)
            lab.cancel()
            settle(lab)
            disk = lab.files.export(folder / f"{way}-{name}")
            yield from sorted(path.parent for path in disk.rglob("_metadata"))
