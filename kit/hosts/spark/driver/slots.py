"""The slots of a job, as its driver manages them in each epoch.

Theory of operation. `StartEpoch` submits the gangs of slots, one for each region if the job restarts regions, else one
in all (`kit.hosts.spark.driver.deployment`). The slots of a gang dial the server. When all have joined, each receives
the addresses of the slots that it dials; when all have connected, they receive the messages that were waiting for them.
Their messages go to the JobMaster. It learns of a lost slot, and decides what follows: `StopEpoch` tells all slots to
leave, `StopTasks` those of the gangs that run these tasks, which `StartTasks` deploys again. A deployment is over when
every slot has ended its connection and the gang has ended. Slots that do not leave are cancelled through Spark, then
killed, and finally abandoned.

All of it happens on the driver's thread. Flink: `JobMaster` with the `TaskExecutorGateway`s of its slots.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import StartEpoch, StartTasks, StopEpoch, StopTasks
from kit.core.protocol.events import EpochEnded, OperatorEventLost, SlotLost
from kit.core.protocol.messages import JobMessage, OperatorEventToTask, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import Envelope, ProtocolError, ProtocolMessage
from kit.core.trace.trace import Trace, TraceRecord
from kit.hosts.spark.driver.deployment import Deployment, GangEnded, Launch
from kit.hosts.spark.driver.driver_inbox import Answered
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.driver.driver_timers import DriverTimers
from kit.hosts.spark.slot.meters import MeterReadings
from kit.hosts.spark.slot.slot import CONNECTED, DELIVER, PEER_LOST, TROUBLE, SlotTicket
from kit.hosts.spark.slot.working_slot import METERS, SAID
from kit.hosts.spark.wire.addresses import addresses_by_receiver, connect_message
from kit.hosts.spark.wire.auth import new_secret
from kit.hosts.spark.wire.codec import CodecError, pack_words, unpack_words
from kit.hosts.spark.wire.control import SlotHello, SlotJoined, SlotLeft, SlotMessage
from kit.hosts.spark.wire.wire import ControlMessage
from kit.machines.job.job_master import JobMaster
from kit.stream.graph.epoch_shape import epoch_shape
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.slot_sharing import TaskSlots

PEER_MS = 500
"""The time to wait for the driver to lose a slot that others have lost, because the driver knows the cause better."""


class Driver(Protocol):
    """The part of the driver that the slots use."""

    job: JobGraph
    settings: DriverSettings
    master: JobMaster
    lock: threading.Lock
    trace: Trace
    timers: DriverTimers
    inbox: queue.SimpleQueue[Any]

    def now(self) -> int:
        """Return the time of the driver's clock, in ms."""

    def handle(self, event: ProtocolMessage, cause: str = "") -> None:
        """Have the JobMaster handle an event, and carry out the resulting commands."""

    def extend_trace(self, records: Sequence[TraceRecord]) -> None:
        """Add records of the slots to the trace."""

    def rows_dropped(self, late: Mapping[str, int]) -> None:
        """Take the number of rows that came too late so far in this epoch, by operator."""

    def cluster_stopped(self) -> bool:
        """Return True if no slots can run any more, which the JobMaster then knows."""

    def slots_connected(self) -> None:
        """React when the slots of each gang are connected with each other."""

    def epoch_over(self, stop: Envelope) -> None:
        """React when nothing of the epoch runs any more, as `stop` requested."""

    def tasks_over(self, stop: Envelope, slots: tuple[int, ...]) -> None:
        """React when nothing of these slots runs any more, as `stop` requested."""


@dataclass(slots=True)
class _Stop:
    """A `StopEpoch` or `StopTasks` that is not answered yet."""

    command: Envelope
    slots: tuple[int, ...]
    awaited: set[int]
    """The deployments that are not over."""


class Slots:
    """The slots of one job. `launch` starts a gang for a ticket, which `place` completes with the job's data."""

    def __init__(self, driver: Driver, launch: Launch, place: Callable[..., SlotTicket]) -> None:
        self._driver = driver
        self.launch = launch
        self._place = place
        self.secret = new_secret()
        self._graph: ExecutionGraph | None = None
        """The graph of the running epoch."""
        self._epoch = 0
        self.wanted = len(TaskSlots(driver.job, driver.job.parallelism))
        """The number of slots of the latest epoch, or of the first one before it is deployed."""
        self._deployed = 0
        """The number of deployments so far."""
        self.connected_ms = 0
        """The time at which the slots of a gang last connected with each other, by the driver's clock."""
        self._deployments: dict[int, Deployment] = {}
        """The deployments that are not over, by number."""
        self._of_slot: dict[int, Deployment] = {}
        """The newest deployment of each slot of the epoch."""
        self._stops: list[_Stop] = []
        self.meters = MeterReadings()
        """The meters of the current epoch's slots."""
        self.rows_read: dict[tuple[int, int, int], int] = {}
        """The number of rows that the sources have read, by epoch, deployment and slot."""
        self.traceback = ""
        """The traceback of the last task or slot that failed in this epoch."""
        self._queued: dict[int, list[Envelope]] = {}
        """The messages for tasks that the current event has led to, by slot, until the next command of another kind."""

    def __repr__(self) -> str:
        return f"Slots({list(self._deployments.values()) or 'no epoch'})"

    def open(self) -> None:
        """Open the socket that slots dial."""
        self.server = self._driver.settings.control_server(self.secret, self._driver.inbox)

    def close(self) -> None:
        """End all slots that still run, and close the socket."""
        for deployment in self._deployments.values():
            if not deployment.is_over:
                if not deployment.is_stopping:
                    self.server.fence(deployment.number)
                deployment.cancel()
                deployment.kill_stragglers()
        self.server.close()

    # --- reading, on any thread -----------------------------------------------------------------------------------

    @property
    def is_deployed(self) -> bool:
        """True if each slot of the epoch runs or is being started, and none is to leave."""
        with self._driver.lock:
            running = [deployment for deployment in self._deployments.values() if not deployment.is_stopping]
            return self._graph is not None and sum(len(each.slots) for each in running) == len(self._graph.slots)

    def has_lost_slot(self) -> bool:
        """Return True if a slot has left and the JobMaster does not know it yet. The caller holds the driver's lock."""
        return any(each.left and not (each.is_lost or each.is_stopping) for each in self._deployments.values())

    def hellos(self) -> dict[int, SlotHello]:
        """Return what each connected slot has said about itself."""
        with self._driver.lock:
            found: dict[int, SlotHello] = {}
            for deployment in self._deployments.values():
                found |= {slot: hello for slot, hello in deployment.joined.items() if slot not in deployment.left}
            return dict(sorted(found.items()))

    def workers(self) -> dict[int, int]:
        """Return the process id of each connected slot."""
        return {slot: hello.pid for slot, hello in self.hellos().items()}

    def hosts(self) -> dict[int, str]:
        """Return the machine of each connected slot."""
        return {slot: hello.host for slot, hello in self.hellos().items()}

    # --- a deployment begins --------------------------------------------------------------------------------------

    def start(self, command: StartEpoch) -> None:
        """Submit the gangs of an epoch."""
        driver = self._driver
        graph = ExecutionGraph(driver.job, command.parallelism, command.max_parallelism)
        with driver.lock:
            self._graph, self._epoch = graph, command.epoch
            self.wanted = len(graph.slots)
            self.meters = MeterReadings()
            driver.trace.stages.append(epoch_shape(graph, command.epoch))
        self.traceback = ""
        self._of_slot.clear()
        for gang in graph.slots.gangs():
            self._deploy(gang, Attempts(command.epoch, command.attempts))

    def start_tasks(self, command: StartTasks) -> None:
        """Submit the gangs of these tasks again."""
        assert self._graph is not None
        slots = self._graph.slots
        for gang in slots.gangs():
            if any(task in command.attempts for slot in gang for task in slots.tasks_in(slot)):
                with self._driver.lock:
                    self.meters.forget(gang)
                self._deploy(gang, Attempts(command.epoch, command.attempts))

    def _deploy(self, slots: tuple[int, ...], attempts: Attempts) -> None:
        driver, graph = self._driver, self._graph
        assert graph is not None
        self._deployed += 1
        deployment = Deployment(self._deployed, slots, graph, attempts)
        ticket = self._place(
            deployment=deployment.number,
            slots=slots,
            slots_at_once=len(graph.slots),
            attempts=attempts,
            parallelism=dict(graph.parallelism),
            max_parallelism=dict(graph.max_parallelism),
            driver=self.server.endpoint,
            secret=self.secret,
        )
        self.server.admit(deployment.number, slots)
        with driver.lock:
            self._deployments[deployment.number] = deployment
        self._of_slot |= dict.fromkeys(slots, deployment)
        start_ms = int(driver.settings.start_timeout_s * 1000)
        driver.timers.after(_timer(_START_TIMER, deployment), start_ms, lambda: self._start_timed_out(deployment))
        deployment.gang = self.launch(ticket, lambda error: driver.inbox.put(GangEnded(deployment.number, error)))

    def _start_timed_out(self, deployment: Deployment) -> None:
        missing, slots = deployment.missing, len(deployment.slots)
        self._lose(
            deployment,
            missing[0],
            f"only {slots - len(missing)} of {slots} slots connected within "
            f"{self._driver.settings.start_timeout_s:g} s: are Spark's slots taken by other work?",
        )

    def joined(self, item: SlotJoined) -> None:
        """Add a slot that has dialled; after the last, send each slot the addresses that it must dial."""
        deployment = self._running(item.deployment)
        if deployment is None:
            return
        with self._driver.lock:
            deployment.joined[item.slot] = item.hello
        if len(deployment.joined) == len(deployment.slots):
            for slots, addresses in addresses_by_receiver(deployment.graph, deployment.endpoints()):
                self.server.broadcast(connect_message(addresses), slots)

    def _connected(self, deployment: Deployment, slot: int, message: ControlMessage) -> None:
        deployment.connected.add(slot)
        if deployment.is_connected:
            self._driver.timers.cancel(_timer(_START_TIMER, deployment))
            self.connected_ms = self._driver.now()
            if all(each.is_connected for each in self._deployments.values()):
                self._driver.slots_connected()
            for receiver, words in deployment.take_waiting():
                self._send(receiver, words)

    # --- messages from slots --------------------------------------------------------------------------------------

    def spoke(self, item: SlotMessage) -> None:
        """Handle a message from a slot."""
        deployment = self._running(item.deployment)
        if deployment is None:
            self._said_too_late(item)
            return
        hear = self._HEARD.get(item.message.kind)
        if hear is None:
            self._lose(deployment, item.slot, f"it said {item.message!r}, expected {', '.join(self._HEARD)}")
        else:
            hear(self, deployment, item.slot, item.message)

    def _said(self, deployment: Deployment, slot: int, message: ControlMessage) -> None:
        try:
            words, records = unpack_words(message, JobMessage)
        except CodecError as error:
            self._lose(deployment, slot, str(error))
            return
        self._driver.extend_trace(records)
        for word, cause in words:
            if isinstance(word, TaskStateChanged) and word.state is ExecutionState.FAILED:
                self.traceback = word.traceback
            self._driver.handle(word, cause)

    def _said_too_late(self, item: SlotMessage) -> None:
        """Keep only the trace records of a message that arrived after the slot was told to leave."""
        if item.deployment in self._deployments and item.message.kind == SAID:
            with contextlib.suppress(CodecError):
                self._driver.extend_trace(unpack_words(item.message, JobMessage)[1])

    def _trouble(self, deployment: Deployment, slot: int, message: ControlMessage) -> None:
        error = str(message.fields["error"])
        if message.fields["fatal"]:
            raise ProtocolError(f"slot {slot}: {error}")
        self.traceback = str(message.fields["traceback"])
        self._lose(deployment, slot, error)

    def _peer_lost(self, deployment: Deployment, slot: int, message: ControlMessage) -> None:
        lost, reason = int(message.fields["slot"]), str(message.fields["reason"])
        said = f"slot {slot} cannot reach it: {reason}"
        self._driver.timers.after(_timer(_PEER_TIMER, deployment), PEER_MS, lambda: self._lose(deployment, lost, said))

    def _metered(self, deployment: Deployment, slot: int, message: ControlMessage) -> None:
        self.rows_read[deployment.epoch, deployment.number, slot] = int(message.fields["rows"])
        with self._driver.lock:
            self.meters.take(slot, message.fields["tasks"])
            self._driver.rows_dropped(self.meters.late_rows_dropped)

    _HEARD: ClassVar[dict[str, Callable[[Slots, Deployment, int, ControlMessage], None]]] = {
        SAID: _said,
        CONNECTED: _connected,
        TROUBLE: _trouble,
        PEER_LOST: _peer_lost,
        METERS: _metered,
    }

    def _running(self, number: int) -> Deployment | None:
        """Return a deployment if it still runs."""
        deployment = self._deployments.get(number)
        return None if deployment is None or deployment.is_stopping else deployment

    def _lose(self, deployment: Deployment, slot: int, error: str) -> None:
        if not deployment.is_lost and not deployment.is_stopping:
            if not self._driver.cluster_stopped():
                tasks = deployment.graph.slots.tasks_in(slot)
                self._driver.handle(SlotLost(epoch=deployment.epoch, slot=slot, error=error, tasks=tasks))
            deployment.is_lost = True

    # --- messages to slots ----------------------------------------------------------------------------------------

    def tell(self, message: Any, cause: str) -> None:
        """Queue a message to a slot's tasks; `send_queued` sends consecutive messages to a slot together."""
        if self._graph is not None:
            self._queued.setdefault(self._graph.slots.of(message.task), []).append(Envelope(message, cause))

    def send_queued(self) -> None:
        """Send the queued messages."""
        if self._queued:
            queued, self._queued = self._queued, {}
            for slot, words in queued.items():
                self._send(slot, words)

    def _send(self, slot: int, words: list[Envelope]) -> None:
        """Send messages to the tasks in a slot, unless they have been told to leave."""
        deployment = self._of_slot.get(slot)
        if deployment is None or deployment.is_stopping:
            return
        words = [each for each in words if each.word.attempt == deployment.attempts.of(each.word.task)]
        if words and not deployment.is_connected:
            deployment.waiting.setdefault(slot, []).extend(words)
        elif words:
            self._deliver(slot, words)

    def _deliver(self, slot: int, words: list[Envelope]) -> None:
        """Send messages to a slot. If its connection is over they are lost with it, and the inbox reports the loss."""
        try:
            self.server.send(slot, pack_words(DELIVER, words))
        except (TypeError, ValueError) as error:
            lost = [each for each in words if isinstance(each.word, OperatorEventToTask)]
            if not lost:
                raise
            for word, cause in lost:
                self._driver.inbox.put(Answered(_lost(word, str(error)), cause))

    # --- a deployment ends ----------------------------------------------------------------------------------------

    def left(self, item: SlotLeft) -> None:
        """Handle the end of a slot's connection."""
        deployment = self._deployments.get(item.deployment)
        if deployment is None:
            return
        with self._driver.lock:
            deployment.left.add(item.slot)
        if not item.clean:
            deployment.end(item.slot, item.reason)
        if not deployment.is_stopping:
            hello = deployment.joined[item.slot]
            memory = deployment.oom_kills.explain() if hello.host == socket.gethostname() else ""
            self._lose(deployment, item.slot, f"process {hello.pid}: {item.reason}{memory}")
        self._end_when_over(deployment)

    def gang_ended(self, item: GangEnded) -> None:
        """Handle the end of Spark's job."""
        deployment = self._deployments.get(item.deployment)
        if deployment is None:
            return
        deployment.gang_ended = True
        if deployment.is_stopping:
            self._driver.cluster_stopped()
        else:
            missing = [slot for slot in deployment.slots if slot not in deployment.joined]
            error = item.error or "its Spark task ended before the job"
            self._lose(deployment, (missing or deployment.slots)[0], error)
        self._end_when_over(deployment)

    def stop(self, command: StopEpoch, cause: str) -> None:
        """Tell all slots to leave, and enforce it."""
        if self._graph is None or self._epoch != command.epoch:
            self._driver.inbox.put(Answered(EpochEnded(epoch=command.epoch), cause))
            return
        self._stops.clear()  # of regions: the JobMaster has given up their restarts
        self._stop(Envelope(command, cause), self._deployments.values())

    def stop_tasks(self, command: StopTasks, cause: str) -> None:
        """Tell the slots with these tasks to leave, and enforce it."""
        assert self._graph is not None
        slots = self._graph.slots.of_all(command.tasks)
        ending = [each for each in self._deployments.values() if not slots.isdisjoint(each.slots)]
        self._stop(Envelope(command, cause), ending)

    def _stop(self, command: Envelope, deployments: Iterable[Deployment]) -> None:
        driver, ending = self._driver, list(deployments)
        settings, for_good = driver.settings, driver.master.ending_as is not None
        slots = tuple(sorted(slot for each in ending for slot in each.slots))
        self._stops.append(_Stop(command, slots, {each.number for each in ending}))
        for each in ending:
            if each.is_stopping:
                continue
            each.is_stopping = True
            driver.timers.cancel(_timer(_START_TIMER, each), _timer(_PEER_TIMER, each))
            self.server.fence(each.number, for_good=for_good)
            driver.timers.after(_timer(_CANCEL_TIMER, each), settings.leave_ms, each.cancel)
            driver.timers.after(_timer(_KILL_TIMER, each), settings.kill_ms, each.kill_stragglers)
            driver.timers.after(_timer(_ABANDON_TIMER, each), settings.abandon_ms, partial(self._over, each))
        for each in ending:
            self._end_when_over(each)
        self._answer_stops()

    def _end_when_over(self, deployment: Deployment) -> None:
        if deployment.is_stopping and deployment.is_over and deployment.number in self._deployments:
            self._over(deployment)

    def _over(self, deployment: Deployment) -> None:
        timers = (_timer(name, deployment) for name in (_CANCEL_TIMER, _KILL_TIMER, _ABANDON_TIMER))
        self._driver.timers.cancel(*timers)
        with self._driver.lock:
            del self._deployments[deployment.number]
        for stop in self._stops:
            stop.awaited.discard(deployment.number)
        self._answer_stops()

    def _answer_stops(self) -> None:
        """Report what has stopped."""
        for stop in [each for each in self._stops if not each.awaited]:
            self._stops.remove(stop)
            if isinstance(stop.command.word, StopTasks):
                self._driver.tasks_over(stop.command, stop.slots)
            else:
                with self._driver.lock:
                    self._graph = None
                self._driver.epoch_over(stop.command)


def _timer(name: str, deployment: Deployment) -> str:
    return f"{name} {deployment.number}"


def _lost(word: OperatorEventToTask, error: str) -> OperatorEventLost:
    return OperatorEventLost(task=word.task, attempt=word.attempt, operator_id=word.operator_id, error=error)


# The beginnings of timer names that no machine uses; the number of the deployment follows.
_START_TIMER = "slots: all connected"
_PEER_TIMER = "slots: one that others have lost"
_CANCEL_TIMER = "slots: cancel the gang"
_KILL_TIMER = "slots: kill stragglers"
_ABANDON_TIMER = "slots: give stragglers up"
