"""A session with a job that reads a DataFrame, attacked by another user while it runs: a process of its own.

    python -m tests.hosts.spark.attacked_session <directory> <settings of the session, as JSON>

With "spark.authenticate": "false" among the settings, it is a session as a user builds it without the kit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from kit import CheckpointConfig, ParquetSink, StreamEnvironment
from kit.hosts.spark import DriverSettings, SparkJob, Tls, WireSettings, create_session
from tests.hosts.spark import other_user
from tests.hosts.spark.jobs import generator

FUNCTION, ROWS = "a-function-of-the-users", "a-row-of-the-users"
"""What the loot is searched for, besides the secret and the key."""


def attack(directory: str, settings: dict[str, str]) -> dict[str, object]:
    since_s = time.time() - 1
    spark = create_session(slots=2, config=settings)
    rows = spark.createDataFrame(pd.DataFrame({"n": range(2_000), "text": [f"{ROWS}-{n}" for n in range(2_000)]}))
    exchanged = rows.repartition(2).cache()
    exchanged.count()
    env = StreamEnvironment(
        "attacked", parallelism=2, checkpoint=CheckpointConfig(interval_ms=50, directory=f"{directory}/checkpoints")
    )
    slow = env.from_source(generator(rows_per_second=500), uid="rows").filter(lambda row: row["key"] != FUNCTION)
    slow.sink_to(ParquetSink(f"{directory}/out"), uid="out")
    tls = Tls.for_this_run()
    with SparkJob(env, spark, settings=DriverSettings(wire=WireSettings(tls=tls))) as job:
        job.start().wait_until_running()
        secret = job._driver.slots.secret
        wanted = {"secret": secret, "key": tls.key[40:100], "function": FUNCTION.encode(), "rows": f"{ROWS}-7".encode()}
        told = {
            "victim": os.getpid(),
            "since_s": since_s,
            "places": [directory, tempfile.gettempdir(), "/tmp"],
            "wanted": {name: value.hex() for name, value in wanted.items()},
        }
        came = subprocess.run(
            [sys.executable, other_user.__file__], input=json.dumps(told), stdout=subprocess.PIPE, text=True, check=True
        )
        assert job.status == "RUNNING", job
    spark.stop()
    return dict(json.loads(came.stdout))


if __name__ == "__main__":
    directory = sys.argv[1]
    tempfile.tempdir = str(Path(directory, "temporary"))
    print(json.dumps(attack(directory, json.loads(sys.argv[2]))))
