"""A script that is interrupted while it waits: `python -m tests.spark.interrupted <directory>`.

It says on standard output when it runs, with its workers, and how its job ended, in how many epochs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kit.spark import SparkJob
from tests.spark.jobs import await_checkpoint, generator, totals_job


def main() -> None:
    """Run, and be interrupted."""
    job = SparkJob(totals_job(Path(sys.argv[1]), generator(10**8, rows_per_second=30_000))).start()
    await_checkpoint(job, 1)
    print("runs", *job.workers().values(), flush=True)
    try:
        job.wait()
    finally:
        print(job.status, len(job.stages), flush=True)


if __name__ == "__main__":
    main()
