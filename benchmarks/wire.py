"""Speed of the data plane between two processes, beside a prototype on Arrow Flight (`benchmarks._flight`).

    python -m benchmarks.wire [--rounds 5] [--million-rows 200] [--only "tcp, tls"]

Two int64 columns; the sender keeps eight buffers of credit in flight, the receiver grants one for each it takes. Per
transport, the median of the rounds, in which the transports take turns:

- million rows per second, by the rows of a batch
- the processor time of both processes per batch, in microseconds: it depends less on what else runs
- the time of an event there and back, on idle channels and beside a full one. Events need no credit, so a barrier that
  overtakes the buffers of its channel travels like the second.
"""

from __future__ import annotations

import multiprocessing
import queue
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._flight import FlightReceiver, FlightSender
from benchmarks._options import options
from kit.hosts.spark.wire.auth import new_secret
from kit.hosts.spark.wire.channels import CreditArrived, DataPlane, ElementArrived, Route
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.tls import Tls

BATCHES = (100, 1_000, 10_000, 65_536, 262_144)
BESIDE = 65_536
"""The rows of the batches beside which events are sent."""
MAX_BATCHES = 50_000
CREDITS = 8
DATA, REPLY, EVENTS = 1, 2, 3
ROUTES = [Route(DATA, 0, 1), Route(REPLY, 1, 0), Route(EVENTS, 0, 1)]
Inbox = queue.SimpleQueue[Any]


@dataclass(frozen=True)
class Sizes:
    """The sizes to send."""

    rows: int = 200_000_000
    round_trips: int = 3_000


SMALLEST = Sizes(rows=300_000, round_trips=3)


@dataclass
class Figures:
    """What was measured of one transport, in each round."""

    rates: dict[int, list[float]] = field(default_factory=dict)
    """Million rows per second, by the rows of a batch."""
    processor_us: dict[int, list[float]] = field(default_factory=dict)
    """Processor time of both processes per batch, by its rows."""
    idle_us: list[float] = field(default_factory=list)
    beside_us: list[float] = field(default_factory=list)

    def row(self) -> str:
        """Return the medians as a row of the table."""
        median = statistics.median
        cells = [f"{median(each):9.1f}" for each in self.rates.values()]
        cells += [f"{median(each):9.1f}" for each in self.processor_us.values()]
        return "".join(cells) + f"{median(self.idle_us):9.0f}{median(self.beside_us):9.0f}"


# --- the two transports ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kit:
    """The kit's own data plane."""

    settings: WireSettings

    def receiver(self, pipe: Connection, secret: bytes, inbox: Inbox) -> Any:
        """Open slot 1."""
        plane = DataPlane(1, 1, secret, inbox, settings=self.settings)
        pipe.send(plane.endpoints)
        plane.connect({0: pipe.recv()}, ROUTES)
        return plane

    def sender(self, pipe: Connection, secret: bytes, inbox: Inbox) -> Any:
        """Open slot 0."""
        plane = DataPlane(0, 1, secret, inbox, settings=self.settings)
        pipe.send(plane.endpoints)
        plane.connect({1: pipe.recv()}, ROUTES)
        return plane


@dataclass(frozen=True)
class Flight:
    """Arrow Flight, on a Unix socket (a path), or on TCP, inside TLS if it is given."""

    socket: str = ""
    tls: Tls | None = None

    def receiver(self, pipe: Connection, secret: bytes, inbox: Inbox) -> Any:
        """Open slot 1."""
        server = FlightReceiver(secret, inbox, self.socket, self.tls)
        pipe.send(server.address)
        server.connected(ROUTES)
        return server

    def sender(self, pipe: Connection, secret: bytes, inbox: Inbox) -> Any:
        """Open slot 0."""
        client = FlightSender(pipe.recv(), secret, inbox, self.tls)
        client.connect(ROUTES)
        return client


# --- measuring ------------------------------------------------------------------------------------------------------


def receive(pipe: Connection, secret: bytes, transport: Kit | Flight) -> None:
    """The child: slot 1. Takes rows; answers an event with itself, an empty one with its processor time in ns."""
    inbox: Inbox = queue.SimpleQueue()
    with transport.receiver(pipe, secret, inbox) as plane:
        plane.grant(DATA, CREDITS)
        while True:
            item = inbox.get()
            if not isinstance(item, ElementArrived) or item.element == b"end":
                break
            if isinstance(item.element, bytes):
                plane.send(REPLY, item.element or time.process_time_ns().to_bytes(8, "big"))
            else:
                plane.grant(DATA, 1)
        plane.send(REPLY, b"end")
        plane.end()


class Sender:
    """Slot 0: sends rows and events, and measures."""

    def __init__(self, plane: Any, inbox: Inbox) -> None:
        self._plane = plane
        self._inbox = inbox
        self._credits = 0
        self._pinged_s = 0.0
        self._trips_us: list[float] = []
        while self._credits < CREDITS:
            self._take()

    def rate(self, batch: pa.RecordBatch, count: int, *, pings: bool = False) -> float:
        """Return million rows per second. With `pings`, an event is under way all the time."""
        start = time.perf_counter()
        if pings:
            self._ping()
        for _ in range(count):
            while not self._credits:
                self._take(pings=pings)
            self._plane.send(DATA, batch)
            self._credits -= 1
        while self._credits < CREDITS:
            self._take(pings=pings)
        seconds = time.perf_counter() - start
        if pings:
            self._take()  # the last event
        return count * batch.num_rows / seconds / 1e6

    def beside_us(self, batch: pa.RecordBatch, count: int) -> float:
        """Return the median time of an event there and back beside a channel that is full of `batch`."""
        self._trips_us.clear()
        self.rate(batch, count, pings=True)
        return statistics.median(self._trips_us)

    def idle_us(self, times: int) -> float:
        """Return the median time of an event there and back, with nothing else under way."""
        self._trips_us.clear()
        for _ in range(times):
            self._ping()
            self._take()
        return statistics.median(self._trips_us)

    def processor_s(self) -> float:
        """Return the processor time of both processes so far."""
        self._plane.send(EVENTS, b"")
        return time.process_time() + int.from_bytes(self._inbox.get().element, "big") / 1e9

    def end(self) -> None:
        """Have the receiver leave."""
        self._plane.send(EVENTS, b"end")
        self._inbox.get()
        self._plane.end()

    def _ping(self) -> None:
        self._pinged_s = time.perf_counter()
        self._plane.send(EVENTS, b"ping")

    def _take(self, *, pings: bool = False) -> None:
        """Take a credit or an event; with `pings`, send the next event."""
        item = self._inbox.get()
        if isinstance(item, CreditArrived):
            self._credits += item.credits
            return
        self._trips_us.append((time.perf_counter() - self._pinged_s) * 1e6)
        if pings:
            self._ping()


def measure(transport: Kit | Flight, sizes: Sizes, figures: Figures) -> None:
    """Add one round."""
    secret = new_secret()
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=receive, args=(there, secret, transport))
    child.start()
    inbox: Inbox = queue.SimpleQueue()
    with transport.sender(here, secret, inbox) as plane:
        sender = Sender(plane, inbox)
        for rows in BATCHES:
            values = np.arange(rows)
            batch = pa.record_batch({"key": values, "value": values})
            count = max(1, min(sizes.rows // rows, MAX_BATCHES))
            before_s = sender.processor_s()
            figures.rates.setdefault(rows, []).append(sender.rate(batch, count))
            figures.processor_us.setdefault(rows, []).append((sender.processor_s() - before_s) / count * 1e6)
            if rows == BESIDE:
                figures.beside_us.append(sender.beside_us(batch, count))
        figures.idle_us.append(sender.idle_us(sizes.round_trips))
        sender.end()
    child.join()


def main() -> int:
    """Measure each transport."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, in which the transports take turns")
    parser.add_argument("--million-rows", type=int, default=200, help="million rows that are sent in batches of a size")
    parser.add_argument("--only", nargs="*", help="names of transports; all by default")
    given = parser.parse_args()
    sizes = SMALLEST if given.smallest else Sizes(rows=given.million_rows * 1_000_000)
    tls = Tls.for_this_run()
    with tempfile.TemporaryDirectory() as directory:
        tcp = partial(WireSettings, unix_sockets=False)
        transports: dict[str, Kit | Flight] = {
            "unix": Kit(WireSettings()),
            "unix, flight": Flight(f"{directory}/flight"),
            "tcp": Kit(tcp()),
            "tcp, flight": Flight(),
            "tcp, tls": Kit(tcp(tls=tls)),
            "tcp, tls, flight": Flight(tls=tls),
            "unix lz4": Kit(WireSettings(compression="lz4")),
        }
        chosen = {name: each for name, each in transports.items() if not given.only or name in given.only}
        figures = {name: Figures() for name in chosen}
        for _ in range(1 if given.smallest else given.rounds):
            for name, transport in chosen.items():
                measure(transport, sizes, figures[name])
    print(f"{'':18}{'million rows per second':>45}{'processor time of a batch, us':>45}{'event, us':>18}")
    print(f"{'rows of a batch':18}" + "".join(f"{rows:9}" for rows in BATCHES) * 2 + f"{'idle':>9}{'beside':>9}")
    for name, each in figures.items():
        print(f"{name:18}{each.row()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
