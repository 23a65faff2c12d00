"""A slot: one process's share of a job, from joining the driver to being told to leave.

A slot holds the subtasks with one index, one of each vertex, for one epoch. It joins the driver with a hello, learns
the other slots' addresses (`connect`), connects with them and says so (`connected`); then the tasks are deployed.

One thread runs everything but input and output. It takes what came into the *inbox* (from the driver, from other slots,
from the background), has the tasks' machines handle it, fires timers, lets tasks work, and sleeps only when there is
nothing to do. The tasks are hosted by `TaskHost`; here is what they have to do with the world.

Whatever ends the control connection ends the slot. The driver takes its end as the word that nothing of this slot
writes any more, so the connection is closed last.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from kit.graph.execution_graph import ExecutionGraph
from kit.graph.job_graph import JobGraph
from kit.host.task_files import TaskFiles
from kit.protocol.elements import Buffer
from kit.protocol.messages import TaskMessage
from kit.protocol.words import Envelope, ProtocolError
from kit.spark.background import Background, HostClock
from kit.spark.channels import CreditArrived, DataPlane, ElementArrived, PeerEnded, PeerLost
from kit.spark.codec import decode_element, pack_words, unpack_words
from kit.spark.control import LEAVE, ControlClient, DriverLeft, DriverMessage
from kit.spark.edge import SparkOutput, open_local_state, open_storage
from kit.spark.endpoint import WireSettings
from kit.spark.stream import Endpoint
from kit.spark.task_host import TaskHost, Work
from kit.spark.wire import ControlMessage

CONNECT = "connect"
CONNECTED = "connected"
DELIVER = "deliver"
SAID = "said"
TROUBLE = "trouble"
PEER_LOST = "peer lost"
ROWS_READ = "rows read"
"""The kinds of control messages, beside hello and leave."""

RECORDS_EVERY_S = 0.05
"""Records of the trace wait at most so long for a message to travel with."""
ROWS_EVERY_S = 0.25
"""So often a slot tells how many rows its sources have read."""
FINISH_WRITING_S = 2.0
"""A slot that leaves gives its background so long to finish what it is writing."""


@dataclass(frozen=True, slots=True)
class SlotTicket:
    """All that a slot must know beforehand. It travels in Spark's closure, the user's functions with it."""

    job: JobGraph
    epoch: int
    parallelism: Mapping[str, int]
    max_parallelism: Mapping[str, int]
    driver: Endpoint
    secret: bytes
    checkpoints: str
    output: SparkOutput
    wire: WireSettings
    host: str = "127.0.0.1"
    local_state: str = ""
    sockets: str = ""
    """Where on the driver's machine Unix sockets go; it outlives a worker that is killed, and removes them."""

    @property
    def slots(self) -> int:
        """How many slots the epoch has: as many as its widest vertex has subtasks."""
        return max(self.parallelism.values())

    def __repr__(self) -> str:
        return f"SlotTicket({self.job.name}, epoch {self.epoch}, {self.slots} slots, {self.driver})"


@dataclass(frozen=True, slots=True)
class _BackgroundFailed:
    """The background met an error that nothing foresaw."""

    error: Exception


class Slot:
    """Slot `number` of the epoch in `ticket`. `inbox` is where everything arrives (a queue with `put` and `get`)."""

    def __init__(self, ticket: SlotTicket, number: int, inbox: queue.SimpleQueue[Any] | None = None) -> None:
        self.number = number
        self._ticket = ticket
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue() if inbox is None else inbox
        self._over = False
        self._job_is_over = self._is_alone = False
        self._said: list[Envelope] = []
        self._records_due_s = 0.0
        self._rows_told = 0
        self._rows_due_s = 0.0
        self._now = HostClock()
        self._host: TaskHost | None = None

    def __repr__(self) -> str:
        return f"Slot({self.number}, epoch {self._ticket.epoch}, {self._host or 'not yet connected'})"

    # --- from joining to leaving ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Join the driver, do what the tasks do, return when told to leave.

        Raises ConnectionError and its kinds when the driver cannot be joined; trouble after that is told to the driver.
        """
        ticket = self._ticket
        with contextlib.ExitStack() as stack:
            self._files = TaskFiles(
                ticket.job,
                open_storage(ticket.job, ticket.checkpoints),
                ticket.output,
                open_local_state(ticket.job, ticket.local_state),
            )
            stack.callback(self._close_files)
            self._background = Background(f"kit-files-{self.number}", self._inbox.put, _BackgroundFailed)
            stack.callback(self._background.close, FINISH_WRITING_S)
            self._plane = DataPlane(
                self.number,
                ticket.epoch,
                ticket.secret,
                self._inbox,
                host=ticket.host,
                directory=ticket.sockets if os.path.isdir(ticket.sockets) else "",
                settings=ticket.wire,
            )
            stack.callback(self._plane.close)
            self._driver = ControlClient(
                ticket.driver,
                ticket.secret,
                self.number,
                ticket.epoch,
                self._inbox,
                data_endpoints=self._plane.endpoints,
                settings=ticket.wire,
            )
            try:
                self._loop()
            except Exception as error:
                self._complain(error)
            finally:
                stack.close()
                self._driver.close()

    def _close_files(self) -> None:
        """Nothing is written any more. Copies of state wait for the next epoch, if there is to be one."""
        self._files.close()
        if self._job_is_over or self._is_alone:
            self._files.forget_local_state(None if self._job_is_over else self.number)

    def _loop(self) -> None:
        inbox = self._inbox
        while not self._over:
            while not inbox.empty():
                self._take(inbox.get())
            if not self._work() and not self._over:
                with contextlib.suppress(queue.Empty):
                    self._take(inbox.get(timeout=self._idle_s()))

    def _work(self) -> bool:
        """Let the tasks do what they can do now, and tell the driver; False when there was nothing."""
        host = self._host
        if host is None:
            return False
        host.fire_timers()
        worked = host.work()
        if self._said or (host.records and time.monotonic() >= self._records_due_s):
            self._tell_driver(host)
        if host.rows_read != self._rows_told and time.monotonic() >= self._rows_due_s:
            self._tell_rows(host)
        return worked

    def _idle_s(self) -> float | None:
        """How long to sleep at most: until a timer is due, or records are to be sent."""
        host = self._host
        if host is None:
            return None
        limits = [self._records_due_s - time.monotonic()] if host.records else []
        if host.next_timer_ms is not None:
            limits.append((host.next_timer_ms - self._now()) / 1000)
        return max(0.0, min(limits)) if limits else None

    def _tell_rows(self, host: TaskHost) -> None:
        self._rows_told = host.rows_read
        self._rows_due_s = time.monotonic() + ROWS_EVERY_S
        self._driver.send(ControlMessage(ROWS_READ, {"rows": self._rows_told}))

    def _tell_driver(self, host: TaskHost) -> None:
        if self._said and host.rows_read != self._rows_told:
            self._tell_rows(host)  # so that a task's end comes after its last row
        self._driver.send(pack_words(SAID, self._said, host.records))
        self._said.clear()
        host.records.clear()
        self._records_due_s = time.monotonic() + RECORDS_EVERY_S

    def _complain(self, error: Exception) -> None:
        """Tell the driver what happened, and wait to be told to leave."""
        text = "".join(traceback.format_exception(error))
        fields = {"error": f"{type(error).__name__}: {error}", "traceback": text}
        self._driver.send(ControlMessage(TROUBLE, fields | {"fatal": isinstance(error, ProtocolError)}))
        while not self._over:
            item = self._inbox.get()
            if isinstance(item, DriverLeft) or (isinstance(item, DriverMessage) and item.message.kind == LEAVE):
                self._take(item)

    # --- what comes in --------------------------------------------------------------------------------------------

    def _take(self, item: Any) -> None:
        self._TAKE[type(item)](self, item)

    def _element_arrived(self, item: ElementArrived) -> None:
        assert self._host is not None
        element = item.element
        if isinstance(element, pa.RecordBatch):
            self._host.element(item.channel, Buffer(element))
        else:
            self._host.element(item.channel, *decode_element(element))

    def _credit_arrived(self, item: CreditArrived) -> None:
        assert self._host is not None
        self._host.credit(item.channel, item.credits)

    def _peer_ended(self, item: PeerEnded) -> None:
        """It had nothing more to say; the driver knows."""

    def _peer_lost(self, item: PeerLost) -> None:
        """As a rule the driver knows; when only this connection broke, it does now."""
        self._driver.send(ControlMessage(PEER_LOST, {"slot": item.slot, "reason": item.reason}))

    def _driver_said(self, item: DriverMessage) -> None:
        kind = item.message.kind
        if kind == LEAVE:
            self._over = True
            self._job_is_over = bool(item.message.fields.get("for_good"))
        elif kind == CONNECT:
            self._connect(item.message)
        elif kind == DELIVER:
            assert self._host is not None
            for message, cause in unpack_words(item.message, TaskMessage)[0]:
                self._host.message(message, cause)
        else:
            raise ValueError(f"the driver said {kind!r}, expected {CONNECT!r}, {DELIVER!r} or {LEAVE!r}")

    def _driver_left(self, item: DriverLeft) -> None:
        self._is_alone = not self._over  # it left without a word, or cannot be reached
        self._over = True

    def _answered(self, item: Work) -> None:
        assert self._host is not None
        self._host.answer(item)

    def _background_failed(self, item: _BackgroundFailed) -> None:
        raise item.error

    _TAKE: ClassVar[dict[type, Callable[[Slot, Any], None]]] = {
        ElementArrived: _element_arrived,
        CreditArrived: _credit_arrived,
        PeerEnded: _peer_ended,
        PeerLost: _peer_lost,
        DriverMessage: _driver_said,
        DriverLeft: _driver_left,
        Work: _answered,
        _BackgroundFailed: _background_failed,
    }

    def _connect(self, message: ControlMessage) -> None:
        """Make the tasks, and connect with the slots whose addresses the driver gives."""
        ticket = self._ticket
        graph = ExecutionGraph(ticket.job, ticket.parallelism, ticket.max_parallelism)
        self._host = TaskHost(
            graph,
            self.number,
            ticket.epoch,
            self._files,
            self._plane,
            self._said.append,
            self._background,
            self._now,
        )
        endpoints = {
            int(slot): [Endpoint.parse(text) for text in texts] for slot, texts in message.fields["endpoints"].items()
        }
        self._plane.connect(endpoints, self._host.routes)
        self._driver.send(ControlMessage(CONNECTED))


def connect_message(endpoints: Mapping[int, Sequence[Endpoint]]) -> ControlMessage:
    """The message that tells a slot where all slots' data planes are."""
    return ControlMessage(CONNECT, {"endpoints": {str(slot): [str(e) for e in of] for slot, of in endpoints.items()}})


class LastWord(queue.SimpleQueue):
    """An inbox that ends the process when the slot was told to leave and has not left `grace_s` later.

    A slot busy in a user's function cannot look into its inbox; but once the driver has gone on without it, it must not
    write any more.
    """

    def __init__(self, grace_s: float) -> None:
        super().__init__()
        self._grace_s = grace_s
        self._timer: threading.Timer | None = None

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; one that tells the slot to leave starts the countdown."""
        if isinstance(item, DriverLeft) or (isinstance(item, DriverMessage) and item.message.kind == LEAVE):
            self._start()
        super().put(item)

    def _start(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._grace_s, os._exit, (1,))
            self._timer.daemon = True
            self._timer.start()

    def left(self) -> None:
        """The slot has left in time."""
        if self._timer is not None:
            self._timer.cancel()
