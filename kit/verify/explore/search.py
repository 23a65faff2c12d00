"""The search: all states level by level, without those seen before, so the first way found is a shortest one.

The rows of a level are kept until the next one is complete. Of earlier levels only the predecessor and the step of each
state are kept: that is enough to find the way back, and to replay it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kit.hosts.lab.interrupts import interrupts_deferred
from kit.hosts.lab.world.garbage import garbage_among_new_objects_only
from kit.verify.explore.properties import Property, Quantifier
from kit.verify.explore.reduction.reduction import Reduction
from kit.verify.explore.situation import Judge
from kit.verify.explore.space import Places, Space
from kit.verify.explore.steps import Step
from kit.verify.explore.tables import Keys, Rows, RowSet, mixed

ROWS_AT_ONCE = 100_000
SEED = 0x5EED
BREAKS = "no machine breaks"
"""The property that is always judged: no invariant is violated, and no host makes an error."""


@dataclass(frozen=True, slots=True)
class Found:
    """A state that was looked for: the property that it violates or satisfies, and the way to it."""

    name: str
    path: tuple[Step, ...]


@dataclass(slots=True)
class Result:
    """The result of one search, with faults of this `kind`."""

    kind: str = ""
    states: int = 1
    transitions: int = 0
    depth: int = 0
    ends: int = 0
    seconds: float = 0.0
    complete: bool = False
    stopped_by: str = ""
    violation: Found | None = None
    witnesses: dict[str, Found] = field(default_factory=dict)
    machines: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each machine the number of its states, and of the different steps that were computed."""


class Search:
    """One search of a space, up to `most_states` and `memory_mb`; `tell` receives the progress after each level."""

    def __init__(
        self,
        space: Space,
        reduction: Reduction,
        properties: Sequence[Property],
        *,
        most_states: int,
        memory_mb: int,
        tell: Callable[[Result, int], None],
    ) -> None:
        self._space = space
        self._reduction = reduction
        self._judges = [Judge(space, each) for each in properties]
        self._most_states, self._memory_mb = most_states, memory_mb
        self._tell = tell
        self._seen = RowSet()
        self._weights = _weights(len(space.columns))
        self._parents: list[npt.NDArray[np.int32]] = []
        self._steps: list[npt.NDArray[np.int16]] = []
        self._every_step = (*space.steps, *space.steps_at_rest)
        self._number_of = {step: number for number, step in enumerate(self._every_step)}
        self._interrupts = interrupts_deferred()
        self.result = Result()

    def run(self) -> Result:
        """Search until every state was seen, a property is violated, or a limit is reached."""
        began_s = time.perf_counter()
        result = self.result
        rows = self._space.first()
        self._seen.add(self._keys(rows))
        self._look(rows)
        with interrupts_deferred() as self._interrupts, garbage_among_new_objects_only() as settle:
            while len(rows) and result.violation is None and not result.stopped_by:
                rows = self._next_level(rows)
                result.seconds = time.perf_counter() - began_s
                self._tell(result, len(rows))
                self._check_room(rows)
                settle()
        result.complete = result.violation is None and not result.stopped_by
        result.seconds = time.perf_counter() - began_s
        return result

    # --- a level ----------------------------------------------------------------------------------------------------

    def _next_level(self, rows: Rows) -> Rows:
        made: list[Rows] = []
        parents: list[npt.NDArray[np.int64]] = []
        steps: list[npt.NDArray[np.int16]] = []
        moved = np.zeros(len(rows), bool)
        for places, found, step in self._all_successors(rows, moved):
            self._interrupts.deliver()
            moved[places] = True
            self.result.transitions += len(places)
            keys = self._keys(found)
            _, first = np.unique(keys, return_index=True)
            first = first[self._seen.add(keys[first])]
            made.append(found[first])
            parents.append(places[first])
            steps.append(np.full(len(first), self._number_of[step], np.int16))
        self._judge_ends(rows[~moved], np.flatnonzero(~moved))
        if self.result.violation is not None or not made:
            return rows[:0]
        following = np.concatenate(made)
        self._parents.append(np.concatenate(parents).astype(np.int32))
        self._steps.append(np.concatenate(steps))
        self.result.states += len(following)
        if len(following):
            self.result.depth += 1
            self._look(following)
        return following

    def _all_successors(self, rows: Rows, moved: npt.NDArray[np.bool_]) -> Iterator[tuple[Places, Rows, Step]]:
        """Yield the successors of each row; for those that have not `moved` then, what happens only at rest."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            for places, found, step in self._successors(rows[start : start + ROWS_AT_ONCE]):
                yield start + places, found, step
        at_rest = np.flatnonzero(~moved)
        for step in self._space.steps_at_rest if len(at_rest) else ():
            places, found = self._space.successors(rows[at_rest], step)
            if len(places):
                yield at_rest[places], found, step

    def _successors(self, rows: Rows) -> Iterator[tuple[Places, Rows, Step]]:
        for places, steps in self._reduction.groups(rows):
            here = rows[places]
            for step in steps:
                tried = self._reduction.tried(here, step) if steps is self._space.steps else None
                at, made = self._space.successors(here if tried is None else here[tried], step)
                if len(at):
                    yield places[at if tried is None else tried[at]], made, step

    def _keys(self, rows: Rows) -> Keys:
        keys = mixed(rows.astype(np.uint64) @ self._weights)
        keys[keys == 0] = 1
        return keys

    # --- judging ------------------------------------------------------------------------------------------------------

    def _look(self, rows: Rows) -> None:
        """Judge the states of the latest level."""
        broken = self._space.broken(rows)
        if broken.any():
            self._violated(BREAKS, int(np.flatnonzero(broken)[0]))
            return
        for judge in self._judges:
            quantifier, name = judge.property.quantifier, judge.property.name
            if quantifier is Quantifier.ALWAYS:
                holds = judge.holds(rows)
                if not holds.all():
                    self._violated(name, int(np.flatnonzero(~holds)[0]))
                    return
            elif quantifier is Quantifier.SOMETIMES and name not in self.result.witnesses:
                holds = judge.holds(rows)
                if holds.any():
                    path = self._way_to(len(self._parents), int(np.flatnonzero(holds)[0]))
                    self.result.witnesses[name] = Found(name, path)

    def _judge_ends(self, rows: Rows, places: npt.NDArray[np.int64]) -> None:
        self.result.ends += len(rows)
        for judge in self._judges:
            if len(rows) and judge.property.quantifier is Quantifier.EVENTUALLY:
                holds = judge.holds(rows, at_rest=True)
                if not holds.all():
                    self._violated(judge.property.name, int(places[np.flatnonzero(~holds)[0]]))
                    return

    def _violated(self, name: str, place: int) -> None:
        self.result.violation = Found(name, self._way_to(len(self._parents), place))

    def _way_to(self, level: int, place: int) -> tuple[Step, ...]:
        """Return the steps that lead to a state of a level."""
        steps: list[Step] = []
        for parents, taken in zip(reversed(self._parents[:level]), reversed(self._steps[:level]), strict=True):
            steps.append(self._every_step[taken[place]])
            place = int(parents[place])
        return tuple(reversed(steps))

    def _check_room(self, rows: Rows) -> None:
        if self.result.states > self._most_states:
            self.result.stopped_by = f"most_states={self._most_states:,}"
        kept = (
            self._seen.nbytes
            + sum(each.nbytes for each in self._parents)
            + sum(each.nbytes for each in self._steps)
            + 3 * rows.nbytes
        )
        if kept > self._memory_mb * 1_000_000:
            self.result.stopped_by = f"memory_mb={self._memory_mb:,}"


def _weights(columns: int) -> Keys:
    """Return odd numbers to weight columns with; the same in every search."""
    numbers = np.arange(1, columns + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(SEED)
    return mixed(numbers) | np.uint64(1)
