"""A master hook that keeps an external log in step with a job's checkpoints.

    python -m examples.external_log            runs in the lab, and kills a worker on the way.
    python -m examples.external_log --spark    runs the same job on Spark.

Some state that belongs to a job's checkpoints is outside the job: the position in an external log, a reader group of
another system, an entry in a catalogue. A master hook is called when a checkpoint begins, and returns a value that is
stored with it. After a failure, the hook receives that value again. Here the log is a file of lines. Each checkpoint
adds a line, and the position behind it is the hook's state. When the job is restored from a checkpoint, all later lines
are cut off. So the log has each checkpoint once, however often the job fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kit import CheckpointConfig, CollectionSource, FixedDelay, Lab, ParquetSink, SparkJob, StreamEnvironment, count


class Position:
    """A position in a file as bytes: the serializer of the hook's values."""

    version = 1

    def serialize(self, value: int) -> bytes:
        """Give it as text, which any later version can read."""
        return str(value).encode()

    def deserialize(self, version: int, data: bytes) -> int:
        """Read what `serialize` of this version gave."""
        if version != self.version:
            raise ValueError(f"the position is of version {version}, expected {self.version}")
        return int(data)


class ExternalLog:
    """The hook (a `kit.MasterHook`): one line for each checkpoint, in the file at `path`."""

    identifier = "external-log"
    serializer = Position()

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def _write(self, line: str) -> int:
        with self.path.open("a") as log:
            log.write(f"{line}\n")
            return log.tell()

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> int:
        """A checkpoint begins: write a line; the position behind it goes into the checkpoint."""
        return self._write(f"checkpoint {checkpoint_id}")

    def restore_checkpoint(self, checkpoint_id: int, value: int | None) -> None:
        """Cut off the lines that were written after this checkpoint, from which the job is restored."""
        with self.path.open("r+") as log:
            log.truncate(value or 0)

    def reset(self) -> None:
        """Empty the log, because the job starts without a checkpoint."""
        self.path.write_text("")

    def close(self) -> None:
        """Do nothing: the job has ended."""
        self._write("the job is over")

    def lines(self) -> list[str]:
        """Return the lines of the log."""
        return self.path.read_text().splitlines()


def letters_job(directory: Path, rows: int = 600) -> StreamEnvironment:
    """Letters counted, with a checkpoint every few ms."""
    env = StreamEnvironment(
        "letters",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=50, directory=str(directory / "checkpoints")),
        restart=FixedDelay(3, 100),
    )
    source = CollectionSource([{"letter": "abc"[n % 3]} for n in range(rows)], splits=2, batch_rows=5)
    counts = env.from_source(source, uid="letters").key_by("letter").aggregate(n=count()).uid("counts")
    counts.sink_to(ParquetSink(str(directory / "counts"), mode="overwrite"), uid="out")
    return env


def in_the_lab(directory: Path) -> ExternalLog:
    """Run the job, kill a worker behind the second checkpoint, and run it to its end."""
    log = ExternalLog(directory / "log")
    lab = Lab(letters_job(directory), hooks=[log])
    lab.run_until(checkpoint=2)
    lab.run_until(record="MasterHookTriggered")
    lab.faults.kill(0)  # the line of the checkpoint under way is cut off again
    lab.run()
    return log


def on_spark(directory: Path) -> ExternalLog:
    """Run the job on Spark."""
    log = ExternalLog(directory / "log")
    with SparkJob(letters_job(directory, rows=60_000), hooks=[log]) as job:
        job.start().wait()
    return log


def main(arguments: list[str]) -> None:
    """Run the job and print the log."""
    parser = argparse.ArgumentParser(description="a master hook that keeps an external log")
    parser.add_argument("--spark", action="store_true", help="on Spark instead of in the lab")
    with tempfile.TemporaryDirectory() as directory:
        log = (on_spark if parser.parse_args(arguments).spark else in_the_lab)(Path(directory))
        print("\n".join(log.lines()))


if __name__ == "__main__":
    main(sys.argv[1:])
