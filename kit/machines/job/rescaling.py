"""The parallelism of the job, and its changes while the job runs.

The user *requests* parallelisms; the available slots allow these or fewer, but not fewer than the minimum. If what they
allow differs from what runs, the `StateTransitionManager` waits for a good moment, usually a completed checkpoint. Then
the JobMaster stops the epoch and deploys the next one from there. A failure is such a moment too: the next deployment
is what slots and requests allow at that time. If there are too few slots, the job waits.

A job that is not reactive needs all slots that it wants. When it is redeployed after a failure, the host reports the
number of slots, and the job waits if there are too few. If none are added in time, that is another failure, and the
restart strategy decides. A reactive job continues with the slots that are left, by default at once; if these stay too
few, it fails for good.

Follows Flink's `AdaptiveScheduler`, with its states `Executing` and `WaitingForResources`. A vertex may have from 1 to
the requested number of subtasks, and subtasks share slots, as with Flink's `SlotSharingSlotAllocator`. A job that is
not reactive follows its `DefaultScheduler`: `NoResourceAvailableException` is a failure like others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Protocol

from kit.core.protocol.commands import CancelTimer, CompleteRequest, ScheduleTimer, StoreParallelism
from kit.core.protocol.events import ParallelismStored, RequestRescale
from kit.core.protocol.notes import JobRescaled, RescaleRefused, WaitingForSlots
from kit.core.protocol.words import ProtocolMessage
from kit.machines.job.state_transition_manager import RescalePhase, StateTransitionManager
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.parallelism import parallelism_of
from kit.stream.graph.slot_sharing import TaskSlots
from kit.stream.settings.job_settings import RescaleConfig

SLOT_WAIT_TIMER = "slot-wait"
SLOT_STABILIZATION_TIMER = "slot-stabilization"
NO_REQUEST = -3
"""A request id that no user request has."""
OWN_CHECKPOINT = -2
"""The id of the request for the checkpoint that a rescale starts from; its answer is handled here."""


class RescalingJob(Protocol):
    """The JobMaster, as this part sees it."""

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command to the host."""


class Rescaling:
    """The part of the JobMaster that determines the job's parallelism."""

    def __init__(self, job: JobGraph, host: RescalingJob) -> None:
        self.settings: RescaleConfig = job.settings.rescaling
        self.wanted = job.parallelism
        self.slots: int | None = None
        """The number of available slots; None if that is unknown, or irrelevant."""
        self.trigger = ""
        """The trigger of the rescale that is due, as text."""
        self._job = job
        self._host = host
        self._runs = dict(self.wanted)
        self._manager: StateTransitionManager | None = None
        """The manager of the present epoch, while it runs."""
        self._request: RequestRescale | None = None
        """The user's last request, until it is answered."""
        self._before: dict[str, int] = {}
        """The parallelism that was wanted before the request."""
        self._noting: dict[int, RequestRescale] = {}
        """Requests that are not in the durable store yet, by id, oldest first."""
        self._is_noting = False
        """True while the host writes to the durable store. Writes may end in any order, so there is one at a time."""
        self._is_stale = False
        """True if the durable store may differ from `wanted`."""
        self._is_deployed = False
        """True if the latest deployed epoch runs as requested."""
        self._failures_left: int | None = None
        """The number of checkpoints that may still fail in a row before a failure is a trigger; None: nothing has
        changed."""
        self.waits_for_slots = False
        """True if the job would be deployed if there were more slots."""
        self._slot_timers: set[str] = set()
        self._makes_do = False
        """True if the job has waited long enough for slots and continues with fewer than it wants."""
        self.is_under_way = False
        """True if the epoch was stopped for another parallelism, and the next one is not deployed yet."""

    # --- what is available and what is wanted ---------------------------------------------------------------------

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""
        return self._host.at

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command to the host."""
        self._host.emit(word)

    @property
    def least(self) -> int:
        """The smallest number of slots on which the job runs."""
        needed = len(TaskSlots(self._job, self.wanted))
        return min(self.settings.minimum_parallelism, needed) if self.settings.reactive else needed

    def available(self) -> dict[str, int] | None:
        """Return the parallelism of each vertex that the slots allow, or None for too few (`determineParallelism`)."""
        if self.slots is None:
            return dict(self.wanted)
        slots = self.slots
        return None if slots < self.least else {name: min(wanted, slots) for name, wanted in self.wanted.items()}

    def has_sufficient_resources(self) -> bool:
        """Return True if the slots allow the job to run, with another parallelism than now."""
        available = self.available()
        return available is not None and available != self._runs

    def has_desired_resources(self) -> bool:
        """Return True if the slots allow the wanted parallelism, and the job runs with another one."""
        return self.has_sufficient_resources() and self.available() == self.wanted

    def slots_changed(self, slots: int) -> None:
        """Set the number of available slots (`onNewResourcesAvailable`)."""
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
        """Request other parallelisms. Raises ValueError for impossible ones, and changes nothing then.

        With a durable store the request is recorded first, and takes effect with `noted`.

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
        """Apply a request that is recorded now; return False if it was not, with this reason or the answer's own."""
        self._is_noting = False
        event = self._noting.pop(word.request_id, None)
        error = f"the parallelism cannot be recorded: {word.error}" if word.error else why_not
        if event is not None and not error:
            self._take(event)
        elif event is not None:
            self._is_stale |= not word.error
            self.emit(CompleteRequest(request_id=event.request_id, error=f"the job was not rescaled: {error}"))
        self._note_next()
        return event is not None and not error

    def recovered(self, parallelism: Mapping[str, int], graph: ExecutionGraph) -> None:
        """Apply what an earlier driver recorded, except for unknown vertices and impossible parallelisms."""
        known = {name: number for name, number in parallelism.items() if name in self.wanted}
        with contextlib.suppress(ValueError):
            graph.with_parallelism(known)
            self.wanted |= known

    def _note_next(self) -> None:
        """Write the oldest unrecorded request to the durable store, or `wanted` if the store is stale."""
        if self._is_noting or not (self._noting or self._is_stale):
            return
        wanted = dict(self.wanted)
        number, event = next(iter(self._noting.items()), (NO_REQUEST, None))
        if event is not None:
            wanted |= parallelism_of(self._job, event.parallelism)
        self._is_noting, self._is_stale = True, False
        self.emit(StoreParallelism(request_id=number, parallelism=wanted))

    @property
    def is_noted(self) -> bool:
        """Return True if nothing is to be written to the durable store: it should hold what is wanted."""
        return not (self._is_noting or self._noting or self._is_stale)

    @property
    def _is_durable(self) -> bool:
        return self._job.settings.checkpoint.is_durable

    def _take(self, event: RequestRescale) -> None:
        wanted = parallelism_of(self._job, event.parallelism)
        if self._request is not None:
            self._answer(error=f"another rescale was requested, to {_said(wanted)}")
        self._before, self.wanted = self.wanted, self.wanted | wanted
        self._request, self._is_deployed = event, False

    def _refuse_below_minimum(self, wanted: Mapping[str, int]) -> None:
        widest, least = max((self.wanted | dict(wanted)).values()), self.settings.minimum_parallelism
        if widest < least:
            raise ValueError(
                f"the job cannot run on {widest} slot{'s' * (widest != 1)}: its minimum_parallelism is {least}"
            )

    def act_on_request(self, path: str) -> bool:
        """Act on the user's request now; return True if a checkpoint must be taken for it at once.

        A job that already runs so, since the checkpoint at `path`, answers the request.
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
        """Handle the answer to the request for a checkpoint that was made here; return False for another request's.

        If that checkpoint failed, the job waits for the next periodic one. Without periodic ones the job continues
        unchanged, because the user did not ask to process rows again.
        """
        if word.request_id != OWN_CHECKPOINT:
            return False
        waits = self._request is not None and self._manager is not None and not self.is_due
        if word.error and waits and not self._job.settings.coordinator.is_periodic:
            self.refuse(f"the checkpoint that it should start from failed: {word.error}")
        return True

    def refuse(self, error: str) -> None:
        """Withdraw the wanted parallelism, which is impossible, in favour of the previous or the running one."""
        self.wanted = self._before if self._request is not None else dict(self._runs)
        if self._is_durable:
            self._is_stale = True
            self._note_next()
        self._new_manager()
        self.emit(RescaleRefused(error=error))
        if self._request is not None:
            self._answer(error=f"the job was not rescaled: {error}")

    def _answer(self, *, path: str | None = None, error: str = "") -> None:
        assert self._request is not None
        number, self._request = self._request.request_id, None
        self.emit(CompleteRequest(request_id=number, path=path, error=error))

    # --- the moment of a rescale ----------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """True if the job must be redeployed."""
        return self._manager is not None and self._manager.phase is RescalePhase.TRANSITIONING

    def on_completed_checkpoint(self, checkpoint_id: int) -> None:
        """Trigger a rescale that waits for a completed checkpoint (`Executing.onCompletedCheckpoint`)."""
        self._trigger(f"checkpoint {checkpoint_id} is complete")

    def on_failed_checkpoint(self) -> None:
        """Trigger a waiting rescale after too many failed checkpoints (`Executing.onFailedCheckpoint`)."""
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
        """Handle a timer that fired; return False for one that is not set here."""
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
        """Record in the trace that the job is redeployed from this checkpoint, and return that as a sentence."""
        changed = {name: number for name, number in available.items() if number != self._runs[name]}
        before = {name: self._runs[name] for name in changed}
        note = JobRescaled(checkpoint_id=checkpoint_id, from_=before, to=changed, slots=self.slots, why=self.trigger)
        self.emit(note)
        self.trigger, self.is_under_way = "", True
        steps = ", ".join(f"{name} from {before[name]} to {number}" for name, number in changed.items())
        return f"it is rescaled: {steps}"

    # --- the life of the job --------------------------------------------------------------------------------------

    def deployed(self, parallelism: Mapping[str, int]) -> None:
        """Start a deployment with these parallelisms, considering what has changed since they were decided."""
        self._runs, self.is_under_way = dict(parallelism), False
        self._is_deployed = self._request is not None and self.available() == self._runs
        self._stop_waiting()
        if not self.settings.reactive:
            self.slots = None  # the host's reports about slots count until then
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
        """The setting, or by default the time in which one more checkpoint than tolerated fails (`Settings.of`)."""
        given, coordinator = self.settings.max_trigger_delay_ms, self._job.settings.coordinator
        if given is not None:
            return given
        return (self.settings.max_checkpoint_failures + 1) * coordinator.interval_ms if coordinator.is_periodic else 0

    def all_running(self, path: str) -> None:
        """Answer the user's request, when all tasks run from the checkpoint at `path` ("": from scratch)."""
        if self._is_deployed and self._request is not None:
            self._answer(path=path)

    def stopped(self) -> None:
        """End the epoch."""
        if self._manager is not None:
            self._manager.close()
        self._manager, self._failures_left, self.trigger = None, None, ""

    def has_slots(self) -> bool:
        """Return True if the job should be deployed now.

        Otherwise it waits for the host's next report or a timeout: for enough slots, and for a while for all that are
        wanted (`WaitingForResources`).
        """
        available, stable_ms = self.available(), self.settings.submission_stabilization_ms
        if available is None:
            self._wait_for_slots(SLOT_WAIT_TIMER, self.settings.slot_wait_ms)
            return False
        if available == self.wanted or self._makes_do or not stable_ms:
            return True
        self._wait_for_slots(SLOT_STABILIZATION_TIMER, stable_ms)
        return False

    def has_slots_for_regions(self) -> bool:
        """Return True if tasks that stopped can be deployed again beside those that run, at the present parallelism.

        Otherwise they wait for the host's next report or a timeout.
        """
        if self.slots is None or self.slots >= self.running_slots:
            return True
        self._wait_for_slots(SLOT_WAIT_TIMER, self.settings.slot_wait_ms, self.running_slots)
        return False

    @property
    def running_slots(self) -> int:
        """The number of slots on which the job was deployed."""
        return len(TaskSlots(self._job, self._runs))

    def regions_deployed(self) -> None:
        """Note that the tasks of some regions were deployed again."""
        self._stop_waiting()
        self.slots = None  # the host's reports about slots count until then

    def _wait_for_slots(self, timer: str, for_ms: int | None, least: int | None = None) -> None:
        if not self.waits_for_slots:
            self.waits_for_slots = True
            self.emit(WaitingForSlots(slots=self.slots, least=self.least if least is None else least))
        if for_ms is not None and timer not in self._slot_timers:
            self._slot_timers.add(timer)
            self.emit(ScheduleTimer(timer=timer, due_ms=self.at + for_ms))

    def gave_up_on_slots(self, timer: str) -> str:
        """Return why this timer says that the job cannot be deployed, or "". Flink: `NoResourceAvailableException`."""
        if timer != SLOT_WAIT_TIMER or not self.waits_for_slots or self.available() is not None:
            return ""
        self._slot_timers.discard(timer)
        self._stop_waiting()
        return f"{self.slots_said}, and no others came within {self.settings.slot_wait_ms} ms"

    def regions_gave_up_on_slots(self, timer: str) -> bool:
        """Return True if this timer says that stopped regions have waited for slots in vain."""
        if timer != SLOT_WAIT_TIMER or not self.waits_for_slots:
            return False
        self._slot_timers.discard(timer)
        self._stop_waiting()
        return self.slots is not None and self.slots < self.running_slots

    @property
    def slots_said(self) -> str:
        """The number of available and of required slots, as text."""
        are = "1 slot is" if self.slots == 1 else f"{self.slots} slots are"
        return f"{are} there, the job needs {self.least} at least"

    def _stop_waiting(self) -> None:
        for timer in sorted(self._slot_timers):
            self.emit(CancelTimer(timer=timer))
        self._slot_timers.clear()
        self.waits_for_slots = self._makes_do = False

    def end(self, status: str) -> None:
        """End with the job in this status."""
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
