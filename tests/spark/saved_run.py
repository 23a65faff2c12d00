"""A run on Spark that is kept: a worker was killed in the middle of an unaligned checkpoint, with data in flight.

`python -m tests.spark.saved_run` runs it again and keeps that instead, as after a change of the protocol's words.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

from kit import StreamEnvironment
from kit.protocol.trace import Trace
from tests.spark.jobs import await_checkpoint, generator, totals_job, until

SAVED = Path(__file__).parents[1] / "data" / "spark" / "killed-in-mid-checkpoint.play.gz"
DIRECTORY = Path("/tmp/recorded")
"""What the job names in its trace."""
ROWS = 12_000
WORKER = 1


def job(*, pause_ms: int = 1) -> StreamEnvironment:
    """The job; on Spark it takes its time, so that data is in flight."""
    return totals_job(DIRECTORY, generator(ROWS), copy_pause_ms=pause_ms, interval_ms=150, unaligned=True)


def saved() -> Trace:
    """The trace as it was saved."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "run.play")
        path.write_bytes(gzip.decompress(SAVED.read_bytes()))
        return Trace.load(path)


def main() -> None:
    """Run the job on Spark, kill a worker while a checkpoint is under way, and save the recording."""
    from kit.spark import SparkJob, create_session

    with SparkJob(job(pause_ms=40), create_session("recorded", slots=2), record=True) as run:
        run.start()
        await_checkpoint(run, 1, in_flight=True)
        until(lambda: bool((run.checkpoints().query("status == 'IN_PROGRESS'")["acked"] > 0).any()), run)
        run.kill_worker(WORKER)
        run.wait()
        with TemporaryDirectory() as directory:
            path = Path(run.trace.save_play(Path(directory, "run.play")))
            SAVED.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    main()
