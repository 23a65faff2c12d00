"""`explore`: every schedule of a small job.

    result = explore(env, exactly_once(rows), faults=1, checkpoints=2)
    result                                # how many states, and whether all properties hold
    result.counterexample.text            # the shortest way to a state where one does not
    result.counterexample.lab()           # the same in a lab, which stands there

All that may happen in any order is tried in every order that makes a difference (`kit.verify.explore.reduction`), and
whatever may fail fails, at every moment, up to `faults` times. Each kind of fault is searched by itself, which for one
fault is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from os import PathLike
from typing import Any

import pandas as pd

from kit.hosts.lab.errors import Interrupted, LabError
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.progress import passing_line, somebody_looks
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.parts import Parts
from kit.verify.explore.kinds import FAULTS
from kit.verify.explore.properties import LabSituation, Property, Row
from kit.verify.explore.reduction import Reduction
from kit.verify.explore.replay import Move, moves, replay
from kit.verify.explore.search import BREAKS, Found, Result, Search
from kit.verify.explore.space import Space

NOTHING_FAILS = "none"
"""The kind of a search in which nothing fails."""


class Counterexample:
    """A shortest way to a state where a property does not hold (it `is_broken`), or to one where it does: a witness."""

    def __init__(
        self, job: JobGraph, name: str, path: Sequence[Move], properties: Sequence[Property], *, is_broken: bool = True
    ) -> None:
        self.property = name
        self.is_broken = is_broken
        self.moves = tuple(path)
        self._job = job
        self._properties = {each.name: each for each in properties}

    @property
    def actions(self) -> tuple[str, ...]:
        """What happens, one sentence a step."""
        return tuple(move.text for move in self.moves)

    @property
    def text(self) -> str:
        """The steps, numbered, and what comes of them."""
        lines = [f"{number:3} {action}" for number, action in enumerate(self.actions, 1)]
        return "\n".join([*lines, f"    -> {'broken' if self.is_broken else 'seen'}: {self.property} (see .lab())"])

    def lab(self, *, steps: int | None = None) -> Lab:
        """A lab in which all this has happened, or only the first so many steps of it. Raises LabError where a lab
        cannot do one of them.
        """
        return replay(Lab(self._job), self.moves[:steps])

    def save_play(self, path: str | PathLike[str], *, job: str = "", title: str = "") -> Any:
        """Write it down as a play (docs/PLAYS.md), which `Lab.play` opens again; as `Lab.save_play`."""
        return self.lab().save_play(path, job=job, title=title or self.property)

    def holds_in(self, lab: Lab) -> bool:
        """Whether the property holds in a lab as it stands."""
        return self._properties[self.property].holds(LabSituation(lab))

    def __len__(self) -> int:
        return len(self.moves)

    def __repr__(self) -> str:
        return f"Counterexample({self.property!r}, {len(self)} steps)"

    def _repr_html_(self) -> str:
        verdict = "Broken" if self.is_broken else "Seen"
        return f"<p>{verdict}: {escape(self.property)}</p><pre>{escape(self.text)}</pre>"

    def to_pandas(self) -> pd.DataFrame:
        """One row per step: what kind it is, whose it is, what happens."""
        rows = [(move.step.kind, move.machine, move.text) for move in self.moves]
        return pd.DataFrame(rows, columns=["step", "machine", "what"])


@dataclass(frozen=True, slots=True)
class KindExplored:
    """One search: what could fail in it, what it came to, and the machines' own states."""

    kind: str
    result: Result
    machines: dict[str, tuple[int, int]]
    """For each machine how many states it had, and how many different steps were worked out."""


class Exploration:
    """What an exploration has found."""

    def __init__(self, job: JobGraph, properties: Sequence[Property]) -> None:
        self.job = job
        self.properties = tuple(properties)
        self.searches: list[KindExplored] = []
        self.counterexample: Counterexample | None = None
        self.witnesses: dict[str, Counterexample] = {}

    def add(self, kind: str, result: Result, space: Space) -> None:
        """Add what the search of one kind came to."""
        machines = {each.name: (len(each), each.steps) for each in space.machines}
        self.searches.append(KindExplored(kind, result, machines))

    @property
    def states(self) -> int:
        """How many states there are, in all searches."""
        return sum(each.result.states for each in self.searches)

    @property
    def transitions(self) -> int:
        """How many steps were taken."""
        return sum(each.result.transitions for each in self.searches)

    @property
    def depth(self) -> int:
        """The longest way to a state for which there is no shorter one."""
        return max((each.result.depth for each in self.searches), default=0)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(each.result.seconds for each in self.searches)

    @property
    def complete(self) -> bool:
        """Whether everything was seen."""
        return bool(self.searches) and all(each.result.complete for each in self.searches)

    @property
    def holds(self) -> bool:
        """Whether everything was seen, no property is violated, and every `sometimes` was borne out."""
        wanted = {each.name for each in self.properties if each.quantifier.name == "SOMETIMES"}
        return self.complete and self.counterexample is None and wanted <= self.witnesses.keys()

    def to_pandas(self) -> pd.DataFrame:
        """One row per search: what could fail, states, transitions, depth, ends, seconds, whether it is complete."""
        rows = [
            (each.kind, found.states, found.transitions, found.depth, found.ends, found.seconds, found.complete)
            for each in self.searches
            for found in [each.result]
        ]
        columns = ["fault", "states", "transitions", "depth", "ends", "seconds", "complete"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def machines(self) -> pd.DataFrame:
        """One row per search and machine: how many states it had, how many different steps it took."""
        rows = [(each.kind, name, *counts) for each in self.searches for name, counts in each.machines.items()]
        return pd.DataFrame(rows, columns=["fault", "machine", "states", "steps"])

    def __repr__(self) -> str:
        found = "" if self.counterexample is None else f", violated: {self.counterexample!r}"
        stops = sorted({each.result.stopped_by for each in self.searches} - {""})
        how = f"stopped by {', '.join(stops)}" if stops else "complete" if self.complete else "stopped there"
        return f"Exploration({self.states:,} states, {self.transitions:,} transitions, {how}{found})"

    def _repr_html_(self) -> str:
        found = "" if self.counterexample is None else self.counterexample._repr_html_()
        return f"<p>{escape(repr(self))}</p>{self.to_pandas().to_html(index=False)}{found}"


def explore(
    job: StreamEnvironment | JobGraph,
    properties: Iterable[Property] = (),
    *,
    faults: int = 1,
    checkpoints: int = 2,
    kinds: Sequence[str] = ("kill",),
    most_states: int = 50_000_000,
    memory_mb: int = 4_000,
    exact: bool = False,
    progress: bool | None = None,
    parts: Parts | None = None,
) -> Exploration:
    """Try every schedule of a job in which at most `checkpoints` checkpoints are asked for, whenever all tasks run and
    none is about to finish, and at most `faults` things fail, of these `kinds`: "kill", "expire", "fail", "lose",
    "repeat" (`FAULTS` says what each is). The last checkpoint of a job that ends comes on top of those.

    Stops at the first state that violates a property, when there are more than `most_states`, or when the states seen
    take more than `memory_mb`. With `exact` steps are tried in every order, also where that makes no difference.
    `progress` shows how far it is; None: where somebody looks. `parts` are parts of the protocol of your own: one that
    breaks its contract is a machine that breaks.

    Every state lies in a file of its own (`memory_threshold_bytes` is 0). Raises LabError for a job that cannot be
    explored: one that keeps local copies of state, that has a durable store, or whose checkpoints are periodic; and
    Interrupted when the user interrupts it: `found` then is the exploration so far.
    """
    graph = explorable(job, parts)
    unknown = sorted(set(kinds) - FAULTS.keys())
    if unknown:
        raise LabError(f"no kind of fault is {unknown[0]!r}; there are {', '.join(map(repr, FAULTS))}")
    exploration = Exploration(graph, tuple(properties))
    show = somebody_looks() if progress is None else progress
    is_interrupted = False
    try:
        for kind in kinds if faults else (NOTHING_FAILS,):
            space = partial(Space, graph, requests=checkpoints, faults=faults, kinds=[kind] if faults else ())
            _search(exploration, kind, space, show, exact=exact, most_states=most_states, memory_mb=memory_mb)
            if exploration.counterexample is not None:
                break
    except KeyboardInterrupt:
        is_interrupted = True
    if is_interrupted:  # not in `except`: the exception's context would keep the whole search in memory
        raise Interrupted(exploration)
    return exploration


def _search(
    exploration: Exploration, kind: str, make: Callable[..., Space], show: bool, *, exact: bool, **limits: int
) -> None:
    """Do the search of one kind, and add what it found."""
    space = make(exact=exact)
    progress = _Progress(kind, enabled=show)
    reduction = Reduction(space, exact=exact)
    search = Search(space, reduction, exploration.properties, tell=progress.tell, **limits)
    try:
        result = search.run()
    finally:
        progress.end()
        exploration.add(kind, search.result, space)
    for name, witness in result.witnesses.items():
        exploration.witnesses.setdefault(name, _shown(exploration, space, witness, is_broken=False))
    if result.violation is not None:
        exploration.counterexample = _shown(exploration, space, result.violation)


def _shown(exploration: Exploration, space: Space, found: Found, *, is_broken: bool = True) -> Counterexample:
    path, row = moves(space, found.path)
    name = found.name
    if name == BREAKS:
        name = f"{name}: {'; '.join(space.errors(row))}"
    return Counterexample(exploration.job, name, path, exploration.properties, is_broken=is_broken)


def explorable(job: StreamEnvironment | JobGraph, parts: Parts | None = None) -> JobGraph:
    """The job as it is explored. Raises LabError for one that cannot be."""
    graph = Lab(job, parts=parts).job
    settings = graph.settings.checkpoint
    if settings.local_recovery:
        raise LabError("a job with local_recovery cannot be explored: its tasks' copies of state are on no disk")
    if settings.is_durable:
        raise LabError("a job with a durable store cannot be explored: no driver of it dies. Leave out store=")
    if settings.interval_ms is not None:
        raise LabError(
            f"the job takes a checkpoint every {settings.interval_ms} ms, and a timer may fire at any time: there "
            "would be no end of them. Give CheckpointConfig(interval_ms=None): explore asks for checkpoints=2 by itself"
        )
    if settings.memory_threshold_bytes == 0:
        return graph
    checkpoint = replace(settings, memory_threshold_bytes=0)
    return replace(graph, settings=replace(graph.settings, checkpoint=checkpoint))


def expected_output(job: StreamEnvironment | JobGraph) -> list[Row]:
    """The rows that the job publishes when nothing fails."""
    lab = Lab(job)
    lab.run()
    return LabSituation(lab).output()


class _Progress:
    """A line that shows how many states were seen."""

    def __init__(self, kind: str, *, enabled: bool) -> None:
        self._bar = None
        if enabled:
            self._bar = passing_line(desc=f"explore, fault: {kind}", unit=" states")

    def tell(self, result: Result, frontier: int) -> None:
        """A level is done."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"depth {result.depth}, {frontier:,} new", refresh=False)
            self._bar.update(result.states - self._bar.n)

    def end(self) -> None:
        """No more levels."""
        if self._bar is not None:
            self._bar.close()


__all__ = ["FAULTS", "Counterexample", "Exploration", "KindExplored", "expected_output", "explorable", "explore"]
