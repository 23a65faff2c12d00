"""Host 2: the protocol's machines in Spark's barrier tasks, joined by our own sockets.

    from kit.spark import SparkJob, create_session

Importing this package needs no Spark; using these names does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kit.host.job_failed import JobFailedError
    from kit.spark.driver_settings import DriverSettings
    from kit.spark.endpoint import WireSettings
    from kit.spark.job import SparkJob
    from kit.spark.recording import recorded
    from kit.spark.running_jobs import running
    from kit.spark.session import create_session
    from kit.spark.tls import Tls

_HOMES = {
    "DriverSettings": "kit.spark.driver_settings",
    "JobFailedError": "kit.host.job_failed",
    "SparkJob": "kit.spark.job",
    "Tls": "kit.spark.tls",
    "WireSettings": "kit.spark.endpoint",
    "create_session": "kit.spark.session",
    "recorded": "kit.spark.recording",
    "running": "kit.spark.running_jobs",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'kit.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What Tab offers: the names below, and nothing that this file happens to need."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


__all__ = [
    "DriverSettings",
    "JobFailedError",
    "SparkJob",
    "Tls",
    "WireSettings",
    "create_session",
    "recorded",
    "running",
]
