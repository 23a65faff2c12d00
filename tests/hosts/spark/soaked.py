"""The process that drives the soak's jobs, one after another: `python -m tests.hosts.spark.soaked MASTER DIRECTORY`.

It starts Java, reports that it is ready, and waits for a line: so one can stand by while another runs. It may be killed
at any time; the next one resumes the job that it finds. One job of four needs slots of both machines, and three of
four are back-pressured and take unaligned checkpoints, so that rows are in flight. After each job the process prints a
line of JSON and waits for a line; meanwhile, the soak measures the resources of all processes.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from kit import FixedDelay, StreamEnvironment
from kit.hosts.spark import DriverSettings, SparkJob, create_session
from kit.hosts.spark.session import QUIET
from tests.hosts.spark.cluster import session_settings
from tests.hosts.spark.jobs import check_output, generator, staged, totals_job

ROWS, ROWS_PER_SECOND = 60_000, 10_000
GO_ON, STOP = "go on\n", "stop\n"
SETTINGS = DriverSettings(start_timeout_s=180.0)
"""A machine that is busy takes long to start executors, and one of them may be killed meanwhile."""
STORE = "filesystem"
IGNORED = ("AcknowledgeIgnored", "DeclineIgnored", "MetricsIgnored")
"""What tasks said of a checkpoint that had ended: late messages, of which nothing must come."""


def soaked_job(place: Path, number: int) -> StreamEnvironment:
    """Return the job of this number, for its first driver or one that takes over."""
    modes: tuple[dict[str, Any], ...] = ({"max_concurrent": 2}, {"unaligned": True, "copy_pause_ms": 60})
    return totals_job(
        place,
        generator(ROWS, ROWS_PER_SECOND),
        parallelism=3 if number % 4 == 3 else 2,
        interval_ms=300,
        timeout_ms=600,
        store=STORE,
        tolerable_failures=1_000,
        memory_threshold_bytes=0,
        restart=FixedDelay(attempts=1_000_000, delay_ms=100),
        incremental=number % 2 == 1,
        state_memory_mb=0.005 if number % 3 else None,  # for some 80 of 250 keys
        **modes[number % 4 > 0],
    )


def begun(job: SparkJob) -> dict[str, int]:
    """Return the checkpoint from which a job of another driver was resumed, and its bytes in flight."""
    while not job.ended and job.look.restores().empty:
        time.sleep(0.02)
    restores = job.look.restores()
    first = restores[restores["epoch"] == 1]
    in_flight = first["kind"].str.startswith("in flight")
    checkpoint_id = 0 if first.empty else int(first["checkpoint_id"].max())
    return {"checkpoint": checkpoint_id, "in_flight": int(first.loc[in_flight, "bytes"].sum())}


def told(job: SparkJob) -> dict[str, Any]:
    """Return the last driver's report on a job."""
    records = Counter(record.kind for record in job.trace)
    return {
        "epochs": len(job.look.stages),
        "checkpoints": Counter(job.checkpoints()["status"]),
        "late": {kind: records[kind] for kind in IGNORED if records[kind]},
    }


def say(**what: Any) -> None:
    """A line of JSON."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run a job for each line of input; a job of another driver is resumed."""
    master, directory = sys.argv[1], Path(sys.argv[2])
    # Java alone: a session would take slots, which the driver that is at work wants back when a machine was lost.
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(QUIET.items())))
    say(ready=os.getpid())
    while sys.stdin.readline() == GO_ON:
        spark = create_session("soak", master=master, config=session_settings())
        number = len(list(directory.glob("job-*/done")))
        place = directory / f"job-{number}"
        taken_over = (place / "began").exists()
        place.mkdir(exist_ok=True)
        (place / "began").touch()
        with SparkJob(soaked_job(place, number), spark, recover=taken_over, settings=SETTINGS) as job:
            job.start()
            if taken_over:
                say(taken_over=number, **begun(job))
            assert job.wait() == "FINISHED"
        check_output(place, ROWS)
        assert staged(place) == []
        line = told(job)
        for name in ("copy", "totals", "checkpoints"):
            shutil.rmtree(place / name)
        (place / "done").touch()
        del job
        gc.collect()
        say(done=number, **line)
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


if __name__ == "__main__":
    main()
