"""One epoch as the driver sees it: the gang of slots that was started, and who has joined, connected and left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kit.core.protocol.words import Envelope
from kit.hosts.spark.driver.oom_kills import OomKills
from kit.hosts.spark.slot.slot import SlotTicket
from kit.hosts.spark.wire.connection import is_silence
from kit.hosts.spark.wire.control import SlotHello
from kit.hosts.spark.wire.stream import Endpoint
from kit.stream.graph.execution_graph import ExecutionGraph


class Gang(Protocol):
    """All slots of an epoch, started together."""

    def cancel(self) -> None:
        """End all slots that still run; may be called again."""

    def give_up(self, slot: int) -> bool:
        """A slot was silent for too long: see that the place where it runs is not used again if that is no good.

        True: the function given to `Launch` is called when that is done, again if it was called before.
        """


Launch = Callable[[SlotTicket, Callable[[str], None]], Gang]
"""Starts the gang for a ticket. The function it is given is called once when the gang is gone, with what went wrong
("" if nothing).
"""


@dataclass(frozen=True, slots=True)
class GangEnded:
    """No slot of the epoch runs any more."""

    epoch: int
    error: str


@dataclass(slots=True)
class Epoch:
    """Epoch `number` with its slots."""

    number: int
    slots: int
    graph: ExecutionGraph
    gang: Gang | None = None
    joined: dict[int, SlotHello] = field(default_factory=dict)
    connected: set[int] = field(default_factory=set)
    connected_ms: int = 0
    """When the last of them had connected, by the driver's clock."""
    left: set[int] = field(default_factory=set)
    waiting: dict[int, list[Envelope]] = field(default_factory=dict)
    """Messages for slots, until all slots have connected."""
    stop: Envelope | None = None
    lost: bool = False
    gang_ended: bool = False
    oom_kills: OomKills = field(default_factory=OomKills)
    """Counted on this machine since the epoch began."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of the epoch runs any more."""
        return self.gang_ended and self.left >= self.joined.keys()

    def take_waiting(self) -> list[tuple[int, list[Envelope]]]:
        """The messages that waited, each slot's once."""
        waiting, self.waiting = self.waiting, {}
        return list(waiting.items())

    def pids(self) -> dict[int, int]:
        """The process of each slot that is there."""
        return {slot: hello.pid for slot, hello in sorted(self.joined.items()) if slot not in self.left}

    def endpoints(self) -> dict[int, list[Endpoint]]:
        """Where each slot that has joined is reached by others."""
        return {slot: hello.endpoints for slot, hello in self.joined.items()}

    def cancel(self) -> None:
        """End the slots through whoever started them."""
        if self.gang is not None and not self.gang_ended:
            self.gang.cancel()

    def end(self, slot: int, reason: str) -> None:
        """A slot was lost for this reason. A frozen one might wake and write: it is killed, where that can be done; and
        the epoch is not over before it is known whether its place is of any use.
        """
        self.kill(slot)
        if is_silence(reason) and self.gang is not None and self.gang.give_up(slot):
            self.gang_ended = False

    def kill_stragglers(self) -> None:
        """Kill the processes that have not left, where they run on this machine."""
        for slot in self.pids():
            self.kill(slot)

    def kill(self, slot: int) -> None:
        """Kill a slot's process, where it runs on this machine."""
        hello = self.joined[slot]
        if hello.host == socket.gethostname() and hello.pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(hello.pid, signal.SIGKILL)

    def __repr__(self) -> str:
        state = "over" if self.is_over else "stopping" if self.stop else f"{len(self.connected)} connected"
        return f"Epoch({self.number}, {self.slots} slots, {state})"
