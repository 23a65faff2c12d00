"""A user's own job in a swarm, and how its output is judged.

Unless the user says how, what a trial put out is compared with runs that nothing was done to, each in another order:
some at random, and one for each task in which that one comes last.
Columns in which these differ among themselves depend on the order of records, as a running total does: they are not
compared. What is left must be there as often as in those runs. Of a job that promises its records at least once
nothing is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from kit.files.output import sinks
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.opening import job_graph
from kit.hosts.lab.world.actions import TakeTurn
from kit.hosts.lab.world.schedulers import Adversarial
from kit.machines.coordinator.master_hooks import MasterHook
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph

REFERENCE_RUNS, MOST_HELD_BACK = 3, 8
MOST_NAMED = 5
Output = Callable[[str], pd.DataFrame]
Check = Callable[[Output], Iterable[str]]


@dataclass(frozen=True)
class Promise:
    """What one sink puts out when nothing goes wrong: how often each row comes, of these columns."""

    columns: tuple[str, ...]
    rows: Counter[tuple[Any, ...]]

    @classmethod
    def of(cls, frames: list[pd.DataFrame]) -> Promise:
        """What these runs agree on: as many columns as have the same rows in each, from the first on."""
        columns: tuple[str, ...] = ()
        for name in frames[0].columns:
            tried = (*columns, str(name))
            first, *others = [_rows(frame, tried) for frame in frames]
            if all(first == other for other in others):
                columns = tried
        return cls(columns, _rows(frames[0], columns))

    def problems(self, sink: str, frame: pd.DataFrame) -> Iterator[str]:
        """Where a sink's output differs."""
        found = _rows(frame, self.columns)
        for what, difference in (("lost", self.rows - found), ("too many", found - self.rows)):
            if difference:
                named = "; ".join(map(self._named, list(difference.elements())[:MOST_NAMED]))
                rows = "row" if difference.total() == 1 else "rows"
                yield f"{sink}: {difference.total()} {rows} {what}: {named}"

    def _named(self, row: tuple[Any, ...]) -> str:
        return ", ".join(f"{name}={value}" for name, value in zip(self.columns, row))


def _rows(frame: pd.DataFrame, columns: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    if not len(frame):
        return Counter()
    return Counter(zip(*(frame[name].map(repr) for name in columns))) if columns else Counter({(): len(frame)})


def _held_back(task: str, until_ms: int) -> Adversarial:
    """An order in which this task has no turn for so long, if anything else can happen."""
    return Adversarial(lambda action: isinstance(action, TakeTurn) and action.task == task, until_ms=until_ms)


@dataclass(frozen=True, eq=False)
class GivenJob:
    """The user's job at a parallelism; `make` gives it anew."""

    make: Callable[[int], StreamEnvironment | JobGraph]
    parallelism: int
    rescales: bool
    check: Check | None
    _promises: dict[str, Promise] = field(default_factory=dict)

    @classmethod
    def of(
        cls, job: StreamEnvironment | JobGraph | Callable[[int], StreamEnvironment | JobGraph], check: Check | None
    ) -> GivenJob:
        """The job as `swarm` was given it. Raises LabError for what is none."""
        if isinstance(job, StreamEnvironment | JobGraph):
            given = cls(lambda parallelism: job, 2, False, check)
        elif callable(job):
            given = cls(job, 2, True, check)
        else:
            raise LabError(f"job is a {type(job).__name__}, but must be an environment, or a function that makes one")
        return given._with_promises() if check is None else given

    def _with_promises(self) -> GivenJob:
        labs = [Lab(self.environment(), seed=seed) for seed in range(REFERENCE_RUNS)]
        for lab in labs:
            lab.run()
        for task in labs[0].look.stages[0].tasks()[:MOST_HELD_BACK]:
            labs.append(Lab(self.environment(), scheduler=_held_back(task, labs[0].look.at_ms)))
            labs[-1].run()
        if labs[0].job.settings.checkpoint.is_exactly_once:
            for sink in sinks(labs[0].job):
                self._promises[sink.path] = Promise.of([lab.output(sink.path) for lab in labs])
        return self

    def environment(self) -> StreamEnvironment | JobGraph:
        """The job, to be run."""
        return self.make(self.parallelism)

    def master_hooks(self) -> Sequence[MasterHook]:
        """Return no hooks."""
        return ()

    def at(self, parallelism: int) -> GivenJob:
        """The same job at another parallelism, if it has others."""
        return replace(self, parallelism=parallelism) if self.rescales else self

    @property
    def has_last_words(self) -> bool:
        """Nobody knows, so it is never drained."""
        return True

    def problems(self, output: Output) -> Iterator[str]:
        """What is wrong with what was put out."""
        if self.check is not None:
            yield from self.check(output)
        for path, promise in self._promises.items():
            yield from promise.problems(path, output(path))

    def small(self) -> Iterator[GivenJob]:
        """Nobody knows how."""
        yield from ()

    def simpler(self) -> Iterator[GivenJob]:
        """The same at a smaller parallelism."""
        if self.rescales:
            for parallelism in range(1, self.parallelism):
                yield self.at(parallelism)

    @property
    def text(self) -> str:
        """Its name; a play of it is opened with the job."""
        return f"{job_graph(self.environment()).name}, parallelism={self.parallelism}"

    def __str__(self) -> str:
        return f"{self.environment()!r}, parallelism {self.parallelism}"
