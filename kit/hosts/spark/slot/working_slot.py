"""A slot that is connected with the others: its tasks and their communication.

Items from other slots, the background thread and the JobMaster are passed to the `TaskHost`. The tasks' messages to the
JobMaster are sent before the slot works on, with the trace records available by then. Records alone wait briefly for a
message to be sent with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
"""The longest time that trace records wait for a message to be sent with."""
METERS_EVERY_S = 0.25
"""The interval at which a slot reports how many rows its sources have read and how its tasks spend their time."""
QUIET_METERS_EVERY_S = 1.0
"""The same while no row comes or goes, so that a slot that waits costs next to nothing."""


class WorkingSlot:
    """The tasks in `host`; `said` holds their messages to the JobMaster until these are sent over `driver`."""

    def __init__(self, host: TaskHost, said: list[Envelope], driver: ControlClient, now: Callable[[], int]) -> None:
        self._host = host
        self._said = said
        self._driver = driver
        self._now = now
        self._records_due_s = 0.0
        self._rows_reported = 0
        self._late_rows_reported = 0
        self._meters_due_s = 0.0
        self._rows_moved_reported = -1

    def __repr__(self) -> str:
        return f"WorkingSlot({self._host!r})"

    # --- work -----------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Let the tasks do all possible work, and send their messages; return False if there was nothing to do."""
        host = self._host
        host.fire_timers()
        worked = host.handle_ready()
        if self._said:
            self._tell_driver()  # the turns that follow may take long
        worked = host.work() or worked
        if self._said or (host.records and time.monotonic() >= self._records_due_s):
            self._tell_driver()
        if time.monotonic() >= self._meters_due_s or (host.rows_read and not self._rows_reported):
            self._tell_meters()
        return worked

    def idle_s(self) -> float:
        """Return how long to sleep at most: until a timer is due, or records or meters must be sent."""
        host = self._host
        limits = [self._meters_due_s - time.monotonic()]
        if host.records:
            limits.append(self._records_due_s - time.monotonic())
        if host.next_timer_ms is not None:
            limits.append((host.next_timer_ms - self._now()) / 1000)
        return max(0.0, min(limits))

    def _tell_meters(self) -> None:
        self._rows_reported, self._late_rows_reported = self._host.rows_read, self._host.meters.late_rows
        moved = self._host.meters.rows_moved
        every_s = METERS_EVERY_S if moved != self._rows_moved_reported else QUIET_METERS_EVERY_S
        self._meters_due_s, self._rows_moved_reported = time.monotonic() + every_s, moved
        fields = {"rows": self._rows_reported, "tasks": self._host.meters.reading()}
        self._driver.send(ControlMessage(METERS, fields))

    def _tell_driver(self) -> None:
        host = self._host
        reported = self._rows_reported, self._late_rows_reported
        ends = any(isinstance(envelope.word, TaskStateChanged) for envelope in self._said)
        if ends or (self._said and (host.rows_read, host.meters.late_rows) != reported):
            self._tell_meters()  # so that the driver counts a task's last row, also a dropped one, before its end
        self._driver.send(pack_words(SAID, self._said, host.records))
        self._said.clear()
        host.records.clear()
        self._records_due_s = time.monotonic() + RECORDS_EVERY_S

    def tell_records(self) -> None:
        """Send the remaining trace records, because the slot leaves. The tasks' unsent messages are discarded."""
        if self._host.records:
            self._said.clear()
            self._tell_driver()

    # --- incoming items -------------------------------------------------------------------------------------------

    def take(self, item: Any) -> bool:
        """Pass an item of another slot or of the background thread to the tasks; return False for any other item."""
        if isinstance(item, ElementArrived):
            element = item.element
            if isinstance(element, pa.RecordBatch):
                self._host.element(item.channel, Buffer(element))
            else:
                self._host.element(item.channel, *decode_element(element))
        elif isinstance(item, CreditArrived):
            self._host.credit(item.channel, item.credits, item.max_rows)
        elif isinstance(item, Work):
            self._host.answer(item)
        else:
            return False
        return True

    def deliver(self, message: ControlMessage) -> None:
        """Pass the JobMaster's messages to the tasks."""
        for word, cause in unpack_words(message, TaskMessage)[0]:
            self._host.message(word, cause)
