"""A run on Spark that is kept: a worker was killed in the middle of an unaligned checkpoint, with data in flight.

`python -m tests.hosts.spark.saved_run` runs it again and keeps that instead, as after a change of the protocol's words.
"""

from __future__ import annotations

import gzip
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from kit import StreamEnvironment
from kit.core.trace.trace import Trace
from kit.hosts.spark import SparkJob, create_session
from tests.hosts.spark.jobs import IN_MEMORY, await_checkpoint, generator, totals_job, until

SAVED = Path(__file__).parents[2] / "data" / "spark" / "killed-in-mid-checkpoint.recording.gz"
DIRECTORY = Path("/tmp/recorded")
"""What the job names in its trace."""
ROWS = 12_000
WORKER = 1


def job(*, pause_ms: int = 1) -> StreamEnvironment:
    """The job; on Spark it takes its time, so that data is in flight."""
    return totals_job(
        DIRECTORY, generator(ROWS), copy_pause_ms=pause_ms, interval_ms=150, unaligned=True, rolling=IN_MEMORY
    )


def saved() -> Trace:
    """The trace as it was saved."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "run.scenario")
        path.write_bytes(gzip.decompress(SAVED.read_bytes()))
        return Trace.load(path)


def _only_others_acked(run: SparkJob) -> bool:
    """Return True if a pending checkpoint has acknowledgements of other workers' tasks, and none of this worker's."""
    for pending in run.checkpoints().query("status == 'IN_PROGRESS'")["id"]:
        tasks = run.statistics.subtasks(pending)
        acked = tasks[tasks["status"] == "acknowledged"]["subtask"]
        return len(acked) > 0 and WORKER not in set(acked)
    return False


def main() -> None:
    """Run the job on Spark, kill a worker in the middle of a checkpoint, and save the recording.

    Repeat this until exactly that checkpoint failed, and the one before it had data in flight at both ends.
    """
    spark = create_session("recorded", slots=2)
    while True:
        shutil.rmtree(DIRECTORY, ignore_errors=True)
        with SparkJob(job(pause_ms=100), spark, record=True) as run:
            run.start()
            await_checkpoint(run, 1, in_flight=True)
            with suppress(AssertionError):  # it has ended before
                until(lambda: _only_others_acked(run), run)
            with suppress(ValueError):
                run.faults.kill(WORKER)
            run.wait()
        failed = run.checkpoints().query("status == 'FAILED'")
        in_the_middle = len(failed) == 1 and 0 < failed["acked"].iloc[0] < failed["total"].iloc[0]
        if in_the_middle and {"in flight, input", "in flight, output"} <= set(run.look.restores()["kind"]):
            break
    with TemporaryDirectory() as directory:
        path = Path(run.trace.save_recording(Path(directory, "run.recording")))
        SAVED.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    main()
