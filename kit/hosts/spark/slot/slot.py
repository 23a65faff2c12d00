"""A slot: one process's share of a job, from joining the driver to being told to leave.

A slot holds the subtasks with one index, one of each vertex, for one epoch. It joins the driver with a hello, learns
the other slots' addresses (`connect`), connects with them and says so (`connected`); then the tasks are deployed.

One thread runs everything but input and output. It takes what came into the *inbox* (from the driver, from other slots,
from the background), hands the `WorkingSlot` what is for its tasks and lets it work, and sleeps only when there is
nothing to do. Before the slot knows the others there are no tasks, and only the driver has something to say.

Whatever ends the control connection ends the slot. The driver takes its end as the word that nothing of this slot
writes any more, so the connection is closed last.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kit.core.protocol.words import Envelope, ProtocolError
from kit.hosts.files.task_files import TaskFiles
from kit.hosts.spark.driver.background import Background, HostClock
from kit.hosts.spark.edge import SparkOutput, open_local_state, open_storage
from kit.hosts.spark.recording import EventFile, slot_process
from kit.hosts.spark.slot.fetcher import Fetcher
from kit.hosts.spark.slot.task_host import TaskHost
from kit.hosts.spark.slot.working_slot import WorkingSlot
from kit.hosts.spark.wire.addresses import CONNECT, addresses_of
from kit.hosts.spark.wire.channels import DataPlane, PeerEnded, PeerLost
from kit.hosts.spark.wire.control import LEAVE, ControlClient, DriverLeft, DriverMessage
from kit.hosts.spark.wire.endpoint import EVERY_ADDRESS, WireSettings, address_towards
from kit.hosts.spark.wire.stream import Endpoint
from kit.hosts.spark.wire.wire import ControlMessage
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph

CONNECTED = "connected"
DELIVER = "deliver"
TROUBLE = "trouble"
PEER_LOST = "peer lost"
"""The kinds of control messages, beside hello and leave, and what a working slot says."""

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
    host: str = ""
    """Where slots listen for each other; "": where each reaches the driver from."""
    local_state: str = ""
    sockets: str = ""
    """Where on the driver's machine Unix sockets go; it outlives a worker that is killed, and removes them."""
    recording: str = ""
    """Where a run that is recorded writes down what its machines handle."""

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
        self._now = HostClock()
        self._recording: EventFile | None = None
        self._host: TaskHost | None = None

    def __repr__(self) -> str:
        return f"Slot({self.number}, epoch {self._ticket.epoch})"

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
            stack.callback(self._stop_reading)
            own = address_towards(ticket.driver)
            host = ticket.host or own
            self._plane = DataPlane(
                self.number,
                ticket.epoch,
                ticket.secret,
                self._inbox,
                host=host,
                advertised_host=own if host in EVERY_ADDRESS else "",
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
            except (Exception, SystemExit) as error:  # a function of the user's may call sys.exit
                self._complain(error)
            finally:
                stack.close()
                self._driver.close()

    def _close_files(self) -> None:
        """Nothing is written any more. Copies of state wait for the next epoch, if there is to be one."""
        self._files.close()
        if self._recording is not None:
            self._recording.close()
        if self._job_is_over or self._is_alone:
            self._files.forget_local_state(None if self._job_is_over else self.number)

    def _loop(self) -> None:
        inbox, working = self._inbox, self._wait_for_the_others()
        while working is not None and not self._over:
            while not inbox.empty():
                self._take(inbox.get(), working)
            if not working.work() and not self._over:
                with contextlib.suppress(queue.Empty):
                    self._take(inbox.get(timeout=working.idle_s()), working)
        if working is not None:
            working.tell_records()

    def _wait_for_the_others(self) -> WorkingSlot | None:
        """Wait until all slots have joined, make the tasks and connect; None when told to leave before."""
        while not self._over:
            item = self._inbox.get()
            if isinstance(item, DriverMessage) and item.message.kind == CONNECT:
                return self._connect(item.message)
            self._hear(item)
        return None

    def _complain(self, error: BaseException) -> None:
        """Tell the driver what happened, and wait to be told to leave."""
        text = "".join(traceback.format_exception(error))
        fields = {"error": f"{type(error).__name__}: {error}", "traceback": text}
        self._driver.send(ControlMessage(TROUBLE, fields | {"fatal": isinstance(error, ProtocolError)}))
        while not self._over:
            item = self._inbox.get()
            if isinstance(item, DriverLeft) or (isinstance(item, DriverMessage) and item.message.kind == LEAVE):
                self._hear(item)

    # --- what comes in --------------------------------------------------------------------------------------------

    def _take(self, item: Any, working: WorkingSlot) -> None:
        if type(item) in working.TAKES:
            working.take(item)
        elif isinstance(item, DriverMessage) and item.message.kind == DELIVER:
            working.deliver(item.message)
        else:
            self._hear(item)

    def _hear(self, item: Any) -> None:
        self._HEARS[type(item)](self, item)

    def _peer_ended(self, item: PeerEnded) -> None:
        """It had nothing more to say; the driver knows."""

    def _peer_lost(self, item: PeerLost) -> None:
        """As a rule the driver knows; when only this connection broke, it does now."""
        self._driver.send(ControlMessage(PEER_LOST, {"slot": item.slot, "reason": item.reason}))

    def _driver_said(self, item: DriverMessage) -> None:
        kind = item.message.kind
        if kind != LEAVE:
            raise ValueError(f"the driver said {kind!r}, expected {CONNECT!r} once, then {DELIVER!r}, or {LEAVE!r}")
        self._over = True
        self._job_is_over = bool(item.message.fields.get("for_good"))

    def _driver_left(self, item: DriverLeft) -> None:
        self._is_alone = not self._over  # it left without a word, or cannot be reached
        self._over = True

    def _background_failed(self, item: _BackgroundFailed) -> None:
        raise item.error

    _HEARS: ClassVar[dict[type, Callable[[Slot, Any], None]]] = {
        PeerEnded: _peer_ended,
        PeerLost: _peer_lost,
        DriverMessage: _driver_said,
        DriverLeft: _driver_left,
        _BackgroundFailed: _background_failed,
    }

    def _connect(self, message: ControlMessage) -> WorkingSlot:
        """Make the tasks, and connect with the slots whose addresses the driver gives."""
        ticket = self._ticket
        graph = ExecutionGraph(ticket.job, ticket.parallelism, ticket.max_parallelism)
        if ticket.recording:
            self._recording = EventFile(ticket.recording, slot_process(ticket.epoch, self.number))
        said: list[Envelope] = []
        host = TaskHost(
            graph,
            self.number,
            ticket.epoch,
            self._files,
            self._plane,
            said.append,
            self._background,
            self._now,
            self._recording,
            self._create_fetcher,
        )
        self._host = host
        endpoints = addresses_of(message)
        self._plane.connect(endpoints, host.routes)
        self._driver.send(ControlMessage(CONNECTED))
        return WorkingSlot(host, said, self._driver, self._now)

    def _create_fetcher(self, name: str, carry_out: Callable[[Any], bool]) -> Fetcher:
        return Fetcher(name, carry_out, self._inbox.put, _BackgroundFailed)

    def _stop_reading(self) -> None:
        if self._host is not None:
            self._host.close(FINISH_WRITING_S)


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
