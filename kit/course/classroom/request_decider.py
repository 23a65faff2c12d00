"""Checks of the lab "the request decider": which request for a checkpoint is carried out, and when.

By hand, requests go in, the clock is set, and the choice comes out. In the lab, a job requests checkpoints faster than
they complete.
"""

from __future__ import annotations

from collections.abc import Callable

from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.trace.record_kinds import RecordKind
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import letters, walked
from kit.hosts.lab.lab import Lab
from kit.machines.coordinator.request_decider import CheckpointTriggerRequest, RequestDecider
from kit.stream.settings.parts import Parts

Decider = Callable[..., RequestDecider]
PAUSE_MS = 50
ORDERS = range(4)


class Bench:
    """A decider driven by hand, with its limits; `refused` and `rescheduled` are its calls."""

    def __init__(self, decider: Decider, *, max_concurrent: int = 1, min_pause_ms: int = PAUSE_MS) -> None:
        self.refused: list[str] = []
        self.rescheduled: list[int] = []
        self.limits = f"max_concurrent={max_concurrent}, min_pause_ms={min_pause_ms}"
        self.decider = decider(max_concurrent, min_pause_ms, self._refuse, self._reschedule)
        self._count = 0

    def _refuse(self, request: CheckpointTriggerRequest, why: CheckpointException) -> None:
        self.refused.append(name(request))

    def _reschedule(self, now_ms: int, delay_ms: int) -> None:
        self.rescheduled.append(delay_ms)

    def add(self, *kinds: str) -> Bench:
        """Add these requests, one ms after another: "periodic", "by hand", "savepoint", "forced"."""
        for kind in kinds:
            self._count += 1
            self.decider.add(request(kind, self._count))
        return self

    def choose(self, *, now_ms: int = 1_000, pending: int = 0, is_triggering: bool = False, last: int = 0) -> str:
        """Return the request that may start now."""
        given = {"now_ms": now_ms, "pending": pending, "is_triggering": is_triggering, "last_completion_ms": last}
        chosen = self.decider.choose(**given)  # type: ignore[arg-type]
        return "nothing" if chosen is None else name(chosen)

    def expect(self, wanted: str, why: str, **now: int) -> None:
        """Raise NotYet unless this request is chosen."""
        waiting = ", ".join(name(each) for each in self.decider.queue) or "nothing"
        found = self.choose(**now)  # type: ignore[arg-type]
        if found != wanted:
            names = {"last": "last_completion_ms"}
            at = ", ".join(f"{names.get(key, key)}={value}" for key, value in now.items())
            raise NotYet(
                f"With {waiting} in the queue and {self.limits}, choose({at}) gave: {found}. Expected: {wanted}. {why}"
            )


KINDS = {"periodic": "the timer's request", "by hand": "a user's checkpoint", "savepoint": "a savepoint"}
KINDS["forced"] = "a forced savepoint"


def request(kind: str, at_ms: int) -> CheckpointTriggerRequest:
    """Return a request of a kind."""
    if kind in ("savepoint", "forced"):
        properties = CheckpointProperties.for_savepoint(forced=kind == "forced")
    else:
        properties = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
    return CheckpointTriggerRequest(properties, at_ms, at_ms, periodic=kind == "periodic", request_id=at_ms)


def name(request: CheckpointTriggerRequest) -> str:
    """Return a request's kind as text."""
    if request.properties.is_savepoint:
        return KINDS["forced"] if request.properties.forced else KINDS["savepoint"]
    return KINDS["periodic" if request.periodic else "by hand"]


@check
def keeps_to_the_limit(decider: Decider) -> str:
    """Check that the limit of pending checkpoints is kept, and that one is triggered at a time."""
    why = "One is pending, and at most one may be: the request waits."
    bench = Bench(decider).add("by hand")
    bench.expect("nothing", why, pending=1)
    bench.expect("a user's checkpoint", "Nothing is pending: it may start. It had to wait in the queue, not to go.")
    bench.expect("nothing", "The queue is empty: what was chosen has left it.")
    bench = Bench(decider, max_concurrent=2).add("by hand")
    bench.expect("nothing", "Another one is being triggered at this moment.", pending=1, is_triggering=True)
    bench.expect("a user's checkpoint", "One is pending and two may be.", pending=1)
    return "limits of one and two, while another one is triggered, and an empty queue"


@check
def takes_the_most_important_first(decider: Decider) -> str:
    """Check the order: savepoints before checkpoints, a user's before the timer's, older before newer ones."""
    bench = Bench(decider).add("periodic", "by hand", "savepoint")
    bench.expect("a savepoint", "Somebody waits for a savepoint: it goes first, whenever it was asked for.")
    bench.expect("a user's checkpoint", "Somebody waits for it; nobody waits for the timer's.")
    bench.expect("the timer's request", "It is the last one.")
    bench = Bench(decider).add("by hand", "by hand")
    first = bench.decider.choose(now_ms=1_000, pending=0, is_triggering=False, last_completion_ms=0)
    if first is None or first.timestamp_ms != 1:
        raise NotYet(f"Of two requests of the same kind the older one goes first; {first!r} was chosen.")
    return "three kinds in the wrong order, and two of the same kind"


@check
def keeps_the_pause(decider: Decider) -> str:
    """Check that the timer's early request is dropped and the timer set again, without delaying others."""
    bench = Bench(decider).add("periodic")
    bench.expect(
        "nothing", f"The last one completed 20 ms ago, and {PAUSE_MS} ms must lie between.", now_ms=1_000, last=980
    )
    if bench.decider.queue or bench.refused != ["the timer's request"]:
        raise NotYet(
            "The timer's request came too soon: nobody waits for it, so it is refused (`self.refuse`) and leaves the "
            f"queue. Refused: {bench.refused or 'nothing'}; still in the queue: {len(bench.decider.queue)}."
        )
    if bench.rescheduled != [30]:
        raise NotYet(
            f"The last one completed at 980 ms and it is 1000 ms now; with a pause of {PAUSE_MS} ms the timer is to "
            f"fire in 30 ms: `self.reschedule(1000, 30)`. Asked for: {bench.rescheduled or 'nothing'}. "
            "Without that no checkpoint would ever come again."
        )
    bench = Bench(decider).add("periodic")
    bench.expect("the timer's request", "The pause is over to the very ms.", now_ms=1_000, last=950)
    bench = Bench(decider).add("savepoint")
    bench.expect("a savepoint", "The pause holds for the timer only; somebody waits for this.", now_ms=1_000, last=980)
    return "too soon, just in time, and a savepoint in the pause"


@check
def lets_the_forced_pass(decider: Decider) -> str:
    """Check that a forced request at the head passes the limit, but not those behind it."""
    bench = Bench(decider).add("forced", "by hand")
    bench.expect("a forced savepoint", "Forced: it passes the limit of pending checkpoints.", pending=1)
    bench.expect("nothing", "This one is not forced, and one is pending.", pending=1)
    bench = Bench(decider).add("forced")
    bench.decider.abort_all(CheckpointException(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN))
    if bench.refused != ["a forced savepoint"] or bench.decider.queue:
        raise NotYet("`abort_all` refuses everything that is queued, and empties the queue: users wait for an answer.")
    return "a forced savepoint before another request, and the end of the job"


@check
def runs_a_job(decider: Decider) -> str:
    """Check in the lab: a job whose timer fires faster than checkpoints complete."""
    for seed in ORDERS:
        lab = Lab(letters(interval_ms=10, min_pause_ms=20), parts=Parts(request_decider=decider), seed=seed)
        walked(lab, _one_at_a_time)
        completed = sum(record.kind == RecordKind.CHECKPOINT_COMPLETED for record in lab.trace)
        if completed < 2:
            raise NotYet(f"The job has ended and {completed} checkpoints have completed: the queue stands still.", lab)
    return f"a job in {len(ORDERS)} orders: never two pending, and checkpoints go on"


def _one_at_a_time(lab: Lab) -> None:
    pending = lab.look.master.checkpoints.pending
    if len(pending) > 1:
        ids = " and ".join(map(str, sorted(pending)))
        raise NotYet(f"Checkpoints {ids} are pending at once, and max_concurrent is 1.", lab)
