"""The life of every checkpoint of a run, read from the JobMaster's records: requests, steps, acknowledgements, timers.

One pass over a trace builds the log. A *step* is a request that is answered later: for a number, a directory, the part
of an operator coordinator or a hook, an acknowledgement, `_metadata`, or the store. A step without an answer is open.
The steps determine the checkpoint's state in `kit.machines.coordinator.checkpoint_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kit.core.protocol.commands import (
    CancelTimer,
    InitializeLocation,
    ScheduleCoordinatorCheckpoint,
    ScheduleTimer,
    StoreCheckpoint,
    TriggerMasterHook,
    WriteMetadata,
)
from kit.core.protocol.events import (
    CheckpointIdAllocated,
    CheckpointStoreFailed,
    LocationFailed,
    LocationInitialized,
    MasterHookFailed,
    MetadataFailed,
    MetadataWritten,
    StartJob,
    TimerFired,
)
from kit.core.protocol.messages import NotifyCheckpointComplete
from kit.core.protocol.notes import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointPending,
    CheckpointTriggered,
    CoordinatorAcknowledged,
    MasterHookAcknowledged,
    PeriodicTriggerScheduled,
    RequestNote,
    RequestQueued,
    RequestRefused,
    TaskAcknowledged,
    TriggeringFailed,
    TriggeringStarted,
)
from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import TraceRecord, kind_name, kind_names
from kit.machines.coordinator.checkpoint_state import CheckpointState
from kit.machines.coordinator.ledger import timeout_timer
from kit.machines.coordinator.periodic import PERIODIC_TIMER
from kit.run.moments.job_state import is_of_the_job_master
from kit.run.reading import Reading

ID, LOCATION, COORDINATOR, HOOK, ACK, METADATA, STORE, NOTIFY = (
    "number",
    "directory",
    "coordinator",
    "hook",
    "ack",
    "_metadata",
    "store",
    "notified",
)


@dataclass(slots=True)
class Step:
    """A request made at `start_ms` and answered at `end_ms` (None while it is open).

    `of` is the operator, hook or task that answers. `error` is the cause if the step failed.
    """

    kind: str
    of: str
    start_ms: int
    end_ms: int | None = None
    error: str = ""


@dataclass(slots=True)
class Request:
    """A request in the decider's queue, and the time at which it arrived."""

    label: str
    at_ms: int


@dataclass(slots=True)
class CheckpointLife:
    """One checkpoint: its request, its steps in order, and the states it entered, with times."""

    checkpoint_id: int
    request: str = ""
    asked_ms: int | None = None
    begun_ms: int | None = None
    coordinators: int = 0
    """The number of operator coordinators that contribute, as the JobMaster reports it."""
    hooks: int = 0
    """The number of master hooks it calls."""
    steps: list[Step] = field(default_factory=list)
    states: list[tuple[CheckpointState, int]] = field(default_factory=list)
    ended: str = ""
    ended_ms: int | None = None

    @property
    def state(self) -> CheckpointState | None:
        """The current state; None before the checkpoint has a number."""
        return self.states[-1][0] if self.states else None

    def of_kind(self, kind: str) -> list[Step]:
        """Return the steps of one kind."""
        return [step for step in self.steps if step.kind == kind]

    def open(self, kind: str) -> list[Step]:
        """Return the steps of a kind that have no answer yet."""
        return [step for step in self.of_kind(kind) if step.end_ms is None]

    def answered(self, kind: str) -> int:
        """Return the number of steps of a kind that have succeeded."""
        return sum(step.end_ms is not None and not step.error for step in self.of_kind(kind))

    def enter(self, state: CheckpointState, at_ms: int) -> None:
        """Enter a state, unless it is the current one."""
        if self.state is not state:
            self.states.append((state, at_ms))

    def answer(self, kind: str, at_ms: int, of: str = "", error: str = "") -> None:
        """Answer an open step."""
        step = next((each for each in self.open(kind) if each.of == of), None)
        if step is not None:
            step.end_ms, step.error = at_ms, error


class CheckpointLog:
    """The checkpoints of a run by id, the waiting requests, the timers that are set, and the `moment`.

    Everything is as it was after the first `n` records of a reading.
    """

    def __init__(self, reading: Reading, n: int | None = None) -> None:
        self.lives: dict[int, CheckpointLife] = {}
        self.queue: list[Request] = []
        self.timers: dict[str, tuple[int, int]] = {}
        """When each of the JobMaster's timers was set, and when it is due, by name."""
        self.interval_ms: int | None = None
        self.min_pause_ms: int | None = None
        self.last_completion_ms: int | None = None
        self.starting: CheckpointLife | None = None
        """The checkpoint that was chosen to start and has no number yet."""
        self.moment = reading.moment_at(n)
        for record in reading.of_kinds(_KINDS, n):
            number = record.checkpoint_id
            if number is not None and number not in self.lives and record.kind not in _BEGIN:
                continue  # it is about the checkpoint that the job was started from, not one of this run
            handler = _HANDLERS.get((record.role, record.kind))
            if handler is not None and is_of_the_job_master(record):
                handler(self, record)
            elif record.is_a(NotifyCheckpointComplete) and record.role == "event":
                self._answered(NOTIFY, record, record.machine)

    def _life(self, record: TraceRecord) -> CheckpointLife:
        number = record.checkpoint_id if record.checkpoint_id is not None else record.data["checkpoint_id"]
        return self.lives.setdefault(number, CheckpointLife(number))

    # --- requests ---------------------------------------------------------------------------------------------------

    def _queued(self, record: TraceRecord) -> None:
        note = record.note(RequestQueued)
        self.queue.insert(note.position, Request(note.request, record.at_ms))

    def _left(self, record: TraceRecord) -> Request | None:
        """Remove a request from the queue and return it, if it was there."""
        label = record.note(RequestNote).request
        found = next((each for each in self.queue if each.label == label), None)
        if found is not None:
            self.queue.remove(found)
        return found

    def _started(self, record: TraceRecord) -> None:
        queued = self._left(record)
        asked = record.at_ms if queued is None else queued.at_ms
        self.starting = CheckpointLife(-1, record.note(TriggeringStarted).request, asked, record.at_ms)
        self.starting.steps.append(Step(ID, "", record.at_ms))

    def _failed_to_start(self, record: TraceRecord) -> None:
        self._left(record)
        self.starting = None

    def _new_driver(self, record: TraceRecord) -> None:
        """Discard the plans of the previous driver."""
        self.queue, self.timers, self.starting = [], {}, None

    def _numbered(self, record: TraceRecord) -> None:
        if self.starting is not None:
            self.starting.checkpoint_id = record.data["checkpoint_id"]
            self.starting.answer(ID, record.at_ms)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _begun(self, record: TraceRecord) -> None:
        begun, self.starting = self.starting, None
        note = record.note(CheckpointPending)
        if begun is not None and begun.checkpoint_id == note.checkpoint_id:
            self.lives[begun.checkpoint_id] = begun
        life = self._life(record)
        life.coordinators, life.hooks = note.coordinators, note.hooks
        life.enter(CheckpointState.LOCATING, record.at_ms)

    def _asked(self, kind: str, record: TraceRecord, of: str = "") -> None:
        self._life(record).steps.append(Step(kind, of, record.at_ms))

    def _answered(self, kind: str, record: TraceRecord, of: str = "", error: str = "") -> None:
        self._life(record).answer(kind, record.at_ms, of, error)

    def _located(self, record: TraceRecord) -> None:
        life = self._life(record)
        if life.state is CheckpointState.LOCATING:
            life.answer(LOCATION, record.at_ms)
            life.enter(CheckpointState.COORDINATORS, record.at_ms)
            self._go_on(life, record.at_ms)

    def _go_on(self, life: CheckpointLife, at_ms: int) -> None:
        """Enter the states up to the triggering of the tasks, as far as the answers that each needs have arrived."""
        if life.state is CheckpointState.COORDINATORS and life.answered(COORDINATOR) == life.coordinators:
            life.enter(CheckpointState.HOOKS, at_ms)
        if life.state is CheckpointState.HOOKS and life.answered(HOOK) == life.hooks:
            life.enter(CheckpointState.TRIGGERING, at_ms)

    def _triggered(self, record: TraceRecord) -> None:
        life, expected = self._life(record), self.moment.checkpoints[record.checkpoint_id or -1].expected
        life.steps += [Step(ACK, task, record.at_ms) for task in expected]
        life.enter(CheckpointState.COLLECTING, record.at_ms)

    def _acked(self, record: TraceRecord) -> None:
        life = self._life(record)
        self._answered(ACK, record, record.note(TaskAcknowledged).task)
        if life.of_kind(ACK) and not life.open(ACK):
            life.enter(CheckpointState.ACKNOWLEDGED, record.at_ms)

    def _writes(self, record: TraceRecord) -> None:
        life = self._life(record)
        if life.state is CheckpointState.COLLECTING:  # every task had finished before the checkpoint began
            life.enter(CheckpointState.ACKNOWLEDGED, record.at_ms)
        life.enter(CheckpointState.WRITING, record.at_ms)
        self._asked(METADATA, record)

    def _written(self, record: TraceRecord) -> None:
        life = self._life(record)
        life.answer(METADATA, record.at_ms)
        if life.state is CheckpointState.WRITING:
            life.enter(CheckpointState.STORING, record.at_ms)

    def _completed(self, record: TraceRecord) -> None:
        life = self._life(record)
        self._answered(STORE, record)
        life.enter(CheckpointState.COMPLETED, record.at_ms)
        life.ended, life.ended_ms = "completed", record.at_ms
        self.last_completion_ms = record.at_ms

    def _aborted(self, record: TraceRecord) -> None:
        life = self._life(record)
        life.enter(CheckpointState.ABORTED, record.at_ms)
        life.ended, life.ended_ms = record.note(CheckpointAborted).reason, record.at_ms

    # --- clocks -------------------------------------------------------------------------------------------------------

    def _timer_set(self, record: TraceRecord) -> None:
        self.timers[record.data["timer"]] = record.at_ms, record.data["due_ms"]

    def _timer_over(self, record: TraceRecord) -> None:
        self.timers.pop(record.data["timer"], None)

    def _periodic(self, record: TraceRecord) -> None:
        note = record.note(PeriodicTriggerScheduled)
        self.interval_ms, self.min_pause_ms = note.interval_ms, note.min_pause_ms

    def expires_ms(self, checkpoint_id: int) -> int | None:
        """Return when a pending checkpoint expires; None once its timer is cancelled."""
        timer = self.timers.get(timeout_timer(checkpoint_id))
        return None if timer is None else timer[1]

    @property
    def next_periodic_ms(self) -> int | None:
        """Return when the next periodic checkpoint is due."""
        timer = self.timers.get(PERIODIC_TIMER)
        return None if timer is None else timer[1]

    @property
    def pause_until_ms(self) -> int | None:
        """Return the time until which the minimum pause delays periodic checkpoints."""
        if not self.min_pause_ms or self.last_completion_ms is None:
            return None
        return self.last_completion_ms + self.min_pause_ms


_BEGIN = kind_names(CheckpointIdAllocated, CheckpointPending)

_Handler = Callable[[CheckpointLog, TraceRecord], object]


def _step(kind: str, who: str = "") -> _Handler:
    """Return the handler of a request for a step; `who` is the field that names the one who answers."""
    return lambda log, record: log._asked(kind, record, record.data[who] if who else "")


def _part(kind: str, who: Callable[[TraceRecord], str]) -> _Handler:
    """Return the handler of an answer after which the checkpoint may go on; `who` names the one who answers."""

    def handle(log: CheckpointLog, record: TraceRecord) -> None:
        log._answered(kind, record, who(record))
        log._go_on(log._life(record), record.at_ms)

    return handle


def _failed(kind: str, who: str = "") -> _Handler:
    return lambda log, record: log._answered(
        kind, record, record.data.get(who, "") if who else "", str(record.data.get("error") or "failed")
    )


_WHEN: dict[tuple[str, type[ProtocolMessage]], _Handler] = {
    ("event", StartJob): CheckpointLog._new_driver,
    ("event", TimerFired): CheckpointLog._timer_over,
    ("command", CancelTimer): CheckpointLog._timer_over,
    ("command", ScheduleTimer): CheckpointLog._timer_set,
    ("command", PeriodicTriggerScheduled): CheckpointLog._periodic,
    ("command", RequestQueued): CheckpointLog._queued,
    ("command", RequestRefused): CheckpointLog._left,
    ("command", TriggeringStarted): CheckpointLog._started,
    ("command", TriggeringFailed): CheckpointLog._failed_to_start,
    ("event", CheckpointIdAllocated): CheckpointLog._numbered,
    ("command", CheckpointPending): CheckpointLog._begun,
    ("command", InitializeLocation): _step(LOCATION),
    ("event", LocationInitialized): CheckpointLog._located,
    ("event", LocationFailed): _failed(LOCATION),
    ("command", ScheduleCoordinatorCheckpoint): _step(COORDINATOR, "operator_id"),
    ("command", CoordinatorAcknowledged): _part(
        COORDINATOR, lambda record: record.note(CoordinatorAcknowledged).operator_id
    ),
    ("command", TriggerMasterHook): _step(HOOK, "hook"),
    ("command", MasterHookAcknowledged): _part(HOOK, lambda record: record.note(MasterHookAcknowledged).hook),
    ("event", MasterHookFailed): _failed(HOOK, "hook"),
    ("command", CheckpointTriggered): CheckpointLog._triggered,
    ("command", TaskAcknowledged): CheckpointLog._acked,
    ("command", WriteMetadata): CheckpointLog._writes,
    ("event", MetadataWritten): CheckpointLog._written,
    ("event", MetadataFailed): _failed(METADATA),
    ("command", StoreCheckpoint): _step(STORE),
    ("event", CheckpointStoreFailed): _failed(STORE),
    ("command", NotifyCheckpointComplete): _step(NOTIFY, "task"),
    ("command", CheckpointCompleted): CheckpointLog._completed,
    ("command", CheckpointAborted): CheckpointLog._aborted,
}
"""The handler of the records of these roles and kinds."""
_HANDLERS = {(role, kind_name(word)): handler for (role, word), handler in _WHEN.items()}
_KINDS = kind_names(*(word for _, word in _WHEN))
