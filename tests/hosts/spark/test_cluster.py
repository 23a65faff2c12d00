"""A standalone cluster with its master and its workers, and their faults while a job runs: the output is the same.

One process for all (`tests.hosts.spark.on_cluster`), since the session takes longer than the jobs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.hosts.spark.cluster import QUICK_JVM, StandaloneCluster, session_settings
from tests.hosts.spark.on_cluster import FAULTS
from tests.house.files import ROOT

pytestmark = pytest.mark.spark

ALWAYS = ("all_executors_killed", "executor_frozen", "master_restarted")
"""What one cluster goes through before the others: seven JVMs are started for it, so it is in the longer run. The same
deaths on this machine's session are in `make test`.
"""
SAID = {
    "worker_killed": "its process died",
    "executor_killed": "its process died",
    "all_executors_killed": "its process died",
    "executor_frozen": "no heartbeat for",
    "master_restarted": "its process died",
    "spark_worker_killed": "its process died",
    "stage_cancelled": "cancelled",
}
"""What the job was told of the first slot that it lost."""
AT_ONCE = ("executor_killed", "all_executors_killed", "executor_frozen")
"""The next epoch is on slots that work: those of an executor that is dead or frozen are not tried."""


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def suffered(directory: Path, faults: list[str]) -> dict[str, dict[str, object]]:
    """Run a job with each fault, and return the reports by the fault's name."""
    ran = run_module("tests.hosts.spark.on_cluster", str(directory), *faults)
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert [each["fault"] for each in told] == faults, ran.stderr
    return {each["fault"]: each for each in told}


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    return suffered(tmp_path_factory.mktemp("cluster"), list(ALWAYS))


def check(told: dict[str, object]) -> None:
    """Check that the output equals the batch result, and that only the workers hit by the fault were lost."""
    assert told["error"] == ""
    lost = told["lost"]
    assert isinstance(lost, list)
    if told["fault"] in SAID:
        assert SAID[str(told["fault"])] in lost[0]
        assert told["epochs"] == len(lost) + 1
        assert told["epochs"] == 2 or told["fault"] not in AT_ONCE
    else:
        assert (lost, told["epochs"]) == ([], 1)


@pytest.mark.soak
@pytest.mark.parametrize("fault", ALWAYS)
def test_a_job_outlives(always: dict[str, dict[str, object]], fault: str) -> None:
    check(always[fault])


@pytest.mark.soak
def test_a_job_outlives_everything_in_turn(tmp_path: Path) -> None:
    for told in suffered(tmp_path, list(FAULTS)).values():
        check(told)


@pytest.mark.soak
@pytest.mark.skipif(os.getuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and `ip`")
def test_a_job_on_two_hosts_outlives_a_cable_that_is_pulled(tmp_path: Path) -> None:
    """Addresses that are not loopback, bind and advertise apart, TLS between the hosts."""
    ran = run_module("tests.hosts.spark.on_hosts", str(tmp_path))
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("{")] or [ran.stderr]
    told = json.loads(line)
    assert [re.sub(":[0-9]+$", "", each) for each in told["endpoints"]] == [
        f"tcp://10.213.77.{number}" for number in (1, 2, 3)
    ]
    assert "no heartbeat for" in told["lost"][0]


SCRIPT = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
from kit import CheckpointConfig, GeneratorSource, ParquetSink, SparkJob, StreamEnvironment
import by_name

if __name__ == "__main__":
    checkpoint = CheckpointConfig(interval_ms=100, directory=sys.argv[1])
    env = StreamEnvironment("shipped", parallelism=2, checkpoint=checkpoint)
    rows = env.from_source(GeneratorSource(1_000, 10), uid="rows").map(by_name.where_from, {"kit": pa.string()})
    rows.sink_to(ParquetSink(sys.argv[2]), uid="out")
    with SparkJob(env, SparkSession.builder.getOrCreate()) as job:
        job.start().wait()
        print(sorted(set(job.output()["kit"])))
"""
BY_NAME = """
import kit

def where_from(row):
    return {"kit": f"{kit.__file__} and {__file__}"}
"""


@pytest.mark.soak
def test_the_kit_and_a_users_module_reach_executors_as_archives(tmp_path: Path) -> None:
    """`spark-submit --py-files`, from another directory: what is imported on the executors is what was sent."""
    archive = shutil.make_archive(str(tmp_path / "kit"), "zip", ROOT, "kit")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "by_name.py").write_text(BY_NAME)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with StandaloneCluster(tmp_path / "cluster", workers=1) as cluster:
        settings = session_settings() | {"spark.driver.extraJavaOptions": QUICK_JVM}
        for name in ("spark.executorEnv.PYTHONPATH", "spark.python.daemon.module"):
            del settings[name]
        ran = subprocess.run(
            [
                str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
                *("--master", cluster.url, "--py-files", f"{archive},{tmp_path}/by_name.py"),
                *(each for pair in settings.items() for each in ("--conf", "=".join(pair))),
                *(str(tmp_path / name) for name in ("script.py", "checkpoints", "out")),
            ],
            cwd=tmp_path / "cluster",
            env=clean | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": cluster.host},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    found = ran.stdout.splitlines()[-1]
    executor = tmp_path / "cluster" / "worker-0"  # each has a directory below that, in which it works
    assert re.fullmatch(rf"\['\./kit\.zip/kit/__init__\.py and {re.escape(str(executor))}/.*/by_name\.py'\]", found)
