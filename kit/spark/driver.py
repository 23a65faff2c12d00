"""The driver: the JobMaster machine at work, in a thread of the process that started the job.

Theory of operation. Everything that happens arrives in one inbox: slots that join, speak and leave (`ControlServer`),
answers of the background thread that reads and writes files, the end of a gang, the user's requests. The thread takes
one item at a time, has the machine handle it, and carries out what it asks for. It never waits for anything else.

`StartEpoch` submits a gang of slots (`kit.spark.epoch`); `StopEpoch` tells them to leave, and is answered when every
slot has ended its connection and the gang is gone. A slot that is lost fails the epoch; the JobMaster decides what
follows. Spark's own retries play no part. When the job has ended for good, what was to be removed is waited for.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

from kit.coordinator.master_hooks import MasterHook, MasterHooks
from kit.graph.epoch_shape import epoch_shape
from kit.graph.execution_graph import ExecutionGraph
from kit.graph.job_graph import JobGraph
from kit.host.job_failed import JobFailedError
from kit.host.job_files import JobFiles
from kit.host.storage import CheckpointLocation
from kit.host.stores import open_store
from kit.job.job_master import JobMaster
from kit.job.status import JobStatus
from kit.protocol.commands import (
    CancelTimer,
    CompleteRequest,
    DiscardState,
    JobStatusChanged,
    Note,
    ScheduleTimer,
    StartEpoch,
    StopEpoch,
)
from kit.protocol.duties import Command, Duty, by_command, refused
from kit.protocol.events import EpochEnded, OperatorEventLost, SlotLost, TimerFired
from kit.protocol.messages import JobMessage, OperatorEventToTask, TaskStateChanged
from kit.protocol.tasks import ExecutionState, split_task_name
from kit.protocol.trace import Trace, TraceRecord
from kit.protocol.vocabulary import COMMANDS
from kit.protocol.words import Envelope, ProtocolError, Word
from kit.spark.addresses import connect_message, told_addresses
from kit.spark.auth import new_secret
from kit.spark.background import Background, HostClock
from kit.spark.codec import CodecError, pack_words, unpack_words
from kit.spark.control import SlotJoined, SlotLeft, SlotMessage
from kit.spark.driver_inbox import Answered, Asked, CleanedUp, Failed, Look
from kit.spark.driver_settings import DriverSettings
from kit.spark.edge import SparkOutput, local_state_directory, open_local_state, open_storage
from kit.spark.epoch import Epoch, GangEnded, Launch
from kit.spark.meters import MeterReadings
from kit.spark.recording import DRIVER, EventFile, read_schedule
from kit.spark.slot import CONNECTED, DELIVER, PEER_LOST, TROUBLE, SlotTicket
from kit.spark.slot_watch import SlotWatch
from kit.spark.wire import ControlMessage
from kit.spark.working_slot import METERS, SAID

logger = logging.getLogger("kit.spark")

PEER_MS = 500
"""A slot that others have lost has so long to be lost by the driver too, who knows better why."""


class JobDriver:
    """One job, from `start` to its end. `launch` starts gangs of slots: on Spark, or in a test on something simpler."""

    def __init__(
        self,
        job: JobGraph,
        launch: Launch,
        *,
        checkpoints: str,
        output: SparkOutput,
        hooks: Sequence[MasterHook] = (),
        settings: DriverSettings | None = None,
        recording: str = "",
    ) -> None:
        self.job = job
        self.settings = settings or DriverSettings()
        self.lock = threading.Lock()
        """Held while the machine works and the trace grows; whoever looks at them takes it."""
        master_hooks = MasterHooks(hooks)
        self.master = JobMaster(job, tuple(master_hooks))
        self.trace = Trace()
        self.rows_read: dict[tuple[int, int], int] = {}
        """By the sources, of each epoch and slot."""
        self.meters = MeterReadings()
        """Of the present epoch's slots."""
        self.running = threading.Event()
        """Set once all tasks have run, or the job has ended: before that it can answer no request."""
        self.ran_epoch = 0
        """The newest epoch of which all tasks have run."""
        self.ended = threading.Event()
        self.error: JobFailedError | None = None
        self.secret = new_secret()
        self._hooks = master_hooks
        self.launch = launch
        self.slot_watch = SlotWatch(reactive=job.settings.rescaling.reactive)
        self._checkpoints = checkpoints
        self._recording = recording
        self._output = output
        self._local_state = local_state_directory(job)
        self._storage = open_storage(job, checkpoints)
        store = open_store(job.settings.checkpoint.store, self._storage)
        self._files = JobFiles(job, self._storage, master_hooks, store, output)
        self._discarded: set[str] = set()
        self._told: dict[int, list[Envelope]] = {}
        """What the event being handled has told tasks, by slot, until the next command of another kind."""
        self._now = HostClock()
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._timers: dict[str, tuple[int, Callable[[], None]]] = {}
        self._requests: dict[int, Future[CompleteRequest]] = {}
        self._request_count = 0
        self._epoch: Epoch | None = None
        self._worker_traceback = ""
        self._thread = threading.Thread(target=self._run, name=f"kit-driver-{job.name}", daemon=True)

    def __repr__(self) -> str:
        return f"JobDriver({self.job.name}, {self.master.status.name}, {self._epoch or 'no epoch'})"

    # --- the user's side, on any thread ---------------------------------------------------------------------------

    def start(self) -> None:
        """Open the control socket and begin to take events."""
        self._events = None
        if self._recording:
            self._events = EventFile(self._recording, DRIVER)
            self._events.begin(self.job.job_id, self._checkpoints)
        self._server = self.settings.control_server(self.secret, self._inbox)
        self._background = Background("kit-files-driver", self._inbox.put, Failed)
        self._cleaner = Background("kit-cleaner-driver", self._inbox.put, Failed)
        if self.slot_watch.reactive:
            self._inbox.put(Look())
        self._thread.start()

    def tell(self, event: Word) -> None:
        """Hand the JobMaster an event."""
        self._inbox.put(Asked(lambda number: event, None))

    def ask(self, make: Callable[[int], Word]) -> Future[CompleteRequest]:
        """Hand the JobMaster a request, made with the number it is given; the answer comes later."""
        answer: Future[CompleteRequest] = Future()
        self._inbox.put(Asked(make, answer))
        if self.ended.is_set() and not answer.done():
            answer.set_exception(self._is_over())
        return answer

    def workers(self) -> dict[int, int]:
        """The process id of each slot that is connected."""
        with self.lock:
            return {} if self._epoch is None else self._epoch.pids()

    def hosts(self) -> dict[int, str]:
        """The machine of each slot that is connected."""
        with self.lock:
            return {} if self._epoch is None else {slot: hello.host for slot, hello in self._epoch.joined.items()}

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the job has ended and nothing of it is left; False when it has not in time."""
        ended = self.ended.wait(timeout_s)
        if ended:
            self._thread.join()
        return ended

    # --- the loop -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self.ended.is_set():
                self._take_next()
        except Exception as error:
            logger.exception("the driver of job %s failed", self.job.name)
            self.error = JobFailedError(
                f"the driver of job {self.job.name} failed: {type(error).__name__}: {error}", traceback.format_exc()
            )
        finally:
            self._close()

    def _take_next(self) -> None:
        due_ms = min((due for due, _ in self._timers.values()), default=None)
        try:
            timeout_s = None if due_ms is None else max(0.0, (due_ms - self._now()) / 1000)
            item = self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            item = None
        if item is not None:
            self._TAKE[type(item)](self, item)
        now_ms = self._now()
        for name, (due, fire) in sorted(self._timers.items(), key=lambda timer: timer[1][0]):
            if due <= now_ms and name in self._timers:
                del self._timers[name]
                fire()

    def _close(self) -> None:
        epoch = self._epoch
        if epoch is not None and not epoch.is_over:
            if epoch.stop is None:
                self._server.fence(epoch.number + 1)
            epoch.cancel()
            epoch.kill_stragglers()
        self._server.close()
        for background in (self._background, self._cleaner):
            background.close(self.settings.kill_ms / 1000)
        self._files.close()
        self._hooks.close()
        if self._events is not None:
            self._events.close()
            self.trace.schedule = read_schedule(self._recording)
        local = open_local_state(self.job, self._local_state)
        if local is not None:
            local.drop()  # on this machine; on others the last slot to leave does so
        self.ended.set()
        self.running.set()
        for answer in self._requests.values():
            answer.set_exception(self._is_over())
        while not self._inbox.empty():
            item = self._inbox.get()
            if isinstance(item, Asked) and item.answer is not None and not item.answer.done():
                item.answer.set_exception(self._is_over())

    def _is_over(self) -> JobFailedError:
        return self.error or JobFailedError(f"job {self.job.name} has ended: it is {self.master.status.name}")

    def _handle(self, event: Word, cause: str = "") -> None:
        with self.lock:
            commands = self.master.handle(event, self._now(), cause)
            event_id = self.master.event_id
            if self._events is not None:
                self._events.add(event_id, self.master.at, event, cause)
            self.trace.record(self.master, event, commands)
        for number, command in enumerate(commands, 1):
            carry_out = _CARRY_OUT.get(type(command))
            if carry_out is None:
                raise refused(self.master, command)
            if carry_out is not JobDriver._tell_task:
                self._send_told()
            carry_out(self, command, f"{event_id}.{number}")
        self._send_told()

    # --- what arrives ---------------------------------------------------------------------------------------------

    def _asked(self, item: Asked) -> None:
        self._request_count += 1
        if item.answer is not None:
            self._requests[self._request_count] = item.answer
        self._handle(item.make(self._request_count))

    def _look_for_slots(self, item: Look | None = None) -> None:
        """Tell the JobMaster when there are other slots than it knows of, and look again in a while."""
        news = self.slot_watch.news(self.master.rescaling.least, deployed=self._epoch is not None)
        if news is not None:
            self._handle(news)
        self._look_again()

    def _look_again(self) -> None:
        again_ms = self.slot_watch.again_ms(deployed=self._epoch is not None)
        if again_ms is not None:
            self._in(_SLOTS_TIMER, again_ms, self._look_for_slots)

    def _answered(self, item: Answered) -> None:
        self._handle(item.event, item.cause)

    def _background_failed(self, item: Failed) -> None:
        raise item.error

    def _slot_joined(self, item: SlotJoined) -> None:
        epoch = self._epoch_of(item)
        if epoch is None:
            return
        with self.lock:
            epoch.joined[item.slot] = item.hello
        if len(epoch.joined) == epoch.slots:
            for slots, addresses in told_addresses(epoch.graph, epoch.endpoints()):
                self._server.broadcast(connect_message(addresses), slots)

    def _slot_spoke(self, item: SlotMessage) -> None:
        epoch = self._epoch_of(item)
        if epoch is None:
            self._said_too_late(item)
            return
        hear = self._SPOKEN.get(item.message.kind)
        if hear is None:
            self._lose(epoch, item.slot, f"it said {item.message!r}, expected {', '.join(self._SPOKEN)}")
        else:
            hear(self, epoch, item.slot, item.message)

    def _said(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        try:
            words, records = unpack_words(message, JobMessage)
        except CodecError as error:
            self._lose(epoch, slot, str(error))
            return
        self._extend_trace(records)
        for word, cause in words:
            if isinstance(word, TaskStateChanged) and word.state is ExecutionState.FAILED:
                self._worker_traceback = word.traceback
            self._handle(word, cause)

    def _said_too_late(self, item: SlotMessage) -> None:
        """The slot was told to leave before this came: what was done until then is in the trace all the same."""
        if self._epoch is not None and item.epoch == self._epoch.number and item.message.kind == SAID:
            with contextlib.suppress(CodecError):
                self._extend_trace(unpack_words(item.message, JobMessage)[1])

    def _extend_trace(self, records: Sequence[TraceRecord]) -> None:
        limit = self.settings.trace_records
        with self.lock:
            self.trace.extend(records)
            if len(self.trace) > limit:
                self.trace = self.trace[-limit * 9 // 10 :]

    def _trouble(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        error = str(message.fields["error"])
        if message.fields["fatal"]:
            raise ProtocolError(f"slot {slot}: {error}")
        self._worker_traceback = str(message.fields["traceback"])
        self._lose(epoch, slot, error)

    def _peer_lost(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        lost, reason = int(message.fields["slot"]), str(message.fields["reason"])
        self._in(_PEER_TIMER, PEER_MS, lambda: self._lose(epoch, lost, f"slot {slot} cannot reach it: {reason}"))

    def _slot_connected(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        epoch.connected.add(slot)
        if len(epoch.connected) == epoch.slots:
            self._timers.pop(_START_TIMER, None)
            epoch.connected_ms = self._now()
            self._look_again()
            for receiver, words in epoch.take_waiting():
                self._send(receiver, words)

    def _meters(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        self.rows_read[epoch.number, slot] = int(message.fields["rows"])
        with self.lock:
            self.meters.take(slot, message.fields["tasks"])

    _SPOKEN: ClassVar[dict[str, Callable[[JobDriver, Epoch, int, ControlMessage], None]]] = {
        SAID: _said,
        CONNECTED: _slot_connected,
        TROUBLE: _trouble,
        PEER_LOST: _peer_lost,
        METERS: _meters,
    }

    def _slot_left(self, item: SlotLeft) -> None:
        epoch = self._epoch
        if epoch is None or item.epoch != epoch.number:
            return
        with self.lock:
            epoch.left.add(item.slot)
        if not item.clean:
            epoch.end(item.slot, item.reason)
        if epoch.stop is None:
            self._lose(epoch, item.slot, f"process {epoch.joined[item.slot].pid}: {item.reason}")
        self._end_epoch_when_over(epoch)

    def _gang_ended(self, item: GangEnded) -> None:
        epoch = self._epoch
        if epoch is None or item.epoch != epoch.number:
            return
        epoch.gang_ended = True
        if epoch.stop is None:
            missing = [slot for slot in range(epoch.slots) if slot not in epoch.joined]
            self._lose(epoch, missing[0] if missing else 0, item.error or "its Spark task ended before the job")
        self._end_epoch_when_over(epoch)

    def _cleaned_up(self, item: CleanedUp) -> None:
        self.ended.set()

    _TAKE: ClassVar[dict[type, Callable[[JobDriver, Any], None]]] = {
        Asked: _asked,
        Answered: _answered,
        Failed: _background_failed,
        CleanedUp: _cleaned_up,
        Look: _look_for_slots,
        SlotJoined: _slot_joined,
        SlotMessage: _slot_spoke,
        SlotLeft: _slot_left,
        GangEnded: _gang_ended,
    }

    def _epoch_of(self, item: SlotJoined | SlotMessage) -> Epoch | None:
        """The current epoch if that is the item's and it still goes on."""
        epoch = self._epoch
        if epoch is None or item.epoch != epoch.number or epoch.stop is not None:
            return None
        return epoch

    def _lose(self, epoch: Epoch, slot: int, error: str) -> None:
        if not epoch.lost and epoch.stop is None:
            epoch.lost = True
            self._handle(SlotLost(epoch=epoch.number, slot=slot, error=error))

    # --- commands -------------------------------------------------------------------------------------------------

    def _observe(self, command: Command, cause: str) -> None:
        """The trace has it; when all tasks run, requests can be answered."""
        if isinstance(command, Note) and command.kind == "AllTasksRunning":
            self.ran_epoch = self.master.epoch
            self.running.set()
        elif isinstance(command, Note) and command.kind == "WaitingForSlots":
            logger.warning("job %s waits for slots: %s", self.job.name, self.master.rescaling.slots_said)

    def _tell_task(self, message: Any, cause: str) -> None:
        """What is told to the tasks of a slot one after the other goes there in one piece."""
        self._told.setdefault(split_task_name(message.task)[1], []).append(Envelope(message, cause))

    def _send_told(self) -> None:
        if self._told:
            told, self._told = self._told, {}
            for slot, words in told.items():
                self._send(slot, words)

    def _send(self, slot: int, words: list[Envelope]) -> None:
        epoch = self._epoch
        words = [each for each in words if epoch is not None and each.word.attempt == epoch.number]
        if epoch is None or not words or epoch.stop is not None:
            return
        if len(epoch.connected) < epoch.slots:
            epoch.waiting.setdefault(slot, []).extend(words)
        else:
            self._deliver(slot, words)

    def _deliver(self, slot: int, words: list[Envelope]) -> None:
        """What cannot be delivered since the connection is over is lost with the slot, of which the inbox will tell."""
        try:
            self._server.send(slot, pack_words(DELIVER, words))
        except (TypeError, ValueError) as error:
            lost = [each for each in words if isinstance(each.word, OperatorEventToTask)]
            if not lost:
                raise
            for word, cause in lost:
                self._inbox.put(Answered(_lost(word, str(error)), cause))

    def _begin(self, command: Command, cause: str) -> None:
        """What reads or writes goes to the background."""
        self._background.submit(lambda: self._carry_out(command, cause))

    def _carry_out(self, command: Command, cause: str) -> Answered | None:
        """On the background thread."""
        answer = self._files.carry_out(command)
        return None if answer is None else Answered(answer, cause)

    def _schedule(self, command: ScheduleTimer, cause: str) -> None:
        name = command.timer
        self._timers[name] = (command.due_ms, lambda: self._handle(TimerFired(timer=name), cause))

    def _cancel_timer(self, command: CancelTimer, cause: str) -> None:
        self._timers.pop(command.timer, None)

    def _start_epoch(self, command: StartEpoch, cause: str) -> None:
        ticket = SlotTicket(
            job=self.job,
            epoch=command.epoch,
            parallelism=dict(command.parallelism),
            max_parallelism=dict(command.max_parallelism),
            driver=self._server.endpoint,
            secret=self.secret,
            checkpoints=self._checkpoints,
            output=self._output,
            wire=self.settings.wire,
            host=self.settings.slot_host,
            local_state=self._local_state,
            recording=self._recording,
        )
        graph = ExecutionGraph(self.job, command.parallelism, command.max_parallelism)
        epoch = Epoch(command.epoch, ticket.slots, graph)
        with self.lock:
            self._epoch = epoch
            self.meters = MeterReadings()
            self.trace.stages.append(epoch_shape(graph, command.epoch))
        self._worker_traceback = ""
        self.slot_watch.deployed()
        self._in(_START_TIMER, int(self.settings.start_timeout_s * 1000), lambda: self._start_timed_out(epoch))
        epoch.gang = self.launch(ticket, lambda error: self._inbox.put(GangEnded(epoch.number, error)))

    def _start_timed_out(self, epoch: Epoch) -> None:
        missing = [slot for slot in range(epoch.slots) if slot not in epoch.connected]
        self._lose(
            epoch,
            missing[0],
            f"only {epoch.slots - len(missing)} of {epoch.slots} slots connected within "
            f"{self.settings.start_timeout_s:g} s: are Spark's slots taken by other work?",
        )

    def _stop_epoch(self, command: StopEpoch, cause: str) -> None:
        epoch = self._epoch
        if epoch is None or epoch.number != command.epoch:
            self._inbox.put(Answered(EpochEnded(epoch=command.epoch), cause))
            return
        if epoch.stop is not None:
            return
        epoch.stop = Envelope(command, cause)
        for timer in (_START_TIMER, _PEER_TIMER):
            self._timers.pop(timer, None)
        self._server.fence(command.epoch + 1, for_good=self.master.ending_as is not None)
        settings = self.settings
        for name, delay_ms, act in (
            (_CANCEL_TIMER, settings.leave_ms, epoch.cancel),
            (_KILL_TIMER, settings.kill_ms, epoch.kill_stragglers),
            (_ABANDON_TIMER, settings.abandon_ms, lambda: self._epoch_over(epoch)),
        ):
            self._in(name, delay_ms, act)
        self._end_epoch_when_over(epoch)

    def _in(self, name: str, delay_ms: int, act: Callable[[], None]) -> None:
        self._timers[name] = (self._now() + delay_ms, act)

    def _end_epoch_when_over(self, epoch: Epoch) -> None:
        if epoch.stop is not None and epoch.is_over:
            self._epoch_over(epoch)

    def _epoch_over(self, epoch: Epoch) -> None:
        for name in (_CANCEL_TIMER, _KILL_TIMER, _ABANDON_TIMER):
            self._timers.pop(name, None)
        assert epoch.stop is not None
        locations, self._discarded = self._discarded, set()
        self._cleaner.submit(lambda: self._dispose(locations))
        with self.lock:
            self._epoch = None
        self._look_for_slots()  # Spark knows by now what was lost
        self._handle(EpochEnded(epoch=epoch.number), epoch.stop.cause)

    def _answer(self, command: CompleteRequest, cause: str) -> None:
        answer = self._requests.pop(command.request_id, None)
        if answer is not None:
            answer.set_result(command)

    def _status_changed(self, command: JobStatusChanged, cause: str) -> None:
        status = JobStatus[command.status]
        if status is JobStatus.RESTARTING:
            level = logging.INFO if self.master.is_rescaled else logging.WARNING
            logger.log(level, "job %s restarts: %s", self.job.name, command.error)
        if status.is_terminal:
            if status is JobStatus.FAILED:
                self.error = JobFailedError(command.error, self._worker_traceback)
            self._cleaner.submit(CleanedUp)

    def _clean_up(self, command: Command, cause: str) -> None:
        """What deletes goes to a background of its own, in order: nothing waits for it. What a slot writes there later
        is deleted when the epoch has ended.
        """
        if isinstance(command, DiscardState) and command.location is not None:
            self._discarded.add(command.location)
        self._cleaner.submit(lambda: self._carry_out(command, cause))

    def _dispose(self, locations: set[str]) -> None:
        for location in locations:
            with _logged(f"job {self.job.name} leaves {location} behind"):
                self._storage.dispose_on_failure(CheckpointLocation(location))

    DUTIES: ClassVar[dict[Duty, Callable[[JobDriver, Any, str], None]]] = {
        Duty.OBSERVE: _observe,
        Duty.SET_TIMER: _schedule,
        Duty.CANCEL_TIMER: _cancel_timer,
        Duty.TELL_TASK: _tell_task,
        Duty.WORK: _begin,
        Duty.CLEAN_UP: _clean_up,
        Duty.START_EPOCH: _start_epoch,
        Duty.STOP_EPOCH: _stop_epoch,
        Duty.ANSWER_USER: _answer,
        Duty.SHOW_STATUS: _status_changed,
    }
    """How the driver sees to the duties of the JobMaster; those of the tasks are the slots'."""


_CARRY_OUT = by_command(JobDriver.DUTIES, COMMANDS)


def _lost(word: OperatorEventToTask, error: str) -> OperatorEventLost:
    return OperatorEventLost(task=word.task, attempt=word.attempt, operator_id=word.operator_id, error=error)


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    """What cannot be deleted is left behind, and stops nothing."""
    try:
        yield
    except OSError as error:
        logger.warning("%s: %s", what, error)


# Names that no machine gives its timers.
_START_TIMER = "driver: all slots connected"
_SLOTS_TIMER = "driver: look for slots"
_PEER_TIMER = "driver: a slot that others have lost"
_CANCEL_TIMER = "driver: cancel the gang"
_KILL_TIMER = "driver: kill stragglers"
_ABANDON_TIMER = "driver: give stragglers up"
