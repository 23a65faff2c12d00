"""A slot that knows the others: its tasks, and what they have to do with the world.

What other slots and the background send is handed to the `TaskHost`, and so is what the JobMaster says. What the tasks
say to the JobMaster goes out after each round of work, with the records of the trace that are there by then; records
alone wait a little for something to travel with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa

from kit.core.protocol.elements import Buffer
from kit.core.protocol.messages import TaskMessage, TaskStateChanged
from kit.core.protocol.words import Envelope
from kit.hosts.spark.slot.task_host import TaskHost, Work
from kit.hosts.spark.wire.channels import CreditArrived, ElementArrived
from kit.hosts.spark.wire.codec import decode_element, pack_words, unpack_words
from kit.hosts.spark.wire.control import ControlClient
from kit.hosts.spark.wire.wire import ControlMessage

SAID = "said"
METERS = "meters"
"""The kinds of control messages that a working slot sends."""

RECORDS_EVERY_S = 0.05
"""Records of the trace wait at most so long for a message to travel with."""
METERS_EVERY_S = 0.25
"""So often a slot tells how many rows its sources have read, and what its tasks do with their time."""


class WorkingSlot:
    """The tasks in `host`; `said` is where they leave what they say to the JobMaster, at the other end of `driver`."""

    def __init__(self, host: TaskHost, said: list[Envelope], driver: ControlClient, now: Callable[[], int]) -> None:
        self._host = host
        self._said = said
        self._driver = driver
        self._now = now
        self._records_due_s = 0.0
        self._rows_told = 0
        self._late_rows_told = 0
        self._meters_due_s = 0.0

    def __repr__(self) -> str:
        return f"WorkingSlot({self._host!r})"

    # --- work -----------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Let the tasks do what they can do now, and tell the driver; False when there was nothing."""
        host = self._host
        host.fire_timers()
        worked = host.work()
        if self._said or (host.records and time.monotonic() >= self._records_due_s):
            self._tell_driver()
        if time.monotonic() >= self._meters_due_s or (host.rows_read and not self._rows_told):
            self._tell_meters()
        return worked

    def idle_s(self) -> float:
        """How long to sleep at most: until a timer is due, or records or meters are to be sent."""
        host = self._host
        limits = [self._meters_due_s - time.monotonic()]
        if host.records:
            limits.append(self._records_due_s - time.monotonic())
        if host.next_timer_ms is not None:
            limits.append((host.next_timer_ms - self._now()) / 1000)
        return max(0.0, min(limits))

    def _tell_meters(self) -> None:
        self._rows_told, self._late_rows_told = self._host.rows_read, self._host.meters.late_rows
        self._meters_due_s = time.monotonic() + METERS_EVERY_S
        fields = {"rows": self._rows_told, "tasks": self._host.meters.reading()}
        self._driver.send(ControlMessage(METERS, fields))

    def _tell_driver(self) -> None:
        host = self._host
        told = self._rows_told, self._late_rows_told
        ends = any(isinstance(envelope.word, TaskStateChanged) for envelope in self._said)
        if ends or (self._said and (host.rows_read, host.meters.late_rows) != told):
            self._tell_meters()  # so that a task's end comes after its last row, also one that it dropped
        self._driver.send(pack_words(SAID, self._said, host.records))
        self._said.clear()
        host.records.clear()
        self._records_due_s = time.monotonic() + RECORDS_EVERY_S

    def tell_records(self) -> None:
        """Tell the driver what is left of the trace: the slot leaves. What its tasks still had to say is not heard."""
        if self._host.records:
            self._said.clear()
            self._tell_driver()

    # --- what comes in --------------------------------------------------------------------------------------------

    def take(self, item: Any) -> None:
        """Hand the tasks what came for them: `item` is of a type that `TAKES` has."""
        self.TAKES[type(item)](self, item)

    def deliver(self, message: ControlMessage) -> None:
        """Hand the tasks what the JobMaster says to them."""
        for word, cause in unpack_words(message, TaskMessage)[0]:
            self._host.message(word, cause)

    def _element_arrived(self, item: ElementArrived) -> None:
        element = item.element
        if isinstance(element, pa.RecordBatch):
            self._host.element(item.channel, Buffer(element))
        else:
            self._host.element(item.channel, *decode_element(element))

    def _credit_arrived(self, item: CreditArrived) -> None:
        self._host.credit(item.channel, item.credits)

    def _answered(self, item: Work) -> None:
        self._host.answer(item)

    TAKES: ClassVar[dict[type, Callable[[WorkingSlot, Any], None]]] = {
        ElementArrived: _element_arrived,
        CreditArrived: _credit_arrived,
        Work: _answered,
    }
