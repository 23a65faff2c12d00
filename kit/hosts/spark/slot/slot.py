"""A slot: one process's share of a job, from joining the driver until the driver tells it to leave.

A slot runs the subtasks with one index, one of each vertex, for one epoch. It joins the driver with a hello, receives
the other slots' addresses (`connect`), connects with them and reports that (`connected`). Then the tasks are deployed.

One thread runs everything except input and output. It takes items, sent by the driver, other slots and the background
thread, from the *inbox*. It passes those for its tasks to the `WorkingSlot`, lets it work, and sleeps only when it is
idle. Until the slot is connected with the others, it has no tasks, and only the driver sends items.

The slot ends when the control connection ends, for whatever reason. To the driver, the end of the connection means that
this slot no longer writes anything, so the slot closes the connection last.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.words import Envelope, ProtocolError
from kit.files.task_files import TaskFiles
from kit.hosts.spark.driver.background import Background, HostClock
from kit.hosts.spark.edge import SparkOutput, open_local_state, open_storage
from kit.hosts.spark.recording import EventFile, slot_process
from kit.hosts.spark.slot.fetcher import Fetcher
from kit.hosts.spark.slot.running_time import RunningTime
from kit.hosts.spark.slot.spill_directory import SpillDirectory
from kit.hosts.spark.slot.task_host import TaskHost
from kit.hosts.spark.slot.working_slot import WorkingSlot
from kit.hosts.spark.wire.addresses import CONNECT, addresses_of
from kit.hosts.spark.wire.channels import DataPlane, PeerEnded, PeerLost
from kit.hosts.spark.wire.control import LEAVE, ControlClient, DriverLeft, DriverMessage
from kit.hosts.spark.wire.credentials import Credentials
from kit.hosts.spark.wire.endpoint import EVERY_ADDRESS, WireSettings, address_towards
from kit.hosts.spark.wire.stream import Endpoint
from kit.hosts.spark.wire.wire import ControlMessage
from kit.machines.channel.channel_state.slot_channel_state import slot_name
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.slot_sharing import TaskSlots
from kit.stream.settings.job_settings import StateBackend

CONNECTED = "connected"
DELIVER = "deliver"
TROUBLE = "trouble"
PEER_LOST = "peer lost"
"""Kinds of control messages, in addition to hello, leave and those that a working slot sends."""

FINISH_WRITING_S = 2.0
"""The time that a leaving slot gives its background thread to finish writing."""


@dataclass(frozen=True, slots=True)
class SlotTicket:
    """The data that a slot needs at its start.

    It is sent in Spark's closure, with the user's functions but `without_credentials`.
    """

    job: JobGraph
    deployment: int
    slots: tuple[int, ...]
    """The slots of the gang that is started."""
    slots_at_once: int
    """The number of slots of all gangs of the epoch."""
    attempts: Attempts
    parallelism: Mapping[str, int]
    max_parallelism: Mapping[str, int]
    driver: Endpoint
    secret: bytes
    checkpoints: str
    output: SparkOutput
    wire: WireSettings
    host: str = ""
    """The address on which slots listen for each other; "": the address from which each reaches the driver."""
    local_state: str = ""
    sockets: str = ""
    """The directory for Unix sockets on the driver's machine; the driver removes those of killed workers."""
    recording: str = ""
    """The directory in which a recorded run writes the events of its machines."""

    @property
    def epoch(self) -> int:
        """The epoch in which the gang runs."""
        return self.attempts.epoch

    @property
    def credentials(self) -> Credentials:
        """The parts of the ticket that prove that a process belongs to the job."""
        return Credentials(self.secret, self.wire.tls)

    def without_credentials(self) -> SlotTicket:
        """Return the ticket without these parts."""
        return self.with_credentials(Credentials(b""))

    def with_credentials(self, credentials: Credentials) -> SlotTicket:
        """Return the ticket with these parts."""
        return replace(self, secret=credentials.secret, wire=replace(self.wire, tls=credentials.tls))

    def __repr__(self) -> str:
        return f"SlotTicket({self.job.name}, epoch {self.epoch}, {len(self.slots)} slots, {self.driver})"


@dataclass(frozen=True, slots=True)
class _BackgroundFailed:
    """The background thread failed with an unexpected error."""

    error: Exception


class Slot:
    """Slot `number` of the deployment in `ticket`. All items arrive in `inbox` (a queue with `put` and `get`)."""

    def __init__(self, ticket: SlotTicket, number: int, inbox: queue.SimpleQueue[Any] | None = None) -> None:
        self.number = number
        self._ticket = ticket
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue() if inbox is None else inbox
        self._over = False
        self._job_is_over = self._is_alone = False
        self._now = HostClock()
        self._recording: EventFile | None = None
        self._host: TaskHost | None = None
        self._space: SpillDirectory | None = None

    def __repr__(self) -> str:
        return f"Slot({self.number}, epoch {self._ticket.epoch})"

    # --- from joining to leaving ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Join the driver, run the tasks, and return when the driver tells the slot to leave.

        Raises ConnectionError or a subclass if the driver cannot be joined; later errors are reported to the driver.
        """
        ticket = self._ticket
        with contextlib.ExitStack() as stack:
            settings = ticket.job.settings
            if settings.state_backend is StateBackend.DISK:
                self._space = SpillDirectory(settings.state_directory)
            self._files = TaskFiles(
                ticket.job,
                open_storage(ticket.job, ticket.checkpoints),
                ticket.output,
                open_local_state(ticket.job, ticket.local_state),
                self._space,
            )
            stack.callback(self._close_files)
            self._background = Background(f"kit-files-{self.number}", self._inbox.put, _BackgroundFailed)
            stack.callback(self._background.close, FINISH_WRITING_S)
            stack.callback(self._stop_reading)
            self._stopwatch_s = stack.enter_context(contextlib.closing(RunningTime()))
            own = address_towards(ticket.driver)
            host = ticket.host or own
            self._plane = DataPlane(
                self.number,
                ticket.deployment,
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
                ticket.deployment,
                self._inbox,
                data_endpoints=self._plane.endpoints,
                settings=ticket.wire,
            )
            try:
                self._loop()
            except (Exception, SystemExit) as error:  # a user-defined function may call sys.exit
                self._complain(error)
            finally:
                stack.close()
                self._driver.close()

    def _stop_reading(self) -> None:
        if self._host is not None:
            self._host.close(FINISH_WRITING_S)

    def _close_files(self) -> None:
        """Close the files that the slot writes. Copies of state are kept for the next epoch, if there is one."""
        self._files.close()
        if self._recording is not None:
            self._recording.close()
        if self._job_is_over or self._is_alone:
            slots = TaskSlots(self._ticket.job, self._ticket.parallelism)
            self._files.forget_local_state(None if self._job_is_over else slots.subtask_of(self.number))

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
        """Wait until all slots have joined, create the tasks and connect; return None if told to leave first."""
        while not self._over:
            item = self._inbox.get()
            if isinstance(item, DriverMessage) and item.message.kind == CONNECT:
                return self._connect(item.message)
            self._hear(item)
        return None

    def _complain(self, error: BaseException) -> None:
        """Report an error to the driver, and wait for the message to leave."""
        text = "".join(traceback.format_exception(error))
        fields = {"error": f"{type(error).__name__}: {error}", "traceback": text}
        self._driver.send(ControlMessage(TROUBLE, fields | {"fatal": isinstance(error, ProtocolError)}))
        while not self._over:
            item = self._inbox.get()
            if isinstance(item, DriverLeft) or (isinstance(item, DriverMessage) and item.message.kind == LEAVE):
                self._hear(item)

    # --- incoming items -------------------------------------------------------------------------------------------

    def _take(self, item: Any, working: WorkingSlot) -> None:
        if isinstance(item, DriverMessage) and item.message.kind == DELIVER:
            working.deliver(item.message)
        elif not working.take(item):
            self._hear(item)

    def _hear(self, item: PeerEnded | PeerLost | DriverMessage | DriverLeft | _BackgroundFailed) -> None:
        match item:
            case PeerEnded():
                pass  # in good order, and the driver knows
            case PeerLost():  # the driver knows already, unless only this connection broke
                self._driver.send(ControlMessage(PEER_LOST, {"slot": item.slot, "reason": item.reason}))
            case DriverMessage(message) if message.kind == LEAVE:
                self._over = True
                self._job_is_over = bool(message.fields.get("for_good"))
            case DriverMessage(message):
                raise ValueError(
                    f"the driver said {message.kind!r}, expected {CONNECT!r} once, then {DELIVER!r}, or {LEAVE!r}"
                )
            case DriverLeft():  # if it left without a message, or cannot be reached, this slot is alone
                self._is_alone, self._over = not self._over, True
            case _BackgroundFailed():
                raise item.error
            case _:
                assert_never(item)

    def _connect(self, message: ControlMessage) -> WorkingSlot:
        """Create the tasks, and connect with the slots whose addresses the driver has sent."""
        ticket = self._ticket
        graph = ExecutionGraph(ticket.job, ticket.parallelism, ticket.max_parallelism)
        if ticket.recording:
            self._recording = EventFile(
                ticket.recording, slot_process(ticket.epoch, self.number, ticket.attempts.of(slot_name(self.number)))
            )
        said: list[Envelope] = []
        self._host = host = TaskHost(
            graph,
            self.number,
            ticket.attempts,
            self._files,
            self._plane,
            said.append,
            self._background,
            self._now,
            self._recording,
            lambda name, carry_out: Fetcher(name, carry_out, self._inbox.put, _BackgroundFailed),
            self._stopwatch_s,
            self._space,
        )
        self._plane.connect(addresses_of(message), host.routes)
        self._driver.send(ControlMessage(CONNECTED))
        return WorkingSlot(host, said, self._driver, self._now)


class LastWord(queue.SimpleQueue):
    """An inbox that ends the process if the slot has not left within `grace_s` after it was told to leave.

    A slot that is busy in a user's function cannot read its inbox. But it must not write any more once the driver has
    continued without it.
    """

    def __init__(self, grace_s: float) -> None:
        super().__init__()
        self._grace_s = grace_s
        self._timer: threading.Timer | None = None

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item; a message to leave starts the countdown."""
        if isinstance(item, DriverLeft) or (isinstance(item, DriverMessage) and item.message.kind == LEAVE):
            self._start()
        super().put(item)

    def _start(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._grace_s, os._exit, (1,))
            self._timer.daemon = True
            self._timer.start()

    def left(self) -> None:
        """Stop the countdown because the slot has left in time."""
        if self._timer is not None:
            self._timer.cancel()
