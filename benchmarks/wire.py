"""Speed of the data plane between two processes: million rows per second, and the time of a round trip.

    python -m benchmarks.wire

Two int64 columns; the sender keeps eight buffers of credit in flight, the receiver grants one for each it takes.
"""

from __future__ import annotations

import multiprocessing
import queue
import statistics
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._options import options
from kit.hosts.spark.wire.auth import new_secret
from kit.hosts.spark.wire.channels import CreditArrived, DataPlane, ElementArrived, Route
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.hosts.spark.wire.tls import Tls

MAX_BATCHES = 50_000
CREDITS = 8
DATA, REPLY = 1, 2
ROUTES = [Route(DATA, 0, 1), Route(REPLY, 1, 0)]


@dataclass(frozen=True)
class Sizes:
    """The sizes to send."""

    rows: int = 200_000_000
    round_trips: int = 3_000


SMALLEST = Sizes(rows=300_000, round_trips=3)


def receive(pipe: Connection, secret: bytes, settings: WireSettings) -> None:
    """The child: slot 1. Counts rows until an event, echoes events."""
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with DataPlane(1, 1, secret, inbox, settings=settings) as plane:
        pipe.send(plane.endpoints)
        plane.connect({0: pipe.recv()}, ROUTES)
        plane.grant(DATA, CREDITS)
        rows = 0
        while True:
            item = inbox.get()
            if not isinstance(item, ElementArrived):
                break
            if isinstance(item.element, bytes):
                plane.send(REPLY, item.element or rows.to_bytes(8, "big"))
                continue
            rows += item.element.num_rows
            plane.grant(DATA, 1)
        plane.end()


def send_rows(plane: DataPlane, inbox: queue.SimpleQueue[Any], batch: pa.RecordBatch, rows: int) -> float:
    """Million rows per second from the first send to the receiver's count."""
    count = min(rows // batch.num_rows, MAX_BATCHES)
    credits = CREDITS
    start = time.perf_counter()
    for _ in range(count):
        while not credits:
            item = inbox.get()
            credits += item.credits if isinstance(item, CreditArrived) else 0
        plane.send(DATA, batch)
        credits -= 1
    plane.send(DATA, b"")
    returned = credits
    reply = None
    while reply is None or returned < CREDITS:
        item = inbox.get()
        if isinstance(item, ElementArrived):
            reply = item.element
        else:
            returned += item.credits
    seconds = time.perf_counter() - start
    assert reply is not None
    return count * batch.num_rows / seconds / 1e6


def round_trip_us(plane: DataPlane, inbox: queue.SimpleQueue[Any], times: int) -> float:
    """Median of an event there and back, in microseconds."""
    taken_s = []
    for _ in range(times):
        start = time.perf_counter()
        plane.send(DATA, b"ping")
        inbox.get()
        taken_s.append(time.perf_counter() - start)
    return statistics.median(taken_s) * 1e6


def measure(name: str, settings: WireSettings, sizes: Sizes) -> None:
    """Prints one line of the table."""
    secret = new_secret()
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=receive, args=(there, secret, settings))
    child.start()
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with DataPlane(0, 1, secret, inbox, settings=settings) as plane:
        here.send(plane.endpoints)
        plane.connect({1: here.recv()}, ROUTES)
        assert inbox.get() == CreditArrived(DATA, CREDITS)
        figures = []
        for rows in (1_000, 10_000, 65_536, 262_144):
            values = np.arange(rows)
            figures.append(send_rows(plane, inbox, pa.record_batch({"key": values, "value": values}), sizes.rows))
        trip = round_trip_us(plane, inbox, sizes.round_trips)
        plane.end()
    child.join()
    print(f"{name:12}" + "".join(f"{figure:9.0f}" for figure in figures) + f"{trip:12.0f}", flush=True)


def main() -> int:
    """Measures each transport."""
    sizes = SMALLEST if options(__doc__).parse_args().smallest else Sizes()
    print(f"{'Mrows/s':12}{'1k':>9}{'10k':>9}{'64k':>9}{'256k':>9}{'trip us':>12}")
    measure("unix", WireSettings(), sizes)
    measure("tcp", WireSettings(unix_sockets=False), sizes)
    measure("tcp, tls", WireSettings(unix_sockets=False, tls=Tls.for_this_run()), sizes)
    measure("unix lz4", WireSettings(compression="lz4"), sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
