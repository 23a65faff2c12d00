"""The slots of a job, as its driver manages them in each epoch.

Theory of operation. `StartEpoch` submits a gang of slots (`kit.hosts.spark.driver.epoch`). The slots dial the server.
When all have joined, each receives the addresses of the slots that it dials; when all have connected, they receive the
messages that were waiting for them. Their messages go to the JobMaster. A lost slot fails the epoch, and the JobMaster
decides what follows. `StopEpoch` tells the slots to leave. The epoch is over when every slot has ended its connection
and the gang has ended. Slots that do not leave are cancelled through Spark, then killed, and finally abandoned.

All of it happens on the driver's thread. Flink: `JobMaster` with the `TaskExecutorGateway`s of its slots.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from kit.core.protocol.commands import StartEpoch, StopEpoch
from kit.core.protocol.events import EpochEnded, OperatorEventLost, SlotLost
from kit.core.protocol.messages import JobMessage, OperatorEventToTask, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState, split_task_name
from kit.core.protocol.words import Envelope, ProtocolError, ProtocolMessage
from kit.core.trace.trace import Trace, TraceRecord
from kit.hosts.spark.driver.driver_inbox import Answered
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.driver.driver_timers import DriverTimers
from kit.hosts.spark.driver.epoch import Epoch, GangEnded, Launch
from kit.hosts.spark.slot.meters import MeterReadings
from kit.hosts.spark.slot.slot import CONNECTED, DELIVER, PEER_LOST, TROUBLE, SlotTicket
from kit.hosts.spark.slot.working_slot import METERS, SAID
from kit.hosts.spark.wire.addresses import addresses_by_receiver, connect_message
from kit.hosts.spark.wire.auth import new_secret
from kit.hosts.spark.wire.codec import CodecError, pack_words, unpack_words
from kit.hosts.spark.wire.control import SlotJoined, SlotLeft, SlotMessage
from kit.hosts.spark.wire.wire import ControlMessage
from kit.machines.job.job_master import JobMaster
from kit.stream.graph.epoch_shape import epoch_shape
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph

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
        """React when all slots of the epoch are connected with each other."""

    def epoch_over(self, stop: Envelope) -> None:
        """React when nothing of the epoch runs any more, as `stop` requested."""


class Slots:
    """The slots of one job. `launch` starts a gang for a ticket, which `place` completes with the job's data."""

    def __init__(self, driver: Driver, launch: Launch, place: Callable[..., SlotTicket]) -> None:
        self._driver = driver
        self.launch = launch
        self._place = place
        self.secret = new_secret()
        self.epoch: Epoch | None = None
        self.meters = MeterReadings()
        """The meters of the current epoch's slots."""
        self.rows_read: dict[tuple[int, int], int] = {}
        """The number of rows that the sources have read, by epoch and slot."""
        self.traceback = ""
        """The traceback of the last task or slot that failed in this epoch."""
        self._queued: dict[int, list[Envelope]] = {}
        """The messages for tasks that the current event has led to, by slot, until the next command of another kind."""

    def __repr__(self) -> str:
        return f"Slots({self.epoch or 'no epoch'})"

    def open(self) -> None:
        """Open the socket that slots dial."""
        self.server = self._driver.settings.control_server(self.secret, self._driver.inbox)

    def close(self) -> None:
        """End all slots that still run, and close the socket."""
        epoch = self.epoch
        if epoch is not None and not epoch.is_over:
            if epoch.stop is None:
                self.server.fence(epoch.number + 1)
            epoch.cancel()
            epoch.kill_stragglers()
        self.server.close()

    # --- reading, on any thread -----------------------------------------------------------------------------------

    def workers(self) -> dict[int, int]:
        """Return the process id of each connected slot."""
        with self._driver.lock:
            return {} if self.epoch is None else self.epoch.pids()

    def hosts(self) -> dict[int, str]:
        """Return the machine of each connected slot."""
        with self._driver.lock:
            return {} if self.epoch is None else {slot: hello.host for slot, hello in self.epoch.joined.items()}

    # --- an epoch begins ------------------------------------------------------------------------------------------

    def start(self, command: StartEpoch) -> None:
        """Submit a gang."""
        driver = self._driver
        ticket = self._place(
            epoch=command.epoch,
            parallelism=dict(command.parallelism),
            max_parallelism=dict(command.max_parallelism),
            driver=self.server.endpoint,
            secret=self.secret,
        )
        graph = ExecutionGraph(driver.job, command.parallelism, command.max_parallelism)
        epoch = Epoch(command.epoch, ticket.slots, graph)
        self.server.admit(ticket.slots)
        with driver.lock:
            self.epoch = epoch
            self.meters = MeterReadings()
            driver.trace.stages.append(epoch_shape(graph, command.epoch))
        self.traceback = ""
        start_ms = int(driver.settings.start_timeout_s * 1000)
        driver.timers.after(_START_TIMER, start_ms, lambda: self._start_timed_out(epoch))
        epoch.gang = self.launch(ticket, lambda error: driver.inbox.put(GangEnded(epoch.number, error)))

    def _start_timed_out(self, epoch: Epoch) -> None:
        missing = [slot for slot in range(epoch.slots) if slot not in epoch.connected]
        self._lose(
            epoch,
            missing[0],
            f"only {epoch.slots - len(missing)} of {epoch.slots} slots connected within "
            f"{self._driver.settings.start_timeout_s:g} s: are Spark's slots taken by other work?",
        )

    def joined(self, item: SlotJoined) -> None:
        """Add a slot that has dialled; after the last, send each slot the addresses that it must dial."""
        epoch = self._epoch_of(item)
        if epoch is None:
            return
        with self._driver.lock:
            epoch.joined[item.slot] = item.hello
        if len(epoch.joined) == epoch.slots:
            for slots, addresses in addresses_by_receiver(epoch.graph, epoch.endpoints()):
                self.server.broadcast(connect_message(addresses), slots)

    def _connected(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        epoch.connected.add(slot)
        if len(epoch.connected) == epoch.slots:
            self._driver.timers.cancel(_START_TIMER)
            epoch.connected_ms = self._driver.now()
            self._driver.slots_connected()
            for receiver, words in epoch.take_waiting():
                self._send(receiver, words)

    # --- messages from slots --------------------------------------------------------------------------------------

    def spoke(self, item: SlotMessage) -> None:
        """Handle a message from a slot."""
        epoch = self._epoch_of(item)
        if epoch is None:
            self._said_too_late(item)
            return
        hear = self._HEARD.get(item.message.kind)
        if hear is None:
            self._lose(epoch, item.slot, f"it said {item.message!r}, expected {', '.join(self._HEARD)}")
        else:
            hear(self, epoch, item.slot, item.message)

    def _said(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        try:
            words, records = unpack_words(message, JobMessage)
        except CodecError as error:
            self._lose(epoch, slot, str(error))
            return
        self._driver.extend_trace(records)
        for word, cause in words:
            if isinstance(word, TaskStateChanged) and word.state is ExecutionState.FAILED:
                self.traceback = word.traceback
            self._driver.handle(word, cause)

    def _said_too_late(self, item: SlotMessage) -> None:
        """Keep only the trace records of a message that arrived after the slot was told to leave."""
        if self.epoch is not None and item.epoch == self.epoch.number and item.message.kind == SAID:
            with contextlib.suppress(CodecError):
                self._driver.extend_trace(unpack_words(item.message, JobMessage)[1])

    def _trouble(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        error = str(message.fields["error"])
        if message.fields["fatal"]:
            raise ProtocolError(f"slot {slot}: {error}")
        self.traceback = str(message.fields["traceback"])
        self._lose(epoch, slot, error)

    def _peer_lost(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        lost, reason = int(message.fields["slot"]), str(message.fields["reason"])
        said = f"slot {slot} cannot reach it: {reason}"
        self._driver.timers.after(_PEER_TIMER, PEER_MS, lambda: self._lose(epoch, lost, said))

    def _metered(self, epoch: Epoch, slot: int, message: ControlMessage) -> None:
        self.rows_read[epoch.number, slot] = int(message.fields["rows"])
        with self._driver.lock:
            self.meters.take(slot, message.fields["tasks"])
            self._driver.rows_dropped(self.meters.late_rows_dropped)

    _HEARD: ClassVar[dict[str, Callable[[Slots, Epoch, int, ControlMessage], None]]] = {
        SAID: _said,
        CONNECTED: _connected,
        TROUBLE: _trouble,
        PEER_LOST: _peer_lost,
        METERS: _metered,
    }

    def _epoch_of(self, item: SlotJoined | SlotMessage) -> Epoch | None:
        """Return the current epoch if the item belongs to it and it still runs."""
        epoch = self.epoch
        if epoch is None or item.epoch != epoch.number or epoch.stop is not None:
            return None
        return epoch

    def _lose(self, epoch: Epoch, slot: int, error: str) -> None:
        if not epoch.lost and epoch.stop is None:
            epoch.lost = True
            if not self._driver.cluster_stopped():
                self._driver.handle(SlotLost(epoch=epoch.number, slot=slot, error=error))

    # --- messages to slots ----------------------------------------------------------------------------------------

    def tell(self, message: Any, cause: str) -> None:
        """Queue a message to a slot's tasks; `send_queued` sends consecutive messages to a slot together."""
        self._queued.setdefault(split_task_name(message.task)[1], []).append(Envelope(message, cause))

    def send_queued(self) -> None:
        """Send the queued messages."""
        if self._queued:
            queued, self._queued = self._queued, {}
            for slot, words in queued.items():
                self._send(slot, words)

    def _send(self, slot: int, words: list[Envelope]) -> None:
        epoch = self.epoch
        words = [each for each in words if epoch is not None and each.word.attempt == epoch.number]
        if epoch is None or not words or epoch.stop is not None:
            return
        if len(epoch.connected) < epoch.slots:
            epoch.waiting.setdefault(slot, []).extend(words)
        else:
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

    # --- an epoch ends --------------------------------------------------------------------------------------------

    def left(self, item: SlotLeft) -> None:
        """Handle the end of a slot's connection."""
        epoch = self.epoch
        if epoch is None or item.epoch != epoch.number:
            return
        with self._driver.lock:
            epoch.left.add(item.slot)
        if not item.clean:
            epoch.end(item.slot, item.reason)
        if epoch.stop is None:
            hello = epoch.joined[item.slot]
            memory = epoch.oom_kills.explain() if hello.host == socket.gethostname() else ""
            self._lose(epoch, item.slot, f"process {hello.pid}: {item.reason}{memory}")
        self._end_when_over(epoch)

    def gang_ended(self, item: GangEnded) -> None:
        """Handle the end of Spark's job."""
        epoch = self.epoch
        if epoch is None or item.epoch != epoch.number:
            return
        epoch.gang_ended = True
        if epoch.stop is not None:
            self._driver.cluster_stopped()
        else:
            missing = [slot for slot in range(epoch.slots) if slot not in epoch.joined]
            self._lose(epoch, missing[0] if missing else 0, item.error or "its Spark task ended before the job")
        self._end_when_over(epoch)

    def stop(self, command: StopEpoch, cause: str) -> None:
        """Tell all slots to leave, and enforce it."""
        epoch, driver = self.epoch, self._driver
        if epoch is None or epoch.number != command.epoch:
            driver.inbox.put(Answered(EpochEnded(epoch=command.epoch), cause))
            return
        if epoch.stop is not None:
            return
        epoch.stop = Envelope(command, cause)
        driver.timers.cancel(_START_TIMER, _PEER_TIMER)
        self.server.fence(command.epoch + 1, for_good=driver.master.ending_as is not None)
        settings = driver.settings
        for name, delay_ms, act in (
            (_CANCEL_TIMER, settings.leave_ms, epoch.cancel),
            (_KILL_TIMER, settings.kill_ms, epoch.kill_stragglers),
            (_ABANDON_TIMER, settings.abandon_ms, lambda: self._over(epoch)),
        ):
            driver.timers.after(name, delay_ms, act)
        self._end_when_over(epoch)

    def _end_when_over(self, epoch: Epoch) -> None:
        if epoch.stop is not None and epoch.is_over:
            self._over(epoch)

    def _over(self, epoch: Epoch) -> None:
        self._driver.timers.cancel(_CANCEL_TIMER, _KILL_TIMER, _ABANDON_TIMER)
        assert epoch.stop is not None
        with self._driver.lock:
            self.epoch = None
        self._driver.epoch_over(epoch.stop)


def _lost(word: OperatorEventToTask, error: str) -> OperatorEventLost:
    return OperatorEventLost(task=word.task, attempt=word.attempt, operator_id=word.operator_id, error=error)


# Timer names that no machine uses.
_START_TIMER = "slots: all connected"
_PEER_TIMER = "slots: one that others have lost"
_CANCEL_TIMER = "slots: cancel the gang"
_KILL_TIMER = "slots: kill stragglers"
_ABANDON_TIMER = "slots: give stragglers up"
