"""Checks of the lab "the pending checkpoint": what a coordinator keeps of a checkpoint until all have acknowledged it.

By hand, and with the acknowledgements of jobs in the lab: the student's pending checkpoint hears what the coordinator
heard, one of them twice, and has to be complete when that was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.classroom.checking import NotYet, check
from kit.classroom.running import letters, walked
from kit.lab.lab import Lab

Pending = Callable[[list[str]], Any]
TASKS = ["letters/0", "letters/1", "totals/0", "totals/1"]
ORDERS = range(5)


class Bench:
    """A pending checkpoint by hand, with what was done to it."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending(list(TASKS[:3]))
        self.done: list[str] = []

    def acknowledge(self, task: str, state: str, wanted: str, why: str) -> None:
        """Raise NotYet unless the acknowledgement is taken for this."""
        found = self.pending.acknowledge(task, state)
        self.done.append(f"{task} acknowledged with {state}")
        if found != wanted:
            raise NotYet(f"{self._so_far}: the answer was {found!r}. Expected {wanted!r}. {why}")

    def expect(self, what: str, found: Any, wanted: Any, why: str) -> None:
        """Raise NotYet unless both are the same."""
        if found != wanted:
            raise NotYet(f"{self._so_far}: {what} is {found!r}. Expected {wanted!r}. {why}")

    @property
    def _so_far(self) -> str:
        tasks = ", ".join(TASKS[:3])
        return f"Waiting for {tasks}" + "".join(f"; {each}" for each in self.done)


@check
def is_complete_with_the_last(pending: Pending) -> str:
    """Complete when all tasks have acknowledged, and not before."""
    bench = Bench(pending)
    for number, task in enumerate(TASKS[:3]):
        bench.expect("is_complete", bool(bench.pending.is_complete), False, "Somebody has not acknowledged yet.")
        bench.acknowledge(task, f"state {number}", "SUCCESS", "It was waited for.")
    bench.expect("is_complete", bool(bench.pending.is_complete), True, "All three have acknowledged.")
    wanted = {task: f"state {number}" for number, task in enumerate(TASKS[:3])}
    bench.expect("states", dict(bench.pending.states), wanted, "A restore needs the state of each task.")
    return "three tasks, one after another"


@check
def tells_a_duplicate(pending: Pending) -> str:
    """The same task twice counts once."""
    bench = Bench(pending)
    bench.acknowledge(TASKS[0], "state 0", "SUCCESS", "It was waited for.")
    why = "It has acknowledged already: messages may arrive twice."
    bench.acknowledge(TASKS[0], "state 0", "DUPLICATE", why)
    bench.acknowledge(TASKS[1], "state 1", "SUCCESS", "It was waited for.")
    bench.expect("is_complete", bool(bench.pending.is_complete), False, f"{TASKS[2]} has not acknowledged.")
    bench.expect(
        "to_delete", list(bench.pending.to_delete), [], "The duplicate's state is the very state that is kept."
    )
    return "an acknowledgement that came twice"


@check
def tells_a_stranger(pending: Pending) -> str:
    """A task that is not of the plan: unknown, and its state is deleted."""
    bench = Bench(pending)
    bench.acknowledge("others/0", "a stranger's state", "UNKNOWN", "Nobody waits for this task.")
    bench.expect("is_complete", bool(bench.pending.is_complete), False, "None of the three has acknowledged.")
    why = "Nobody else knows of the state that it wrote: it would lie there for ever."
    bench.expect("to_delete", list(bench.pending.to_delete), ["a stranger's state"], why)
    return "a task that nobody waits for"


@check
def lets_go_when_aborted(pending: Pending) -> str:
    """Aborted: what was acknowledged is deleted, and what comes later as well."""
    bench = Bench(pending)
    bench.acknowledge(TASKS[0], "state 0", "SUCCESS", "It was waited for.")
    bench.pending.abort()
    bench.done.append("then it was aborted")
    why = "The checkpoint will never complete: the state of those that acknowledged is of no use."
    bench.expect("to_delete", list(bench.pending.to_delete), ["state 0"], why)
    bench.acknowledge(TASKS[1], "state 1", "DISCARDED", "The checkpoint is over.")
    why = "The late task did not know and wrote its state: only this acknowledgement tells of it."
    bench.expect("to_delete", list(bench.pending.to_delete), ["state 0", "state 1"], why)
    bench.expect("is_complete", bool(bench.pending.is_complete), False, "What was aborted does not complete.")
    return "an abort, and an acknowledgement that came too late"


@check
def follows_a_job(pending: Pending) -> str:
    """With the acknowledgements of a job in the lab, each of which comes twice."""
    for seed in ORDERS:
        lab = walked(Lab(letters(), seed=seed))
        heard = [each for each in lab.trace if each.machine == "job" and each.kind == "AcknowledgeCheckpoint"]
        for number in sorted({each.checkpoint_id for each in heard if each.checkpoint_id is not None}):
            tasks = [each.data["task"] for each in heard if each.checkpoint_id == number]
            mine = pending(sorted(tasks))
            for count, task in enumerate(tasks, 1):
                for _ in range(2):
                    mine.acknowledge(task, f"state of {task}")
                if bool(mine.is_complete) != (count == len(tasks)):
                    told = "is complete" if mine.is_complete else "is not complete"
                    raise NotYet(
                        f"Of checkpoint {number} {count} of {len(tasks)} tasks have acknowledged, each twice, the last "
                        f"of them {task}. Yours {told}.",
                        lab,
                    )
    return f"a job in {len(ORDERS)} orders, each acknowledgement twice"
