"""A job on two hosts that are network namespaces of this machine, and a third one for the driver and Spark's master.

    python -m tests.hosts.spark.on_hosts DIRECTORY        as root, where `ip netns` works

The driver listens on every address and has one of them dialled; slots listen where they reach it from; what goes over
the links is TLS. Then the network cable of a host is pulled, in the middle of the job. Prints a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.hosts.spark import DriverSettings, SparkJob, Tls, WireSettings, create_session
from tests.hosts.spark.cluster import StandaloneCluster, session_settings
from tests.hosts.spark.jobs import await_checkpoint, check_output, generator, totals_job

NETWORK = "10.213.77"
MINE = f"{NETWORK}.1"
MARK = os.getpid() % 10_000
BRIDGE = f"kitb{MARK}"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextmanager
def hosts(count: int) -> Iterator[list[str]]:
    """Yield the names of `count` network namespaces, each with its own address on a bridge; remove them afterwards."""
    names = [f"kith{MARK}-{number}" for number in range(count)]
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", f"{MINE}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for number, name in enumerate(names):
            outside = f"kitv{MARK}n{number}"
            ip("netns", "add", name)
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", outside, "master", BRIDGE, "up")
            ip("-n", name, "addr", "add", f"{address(number)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, stderr=subprocess.DEVNULL)


def address(number: int) -> str:
    return f"{NETWORK}.{number + 2}"


def main() -> int:
    """Run a job over both hosts, pull a cable, compare the output."""
    directory = Path(sys.argv[1])
    wire = WireSettings(
        heartbeat_interval_ms=200, heartbeat_timeout_ms=3_000, unix_sockets=False, tls=Tls.for_this_run()
    )
    settings = DriverSettings(host="0.0.0.0", advertised_host=MINE, start_timeout_s=20.0, wire=wire)
    with hosts(2) as names, StandaloneCluster(directory / "cluster", workers=0, host=MINE) as cluster:
        for number, name in enumerate(names):
            within = ["ip", "netns", "exec", name]
            cluster.workers.append(cluster.start_worker(number, address(number), within))
        spark = create_session("hosts", master=cluster.url, config=session_settings(MINE))
        env = totals_job(directory, generator(rows_per_second=10_000), parallelism=2)
        with SparkJob(env, spark, settings=settings) as job:
            job.start()
            await_checkpoint(job, 2)
            endpoints = sorted(str(each) for each in dialled(job))
            began_s = time.monotonic()
            ip("-n", names[0], "link", "set", "eth0", "down")
            job.wait_until_running(restarts=1, timeout_s=120)
            back_s = time.monotonic() - began_s
            assert job.wait(120) == "FINISHED"
            lost = [record.data["error"] for record in job.trace if record.kind == "SlotLost"]
        check_output(directory)
        sys.stdout.write(json.dumps({"endpoints": endpoints, "back_s": round(back_s, 2), "lost": lost}) + "\n")
        spark.stop()
    return 0


def dialled(job: SparkJob) -> Iterator[object]:
    """Yield the addresses at which the driver and the slots can be reached."""
    yield job._driver.slots.server.endpoint
    for hello in job._driver.slots.hellos().values():
        yield from hello.endpoints


if __name__ == "__main__":
    sys.exit(main())
