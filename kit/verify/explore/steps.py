"""The possible steps in a space, faults included: for which machine, and which of several."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kit.hosts.lab.faults.faults import FAULTS as IN_THE_LAB
from kit.verify.explore.layout import Layout

MOST_TRIED = 6
"""The number of one machine's works that are tried as the next one."""
MOST_TIMERS = 4
"""The number of one machine's timers that are tried."""
EXPLORED = {kind.explored.kind: kind for kind in IN_THE_LAB.values() if kind.explored is not None}
"""The lab's faults that an exploration tries, by what it calls them."""
FAULTS = {
    **{name: kind.explored.text for name, kind in EXPLORED.items()},
    "expire": "a checkpoint takes longer than its timeout",
}
"""The kinds of fault, with a description."""


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of step: the machine, and (a channel, a place in a bag, a slot) which of several."""

    kind: str
    machine: int = 0
    number: int = 0


class Steps:
    """All steps of a layout, with faults of these `kinds`.

    With `overtaking`, a barrier may arrive together with what it overtakes.
    """

    def __init__(self, layout: Layout, kinds: Collection[str], *, overtaking: bool) -> None:
        self._layout = layout
        self._kinds = kinds
        self._overtaking = overtaking
        self.all = (*self._plain_steps(), Step("request"), *self.faults_of(None))
        self.at_rest = [Step("overdue", 0, place) for place in range(MOST_TIMERS) if "lose" in kinds]
        """The steps once nothing else can happen: lost messages are no longer awaited."""

    def _plain_steps(self) -> Iterator[Step]:
        layout = self._layout
        machines = range(len(layout.machine_names))
        for task in layout.tasks:
            yield Step("message", task)
            yield Step("report", task)
        for task in layout.tasks:
            for channel, _ in layout.inputs[task]:
                yield from self.arrivals_on(task, channel)
        for task in layout.tasks:
            yield Step("turn", task)
        for machine in machines:
            for place in range(MOST_TRIED):
                yield Step("work", machine, place)
        for machine in machines:
            for place in range(MOST_TIMERS):
                yield Step("timer", machine, place)

    def arrivals_on(self, task: int, channel: int) -> Iterator[Step]:
        """Yield what may arrive at a task on one of its channels."""
        yield Step("wire", task, channel)
        if self._overtaking:
            yield Step("overtake", task, channel)

    def faults_of(self, step: Step | None) -> Iterator[Step]:
        """Yield the faults that may happen at any time; for a step also those that may replace it."""
        for slot in self._layout.slots if "kill" in self._kinds else ():
            yield Step("kill", 0, slot)
        for place in range(MOST_TIMERS) if "expire" in self._kinds else ():
            yield Step("expire", 0, place)
        for each in self._plain_steps() if step is None else (step,):
            if each.kind == "work" and "fail" in self._kinds:
                yield Step("fail", each.machine, each.number)
            elif each.kind == "report":
                yield from (Step(kind, each.machine) for kind in ("lose", "repeat") if kind in self._kinds)
