"""The steps that do not have to be tried, because they commute with everything that may come.

Steps of two machines commute: each takes from its own queues and appends to others'. So only the order in which one
machine takes its events makes a difference. A step may be taken at once, and alone, if nothing that may come to its
machine before it would change the result. A step that is put off now is tried later, when there is a choice to make.

`RULES` lists the rules. Each is a function, whose docstring says why it is sound; a test explores small random jobs
with that rule and without any, and finds the same checkpoints, output and ends.

If faults are still possible, a fault may replace each step that is taken at once and that changes what a failure leaves
behind: the JobMaster or a file. The JobMaster learns of a failed file of a task later. So while that is possible, its
actions to begin or to store a checkpoint are not taken at once. When a worker is killed, the other workers of its epoch
leave at once: what they could still do, they could have done before.

Subtasks are not folded, not even sources with the same rows. Exchanging two is sound only if everything else is
exchanged with them. Subtasks of one number share a worker, which dies as a whole, so the keyed subtask and the sink of
that number go with a source; and those differ, because each has key groups of its own. If all of that were equal, two
states would become one at most, and to recognise them all numbers of subtasks within machines, handles and paths would
have to be exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kit.hosts.lab.errors import LabError
from kit.verify.explore.reduction import at_once, elements
from kit.verify.explore.reduction.facts import Batch, Chosen, Knowledge, Mask
from kit.verify.explore.space import Places, Space
from kit.verify.explore.steps import Step
from kit.verify.explore.tables import Rows

TURNS = "turns"
"""The rule of the space: a task with inputs takes what arrives in the step in which it arrives.

An element that waits in its queue might as well wait on its channel. If barriers overtake, an exception is what is
before a barrier on the same channel: it may also arrive together with the barrier (a step `overtake`), and is then
overtaken. What other channels hold at that moment is in flight on the channel as well as in the queue. If barriers may
time out, they overtake what the task has received and not taken yet: there a turn is a step of its own.
"""


@dataclass(frozen=True)
class Rule:
    """One rule: the steps that it selects, or the arrivals that it puts off, and the rules that it stands on."""

    select: Callable[[Batch], Iterator[Chosen]] | None = None
    put_off: Callable[[Batch, int, int], Mask] | None = None
    needs: tuple[str, ...] = ()
    turns: bool = False
    """True if it applies only where a task takes what arrives at once (`TURNS`)."""
    silence: bool = False
    """True if its proof takes for granted that the completion of a checkpoint changes no later row or state. It does
    not apply to a job with listeners.
    """


RULES: dict[str, Rule] = {
    TURNS: Rule(put_off=elements.blocked_inputs, turns=True),
    "deployment": Rule(at_once.deployment),
    "splits": Rule(at_once.splits),
    "beginnings": Rule(at_once.beginnings),
    "clean_up": Rule(at_once.clean_up),
    "ignored_completions": Rule(at_once.ignored_completions, silence=True),
    "marks": Rule(elements.marks, turns=True, silence=True),
    "choices": Rule(elements.choices, turns=True, silence=True),
    "own_affairs": Rule(elements.own_affairs, turns=True),
    "source_turns": Rule(elements.source_turns, turns=True, silence=True),
    "awaited": Rule(at_once.awaited),
    "after_the_last_fault": Rule(
        at_once.after_the_last_fault, needs=("splits", "choices", "own_affairs", "source_turns"), silence=True
    ),
}
"""The rules by name, in the order in which they select."""


def with_needs(names: Collection[str]) -> frozenset[str]:
    """Return these rules and those that they stand on. Raises LabError for an unknown one."""
    unknown = sorted(set(names) - RULES.keys())
    if unknown:
        raise LabError(f"no rule is {unknown[0]!r}; there are {', '.join(map(repr, RULES))}")
    found = set(names)
    for name in names:
        found.update(RULES[name].needs)
        found.update([TURNS] if RULES[name].turns or RULES[name].needs else ())
    return frozenset(found)


class Reduction:
    """The choice of steps to be tried, for rows of a space, by some of the rules; without any, all are tried."""

    def __init__(self, space: Space, rules: Collection[str] = tuple(RULES)) -> None:
        self._space = space
        self._known = Knowledge(space)
        chosen = [RULES[name] for name in RULES if name in with_needs(rules)]
        chosen = [rule for rule in chosen if space.takes_turns or not rule.turns]
        chosen = [rule for rule in chosen if not (space.has_listeners and rule.silence)]
        self._selecting = [rule.select for rule in chosen if rule.select is not None]
        self._putting_off = [rule.put_off for rule in chosen if rule.put_off is not None]

    def groups(self, rows: Rows) -> Iterator[tuple[Places, Sequence[Step]]]:
        """Yield rows by number, with the steps to try in all of them: all steps, or those that a rule selects."""
        left = np.arange(len(rows))
        batch = Batch(self._known, rows)
        for select in self._selecting:
            for steps, mask in select(batch):
                at = left[mask[left]]
                if len(at):
                    yield at, steps
                    left = left[~mask[left]]
                if not len(left):
                    return
        yield left, self._space.steps

    def tried(self, rows: Rows, step: Step) -> Places | None:
        """Return the rows in which this step is tried; None: in all."""
        if not self._putting_off or step.kind not in ("wire", "overtake"):
            return None
        batch = Batch(self._known, rows)
        off = np.zeros(len(rows), bool)
        for put_off in self._putting_off:
            off |= put_off(batch, step.machine, step.number)
        off &= rows[:, step.machine] != 0
        return np.flatnonzero(~off) if off.any() else None


__all__ = ["RULES", "TURNS", "Reduction", "Rule", "with_needs"]
