"""A script that is interrupted twice, in work of its own, which it minds, and while it waits for its job:
`python -m tests.hosts.spark.interrupted <directory>`.

It says on standard output when it runs, with its workers, that it goes on, and how its job ended, in how many epochs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import await_checkpoint, generator, totals_job


def interrupt_in(*methods: str) -> None:
    """Interrupt this process once its main thread waits in this method of a SparkJob, then in the next one."""
    threading.Thread(target=_interrupt_in, args=methods, daemon=True).start()


def _interrupt_in(*methods: str) -> None:
    for method in methods:
        while not _waits_in(method):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)


def _waits_in(method: str) -> bool:
    main = threading.main_thread().ident
    assert main is not None
    called = [(Path(each.filename).name, each.name) for each in traceback.extract_stack(sys._current_frames()[main])]
    return ("job.py", method) in called and called[-1] == ("threading.py", "wait")


def main() -> None:
    """Run a job and be interrupted, even if the parent process ignores the signal."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    job = SparkJob(totals_job(Path(sys.argv[1]), generator(10**8, rows_per_second=30_000))).start()
    await_checkpoint(job, 1)
    with contextlib.suppress(KeyboardInterrupt):
        print("runs", *job.look.workers().values(), flush=True)
        time.sleep(3600)
    await_checkpoint(job, int(job.checkpoints()["id"].max()) + 20)  # long enough for an epoch to be lost
    try:
        with job:  # the interrupt may come before the wait has begun
            print("goes on", flush=True)
            job.wait()
    finally:
        print(job.status, len(job.look.stages), flush=True)


if __name__ == "__main__":
    main()
