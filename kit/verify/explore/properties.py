"""What must be so in every state, in some state, or in the end: properties of a job, of what can be seen of it.

    always("at most one row", lambda now: len(now.output()) <= 1)

A property looks at a `Situation`, which is a state of an exploration or a lab as it stands: the same property judges
both. What it looks at is noted, and states in which that is the same are judged once; so it must be a function of the
situation alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kit.core.protocol.words import Machine
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.edge import LabEdge
from kit.hosts.lab.world.world import JOB
from kit.machines.job.job_master import JobMaster

Row = tuple[tuple[str, Any], ...]


class Situation(ABC):
    """What can be seen of a job at one moment."""

    at_rest: bool = False
    """Whether nothing can happen any more."""

    @abstractmethod
    def machine(self, name: str) -> Machine | None:
        """A machine by its name ("job", "sums/1", "slot 0"); None when it is not there. Look, do not touch."""

    @abstractmethod
    def disks(self) -> Sequence[LabEdge]:
        """The files of all machines."""

    @abstractmethod
    def output_after_failure(self) -> list[Row]:
        """All rows that are published in the end when a worker dies now, and nothing else fails or is asked for."""

    @property
    def master(self) -> JobMaster:
        """The JobMaster."""
        found = self.machine(JOB)
        assert isinstance(found, JobMaster)
        return found

    @property
    def status(self) -> str:
        """RUNNING, RESTARTING, FINISHED, ... (`kit.machines.job.status`)."""
        return self.master.status.name

    @property
    def completed(self) -> tuple[int, ...]:
        """The ids of the checkpoints that have completed."""
        return tuple(number for number, how in self.master.checkpoints.ledger.ended.items() if how == "COMPLETED")

    def acknowledged(self, checkpoint_id: int) -> frozenset[str] | None:
        """The tasks that have acknowledged a checkpoint that is under way; None when it is not."""
        pending = self.master.checkpoints.pending.get(checkpoint_id)
        return None if pending is None else frozenset(pending.acked_tasks)

    def output(self) -> list[Row]:
        """All rows that are published, each as pairs of column and value, in the order of their files."""
        tables = {path: table for disk in self.disks() for path, table in disk.output.published.items()}
        return [tuple(row.items()) for _, table in sorted(tables.items()) for row in table.to_pylist()]

    def published(self) -> list[str]:
        """The files that are published."""
        return sorted(path for disk in self.disks() for path in disk.output.published)

    def files(self) -> list[str]:
        """The paths of all files that there are, of state, metadata and staged output."""
        return sorted(path for disk in self.disks() for path in (*disk.files.contents, *disk.output.staged))


class LabSituation(Situation):
    """A lab as it stands."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.at_rest = not lab.enabled()

    def machine(self, name: str) -> Machine | None:
        return self._lab._world.machine(name)

    def disks(self) -> Sequence[LabEdge]:
        """The lab has one."""
        return [self._lab._world.edge]

    def output_after_failure(self) -> list[Row]:
        """As a fork of the lab publishes them."""
        lab = self._lab.fork()
        if not self.master.status.is_terminal:
            lab.faults.kill(0)
        lab.run()
        return LabSituation(lab).output()

    def __repr__(self) -> str:
        return f"LabSituation({self._lab!r})"


class Quantifier(Enum):
    """In which states a property has to hold."""

    ALWAYS = "in every state"
    SOMETIMES = "in some state"
    EVENTUALLY = "in every end"


@dataclass(frozen=True, slots=True)
class Property:
    """One property; made by `always`, `sometimes` and `eventually`."""

    quantifier: Quantifier
    name: str
    holds: Callable[[Situation], bool]

    def __repr__(self) -> str:
        return f"{self.quantifier.name.lower()}({self.name!r})"


def always(name: str, holds: Callable[[Situation], bool]) -> Property:
    """It holds in every state: a state where it does not is a counterexample."""
    return Property(Quantifier.ALWAYS, name, holds)


def sometimes(name: str, holds: Callable[[Situation], bool]) -> Property:
    """There is a state where it holds; the way to the first one is kept as a witness."""
    return Property(Quantifier.SOMETIMES, name, holds)


def eventually(name: str, holds: Callable[[Situation], bool]) -> Property:
    """It holds wherever nothing can happen any more: so it must be of a kind that stays once it has come."""
    return Property(Quantifier.EVENTUALLY, name, holds)


# --- ready made ------------------------------------------------------------------------------------------------------


def no_duplicates(expected: Iterable[Row]) -> Property:
    """No row is published more often than in a run in which nothing fails."""
    most = Counter(expected)
    return always("no row comes twice", lambda now: not Counter(now.output()) - most)


def consistent_checkpoints(expected: Iterable[Row]) -> Property:
    """Each checkpoint holds what its sources have read, and no more: a job that fails after it publishes no row more
    often than one in which nothing fails. It is found where the checkpoint completes; no worker has to die for it.
    """
    most = Counter(expected)
    return always(
        "no row comes twice when the job is restored",
        lambda now: not now.completed or not Counter(now.output_after_failure()) - most,
    )


def complete_checkpoints(expected: Iterable[Row]) -> Property:
    """Each checkpoint holds all that its sources will not read again, in the state of tasks or as in-flight data: a job
    that fails after it publishes every row that one in which nothing fails does. Found where the checkpoint completes.
    """
    least = Counter(expected)
    return always(
        "no row is lost when the job is restored",
        lambda now: not now.completed or not least - Counter(now.output_after_failure()),
    )


def no_loss(expected: Iterable[Row]) -> Property:
    """When the job has finished, every row of a run in which nothing fails is published."""
    least = Counter(expected)
    return eventually("no row is lost", lambda now: now.status != "FINISHED" or not least - Counter(now.output()))


def all_acknowledged() -> Property:
    """What is written or stored as complete has been acknowledged by all."""

    def holds(now: Situation) -> bool:
        pending = now.master.checkpoints.pending.values()
        return not any(each.state.is_completing and each.not_yet_acked_tasks for each in pending)

    return always("a checkpoint completes when all have acknowledged it", holds)


def published_is_covered() -> Property:
    """What is published is in a checkpoint that has completed, or is being stored."""

    def holds(now: Situation) -> bool:
        newest = max(now.completed, default=0)
        return all(int(path.removesuffix(".parquet").rpartition("-")[2]) <= newest for path in now.published())

    return always("what is published is covered by a completed checkpoint", holds)


def comes_to_an_end() -> Property:
    """Wherever nothing can happen any more, the job has ended: nothing waits forever."""
    return eventually("the job comes to an end", lambda now: now.master.status.is_terminal)


def finishes() -> Property:
    """The job ends well: whatever fails, it recovers from."""
    return eventually("the job finishes", lambda now: now.status in ("FINISHED", "RUNNING"))


def nothing_is_left() -> Property:
    """When the job has ended there are no files but those of checkpoints that are retained."""

    def holds(now: Situation) -> bool:
        kept = {path for each in now.master.checkpoints.store.checkpoints for path in each.discard().paths}
        return not now.master.status.is_terminal or not {*now.files()} - kept

    return eventually("no file is left over", holds)


def ids_grow() -> Property:
    """No checkpoint under way is older than one that has completed."""

    def holds(now: Situation) -> bool:
        newest = max(now.completed, default=0)
        return all(number > newest for number, each in now.master.checkpoints.pending.items() if not each.is_disposed)

    return always("no checkpoint outlives a newer one", holds)


def exactly_once(expected: Iterable[Row]) -> tuple[Property, ...]:
    """All that a job with exactly-once checkpoints and sinks promises; `expected` are the rows of a run in which
    nothing fails.
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
