"""Flink's matrix of unaligned rescales, and how a row of it is played in the lab.

The rows are those of `UnalignedCheckpointRescaleITCase.getScaleFactors`: topology, parallelism before and after, and
whether the sources are slow, so that little is in flight (`sourceSleepMs` > 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.job.status import JobStatus
from kit.metadata import read_metadata
from tests.unaligned.driver import EVERYTHING, Driver
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
    def queues(self) -> bool:
        """Whether records queue up where barriers may overtake them: an edge of one's own partitioner stays aligned."""
        return not self.slow_source and self.topology != "CUSTOM_PARTITIONER"

    @property
    def weight(self) -> int:
        """How much there is to do, roughly as channels go."""
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


def rescale_in_lab(row: Rescale, mode: str, seed: int = 1) -> tuple[Driver, Driver, str]:
    """Play a row: fill the channels, take a checkpoint, cancel, and go on at the other parallelism; one worker dies in
    each run. Gives both runs and the checkpoint between them; everything has been checked.
    """
    rows = 4 if row.old < 10 else 2
    plan = Plan(
        topology=row.topology, parallelism=row.old, splits=row.old, rows=rows, batch_rows=1, credits=1, mode=mode
    )
    before = Driver(plan, seed, burst=EVERYTHING, slow=("source",) if row.slow_source else ())
    fill(before, 1, hold_sink=not row.slow_source)
    checkpoint(before)
    before.kill(row.old - 1)
    before.run_until(lambda: before.lab.master.epoch == 2)
    fill(before, plan.rows // 2, hold_sink=not row.slow_source)
    path = checkpoint(before)
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
    master = driver.lab.master
    driver.run_until(lambda: master.status is JobStatus.RUNNING and master.epoch > 0 and master.tasks.all_running)


def fill(driver: Driver, rows: int, *, hold_sink: bool) -> None:
    """Go on until every reader has come so far in a split, and nothing more can move without the last task."""
    start(driver)
    driver.held = _holding(driver, rows, hold_sink=hold_sink)
    if hold_sink:
        driver.run_until(lambda: False, or_rest=True)
    else:
        sources = [task for task in driver.lab._world.tasks if task.startswith("source")]
        driver.run_until(lambda: all(map(driver.held, sources)))


def checkpoint(driver: Driver) -> str:
    """Take a checkpoint, with the last task at rest as long as that is possible: where barriers cannot overtake, it
    must work off what is in their way.
    """
    driver.held = _holding(driver, 0, hold_sink=True)
    driver.relents = True
    request = driver.lab.trigger_checkpoint()
    driver.run_until(lambda: driver.lab.answer(request) is not None)
    driver.held, driver.relents = (lambda task: False), False
    path = driver.lab.answer(request)
    assert path is not None
    return path


def _holding(driver: Driver, rows: int, *, hold_sink: bool) -> Callable[[str], bool]:
    last = LAST if hold_sink else ()
    return lambda task: task.startswith(last) or (task.startswith("source") and _rows_read(driver, task) >= rows)


def in_flight_bytes(driver: Driver, path: str) -> int:
    """How much in-flight data a checkpoint holds."""
    metadata, _ = read_metadata(driver.lab.files.contents[f"{path}/_metadata"], path)
    return sum(
        handle.state_size
        for operator in metadata.operator_states
        for subtask in operator.subtask_states.values()
        for handle in (*subtask.input_channel_state, *subtask.result_subpartition_state)
    )


def _rows_read(driver: Driver, task: str) -> int:
    source = driver.lab._world.tasks[task].chain.head
    return source._held[0].position if source._held else -1
