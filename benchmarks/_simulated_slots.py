"""Simulated slots: thousands of them in one process, for `benchmarks.scale`.

The driver cannot tell them from slots: each connects, authenticates, registers, sends heartbeats, and answers messages.
They have no data plane and no tasks. A deployed task runs at once. When a source is triggered, all tasks of its slot
acknowledge the checkpoint, as if the barrier had reached them. Keyed tasks refer to a file that does not exist.
"""

from __future__ import annotations

import contextlib
import selectors
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Any

from benchmarks.coordinator import KEYED, state
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    CheckpointMetrics,
    DeployTask,
    JobMessage,
    TaskMessage,
    TaskStateChanged,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.tasks import ExecutionState, split_task_name
from kit.core.protocol.words import Envelope
from kit.core.state.key_groups import key_group_partitions
from kit.core.state.operator_state import TaskStateSnapshot
from kit.hosts.spark.slot.slot import CONNECTED, DELIVER, SlotTicket
from kit.hosts.spark.slot.working_slot import SAID
from kit.hosts.spark.wire.addresses import CONNECT
from kit.hosts.spark.wire.auth import DRIVER, Party, Purpose
from kit.hosts.spark.wire.codec import pack_words, unpack_words
from kit.hosts.spark.wire.control import LEAVE, SlotHello
from kit.hosts.spark.wire.endpoint import WireSettings, dial
from kit.hosts.spark.wire.stream import Endpoint, Stream
from kit.hosts.spark.wire.wire import HEADER, Buffers, ControlMessage, FrameKind, pack_frame, parse_header

HEARTBEAT_S = 1.0
BEATS = 50
"""So many times in that a share of the slots says that it lives."""
JOIN_S = 60


@dataclass(frozen=True)
class Told:
    """The facts about a job that a simulated slot needs; they are sent to another process."""

    driver: Endpoint
    secret: bytes
    job_id: str
    deployment: int
    slots: int
    max_parallelism: int
    keyed: Mapping[str, str]
    """The operator with state, by vertex."""


@dataclass
class Counts:
    """The messages and bytes on the sockets, without heartbeats."""

    received: int = 0
    received_bytes: int = 0
    sent: int = 0
    sent_bytes: int = 0


class SimulatedGang:
    """A gang for `SparkJob(launch=...)`: all its slots are in one process beside this one."""

    def __init__(self, ticket: SlotTicket, ended: Callable[[str], None]) -> None:
        context = get_context("spawn")
        self.report, theirs = context.Pipe(duplex=False)
        keyed = {each.name: each.operators[0].operator_id for each in ticket.job.vertices if not each.is_source}
        [width] = set(ticket.max_parallelism.values())
        told = Told(ticket.driver, ticket.secret, ticket.job.job_id, ticket.deployment, len(ticket.slots), width, keyed)
        self._process = context.Process(target=_work, args=(told, theirs), daemon=True)
        self._process.start()
        theirs.close()
        threading.Thread(target=self._join, args=(ended,), name="kit-gang", daemon=True).start()

    def _join(self, ended: Callable[[str], None]) -> None:
        self._process.join()
        ended("")

    def counts(self) -> Counts:
        """Return the counts so far, from the running process."""
        while self.report.poll(2 * HEARTBEAT_S):
            latest: Counts = self.report.recv()
            if not self.report.poll():
                return latest
        raise RuntimeError("the simulated slots are gone")

    def cancel(self) -> None:
        """Cancel the slots, as a gang does."""
        self._process.terminate()

    def give_up(self, slot: int) -> bool:
        """Return False: every simulated slot can be used again."""
        return False


@dataclass
class _Slot:
    number: int
    stream: Stream
    received: bytearray = field(default_factory=bytearray)
    tasks: list[str] = field(default_factory=list)


class _Slots:
    """All slots of the process."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.counts = Counts()
        self.selector = selectors.DefaultSelector()
        self.groups = tuple(key_group_partitions(told.max_parallelism, told.slots))
        self.there: set[int] = set()
        self.beaten = int(time.monotonic() * BEATS / HEARTBEAT_S)

    def join(self) -> None:
        """Register the slots one after the other."""
        told = self.told
        for number in range(told.slots):
            settings = WireSettings(handshake_timeout_ms=JOIN_S * 1000)
            party = Party(number, told.deployment)
            stream = dial([told.driver], told.secret, Purpose.CONTROL, party, DRIVER, settings=settings)
            stream.set_timeouts(JOIN_S, JOIN_S)
            slot = _Slot(number, stream)
            hello = SlotHello(number, told.deployment, 0, "simulated", [Endpoint("127.0.0.1", 1 + number)])
            self._send(slot, hello.to_message().pack())
            self.selector.register(stream._socket, selectors.EVENT_READ, slot)
            self.there.add(number)
            self.beat()

    def beat(self) -> None:
        """Send a heartbeat for each slot whose second is over. Like real slots, they are not in step."""
        due = int(time.monotonic() * BEATS / HEARTBEAT_S)
        turns = {turn % BEATS for turn in range(max(self.beaten, due - BEATS), due)}
        self.beaten = due
        if not turns:
            return
        beat = pack_frame(FrameKind.HEARTBEAT)
        for key in list(self.selector.get_map().values()):
            if key.data.number % BEATS in turns:
                with contextlib.suppress(OSError):  # it has been told to leave
                    key.data.stream.send_buffers(beat)

    def listen(self, seconds: float) -> None:
        """Receive and answer messages for this time."""
        until = time.monotonic() + seconds
        while self.there and (left := until - time.monotonic()) > 0:
            for key, _ in self.selector.select(left):
                self._hear(key.data)
                self.beat()

    def _hear(self, slot: _Slot) -> None:
        piece = slot.stream._socket.recv(1 << 20)
        if not piece:
            self._leave(slot)
            return
        slot.received += piece
        while len(slot.received) >= HEADER.size:
            kind, _, _, length = parse_header(bytes(slot.received[: HEADER.size]))
            end = HEADER.size + length
            if len(slot.received) < end:
                return
            payload = bytes(slot.received[HEADER.size : end])
            del slot.received[:end]
            if kind is FrameKind.CONTROL:
                self.counts.received += 1
                self.counts.received_bytes += end
                self._told(slot, payload)

    def _told(self, slot: _Slot, payload: bytes) -> None:
        if f'"kind":"{CONNECT}"'.encode() in payload[:100]:
            # Real slots read it at once, each on its own machine; one process would need minutes for all of them.
            self._send(slot, ControlMessage(CONNECTED).pack())
            return
        message = ControlMessage.unpack(payload)
        if message.kind == LEAVE:
            slot.stream.send_buffers(pack_frame(FrameKind.END))
            slot.stream.shutdown_write()
        elif message.kind == DELIVER:
            words = unpack_words(message, TaskMessage)[0]
            answers = [answer for word, cause in words for answer in self._answer(slot, word, cause)]
            if answers:
                self._send(slot, pack_words(SAID, answers).pack())

    def _answer(self, slot: _Slot, word: Any, cause: str) -> list[Envelope]:
        said: list[JobMessage] = []
        if isinstance(word, DeployTask):
            slot.tasks.append(word.task)
            said = [TaskStateChanged(task=word.task, attempt=word.attempt, state=ExecutionState.RUNNING)]
        elif isinstance(word, TriggerTaskCheckpoint):
            said = [self._acknowledge(slot, task, word) for task in slot.tasks]
        return [Envelope(each, cause) for each in said]

    def _acknowledge(self, slot: _Slot, task: str, trigger: TriggerTaskCheckpoint) -> AcknowledgeCheckpoint:
        operator = self.told.keyed.get(split_task_name(task)[0])
        ack = AcknowledgeCheckpoint(
            task=task,
            attempt=trigger.attempt,
            job_id=self.told.job_id,
            checkpoint_id=trigger.checkpoint_id,
            metrics=CheckpointMetrics(sync_ms=1, async_ms=1),
        )
        if operator is None:
            return ack
        return replace(ack, state=TaskStateSnapshot({operator: state(KEYED, slot.number, self.groups[slot.number])}))

    def _send(self, slot: _Slot, packed: Buffers) -> None:
        slot.stream.send_buffers(packed)
        self.counts.sent += 1
        self.counts.sent_bytes += sum(map(len, packed))

    def _leave(self, slot: _Slot) -> None:
        self.selector.unregister(slot.stream._socket)
        slot.stream.close()
        self.there.discard(slot.number)


def _work(told: Told, report: Pipe) -> None:
    slots = _Slots(told)
    slots.join()
    told_s = 0.0
    while slots.there:
        slots.listen(HEARTBEAT_S / BEATS)
        slots.beat()
        if time.monotonic() - told_s >= HEARTBEAT_S:
            told_s = time.monotonic()
            report.send(slots.counts)
