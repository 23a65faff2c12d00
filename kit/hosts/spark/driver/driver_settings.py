"""Settings of a driver: its time limits, and the address on which slots reach it."""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from typing import Any

from kit.hosts.spark.wire.control import ControlServer
from kit.hosts.spark.wire.endpoint import EVERY_ADDRESS, WireSettings


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """Time limits of the driver, and the addresses on which slots reach it and each other."""

    host: str = "127.0.0.1"
    """The address that the driver listens on; "0.0.0.0" is all there are."""
    port: int = 0
    """The port it listens on; 0 takes a free one."""
    advertised_host: str = ""
    """What slots dial to reach the driver, where that is not `host`: a name, or the address behind which it is."""
    slot_host: str = ""
    """The address that slots listen on for each other: "" is the one from which a slot reaches the driver, each on its
    own machine; "0.0.0.0" is all there are, and the others are told that one.
    """
    start_timeout_s: float = 60.0
    """All slots of an epoch must have connected in this time; before the first, Spark's executors must have come."""
    leave_ms: int = 300
    """Slots that were told to leave are cancelled through Spark after this time,"""
    kill_ms: int = 3_000
    """killed, where they run on this machine, after this time,"""
    abandon_ms: int = 15_000
    """and given up, fenced by the epoch, after this time."""
    leader_check_ms: int = 2_000
    """With a durable store the driver looks this often whether another one has taken over its job."""
    trace_records: int = 1_000_000
    """The trace keeps about this many records, the newest."""
    wire: WireSettings = field(default_factory=WireSettings)
    """Heartbeats, sizes, and TLS."""

    def __post_init__(self) -> None:
        if self.host in EVERY_ADDRESS and not self.advertised_host:
            raise ValueError(
                f"host={self.host!r} listens on every address of this machine, and slots have to be told one: set "
                "advertised_host too"
            )

    def control_server(self, secret: bytes, inbox: queue.SimpleQueue[Any]) -> ControlServer:
        """What slots dial, open from now on, in epoch 1."""
        host, port, told = self.host, self.port, self.advertised_host
        return ControlServer(secret, 1, inbox, host=host, port=port, advertised_host=told, settings=self.wire)
