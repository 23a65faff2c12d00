"""Several JobMasters on one store: whatever the order of their steps, each row is published once and nothing is left.

A driver that takes no step is frozen, and thawed with its next step. Drivers are hosts that carry out one command at a
time, on one disk, so every step of one may come between any two of another.
"""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, StreamEnvironment, sum_
from kit.core.protocol.events import StartJob
from kit.files.job_files import JobFiles
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.stores.file_records import FileRecords
from kit.files.stores.stores import DurableStore
from kit.filesystems.memory import MemoryFiles
from kit.machines.job.status import JobStatus
from kit.stream.graph.job_graph import JobGraph
from tests.files.third_host import ThirdHost

ROWS = [{"letter": "abc"[n % 3], "n": n} for n in range(20)]
MOST_DRIVERS = 4
REFUSALS = ("has taken over this job", "is run by driver", "start with recover=True")

BURSTS = st.lists(st.tuples(st.integers(0, MOST_DRIVERS - 1), st.integers(1, 80)), max_size=40)
"""A driver by its number, started if it is the next one, and how many steps it takes before the next burst."""


def job() -> JobGraph:
    """Totals by letter beside a copy of every row."""
    env = StreamEnvironment(
        "two",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=30, directory="/checkpoints", store="filesystem"),
        restart=FixedDelay(attempts=3, delay_ms=5),
    )
    rows = env.from_source(CollectionSource(ROWS, batch_rows=1), uid="rows")
    totals = rows.key_by("letter").aggregate(total=sum_("n"), emit="final").uid("totals")
    totals.sink_to(CollectSink("totals"), uid="totals-out")
    rows.rebalance().sink_to(CollectSink("copy"), uid="copy-out")
    return env.job_graph()


class Drivers:
    """Drivers of one job on one disk, of which the first starts the job and the others recover it."""

    def __init__(self) -> None:
        self.files, self.output = MemoryFiles(), MemoryOutput()
        self.hosts: list[ThirdHost] = []

    def start(self) -> ThirdHost:
        """Start another driver; it takes no step yet."""
        graph = job()
        host = ThirdHost(graph, self.files, self.output)
        store = DurableStore(FileRecords(self.storage(graph)))
        name = f"number {len(self.hosts) + 1}"
        host.for_job = JobFiles(graph, self.storage(graph), MasterHooks(), store, self.output, name)
        host.tell(StartJob(recover=bool(self.hosts)))
        self.hosts.append(host)
        return host

    def storage(self, graph: JobGraph) -> CheckpointStorage:
        """The job's checkpoints on the disk that all share."""
        return CheckpointStorage("/checkpoints", graph.job_id, None, 0, self.files.filesystem)

    def burst(self, number: int, steps: int) -> None:
        """Let a driver take some steps; the next one starts if it is not there."""
        host = self.hosts[number] if number < len(self.hosts) else self.start()
        for _ in range(steps):
            if not over(host):
                host.now += 1
                host.step()

    def to_the_end(self, chance: random.Random) -> None:
        """Thaw all; when none has finished the job, another driver does."""
        while under_way := [number for number, host in enumerate(self.hosts) if not over(host)]:
            self.burst(chance.choice(under_way), chance.randint(1, 30))
        if JobStatus.FINISHED not in {host.status for host in self.hosts}:
            self.start().run()


def over(host: ThirdHost) -> bool:
    """Return True if a driver has ended and done all its work."""
    return host.status.is_terminal and not host.queue and not host.work


@given(BURSTS, st.randoms(use_true_random=False))
def test_each_row_is_published_once_however_drivers_are_frozen_and_thawed(
    bursts: list[tuple[int, int]], chance: random.Random
) -> None:
    drivers = Drivers()
    drivers.start()
    for number, steps in bursts:
        drivers.burst(number, steps)
    drivers.to_the_end(chance)
    for host in drivers.hosts:
        if host.status is not JobStatus.FINISHED:
            assert any(words in host.master.error for words in REFUSALS), host.master.error
    assert JobStatus.FINISHED in {host.status for host in drivers.hosts}
    copied = drivers.output.read("copy")
    assert Counter(zip(copied["letter"], copied["n"], strict=True)) == Counter((r["letter"], r["n"]) for r in ROWS)
    totals = drivers.output.read("totals")
    assert dict(zip(totals["letter"], totals["total"], strict=True)) == {
        letter: sum(row["n"] for row in ROWS if row["letter"] == letter) for letter in "abc"
    }
    assert len(totals) == 3
    assert drivers.output.staged == {}
    left = [path for path in drivers.files.paths("/checkpoints") if "/store/" not in path]
    assert left == []
