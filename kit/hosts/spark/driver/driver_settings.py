"""Settings of a driver: its time limits, and the address on which slots reach it."""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from typing import Any

from kit.core.arguments.allowed import (
    LONGEST_MS,
    NAME,
    SECONDS,
    TEXT,
    check_allowed,
    instance,
    milliseconds,
    whole,
)
from kit.hosts.spark.wire.control import ControlServer
from kit.hosts.spark.wire.endpoint import EVERY_ADDRESS, WireSettings


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """Time limits of the driver, and the addresses on which slots reach it and each other.

    Raises SettingError.
    """

    host: str = "127.0.0.1"
    """The address that the driver listens on; "0.0.0.0" means all addresses."""
    port: int = 0
    """The port that the driver listens on; 0 picks a free one."""
    advertised_host: str = ""
    """The name or address that slots dial to reach the driver, if it differs from `host`, for example behind NAT."""
    slot_host: str = ""
    """The address that slots listen on for each other.

    "" means the address from which each slot reaches the driver. "0.0.0.0" means all addresses, and the other slots are
    given the one from which the slot reaches the driver.
    """
    start_timeout_s: float = 60.0
    """The time in which all slots of a gang must connect, and before the first in which executors must start."""
    leave_ms: int = 300
    """The time after which slots that were told to leave are cancelled through Spark."""
    kill_ms: int = 3_000
    """The time after which slots that were told to leave are killed, if they run on this machine."""
    abandon_ms: int = 15_000
    """The time after which slots that were told to leave are abandoned; the fence keeps them out."""
    leader_check_ms: int = 2_000
    """The interval at which a driver with a durable store checks whether another driver has taken over its job."""
    trace_records: int = 1_000_000
    """The approximate number of records that the trace keeps; it keeps the newest."""
    wire: WireSettings = field(default_factory=WireSettings)
    """Heartbeats, sizes, and TLS."""

    def __post_init__(self) -> None:
        times = dict.fromkeys(("leave_ms", "kill_ms", "abandon_ms"), milliseconds(0))
        allowed = times | {
            "host": NAME,
            "port": whole(0, 65_535),
            "advertised_host": TEXT,
            "slot_host": TEXT,
            "start_timeout_s": SECONDS,
            "leader_check_ms": milliseconds(1),
            "trace_records": whole(1, LONGEST_MS),
            "wire": instance(WireSettings, "WireSettings()"),
        }
        check_allowed(self, allowed, "DriverSettings")
        if self.host in EVERY_ADDRESS and not self.advertised_host:
            raise ValueError(
                f"host={self.host!r} listens on every address of this machine, and slots have to be told one: set "
                "advertised_host too"
            )

    def control_server(self, secret: bytes, inbox: queue.SimpleQueue[Any]) -> ControlServer:
        """Open the server that slots dial."""
        host, port, advertised = self.host, self.port, self.advertised_host
        return ControlServer(secret, inbox, host=host, port=port, advertised_host=advertised, settings=self.wire)
