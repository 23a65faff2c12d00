"""A user's own job in a swarm, and the check of its output.

Unless the user provides a check, the output of a trial is compared with runs without faults. Each of these runs takes
its actions in another order: some at random, and one per task in which that task is slowest. Columns that differ
between these runs depend on the order of records, as a running total does, and are not compared. In the other columns,
each row must occur as often as in these runs. The output of an at-least-once job is not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from kit.files.master_hooks import MasterHook
from kit.files.output import sinks
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.opening import job_graph
from kit.hosts.lab.world.actions import TakeTurn
from kit.hosts.lab.world.schedulers import Adversarial
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph

REFERENCE_RUNS, MOST_HELD_BACK = 3, 8
MOST_NAMED = 5
Output = Callable[[str], pd.DataFrame]
Check = Callable[[Output], Iterable[str]]


@dataclass(frozen=True)
class Promise:
    """The output of one sink without faults: the number of times that each row of these columns occurs."""

    columns: tuple[str, ...]
    rows: Counter[tuple[Any, ...]]

    @classmethod
    def of(cls, frames: list[pd.DataFrame]) -> Promise:
        """Return the part in which these runs agree: the leading columns that have the same rows in each."""
        columns: tuple[str, ...] = ()
        for name in frames[0].columns:
            tried = (*columns, str(name))
            first, *others = [_rows(frame, tried) for frame in frames]
            if all(first == other for other in others):
                columns = tried
        return cls(columns, _rows(frames[0], columns))

    def problems(self, sink: str, frame: pd.DataFrame) -> Iterator[str]:
        """Yield the differences of a sink's output."""
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
    """Return a scheduler that gives this task no turn until `until_ms` while anything else can happen."""
    return Adversarial(lambda action: isinstance(action, TakeTurn) and action.task == task, until_ms=until_ms)


@dataclass(frozen=True, eq=False)
class UserJob:
    """The user's job at a parallelism; `make` returns a new instance."""

    make: Callable[[int], StreamEnvironment | JobGraph]
    parallelism: int
    rescales: bool
    check: Check | None
    _promises: dict[str, Promise] = field(default_factory=dict)

    @classmethod
    def of(
        cls, job: StreamEnvironment | JobGraph | Callable[[int], StreamEnvironment | JobGraph], check: Check | None
    ) -> UserJob:
        """Return the job that was passed to `swarm`. Raises LabError for anything that is not a job."""
        if isinstance(job, StreamEnvironment | JobGraph):
            user_job = cls(lambda parallelism: job, 2, False, check)
        elif callable(job):
            user_job = cls(job, 2, True, check)
        else:
            raise LabError(f"job is a {type(job).__name__}, but must be an environment, or a function that makes one")
        return user_job._with_promises() if check is None else user_job

    def _with_promises(self) -> UserJob:
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
        """Return the job to run."""
        return self.make(self.parallelism)

    def master_hooks(self) -> Sequence[MasterHook]:
        """Return no hooks."""
        return ()

    def at(self, parallelism: int) -> UserJob:
        """Return the same job at another parallelism, if it supports others."""
        return replace(self, parallelism=parallelism) if self.rescales else self

    @property
    def has_last_words(self) -> bool:
        """Return True, since this is unknown; so the job is never drained."""
        return True

    def problems(self, output: Output) -> Iterator[str]:
        """Yield the errors in the output."""
        if self.check is not None:
            yield from self.check(output)
        for path, promise in self._promises.items():
            yield from promise.problems(path, output(path))

    def small(self) -> Iterator[UserJob]:
        """Yield nothing; how to make the job smaller is unknown."""
        yield from ()

    def simpler(self) -> Iterator[UserJob]:
        """Yield the same job at a smaller parallelism."""
        if self.rescales:
            for parallelism in range(1, self.parallelism):
                yield self.at(parallelism)

    @property
    def text(self) -> str:
        """Its name; a scenario of it must be opened with the job."""
        return f"{job_graph(self.environment()).name}, parallelism={self.parallelism}"

    def __str__(self) -> str:
        return f"{self.environment()!r}, parallelism {self.parallelism}"
