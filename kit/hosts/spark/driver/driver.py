"""The driver: the host of the JobMaster machine, in a thread of the process that started the job.

Theory of operation. Everything arrives in one inbox: slots that join, send messages and leave (`ControlServer`),
answers of the background thread that reads and writes files, the end of a gang, and the user's requests. The thread
takes one item at a time, has the machine handle it, and carries out the resulting commands. It never waits for anything
else.

`kit.hosts.spark.driver.slots` manages the slots of each epoch. Spark's own retries are not used. When the job has
ended, the driver waits until pending deletions are done.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ClassVar, assert_never

from kit.core.protocol.commands import (
    CancelTimer,
    CompleteRequest,
    DiscardState,
    JobStatusChanged,
    ScheduleTimer,
    StartEpoch,
    StartTasks,
    StopEpoch,
    StopTasks,
)
from kit.core.protocol.duties import Command, Duty, by_command, refused
from kit.core.protocol.events import ClusterStopped, EpochEnded, StartJob, TimerFired
from kit.core.protocol.notes import AllTasksRunning, CheckpointCompleted, Note
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Envelope, ProtocolMessage
from kit.core.trace.trace import Trace, TraceRecord
from kit.files.disposal import dispose
from kit.files.job_files import JobFiles
from kit.files.master_hooks import MasterHook, MasterHooks
from kit.files.storage import CheckpointLocation
from kit.files.stores.opening import open_store
from kit.hosts.spark.driver.background import Background, HostClock
from kit.hosts.spark.driver.deployment import GangEnded, Launch
from kit.hosts.spark.driver.driver_inbox import Answered, Asked, CleanedUp, Failed, Look
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.driver.driver_timers import DriverTimers
from kit.hosts.spark.driver.leaders import driver_ended, driver_started, may_be_alive, this_driver
from kit.hosts.spark.driver.slot_watch import SlotWatch
from kit.hosts.spark.driver.slots import Slots
from kit.hosts.spark.edge import SparkOutput, local_state_directory, open_local_state, open_storage
from kit.hosts.spark.job_log import JobLog
from kit.hosts.spark.output_locks import OutputLocks
from kit.hosts.spark.recording import DRIVER, EventFile, read_schedule
from kit.hosts.spark.slot.slot import SlotTicket
from kit.hosts.spark.wire.control import SlotJoined, SlotLeft, SlotMessage
from kit.machines.job.errors import JobEndedError, JobFailedError
from kit.machines.job.job_master import JobMaster
from kit.machines.job.status import JobStatus
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    from kit.hosts.spark.frames.staging import Staging

logger = logging.getLogger("kit.hosts.spark")


class JobDriver:
    """The driver of one job. `launch` starts gangs of slots: on Spark, or in tests without it."""

    slots: Slots

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
        staging: Staging | None = None,
        locks: OutputLocks | None = None,
    ) -> None:
        self.job = job
        self.settings = settings or DriverSettings()
        self.lock = threading.Lock()
        """The lock held while the machine and the trace change; readers of them must take it."""
        master_hooks = MasterHooks(hooks)
        self.master = JobMaster(job, tuple(master_hooks))
        self._log = JobLog(self.master)
        self.trace = Trace()
        self.now = HostClock()
        self.slots = Slots(self, launch, self._ticket)
        self.timers = DriverTimers(self.now)
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.running = threading.Event()
        """An event that is set once all tasks have run or the job has ended; earlier, no request can be answered."""
        self._ran_after = -1
        """The number of restarts after which all tasks last began to run; -1 before they have."""
        self.ended = threading.Event()
        self.error: JobFailedError | None = None
        self.last_failure = ""
        """The reason for the job's last restart, until a checkpoint completes or the job ends."""
        self.why_stopped: Callable[[], str] = lambda: ""
        """A function that returns why no slots can run any more; "" as long as they can."""
        self._is_stopped = False
        self._hooks = master_hooks
        self.slot_watch = SlotWatch(reactive=job.settings.rescaling.reactive)
        self._checkpoints = checkpoints
        self._recording = recording
        self._staging = staging
        self._output = output
        self._locks = locks
        self._local_state = local_state_directory(job)
        self._storage = open_storage(job, checkpoints)
        store = self._store = open_store(job.settings.checkpoint.store, self._storage)
        self._name = this_driver()
        self._files = JobFiles(job, self._storage, master_hooks, store, output, self._name)
        if staging is not None:
            self._files.before_savepoint = staging.keep
        self._discarded: set[str] = set()
        self._requests: dict[int, Future[CompleteRequest]] = {}
        self._request_count = 0
        self._thread = threading.Thread(target=self._run, name=f"kit-driver-{job.name}", daemon=True)

    def __repr__(self) -> str:
        return f"JobDriver({self.job.name}, {self.master.status.name}, {self.slots})"

    @property
    def status(self) -> JobStatus:
        """The job's status: FAILED if the driver itself failed, whatever the JobMaster was about to do."""
        status = self.master.status
        failed = self.error is not None and self.ended.is_set() and not status.is_terminal
        return JobStatus.FAILED if failed else status

    # --- the user's side, on any thread ---------------------------------------------------------------------------

    def start(self, run: str = "") -> None:
        """Open the control socket and start to handle the events of a run, which the job names unless `run` does."""
        self._files.begin_run(run or self.job.job_id)
        driver_started(self._name)
        self._events = None
        if self._recording:
            self._events = EventFile(self._recording, DRIVER)
            self._events.begin(self.job.job_id, self._checkpoints, self.job.settings.slot_sharing)
        self.slots.open()
        self._background = Background("kit-files-driver", self.inbox.put, Failed)
        self._cleaner = Background("kit-cleaner-driver", self.inbox.put, Failed)
        if self.slot_watch.reactive:
            self.inbox.put(Look())
        self._check_leadership_later()
        self._thread.start()

    def check_not_led(self) -> None:
        """Raise JobFailedError if, according to the durable store, a driver that may be alive runs this job."""
        leader = self._store.leads()
        if leader is not None and may_be_alive(leader.driver):
            raise JobFailedError(
                f"job {self.job.name} is run by {leader}, according to {self._store!r}: give this job a name of its "
                "own, or start it with recover=True to take the run over from that driver"
            )

    def tell(self, event: ProtocolMessage) -> None:
        """Pass an event to the JobMaster."""
        self.inbox.put(Asked(lambda number: event, None))

    def ask(self, make: Callable[[int], ProtocolMessage]) -> Future[CompleteRequest]:
        """Pass a request to the JobMaster, made with a number that the driver assigns; the answer comes later."""
        answer: Future[CompleteRequest] = Future()
        self.inbox.put(Asked(make, answer))
        if self.ended.is_set() and not answer.done():
            answer.set_exception(self._is_over())
        return answer

    def dispose_savepoint(self, path: str) -> None:
        """Delete a snapshot, unless the job may restore it (`kit.files.disposal.dispose`)."""
        with self.lock:
            in_use = self.master.checkpoints.store.in_use
        dispose(self._storage, path, in_use)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the job has ended and nothing of it is left; return False on a timeout."""
        ended = self.ended.wait(timeout_s)
        if ended:
            self._thread.join()
        return ended

    def has_run(self, restarts: int) -> bool:
        """Return True if all tasks have run after this number of restarts, or after more."""
        return self._ran_after >= restarts

    def runs(self) -> bool:
        """Return True if all tasks run now, or have finished, and no slot has been lost."""
        with self.lock:
            return self.master.all_running and not self.slots.has_lost_slot()

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
        try:
            item = self.inbox.get(timeout=self.timers.wait_s)
        except queue.Empty:
            pass
        else:
            self._take(item)
        self.timers.fire()

    def _take(
        self,
        item: Asked | Answered | Failed | CleanedUp | Look | SlotJoined | SlotMessage | SlotLeft | GangEnded,
    ) -> None:
        match item:
            case Asked():
                self._asked(item)
            case Answered():
                self.handle(item.event, item.cause)
            case Failed():
                raise item.error
            case CleanedUp():
                self.ended.set()
            case Look():
                self._look_for_slots()
            case SlotJoined():
                self.slots.joined(item)
            case SlotMessage():
                self.slots.spoke(item)
            case SlotLeft():
                self.slots.left(item)
            case GangEnded():
                self.slots.gang_ended(item)
            case _:
                assert_never(item)

    def _close(self) -> None:
        self.slots.close()
        if self._staging is not None:
            self._staging.stop()
        for background in (self._background, self._cleaner):
            background.close(self.settings.kill_ms / 1000)
        self._files.close()
        self._hooks.close()
        if self._events is not None:
            self._events.close()
            self.trace.schedule = read_schedule(self._recording)
        local = open_local_state(self.job, self._local_state)
        if local is not None:
            local.drop()  # on this machine; on others the last slot to leave does it
        if self._locks is not None:
            self._locks.release()
        driver_ended(self._name)
        self.ended.set()
        self.running.set()
        for answer in self._requests.values():
            answer.set_exception(self._is_over())
        while not self.inbox.empty():
            item = self.inbox.get()
            if isinstance(item, Asked) and item.answer is not None and not item.answer.done():
                item.answer.set_exception(self._is_over())

    def _is_over(self) -> JobFailedError | JobEndedError:
        return self.error or JobEndedError(
            f"job {self.job.name!r} has ended, it is {self.status.name}: output(), checkpoints() and the trace "
            "can still be read"
        )

    def handle(self, event: ProtocolMessage, cause: str = "") -> None:
        """Have the JobMaster handle an event, and carry out the resulting commands."""
        if isinstance(event, StartJob) and event.recover:
            self._log.takes_over()
        with self.lock:
            commands = self.master.handle(event, self.now(), cause)
            event_id = self.master.event_id
            if self._events is not None:
                self._events.add(event_id, self.master.at, event, cause)
            self.trace.record(self.master, event, commands)
        for number, command in enumerate(commands, 1):
            carry_out = _CARRY_OUT.get(type(command))
            if carry_out is None:
                raise refused(self.master, command)
            if carry_out is not JobDriver._tell_task:
                self.slots.send_queued()
            carry_out(self, command, f"{event_id}.{number}")
        self.slots.send_queued()

    # --- incoming items --------------------------------------------------------------------------------------------

    def _asked(self, item: Asked) -> None:
        self._request_count += 1
        if item.answer is not None:
            self._requests[self._request_count] = item.answer
        self.handle(item.make(self._request_count))

    def _look_for_slots(self) -> None:
        """Inform the JobMaster if the slots have changed, and check again later."""
        if self.cluster_stopped():
            return
        news = self.slot_watch.news(self.master.rescaling.least, deployed=self.slots.is_deployed)
        if news is not None:
            self.handle(news)
        self._look_again()

    def cluster_stopped(self) -> bool:
        """Return True if what runs the slots was stopped. The JobMaster is informed once."""
        error = self.why_stopped()
        if error and not self._is_stopped:
            self._is_stopped = True
            self.handle(ClusterStopped(error=error))
        return self._is_stopped

    def _look_again(self) -> None:
        again_ms = self.slot_watch.again_ms(deployed=self.slots.is_deployed)
        if again_ms is not None:
            self.timers.after(_SLOTS_TIMER, again_ms, self._look_for_slots)

    def _check_leadership_later(self) -> None:
        """Schedule a check whether this driver still leads: until then, nothing else may access the store."""
        if self.job.settings.checkpoint.is_durable:
            self.timers.after(_LEADER_TIMER, self.settings.leader_check_ms, self._check_leadership)

    def _check_leadership(self) -> None:
        def check() -> Answered | None:
            lost = self._files.check_leadership()
            return None if lost is None else Answered(lost, "")

        self._background.submit(check)
        self._check_leadership_later()

    def extend_trace(self, records: Sequence[TraceRecord]) -> None:
        """Add records of the slots to the trace."""
        limit = self.settings.trace_records
        with self.lock:
            self.trace.extend(records)
            if len(self.trace) > limit:
                self.trace = self.trace[-limit * 9 // 10 :]

    # --- commands -------------------------------------------------------------------------------------------------

    def _observe(self, command: Command, cause: str) -> None:
        """Observe a command that the trace has recorded; when all tasks run, requests can be sent."""
        if isinstance(command, AllTasksRunning):
            self._ran_after = self.master.restarts
            self.running.set()
        elif isinstance(command, CheckpointCompleted):
            self.last_failure = ""
        if isinstance(command, Note):
            self._log.note(command)

    def rows_dropped(self, late: Mapping[str, int]) -> None:
        """Take the number of late rows that operators have dropped in this epoch; log once per operator."""
        self._log.rows_dropped(late)

    def _tell_task(self, message: Any, cause: str) -> None:
        self.slots.tell(message, cause)

    def _begin(self, command: Command, cause: str) -> None:
        """Pass a command that reads or writes to the background thread."""
        self._background.submit(lambda: self._carry_out(command, cause))

    def _carry_out(self, command: Command, cause: str) -> Answered | None:
        """Carry out a command on the background thread."""
        answer = self._files.carry_out(command)
        return None if answer is None else Answered(answer, cause)

    def _schedule(self, command: ScheduleTimer, cause: str) -> None:
        name = command.timer
        self.timers.at(name, command.due_ms, lambda: self.handle(TimerFired(timer=name), cause))

    def _cancel_timer(self, command: CancelTimer, cause: str) -> None:
        self.timers.cancel(command.timer)

    def _start_epoch(self, command: StartEpoch, cause: str) -> None:
        self.slot_watch.deployed()
        self.slots.start(command)

    def _ticket(self, **of_epoch: Any) -> SlotTicket:
        """Return the ticket with which a gang is started."""
        return SlotTicket(
            job=self.job,
            checkpoints=self._checkpoints,
            output=self._output,
            wire=self.settings.wire,
            host=self.settings.slot_host,
            local_state=self._local_state,
            recording=self._recording,
            **of_epoch,
        )

    def slots_connected(self) -> None:
        """React when the slots of each gang are connected with each other."""
        self._look_again()

    def _stop_epoch(self, command: StopEpoch, cause: str) -> None:
        self.slots.stop(command, cause)

    def _start_tasks(self, command: StartTasks, cause: str) -> None:
        self.slot_watch.deployed()
        self.slots.start_tasks(command)

    def _stop_tasks(self, command: StopTasks, cause: str) -> None:
        self.slots.stop_tasks(command, cause)

    def tasks_over(self, stop: Envelope, slots: tuple[int, ...]) -> None:
        """React when nothing of these slots runs any more, as `stop` requested."""
        self._look_for_slots()  # by now Spark knows which slots were lost
        self.handle(stop.word.stopped(slots), stop.cause)

    def epoch_over(self, stop: Envelope) -> None:
        """React when nothing of the epoch runs any more, as `stop` requested."""
        locations, self._discarded = self._discarded, set()
        self._cleaner.submit(lambda: self._dispose(locations))
        self._look_for_slots()  # by now Spark knows which slots were lost
        self.handle(EpochEnded(epoch=stop.word.epoch), stop.cause)

    def _answer(self, command: CompleteRequest, cause: str) -> None:
        answer = self._requests.pop(command.request_id, None)
        if answer is not None:
            answer.set_result(command)

    def _status_changed(self, command: JobStatusChanged, cause: str) -> None:
        status = JobStatus[command.status]
        self._log.status(command)
        if status is JobStatus.RESTARTING and not self.master.is_rescaled:
            self.last_failure = command.error
        if status.is_terminal:
            self.last_failure = ""
            if status.is_failure:
                self.error = JobFailedError(command.error, self.slots.traceback)
            if status is not JobStatus.SUSPENDED:
                self._cleaner.submit(self._end_staging)
            self._cleaner.submit(CleanedUp)

    def _end_staging(self) -> None:
        if self._staging is not None:
            self._staging.stop()
            with _logged(f"job {self.job.name} leaves {self._staging.directory} behind"):
                self._staging.end()

    def _clean_up(self, command: Command, cause: str) -> None:
        """Pass a command that deletes to a separate background thread, which keeps the order. Nothing waits for it.

        Files that a slot writes there later are deleted when the epoch has ended.
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
        Duty.START_TASKS: _start_tasks,
        Duty.STOP_TASKS: _stop_tasks,
        Duty.ANSWER_USER: _answer,
        Duty.SHOW_STATUS: _status_changed,
    }
    """The methods with which the driver performs the JobMaster's duties; the slots perform those of the tasks."""


_CARRY_OUT = by_command(JobDriver.DUTIES, COMMANDS)


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    """Log an error in the block and continue: a file that cannot be deleted is left behind."""
    try:
        yield
    except OSError as error:
        logger.warning("%s: %s", what, error)


_SLOTS_TIMER = "driver: look for slots"
_LEADER_TIMER = "driver: does it lead"
"""A timer name that no machine uses."""
