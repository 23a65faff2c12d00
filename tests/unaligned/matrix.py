"""Flink's matrix of unaligned rescales, and how a row of it is played in the lab.

The rows are those of `UnalignedCheckpointRescaleITCase.getScaleFactors`: topology, parallelism before and after, and
whether the sources are slow, so that little is in flight (`sourceSleepMs` > 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.core.metadata import read_metadata
from kit.machines.job.status import JobStatus
from kit.stream.graph.partitioners import PartitionerKind
from tests.unaligned.driver import EVERYTHING, Driver
from tests.unaligned.in_flight import RecordsInFlight, records_in_flight
from tests.unaligned.jobs import Plan

_ROWS = """
    CUSTOM_PARTITIONER            3-2
    KEYED_DIFFERENT_PARALLELISM   12-7 7-12 5-3s 3-5s
    KEYED_BROADCAST               7-2 2-7 5-3s 3-5s
    BROADCAST                     5-2 2-5 5-3s 3-5s
    PIPELINE                      1-2 2-3 3-7 4-8 20-21 3-5s 2-1 3-2 7-3 8-4 21-20 5-3s 1-1 3-3 7-7 20-20
    UNION                         1-2 2-3 3-7 3-5s 2-1 3-2 7-3 5-3s 1-1 7-7
    MULTI_INPUT                   1-2 2-3 3-7 3-5s 2-1 3-2 7-3 5-3s 1-1 7-7
"""


@dataclass(frozen=True)
class Rescale:
    """One row."""

    topology: str
    old: int
    new: int
    slow_source: bool

    @property
    def queues(self) -> frozenset[PartitionerKind]:
        """The edges where barriers may overtake queued records; edges with a user-defined partitioner stay aligned."""
        if self.topology == "CUSTOM_PARTITIONER":
            return frozenset()
        return frozenset(
            {PartitionerKind.HASH} if self.slow_source else {PartitionerKind.HASH, PartitionerKind.REBALANCE}
        )

    @property
    def weight(self) -> int:
        """The amount of work, roughly proportional to the number of channels."""
        pipelines = {"UNION": 3, "MULTI_INPUT": 3, "KEYED_DIFFERENT_PARALLELISM": 2}.get(self.topology, 1)
        return pipelines * (self.old + self.new) ** 2

    def __str__(self) -> str:
        return f"{self.topology}-{self.old}-{self.new}{'-slow' if self.slow_source else ''}"


def _rows() -> list[Rescale]:
    rows = []
    for line in _ROWS.split("\n"):
        topology, *cases = line.split() or [""]
        for case in cases:
            old, new = case.removesuffix("s").split("-")
            rows.append(Rescale(topology, int(old), int(new), case.endswith("s")))
    return rows


MATRIX = _rows()

LAST = ("verified", "sink")
"""The task before which records queue up."""
Tasks = tuple[str, ...]
"""How their names begin."""


def rescale_in_lab(row: Rescale, mode: str, seed: int = 1) -> tuple[Driver, Driver, str]:
    """Play a row: fill the channels, take a checkpoint, cancel, and resume at the other parallelism; one worker dies in
    each run. Gives both runs and the checkpoint between them; everything has been checked.
    """
    plan = Plan(topology=row.topology, parallelism=row.old, splits=row.old, rows=4, batch_rows=1, credits=1, mode=mode)
    before = Driver(plan, seed, burst=EVERYTHING, slow=("source",) if row.slow_source else ())
    last: Tasks = () if row.slow_source else LAST
    fill(before, 1, last)
    checkpoint(before, last)
    before.kill(row.old - 1)
    held = (*last, *receivers(before, PartitionerKind.HASH))
    fill(before, 2, last)
    fill(before, 3, held)
    path = checkpoint(before, held)
    before.cancel()
    after = before.rescaled(row.new, path)
    start(after)
    after.lab.trigger_checkpoint()
    for _ in range(20):
        after.turn()
    after.kill(row.new - 1)
    after.run()
    after.check_finished()
    return before, after, path


def start(driver: Driver) -> None:
    """Go on until all tasks run."""
    master = driver.lab.look.master
    driver.run_until(lambda: master.status is JobStatus.RUNNING and master.epoch > 0 and master.tasks.all_running)


def recover(driver: Driver) -> None:
    """Process all in-flight data without reading more; a checkpoint before that is declined."""
    driver.held = _holding(driver, 0, ())
    start(driver)
    driver.run_until(lambda: False, or_rest=True)


def receivers(driver: Driver, kind: PartitionerKind) -> Tasks:
    """The tasks that edges of this kind lead to."""
    vertices = driver.lab.job.vertices
    return tuple(f"{each.name}/" for each in vertices if any(edge.partitioner is kind for edge in each.inputs))


def fill(driver: Driver, rows: int, held: Tasks = LAST, *, more: bool = False) -> None:
    """Go on until every reader has come so far in a split, or so much further than any is if it is to be `more`, and
    nothing more can move without these tasks.
    """
    driver.held = _holding(driver, 0, ())
    start(driver)
    sources = [task for task in driver.lab._world.tasks if task.startswith("source")]
    driver.held = _holding(driver, rows + (max(_rows_read(driver, task) for task in sources) if more else 0), held)
    if held:
        driver.run_until(lambda: False, or_rest=True)
    else:
        driver.run_until(lambda: all(map(driver.held, sources)))


def checkpoint(driver: Driver, held: Tasks = LAST) -> str:
    """Take a checkpoint, with these tasks at rest as long as that is possible: where barriers cannot overtake, they
    must work off what is in their way.
    """
    driver.held = _holding(driver, 0, held)
    driver.relents = True
    request = driver.lab.trigger_checkpoint()
    driver.run_until(lambda: driver.lab.look.answer(request) is not None)
    driver.held, driver.relents = (lambda task: False), False
    path = driver.lab.look.answer(request)
    assert path is not None
    return path


def _holding(driver: Driver, rows: int, held: Tasks) -> Callable[[str], bool]:
    return lambda task: task.startswith(held) or (task.startswith("source") and _rows_read(driver, task) >= rows)


def in_flight(driver: Driver, path: str) -> RecordsInFlight:
    """The records in flight that a checkpoint holds."""
    contents = driver.lab.look.files.contents
    metadata, _ = read_metadata(contents[f"{path}/_metadata"], path)
    return records_in_flight(metadata, driver.lab.job, contents.__getitem__)


def _rows_read(driver: Driver, task: str) -> int:
    source = driver.lab._world.tasks[task].chain.head
    return source._held.first.position if source._held.first else -1
