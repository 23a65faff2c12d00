"""Properties of a job: what must hold in every state, in some state, or in the end.

    always("at most one row", lambda now: len(now.output()) <= 1)

A property judges a `Situation`, which is a state of an exploration or of a lab: the same property works for both. What
it reads is recorded, and states in which that is the same are judged once. So it must be a function of the situation
alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import Machine
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.edge import LabEdge
from kit.hosts.lab.world.world import JOB
from kit.machines.job.job_master import JobMaster
from kit.machines.task.stream_task import StreamTask

Row = tuple[tuple[str, Any], ...]


class Situation(ABC):
    """The visible facts about a job at one moment."""

    at_rest: bool = False
    """True if nothing can happen any more."""

    @abstractmethod
    def machine(self, name: str) -> Machine | None:
        """Return a machine by its name ("job", "sums/1", "slot 0"), or None if it does not exist. Do not change it."""

    @abstractmethod
    def disks(self) -> Sequence[LabEdge]:
        """Return the files of all machines."""

    @abstractmethod
    def output_after_failure(self) -> list[Row]:
        """Return all rows published in the end if all workers die now, and there are no other faults or requests."""

    @property
    def master(self) -> JobMaster:
        """The JobMaster."""
        found = self.machine(JOB)
        assert isinstance(found, JobMaster)
        return found

    @property
    def status(self) -> str:
        """The status by name: RUNNING, RESTARTING, FINISHED, ... (`kit.machines.job.status`)."""
        return self.master.status.name

    @property
    def completed(self) -> tuple[int, ...]:
        """The ids of the checkpoints that have completed."""
        return tuple(number for number, how in self.master.checkpoints.ledger.ended.items() if how == "COMPLETED")

    def acknowledged(self, checkpoint_id: int) -> frozenset[str] | None:
        """Return the tasks that have acknowledged a pending checkpoint; None for other checkpoints."""
        pending = self.master.checkpoints.pending.get(checkpoint_id)
        return None if pending is None else frozenset(pending.acked_tasks)

    def output(self) -> list[Row]:
        """Return all published rows, each as pairs of column and value, in the order of their files."""
        tables = {path: table for disk in self.disks() for path, table in disk.output.published.items()}
        return [tuple(row.items()) for _, table in sorted(tables.items()) for row in table.to_pylist()]

    def published(self) -> list[str]:
        """Return the published files."""
        return sorted(path for disk in self.disks() for path in disk.output.published)

    def files(self) -> list[str]:
        """Return the paths of all existing files of state, metadata and staged output."""
        return sorted(path for disk in self.disks() for path in (*disk.files.contents, *disk.output.staged))


class LabSituation(Situation):
    """The present state of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.at_rest = not lab.enabled()

    def machine(self, name: str) -> Machine | None:
        return self._lab._world.machine(name)

    def disks(self) -> Sequence[LabEdge]:
        """Return the lab's single disk."""
        return [self._lab._world.edge]

    def output_after_failure(self) -> list[Row]:
        """Return the rows that a fork of the lab publishes."""
        lab = self._lab.fork()
        for worker in lab._world.workers if not self.master.status.is_terminal else ():
            lab.faults.kill(worker)
        lab.run()
        return LabSituation(lab).output()

    def __repr__(self) -> str:
        return f"LabSituation({self._lab!r})"


class Quantifier(Enum):
    """The states in which a property must hold."""

    ALWAYS = "in every state"
    SOMETIMES = "in some state"
    EVENTUALLY = "in every end"


@dataclass(frozen=True, slots=True)
class Property:
    """One property, made by `always`, `sometimes` and `eventually`."""

    quantifier: Quantifier
    name: str
    holds: Callable[[Situation], bool]

    def __repr__(self) -> str:
        return f"{self.quantifier.name.lower()}({self.name!r})"


def always(name: str, holds: Callable[[Situation], bool]) -> Property:
    """Return a property that must hold in every state; a state that violates it is a counterexample."""
    return Property(Quantifier.ALWAYS, name, holds)


def sometimes(name: str, holds: Callable[[Situation], bool]) -> Property:
    """Return a property that must hold in some state; the way to the first one is kept as a witness."""
    return Property(Quantifier.SOMETIMES, name, holds)


def eventually(name: str, holds: Callable[[Situation], bool]) -> Property:
    """Return a property that must hold wherever nothing can happen any more; once true it must stay true."""
    return Property(Quantifier.EVENTUALLY, name, holds)


# --- predefined properties -------------------------------------------------------------------------------------------


def no_duplicates(expected: Iterable[Row]) -> Property:
    """Require that no row is published more often than in a run without faults."""
    most = Counter(expected)
    return always("no row comes twice", lambda now: not Counter(now.output()) - most)


def consistent_checkpoints(expected: Iterable[Row]) -> Property:
    """Require that each checkpoint holds only what its sources have read.

    A job that fails after it then publishes no row more often than one without faults. A violation is found where the
    checkpoint completes; no worker has to die for it.
    """
    most = Counter(expected)
    return always(
        "no row comes twice when the job is restored",
        lambda now: not now.completed or not Counter(now.output_after_failure()) - most,
    )


def complete_checkpoints(expected: Iterable[Row]) -> Property:
    """Require that each checkpoint holds everything that its sources will not read again.

    The data may be in state or in flight. A job that fails after it then publishes every row that one without faults
    does. A violation is found where the checkpoint completes.
    """
    least = Counter(expected)
    return always(
        "no row is lost when the job is restored",
        lambda now: not now.completed or not least - Counter(now.output_after_failure()),
    )


def no_loss(expected: Iterable[Row]) -> Property:
    """Require that a finished job has published every row of a run without faults."""
    least = Counter(expected)
    return eventually("no row is lost", lambda now: now.status != "FINISHED" or not least - Counter(now.output()))


def all_acknowledged() -> Property:
    """Require that a checkpoint written or stored as complete has been acknowledged by all."""

    def holds(now: Situation) -> bool:
        pending = now.master.checkpoints.pending.values()
        return not any(each.state.is_completing and each.not_yet_acked_tasks for each in pending)

    return always("a checkpoint completes when all have acknowledged it", holds)


def published_is_covered() -> Property:
    """Require that published rows are in a checkpoint that has completed, or is being stored."""

    def holds(now: Situation) -> bool:
        newest = max(now.completed, default=0)
        return all(int(path.removesuffix(".parquet").rpartition("-")[2]) <= newest for path in now.published())

    return always("what is published is covered by a completed checkpoint", holds)


def comes_to_an_end() -> Property:
    """Require that the job has ended wherever nothing can happen any more: nothing waits forever."""
    return eventually("the job comes to an end", lambda now: now.master.status.is_terminal)


def finishes() -> Property:
    """Require that the job ends well, and recovers from every fault."""
    return eventually("the job finishes", lambda now: now.status in ("FINISHED", "RUNNING"))


def nothing_is_left() -> Property:
    """Require that when the job has ended, only files of retained checkpoints are left."""

    def holds(now: Situation) -> bool:
        kept = {path for each in now.master.checkpoints.store.checkpoints for path in each.discard().paths}
        return not now.master.status.is_terminal or not {*now.files()} - kept

    return eventually("no file is left over", holds)


def ids_grow() -> Property:
    """Require that no pending checkpoint is older than one that has completed."""

    def holds(now: Situation) -> bool:
        newest = max(now.completed, default=0)
        return all(number > newest for number, each in now.master.checkpoints.pending.items() if not each.is_disposed)

    return always("no checkpoint outlives a newer one", holds)


def others_keep_running() -> tuple[Property, ...]:
    """Require that a failure restarts all tasks of the regions that it affects, and stops no task of another."""

    def restart_together(now: Situation) -> bool:
        master = now.master
        return all(len({master.attempts.of(task) for task in region.tasks}) == 1 for region in master.graph.regions)

    def run(now: Situation) -> bool:
        master = now.master
        running = [task for task, record in master.tasks.items() if record.state is ExecutionState.RUNNING]
        found = {name: now.machine(name) for name in running}
        return all(
            isinstance(task, StreamTask) and task.attempt == master.attempts.of(name) for name, task in found.items()
        )

    return (
        always("the tasks of a region restart together", restart_together),
        always("a task that was not told to stop runs", run),
    )


def exactly_once(expected: Iterable[Row]) -> tuple[Property, ...]:
    """Return all guarantees of a job with exactly-once checkpoints and sinks.

    `expected` are the rows of a run without faults.
    """
    rows = list(expected)
    return (
        no_duplicates(rows),
        no_loss(rows),
        all_acknowledged(),
        published_is_covered(),
        comes_to_an_end(),
        ids_grow(),
        nothing_is_left(),
    )
