"""One driver in a process of its own, which may die at a chosen moment: `python -m tests.hosts.spark.one_driver
'<json>'`.

It prints, as JSON, how the job ended and what it was restored from. Slots are threads of the process and die with it,
unless `spark` is asked for. With `freeze` it is frozen (SIGSTOP) where it would die, until somebody thaws it. With
`record` the run is recorded below its directory. With `stop` it takes no checkpoint but the savepoint that it stops
with.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kit.files.job_files import JobFiles
from kit.files.storage import CheckpointStorage
from kit.files.stores.sqlite import SqliteRecords
from kit.files.task_files import TaskFiles
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from tests.hosts.spark.jobs import ThreadGang, generator, totals_job

ROWS_PER_SECOND = 30_000


_signal = signal.SIGKILL


def die_at(command: str, moment: str, number: int) -> None:
    """Have this process killed, or frozen, before or after the command is carried out for this number of times."""
    for files in (JobFiles, TaskFiles):
        for kind, carry_out in list(files._HOW.items()):
            if kind.__name__ == command:
                files._HOW[kind] = _deadly(carry_out, moment, number)
    if command == "discard":  # between the files of a checkpoint and its entry in the store
        CheckpointStorage.discard_location = _deadly(  # type: ignore[method-assign]
            CheckpointStorage.discard_location, moment, number
        )


def _deadly(function: Callable[..., Any], moment: str, last: int) -> Callable[..., Any]:
    calls = itertools.count(1)

    def call(*arguments: Any) -> Any:
        number = next(calls)  # one step: slots call at the same time
        if number == last and moment == "before":
            end()
        result = function(*arguments)
        if number == last and moment == "after":
            end()
        return result

    return call


def end() -> None:
    """Die or freeze; not while another thread holds the database, which nobody could open until this process thaws."""
    with _database:
        os.kill(os.getpid(), _signal)
        time.sleep(0.5)  # the signal may reach another thread first: until then this one must not let go


_database = threading.RLock()


@contextmanager
def _opened_alone(self: SqliteRecords) -> Iterator[sqlite3.Connection]:
    with _database, _open(self) as database:
        yield database


_open = SqliteRecords._opened


def main() -> None:
    """Run the job as the argument says."""
    global _signal  # noqa: PLW0603
    options = json.loads(sys.argv[1])
    if options.get("freeze"):
        _signal = signal.SIGSTOP
        SqliteRecords._opened = _opened_alone  # type: ignore[method-assign]
    if options["die"]:
        die_at(*options["die"])
    directory: str = options["directory"]
    stop = options.get("stop")
    env = totals_job(
        directory,
        generator(rows_per_second=options.get("rows_per_second", ROWS_PER_SECOND)),
        store=options["store"],
        max_retained=2,
        **({"interval_ms": None} if stop else {}),
    )
    launch = {} if options["spark"] else {"launch": ThreadGang}
    record = directory if options.get("record") else False
    with SparkJob(env, recover=options["recover"], record=record, **launch) as job:
        try:
            job.start()
        except (JobFailedError, FileExistsError) as refused:
            print(json.dumps({"status": "REFUSED", "error": str(refused)}))
            return
        if options.get("rescale"):
            job.rescale(options["rescale"])
            os.kill(os.getpid(), signal.SIGKILL)
        if stop:
            job._driver.running.wait()
            time.sleep(0.3)  # rows for the savepoint to cover
            job.stop(f"{directory}/savepoints")
        try:
            error = ""
            status = job.wait()
        except JobFailedError as failed:
            status, error = job.status, str(failed)
        restored = sorted(map(int, set(job.look.restores()["checkpoint_id"])))
        widths = [{each.parallelism for each in stage.vertices} for stage in job.look.stages]
    widest = [max(each) for each in widths]
    print(json.dumps({"status": status, "error": error, "restored": restored, "widths": widest}))


if __name__ == "__main__":
    main()
