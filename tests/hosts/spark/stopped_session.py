"""Jobs whose Spark session is stopped while they run: a process of its own, because it has one session at a time.

    python -m tests.hosts.spark.stopped_session <directory> <what each job does then: "runs" or "restarts"> ...

It prints what the user sees of each, resumes the job in another session and checks its output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from kit import FixedDelay
from kit.hosts.spark import SparkJob, create_session
from tests.hosts.spark.cluster import descendants
from tests.hosts.spark.jobs import LASTING, await_checkpoint, check_output, totals_job

LONG = FixedDelay(attempts=50, delay_ms=60_000)


def stop_under(directory: Path, moment: str) -> dict[str, object]:
    spark = create_session(slots=2)
    job = SparkJob(totals_job(directory, LASTING, restart=LONG), spark).start()
    await_checkpoint(job, 2)
    workers = [str(pid) for pid in job.look.workers().values()]
    if moment == "restarts":
        job.faults.kill(1)
        while job.status != "RESTARTING":
            time.sleep(0.01)
    spark.stop()
    ended = job._driver.wait(60)
    seen: dict[str, object] = {"ended": ended, "cancelled": job.cancel(), "status": job.status, "error": job.error}
    seen["workers"] = [pid for pid in workers if Path("/proc", pid).exists()]
    seen["python"] = [
        pid
        for pid in descendants(os.getpid())
        if b"java" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        and b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    seen["running"] = "RUNNING" in repr(job)
    job.close()
    checkpoints = sorted(Path(directory, "checkpoints").glob("*/chk-*"), key=lambda path: int(path.name[4:]))
    again = create_session(slots=2)
    with SparkJob(totals_job(directory), again, restore_path=checkpoints[-1]) as rest:
        seen["rest"] = rest.start().wait()
    check_output(directory)
    again.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps({moment: stop_under(Path(sys.argv[1], moment), moment) for moment in sys.argv[2:]}))
