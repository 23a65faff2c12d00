"""Settings of a driver: its time limits, and the address on which slots reach it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kit.spark.endpoint import WireSettings


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """Time limits of the driver, and the address on which slots reach it."""

    host: str = "127.0.0.1"
    start_timeout_s: float = 60.0
    """All slots of an epoch must have connected in this time."""
    leave_ms: int = 300
    """Slots that were told to leave are cancelled through Spark after this time,"""
    kill_ms: int = 3_000
    """killed, where they run on this machine, after this time,"""
    abandon_ms: int = 15_000
    """and given up, fenced by the epoch, after this time."""
    trace_records: int = 1_000_000
    """The trace keeps about this many records, the newest."""
    wire: WireSettings = field(default_factory=WireSettings)
