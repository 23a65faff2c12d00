"""One deployment as the driver sees it: the slots that a gang starts together, which of them have joined, connected and
left, and what runs in them.

An epoch deploys each of its gangs once (`kit.stream.graph.slot_sharing`). If a region fails, the driver deploys its
gang again, and the others stay.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.words import Envelope
from kit.hosts.spark.driver.oom_kills import OomKills
from kit.hosts.spark.slot.slot import SlotTicket
from kit.hosts.spark.wire.connection import is_silence
from kit.hosts.spark.wire.control import SlotHello
from kit.hosts.spark.wire.stream import Endpoint
from kit.stream.graph.execution_graph import ExecutionGraph


class Gang(Protocol):
    """Slots that are started together."""

    def cancel(self) -> None:
        """End all slots that still run; may be called again."""

    def give_up(self, slot: int) -> bool:
        """Give up a slot that was silent for too long, and prevent its executor from being used again if it is broken.

        If this returns True, the function given to `Launch` is called once that is done, even if it was called before.
        """


Launch = Callable[[SlotTicket, Callable[[str], None]], Gang]
"""A function that starts the gang for a ticket. It calls the function it is given once when the gang has ended, with
the error ("" if there is none).
"""


@dataclass(frozen=True, slots=True)
class GangEnded:
    """A notice that no slot of the deployment runs any more."""

    deployment: int
    error: str


@dataclass(slots=True)
class Deployment:
    """Deployment `number` of a job, with its slots and the attempts of the tasks in them."""

    number: int
    slots: tuple[int, ...]
    graph: ExecutionGraph
    attempts: Attempts
    gang: Gang | None = None
    joined: dict[int, SlotHello] = field(default_factory=dict)
    connected: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    waiting: dict[int, list[Envelope]] = field(default_factory=dict)
    """Messages for slots, until all slots have connected."""
    is_stopping: bool = False
    """True if its slots were told to leave."""
    is_lost: bool = False
    """True if the JobMaster knows that a slot is lost."""
    gang_ended: bool = False
    oom_kills: OomKills = field(default_factory=OomKills)
    """The out-of-memory kills on this machine since the deployment began."""

    @property
    def epoch(self) -> int:
        """The epoch in which it runs."""
        return self.attempts.epoch

    @property
    def is_over(self) -> bool:
        """True if nothing of the deployment runs any more."""
        return self.gang_ended and self.left >= self.joined.keys()

    @property
    def is_connected(self) -> bool:
        """True if all slots have connected with each other."""
        return len(self.connected) == len(self.slots)

    @property
    def missing(self) -> list[int]:
        """The slots that have not connected."""
        return [slot for slot in self.slots if slot not in self.connected]

    def take_waiting(self) -> list[tuple[int, list[Envelope]]]:
        """Return the waiting messages of each slot, and remove them."""
        waiting, self.waiting = self.waiting, {}
        return list(waiting.items())

    def pids(self) -> dict[int, int]:
        """Return the process id of each slot that has joined."""
        return {slot: hello.pid for slot, hello in sorted(self.joined.items()) if slot not in self.left}

    def endpoints(self) -> dict[int, list[Endpoint]]:
        """Return the endpoints at which others reach each slot that has joined."""
        return {slot: hello.endpoints for slot, hello in self.joined.items()}

    def cancel(self) -> None:
        """End the slots through their gang."""
        if self.gang is not None and not self.gang_ended:
            self.gang.cancel()

    def end(self, slot: int, reason: str) -> None:
        """Mark a slot as lost for the given reason.

        A frozen slot might wake up and write, so it is killed if possible. The deployment is not over until it is
        known whether the slot's executor can be used again.
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
        state = "over" if self.is_over else "stopping" if self.is_stopping else f"{len(self.connected)} connected"
        return f"Deployment({self.number}, {len(self.slots)} slots, {state})"
