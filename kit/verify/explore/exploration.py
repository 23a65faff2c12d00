"""`explore`: every schedule of a small job.

    result = explore(env, exactly_once(rows), faults=1, checkpoints=2)
    result                                # the number of states, and whether all properties hold
    result.counterexample.text            # the shortest way to a state that violates one
    result.counterexample.lab()           # a lab in that state

The search tries every order of actions that makes a difference (`kit.verify.explore.reduction`), and every fault at
every moment, up to `faults` times. Each kind of fault is searched separately; for one fault, that is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from os import PathLike
from typing import Any

import pandas as pd

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.hosts.lab.errors import Interrupted, LabError, several, whole_number
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.progress import passing_line, somebody_looks
from kit.hosts.lab.scenarios.scenario import save_scenario
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.sources.source_spec import SourceSpec
from kit.stream.settings.job_settings import StateBackend
from kit.stream.settings.parts import Parts
from kit.verify.explore.properties import LabSituation, Property, Quantifier, Row
from kit.verify.explore.reduction.reduction import RULES, TURNS, Reduction, with_needs
from kit.verify.explore.replay import Move, moves, replay
from kit.verify.explore.search import BREAKS, Found, Result, Search
from kit.verify.explore.space import Space
from kit.verify.explore.steps import FAULTS

NOTHING_FAILS = "none"
"""The kind of a search without faults."""


class Counterexample:
    """A shortest way to a state that violates a property (it `is_broken`), or to one that satisfies it: a witness."""

    def __init__(
        self, job: JobGraph, name: str, path: Sequence[Move], properties: Sequence[Property], *, is_broken: bool = True
    ) -> None:
        self.property = name
        self.is_broken = is_broken
        self.moves = tuple(path)
        self._job = job
        self._properties = {each.name: each for each in properties}

    @property
    def judged(self) -> Property | None:
        """The property itself; None if it is that no machine breaks."""
        return self._properties.get(self.property)

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions, one sentence per step."""
        return tuple(move.text for move in self.moves)

    @property
    def text(self) -> str:
        """The numbered steps, and the result."""
        lines = [f"{number:3} {action}" for number, action in enumerate(self.actions, 1)]
        return "\n".join([*lines, f"    -> {'broken' if self.is_broken else 'seen'}: {self.property} (see .lab())"])

    def lab(self, *, steps: int | None = None) -> Lab:
        """Return a lab after these steps, or after the first `steps` of them. Raises LabError if one is impossible."""
        return replay(Lab(self._job), self.moves[:steps])

    def save_scenario(self, path: str | PathLike[str], *, job: str = "", title: str = "") -> Any:
        """Save it as a scenario (docs/SCENARIOS.md), which `open_scenario` opens again."""
        return save_scenario(self.lab(), path, job=job, title=title or self.property)

    def holds_in(self, lab: Lab) -> bool:
        """Return True if the property holds in a lab in its present state."""
        return self._properties[self.property].holds(LabSituation(lab))

    def __len__(self) -> int:
        return len(self.moves)

    def __repr__(self) -> str:
        return f"Counterexample({self.property!r}, {len(self)} steps)"

    def _repr_html_(self) -> str:
        verdict = "Broken" if self.is_broken else "Seen"
        return f"<p>{verdict}: {escape(self.property)}</p><pre>{escape(self.text)}</pre>"

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per step: its kind, its machine, what happens."""
        rows = [(move.step.kind, move.machine, move.text) for move in self.moves]
        return pd.DataFrame(rows, columns=["step", "machine", "what"])


class Exploration:
    """The result of an exploration."""

    def __init__(self, job: JobGraph, properties: Sequence[Property]) -> None:
        self.job = job
        self.properties = tuple(properties)
        self.searches: list[Result] = []
        self.counterexample: Counterexample | None = None
        self.witnesses: dict[str, Counterexample] = {}
        self.is_interrupted = False

    @property
    def states(self) -> int:
        """The number of states, in all searches."""
        return sum(each.states for each in self.searches)

    @property
    def transitions(self) -> int:
        """The number of steps taken."""
        return sum(each.transitions for each in self.searches)

    @property
    def depth(self) -> int:
        """The length of the longest shortest way to a state."""
        return max((each.depth for each in self.searches), default=0)

    @property
    def seconds(self) -> float:
        """The duration."""
        return sum(each.seconds for each in self.searches)

    @property
    def complete(self) -> bool:
        """True if every state was explored."""
        # An interrupt between two searches leaves only complete ones, but not all of them.
        return bool(self.searches) and all(each.complete for each in self.searches) and not self.is_interrupted

    @property
    def holds(self) -> bool:
        """True if every state was explored, no property is violated, and every `sometimes` has a witness."""
        wanted = {each.name for each in self.properties if each.quantifier is Quantifier.SOMETIMES}
        return self.complete and self.counterexample is None and wanted <= self.witnesses.keys()

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per search: possible faults, states, transitions, depth, ends, seconds, completeness."""
        rows = [
            (each.kind, each.states, each.transitions, each.depth, each.ends, each.seconds, each.complete)
            for each in self.searches
        ]
        columns = ["fault", "states", "transitions", "depth", "ends", "seconds", "complete"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def machines(self) -> pd.DataFrame:
        """One row per search and machine: the number of its states, and of different steps."""
        rows = [(each.kind, name, *counts) for each in self.searches for name, counts in each.machines.items()]
        return pd.DataFrame(rows, columns=["fault", "machine", "states", "steps"])

    def __repr__(self) -> str:
        found = "" if self.counterexample is None else f", violated: {self.counterexample!r}"
        stops = sorted({each.stopped_by for each in self.searches} - {""})
        if self.is_interrupted:
            stops.append("an interrupt")
        how = f"stopped by {', '.join(stops)}" if stops else "complete" if self.complete else "stopped there"
        return f"Exploration({self.states:,} states, {self.transitions:,} transitions, {how}{found})"

    def _repr_html_(self) -> str:
        found = "" if self.counterexample is None else self.counterexample._repr_html_()
        frame = self.to_pandas().round({"seconds": 3})
        return notebook_html(repr(self), frame_html(frame, NOTEBOOK_ROWS, all_in=".to_pandas()"), found)


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
    rules: Collection[str] = tuple(RULES),
    progress: bool | None = None,
    parts: Parts | None = None,
) -> Exploration:
    """Try every schedule of a job with up to `checkpoints` checkpoint requests and `faults` faults.

    A checkpoint is requested whenever all tasks run and none is about to finish; the last checkpoint of a job that ends
    comes in addition. The faults are of these `kinds`: "kill", "expire", "fail", "lose", "repeat" (see `FAULTS`).

    The search stops at the first state that violates a property, at `most_states` states, or when the states seen need
    more than `memory_mb`. With `exact`, steps are tried in every order, even where that makes no difference; `rules`
    are the rules of the reduction to use (`RULES`). `progress` shows the progress; None: if there is an observer.
    `parts` are user-defined parts of the protocol: a part that breaks its contract counts as a machine that breaks.

    All state is in files of its own (`memory_threshold_bytes` is 0). Raises LabError for a job that cannot be explored:
    one that keeps local copies of state, that has a durable store, or whose checkpoints are periodic; and for an
    unknown rule. Raises Interrupted when the user interrupts it; its `found` is the exploration so far.
    """
    graph = explorable(job, parts)
    kinds = several("kinds", kinds, "('kill', 'lose')")
    for name, found in (("faults", faults), ("checkpoints", checkpoints)):
        whole_number(name, found, "the number of them in one schedule", least=0)
    for name, found in (("most_states", most_states), ("memory_mb", memory_mb)):
        whole_number(name, found, "the limit at which the search stops", least=1)
    unknown = sorted(set(kinds) - FAULTS.keys())
    if unknown:
        raise LabError(f"no kind of fault is {unknown[0]!r}; there are {', '.join(map(repr, FAULTS))}")
    chosen = frozenset() if exact else with_needs(rules)
    exploration = Exploration(graph, several("properties", properties, "[rows_once]"))
    show = somebody_looks() if progress is None else progress
    try:
        for kind in kinds if faults else (NOTHING_FAILS,):
            space = partial(Space, graph, requests=checkpoints, faults=faults, kinds=[kind] if faults else ())
            _search(exploration, kind, space, show, rules=chosen, most_states=most_states, memory_mb=memory_mb)
            if exploration.counterexample is not None:
                break
    except KeyboardInterrupt:
        exploration.is_interrupted = True
    if exploration.is_interrupted:  # not in `except`: the exception's context would keep the whole search in memory
        raise Interrupted(exploration)
    return exploration


def _search(
    exploration: Exploration,
    kind: str,
    make: Callable[..., Space],
    show: bool,
    *,
    rules: Collection[str],
    **limits: int,
) -> None:
    """Run the search of one kind, and add its result."""
    space = make(turns=TURNS in rules)
    bar = passing_line(desc=f"explore, fault: {kind}", unit=" states") if show else None

    def tell(result: Result, frontier: int) -> None:
        if bar is not None:
            bar.set_postfix_str(f"depth {result.depth}, {frontier:,} new", refresh=False)
            bar.update(result.states - bar.n)

    search = Search(space, Reduction(space, rules), exploration.properties, tell=tell, **limits)
    try:
        result = search.run()
    finally:
        if bar is not None:
            bar.close()
        search.result.kind = kind
        search.result.machines = {each.name: (len(each), each.steps) for each in space.machines}
        exploration.searches.append(search.result)
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
    """Return the job in the form that is explored. Raises LabError for one that cannot be explored."""
    graph = Lab(job, parts=parts).job
    settings = graph.settings.checkpoint
    if settings.local_recovery:
        raise LabError("a job with local_recovery cannot be explored: its tasks' copies of state are on no disk")
    if settings.is_durable:
        raise LabError("a job with a durable store cannot be explored: its driver never dies. Leave out store=")
    if settings.interval_ms is not None:
        raise LabError(
            f"the job takes a checkpoint every {settings.interval_ms} ms, and a timer may fire at any time: the "
            "search would never end. Give CheckpointConfig(interval_ms=None): explore asks for checkpoints=2 by itself"
        )
    specs = (operator.spec for operator in graph.operators)
    for source in (spec.source for spec in specs if isinstance(spec, SourceSpec)):
        if source.endless or source.discover_every_ms is not None:
            raise LabError(f"{source!r} cannot be explored: it has no end. Give the job a source that ends")
    # State on disk does the same as in memory, and no rule looks at where it is.
    explored = replace(
        graph.settings, checkpoint=replace(settings, memory_threshold_bytes=0), state_backend=StateBackend.MEMORY
    )
    return graph if explored == graph.settings else replace(graph, settings=explored)


def expected_output(job: StreamEnvironment | JobGraph) -> list[Row]:
    """Return the rows that the job publishes without faults."""
    lab = Lab(job)
    lab.run()
    return LabSituation(lab).output()


__all__ = ["FAULTS", "Counterexample", "Exploration", "expected_output", "explorable", "explore"]
