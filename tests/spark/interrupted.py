"""A script that is interrupted twice, in work of its own, which it minds, and while it waits for its job:
`python -m tests.spark.interrupted <directory>`.

It says on standard output when it runs, with its workers, that it goes on, and how its job ended, in how many epochs.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

from kit.spark import SparkJob
from tests.spark.jobs import await_checkpoint, generator, totals_job


def main() -> None:
    """Run, and be interrupted, even where whoever started this ignores that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    job = SparkJob(totals_job(Path(sys.argv[1]), generator(10**8, rows_per_second=30_000))).start()
    await_checkpoint(job, 1)
    with contextlib.suppress(KeyboardInterrupt):
        print("runs", *job.workers().values(), flush=True)
        time.sleep(3600)
    await_checkpoint(job, int(job.checkpoints()["id"].max()) + 20)  # long enough for an epoch to be lost
    try:
        with job:  # the interrupt may come before the wait has begun
            print("goes on", flush=True)
            job.wait()
    finally:
        print(job.status, len(job.stages), flush=True)


if __name__ == "__main__":
    main()
