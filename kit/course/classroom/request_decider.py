"""Checks of the lab "the request decider": which request for a checkpoint is carried out, and when.

By hand, the decider is compared with the kit's own after each step: requests go in, time passes, the choice comes out.
In the lab, a job requests checkpoints faster than they complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from kit.core.protocol.notes import CheckpointCompleted
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import letters, walked
from kit.course.classroom.searching import orders, searched
from kit.hosts.lab.lab import Lab
from kit.machines.coordinator.request_decider import CheckpointRequestDecider, CheckpointTriggerRequest, RequestDecider
from kit.stream.settings.parts import Parts

Decider = Callable[..., RequestDecider]
PAUSE_MS = 50
NOW_MS = 1_000
MOST_ADDED = 6
SHUTDOWN = CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)
CHOICES: dict[str, dict[str, Any]] = {
    "choose with 0 pending": {},
    "choose with 1 pending": {"pending": 1},
    "choose with 2 pending": {"pending": 2},
    "choose while one is triggered": {"is_triggering": True},
    "choose 20 ms after the last completion": {"last_completion_ms": NOW_MS - 20},
    "choose 50 ms after the last completion": {"last_completion_ms": NOW_MS - PAUSE_MS},
    "choose 20 ms after it with 1 pending": {"pending": 1, "last_completion_ms": NOW_MS - 20},
}
"""The facts of each choice, where they differ from a quiet moment."""


class Bench:
    """A decider driven by hand, with a record of its calls."""

    def __init__(self, decider: Decider, max_concurrent: int) -> None:
        self.refused: list[str] = []
        self.rescheduled: list[tuple[int, int]] = []
        self.decider = decider(max_concurrent, PAUSE_MS, self._refuse, self._reschedule)

    def _refuse(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        self.refused.append(f"{name(request)} ({why.reason.name})")

    def _reschedule(self, now_ms: int, delay_ms: int) -> None:
        self.rescheduled.append((now_ms, delay_ms))

    def choose(self, facts: dict[str, Any]) -> str:
        """Return the request that may start now, as text."""
        given = {"now_ms": NOW_MS, "pending": 0, "is_triggering": False, "last_completion_ms": 0}
        chosen = self.decider.choose(**(given | facts))
        return "nothing" if chosen is None else name(chosen)

    def facts(self) -> dict[str, object]:
        """Return what can be seen of it, by name, in an order of its own where the order is free."""
        return {
            "refused": sorted(Counter(self.refused).items()),
            "rescheduled as (now_ms, delay_ms)": list(self.rescheduled),
            "in the queue": sorted(name(each) for each in self.decider.queue),
        }


KINDS = {"periodic": "the timer's request", "by hand": "a user's checkpoint", "savepoint": "a savepoint"}
KINDS["forced"] = "a forced savepoint"


def request(kind: str, at_ms: int, number: int) -> CheckpointTriggerRequest:
    """Return a request of a kind."""
    if kind in ("savepoint", "forced"):
        properties = CheckpointProperties.for_savepoint(forced=kind == "forced")
    else:
        properties = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
    return CheckpointTriggerRequest(properties, at_ms, number, periodic=kind == "periodic", request_id=number)


def name(request: CheckpointTriggerRequest) -> str:
    """Return a request's kind and number as text."""
    if request.properties.is_savepoint:
        kind = KINDS["forced"] if request.properties.forced else KINDS["savepoint"]
    else:
        kind = KINDS["periodic" if request.periodic else "by hand"]
    return f"{kind} (number {request.number}, {request.timestamp_ms} ms)"


class Compared:
    """The student's decider and the kit's, step by step, with these kinds of requests and choices.

    With `ties` there are two requests of each ms.
    """

    def __init__(
        self, decider: Decider, kinds: str, choices: str, *, max_concurrent: int = 1, ties: bool = False
    ) -> None:
        self.yours = Bench(decider, max_concurrent)
        self.right = Bench(CheckpointRequestDecider, max_concurrent)
        self._limits = f"max_concurrent={max_concurrent}, min_pause_ms={PAUSE_MS}"
        self._adds = [f"add {kind.strip()}" for kind in kinds.split(",")]
        self._choices = [each for each in CHOICES if any(word in each for word in choices.split(","))]
        self._choices += ["abort all"] if "abort all" in choices else []
        self._count = 0
        self._per_ms = 2 if ties else 1

    def choices(self) -> list[str]:
        """Return what may come next."""
        return [*(self._adds if self._count < MOST_ADDED else ()), *self._choices]

    def do(self, step: str) -> None:
        """Do it with both, and compare."""
        if step.startswith("add "):
            self._count += 1
            given = request(step.removeprefix("add "), 100 + self._count // self._per_ms, self._count)
            found, wanted = self.yours.decider.add(given), self.right.decider.add(given)
            if found is not wanted and "choose while one is triggered" in self._choices:
                raise NotYet(f"add returned {found!r}. Expected {wanted!r}: the coordinator then calls choose.")
        elif step == "abort all":
            self.yours.decider.abort_all(SHUTDOWN)
            self.right.decider.abort_all(SHUTDOWN)
        else:
            self._chosen(step)
        self._compared(step)

    def _chosen(self, step: str) -> None:
        facts, queue = CHOICES[step], [name(each) for each in self.right.decider.queue]
        found, wanted = self.yours.choose(facts), self.right.choose(facts)
        if found != wanted:
            at = ", ".join(f"{key}={value}" for key, value in facts.items()) or "nothing pending"
            raise NotYet(
                f"with {', '.join(queue) or 'nothing'} in the queue, {self._limits} and {at}, choose gave: {found}. "
                f"Expected: {wanted}. {_why(facts, queue, wanted)}"
            )

    def _compared(self, step: str) -> None:
        found, wanted = self.yours.facts(), self.right.facts()
        for what, value in wanted.items():
            if found[what] != value:
                texts = _words(found[what]), _words(value)
                raise NotYet(f"{what}: {texts[0]}. Expected: {texts[1]}. {_REASONS[what]}")


_REASONS = {
    "refused": "Every request is answered once: `self.refuse(request, why)` for one that is dropped or aborted.",
    "rescheduled as (now_ms, delay_ms)": (
        "The timer must fire when the pause is over: `self.reschedule(now_ms, delay_ms)`. Without that no checkpoint "
        "would ever come again."
    ),
    "in the queue": "What was chosen or refused has left the queue, and everything else is still there.",
}


def _words(value: object) -> str:
    if not isinstance(value, list) or not value:
        return str(value or "nothing")
    return ", ".join(
        each if isinstance(each, str) else f"{each[0]} {each[1]} times" if isinstance(each[0], str) else str(each)
        for each in value
    ).replace(" 1 times", "")


def _why(facts: dict[str, Any], queue: list[str], wanted: str) -> str:
    if facts.get("is_triggering"):
        return "Another request is being triggered at this moment."
    if not queue:
        return "The queue is empty: what was chosen has left it."
    if wanted != "nothing":
        first = "It has the highest rank: savepoints, then forced ones, then users', then the older, then the number."
        return first if not facts.get("pending") else f"{first} It may pass the limit only if it is forced."
    if facts.get("pending"):
        return "The limit of pending checkpoints is reached: the request waits."
    return "The timer's request comes too soon after the last completion; the pause holds for no other request."


@check
def keeps_to_the_limit(decider: Decider) -> str:
    """Check that the limit of pending checkpoints is kept, and that one is triggered at a time."""
    moments = "0 pending,choose with 1,choose with 2,triggered"
    return "; ".join(
        searched(partial(Compared, decider, "by hand", moments, max_concurrent=most), walks=10) for most in (1, 2)
    )


@check
def takes_the_most_important_first(decider: Decider) -> str:
    """Check the order: savepoints before checkpoints, forced before others, users' before the timer's, then age."""
    return searched(partial(Compared, decider, "periodic,by hand,savepoint,forced", "0 pending", ties=True), runs=600)


@check
def keeps_the_pause(decider: Decider) -> str:
    """Check that the timer's early request is dropped and the timer set again, without delaying others."""
    return searched(partial(Compared, decider, "periodic,by hand,savepoint", "0 pending,after"), runs=600)


@check
def lets_the_forced_pass(decider: Decider) -> str:
    """Check that a forced request at the head passes the limit, and that the end of the job answers all."""
    return searched(
        partial(Compared, decider, "forced,by hand", "0 pending,choose with 1,triggered,abort all"), runs=600
    )


@check
def runs_a_job(decider: Decider) -> str:
    """Check everything together by hand, then a job whose timer fires faster than checkpoints complete."""
    everything = "choose,abort all"
    kinds = "periodic,by hand,savepoint,forced"
    together = searched(partial(Compared, decider, kinds, everything, ties=True), runs=1, walks=100)
    seeds = orders(4)
    for seed in seeds:
        lab = Lab(letters(interval_ms=10, min_pause_ms=20), parts=Parts(request_decider=decider), seed=seed)
        walked(lab, _one_at_a_time)
        completed = sum(record.is_a(CheckpointCompleted) for record in lab.trace)
        if completed < 2:
            raise NotYet(f"The job has ended and {completed} checkpoints have completed: the queue stands still.", lab)
    return f"{together}; a job in {len(seeds)} orders: never two pending, and checkpoints go on"


def _one_at_a_time(lab: Lab) -> None:
    pending = lab.look.master.checkpoints.pending
    if len(pending) > 1:
        ids = " and ".join(map(str, sorted(pending)))
        raise NotYet(f"Checkpoints {ids} are pending at once, and max_concurrent is 1.", lab)
