"""At which parallelism the job runs, and when that changes while it runs.

The user *wants* numbers of subtasks; the slots that there are allow these or fewer, but no fewer than the minimum. When
what they allow differs from what runs, the `StateTransitionManager` waits for a good moment, as a rule a completed
checkpoint; then the JobMaster stops the epoch and deploys the next one from there. A failure is such a moment too: what
is deployed after it is what slots and wishes allow then. Too few slots are waited for.

A job that is not reactive needs all slots that it wants. When it is deployed anew after a failure the host says how
many there are; too few are waited for, and when no more come in time that is another failure, of which the restart
strategy decides. A reactive one goes on with what is left, by default at once; when that stays too little it fails for
good.

Follows Flink's `AdaptiveScheduler`, with its states `Executing` and `WaitingForResources`; a vertex may have 1 to as
many subtasks as are wanted, and subtasks share slots (`SlotSharingSlotAllocator`). What is not reactive follows its
`DefaultScheduler`: `NoResourceAvailableException` is a failure like others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Protocol

from kit.core.protocol.commands import CancelTimer, CompleteRequest, Note, ScheduleTimer, StoreParallelism
from kit.core.protocol.events import ParallelismStored, RequestRescale
from kit.core.protocol.words import Word
from kit.machines.job.state_transition_manager import RescalePhase, StateTransitionManager
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.parallelism import parallelism_of
from kit.stream.settings.job_settings import RescaleConfig

SLOT_WAIT_TIMER = "slot-wait"
SLOT_STABILIZATION_TIMER = "slot-stabilization"
NO_REQUEST = -3
"""The number of no request of the user's."""
OWN_CHECKPOINT = -2
"""The number of the request for the checkpoint that a rescale goes on from; its answer is awaited here."""


class RescalingJob(Protocol):
    """The JobMaster, as far as is asked here."""

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""

    def emit(self, word: Word) -> None:
        """Give a command to the host."""


class Rescaling:
    """The part of the JobMaster that knows what the job's parallelism is to be."""

    def __init__(self, job: JobGraph, host: RescalingJob) -> None:
        self.settings: RescaleConfig = job.settings.rescaling
        self.wanted = {vertex.name: vertex.parallelism for vertex in job.vertices}
        self.slots: int | None = None
        """How many slots there are; None when that is not known, or does not matter."""
        self.trigger = ""
        """What the rescale that is due goes by, in words."""
        self._job = job
        self._host = host
        self._runs = dict(self.wanted)
        self._manager: StateTransitionManager | None = None
        """Of the present epoch, while it is at work."""
        self._request: RequestRescale | None = None
        """The user's last one, as long as nobody has answered it."""
        self._before: dict[str, int] = {}
        """What was wanted before it."""
        self._noting: dict[int, RequestRescale] = {}
        """Requests that the durable store does not hold yet, by number, oldest first."""
        self._is_noting = False
        """True while the host writes to the durable store. Writes may end in any order, so there is one at a time."""
        self._is_stale = False
        """True if the durable store may hold something else than `wanted`."""
        self._is_deployed = False
        """Whether the epoch that was deployed last runs as it asked."""
        self._failures_left: int | None = None
        """So many checkpoints may fail in a row before one more is a trigger; None: nothing has changed."""
        self.waits_for_slots = False
        """Whether the job would be deployed if there were more slots."""
        self._slot_timers: set[str] = set()
        self._makes_do = False
        """Whether more slots were waited for long enough: the job goes on with fewer than are wanted."""
        self.is_under_way = False
        """Whether the epoch was stopped for another parallelism, and the next one is not yet deployed."""

    # --- what there is and what is wanted -------------------------------------------------------------------------

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""
        return self._host.at

    def emit(self, word: Word) -> None:
        """Give a command to the host."""
        self._host.emit(word)

    @property
    def least(self) -> int:
        """On fewer slots the job does not run."""
        widest = max(self.wanted.values())
        return min(self.settings.minimum_parallelism, widest) if self.settings.reactive else widest

    def available(self) -> dict[str, int] | None:
        """The parallelism of each vertex that the slots allow; None when they are too few (`determineParallelism`)."""
        if self.slots is None:
            return dict(self.wanted)
        slots = self.slots
        return None if slots < self.least else {name: min(wanted, slots) for name, wanted in self.wanted.items()}

    def has_sufficient_resources(self) -> bool:
        """Whether there are slots enough for the job, to run otherwise than it does."""
        available = self.available()
        return available is not None and available != self._runs

    def has_desired_resources(self) -> bool:
        """Whether there are all slots that are wanted, for the job to run otherwise than it does."""
        return self.has_sufficient_resources() and self.available() == self.wanted

    def slots_changed(self, slots: int) -> None:
        """There are so many slots now (`onNewResourcesAvailable`)."""
        if slots != self.slots:
            self.slots = slots
            if self.settings.reactive:
                self._changed()

    def _changed(self) -> None:
        if self._manager is not None:
            self._manager.on_change()
            if self._failures_left is None:
                self._failures_left = self.settings.max_checkpoint_failures

    # --- the user -------------------------------------------------------------------------------------------------

    def request(self, event: RequestRescale, graph: ExecutionGraph) -> None:
        """The user wants other numbers of subtasks. Raises ValueError for what cannot be, and nothing has changed then.
        With a durable store what he wants is noted first, and is not acted on before `noted`.

        Flink: `Dispatcher.updateJobResourceRequirements`, `AdaptiveScheduler.updateJobResourceRequirements`.
        """
        wanted = parallelism_of(self._job, event.parallelism)
        graph.with_parallelism(wanted)
        self._refuse_below_minimum(wanted)
        if self._is_durable:
            self._noting[event.request_id] = event
            self._note_next()
        else:
            self._take(event)

    def noted(self, word: ParallelismStored, why_not: str) -> bool:
        """What the user wants is noted, and counts from now on; False if not, for this reason or the word's own."""
        self._is_noting = False
        event = self._noting.pop(word.request_id, None)
        error = f"what is wanted cannot be noted: {word.error}" if word.error else why_not
        if event is not None and not error:
            self._take(event)
        elif event is not None:
            self._is_stale |= not word.error
            self.emit(CompleteRequest(request_id=event.request_id, error=f"the job was not rescaled: {error}"))
        self._note_next()
        return event is not None and not error

    def recovered(self, parallelism: Mapping[str, int], graph: ExecutionGraph) -> None:
        """An earlier driver noted this. What the job has no vertex for any more, or cannot be, is left."""
        known = {name: number for name, number in parallelism.items() if name in self.wanted}
        with contextlib.suppress(ValueError):
            graph.with_parallelism(known)
            self.wanted |= known

    def _note_next(self) -> None:
        """Write the oldest request that is not noted yet to the durable store, or `wanted` if the store is stale."""
        if self._is_noting or not (self._noting or self._is_stale):
            return
        wanted = dict(self.wanted)
        number, event = next(iter(self._noting.items()), (NO_REQUEST, None))
        if event is not None:
            wanted |= parallelism_of(self._job, event.parallelism)
        self._is_noting, self._is_stale = True, False
        self.emit(StoreParallelism(request_id=number, parallelism=wanted))

    @property
    def _is_durable(self) -> bool:
        return self._job.settings.checkpoint.is_durable

    def _take(self, event: RequestRescale) -> None:
        wanted = parallelism_of(self._job, event.parallelism)
        if self._request is not None:
            self._answer(error=f"another rescale was asked for, to {_said(wanted)}")
        self._before, self.wanted = self.wanted, self.wanted | wanted
        self._request, self._is_deployed = event, False

    def _refuse_below_minimum(self, wanted: Mapping[str, int]) -> None:
        widest, least = max((self.wanted | dict(wanted)).values()), self.settings.minimum_parallelism
        if widest < least:
            raise ValueError(
                f"the job cannot run on {widest} slot{'s' * (widest != 1)}: its minimum_parallelism is {least}"
            )

    def act_on_request(self, path: str) -> bool:
        """Go by what the user has asked for, now; True when a checkpoint is to be taken for it at once. A job that
        runs so already, since the checkpoint at `path`, has its answer.
        """
        request = self._request
        if request is None:
            return False
        if self.available() == self._runs and self._manager is not None:
            self._answer(path=path)
            return False
        if not request.at_once or self._manager is None:
            self._changed()
            return False
        self._manager.on_asked()
        self._failures_left = self.settings.max_checkpoint_failures
        return True

    def answered(self, word: CompleteRequest) -> bool:
        """Take note of the answer to the request for a checkpoint that was made here; False for another's.

        Without it the next periodic one is waited for. Where there are none the job goes on as it was: nobody has asked
        for rows to be done again.
        """
        if word.request_id != OWN_CHECKPOINT:
            return False
        waits = self._request is not None and self._manager is not None and not self.is_due
        if word.error and waits and not self._job.settings.coordinator.is_periodic:
            self.refuse(f"the checkpoint that it was to go on from failed: {word.error}")
        return True

    def refuse(self, error: str) -> None:
        """What is wanted cannot be after all: what was wanted before is, or what runs."""
        self.wanted = self._before if self._request is not None else dict(self._runs)
        if self._is_durable:
            self._is_stale = True
            self._note_next()
        self._new_manager()
        self.emit(Note(kind="RescaleRefused", data={"error": error}))
        if self._request is not None:
            self._answer(error=f"the job was not rescaled: {error}")

    def _answer(self, *, path: str | None = None, error: str = "") -> None:
        assert self._request is not None
        number, self._request = self._request.request_id, None
        self.emit(CompleteRequest(request_id=number, path=path, error=error))

    # --- the moment -----------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether the job is to be deployed anew."""
        return self._manager is not None and self._manager.phase is RescalePhase.TRANSITIONING

    def on_completed_checkpoint(self, checkpoint_id: int) -> None:
        """A good moment (`Executing.onCompletedCheckpoint`)."""
        self._trigger(f"checkpoint {checkpoint_id} is complete")

    def on_failed_checkpoint(self) -> None:
        """One failure too many after a change is a moment as good as any (`Executing.onFailedCheckpoint`)."""
        if self._failures_left is not None:
            self._failures_left -= 1
            if self._failures_left <= 0:
                self._trigger(f"{self.settings.max_checkpoint_failures} checkpoints have failed")

    def _trigger(self, why: str) -> None:
        if self._manager is not None:
            self._manager.on_trigger()
            self._failures_left = None
            self._remember(why)

    def _remember(self, why: str) -> None:
        if self.is_due and not self.trigger:
            self.trigger = why

    def on_timer(self, timer: str) -> bool:
        """Take note of a timer that fired; False for one of somebody else's."""
        if timer == SLOT_STABILIZATION_TIMER:
            self._makes_do = self.waits_for_slots
        if timer in (SLOT_WAIT_TIMER, SLOT_STABILIZATION_TIMER):
            self._slot_timers.discard(timer)
            return True
        if self._manager is None or not self._manager.on_timer(timer):
            return False
        self._remember("no checkpoint has completed for so long")
        return True

    def note(self, available: Mapping[str, int], checkpoint_id: int | None) -> str:
        """Tell the trace that the job is deployed anew, from this checkpoint; returns it in a sentence."""
        changed = {name: number for name, number in available.items() if number != self._runs[name]}
        before = {name: self._runs[name] for name in changed}
        data = {"from": before, "to": changed, "slots": self.slots, "why": self.trigger}
        self.emit(Note(kind="JobRescaled", checkpoint_id=checkpoint_id, data=data))
        self.trigger, self.is_under_way = "", True
        steps = ", ".join(f"{name} from {before[name]} to {number}" for name, number in changed.items())
        return f"it is rescaled: {steps}"

    # --- the life of the job --------------------------------------------------------------------------------------

    def deployed(self, parallelism: Mapping[str, int]) -> None:
        """The job is deployed with these parallelisms; what has changed since they were decided counts."""
        self._runs, self.is_under_way = dict(parallelism), False
        self._is_deployed = self._request is not None and self.available() == self._runs
        self._stop_waiting()
        if not self.settings.reactive:
            self.slots = None  # what the host says of them counts until then
        self._new_manager()
        manager = self._manager
        assert manager is not None
        manager.on_change()
        manager.on_trigger()

    def _new_manager(self) -> None:
        self.stopped()
        self._manager = StateTransitionManager(self, self.settings, self._max_trigger_delay_ms)

    @property
    def _max_trigger_delay_ms(self) -> int:
        """By default as long as it takes for one checkpoint more to fail than may (`Settings.of`)."""
        given, coordinator = self.settings.max_trigger_delay_ms, self._job.settings.coordinator
        if given is not None:
            return given
        return (self.settings.max_checkpoint_failures + 1) * coordinator.interval_ms if coordinator.is_periodic else 0

    @property
    def has_request(self) -> bool:
        """Whether the user waits for an answer."""
        return self._request is not None

    def all_running(self, path: str) -> None:
        """All tasks run, from the checkpoint at `path` ("": from the beginning): whoever asked for it is told."""
        if self._is_deployed and self._request is not None:
            self._answer(path=path)

    def stopped(self) -> None:
        """The epoch is over."""
        if self._manager is not None:
            self._manager.close()
        self._manager, self._failures_left, self.trigger = None, None, ""

    def has_slots(self) -> bool:
        """Whether the job is to be deployed now. Else the host's next word is waited for, or the time that may be: for
        slots enough, and a while for all that are wanted (`WaitingForResources`).
        """
        available, stable_ms = self.available(), self.settings.submission_stabilization_ms
        if available is None:
            self._wait_for_slots(SLOT_WAIT_TIMER, self.settings.slot_wait_ms)
            return False
        if available == self.wanted or self._makes_do or not stable_ms:
            return True
        self._wait_for_slots(SLOT_STABILIZATION_TIMER, stable_ms)
        return False

    def _wait_for_slots(self, timer: str, for_ms: int | None) -> None:
        if not self.waits_for_slots:
            self.waits_for_slots = True
            self.emit(Note(kind="WaitingForSlots", data={"slots": self.slots, "least": self.least}))
        if for_ms is not None and timer not in self._slot_timers:
            self._slot_timers.add(timer)
            self.emit(ScheduleTimer(timer=timer, due_ms=self.at + for_ms))

    def gave_up_on_slots(self, timer: str) -> str:
        """Why the job cannot be deployed, if this timer that fired says so; "" else. Flink:
        `NoResourceAvailableException`.
        """
        if timer != SLOT_WAIT_TIMER or not self.waits_for_slots or self.available() is not None:
            return ""
        self._slot_timers.discard(timer)
        self._stop_waiting()
        return f"{self.slots_said}, and no more came within {self.settings.slot_wait_ms} ms"

    @property
    def slots_said(self) -> str:
        """How many slots there are and must be, in words."""
        are = "1 slot is" if self.slots == 1 else f"{self.slots} slots are"
        return f"{are} there, the job needs {self.least} at least"

    def _stop_waiting(self) -> None:
        for timer in sorted(self._slot_timers):
            self.emit(CancelTimer(timer=timer))
        self._slot_timers.clear()
        self.waits_for_slots = self._makes_do = False

    def end(self, status: str) -> None:
        """The job has ended in this status."""
        self.stopped()
        self._stop_waiting()
        if self._request is not None:
            self._answer(error=f"the job was not rescaled: it is {status}")
        for number in self._noting:
            self.emit(CompleteRequest(request_id=number, error=f"the job was not rescaled: it is {status}"))
        self._noting.clear()
        self._is_stale = False

    def __repr__(self) -> str:
        slots = "" if self.slots is None else f", {self.slots} slots"
        return f"Rescaling({_said(self.wanted)}{slots}; {self._manager or 'not at work'})"


def _said(parallelism: Mapping[str, int]) -> str:
    return ", ".join(f"{name} x{number}" for name, number in parallelism.items())
