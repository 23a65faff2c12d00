"""Host 2: the protocol's machines in Spark's barrier tasks, joined by our own sockets.

    from kit.spark import SparkJob, create_session

Importing this package needs no Spark; using these names does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.host.job_failed import JobFailedError
    from kit.spark.driver_settings import DriverSettings
    from kit.spark.endpoint import WireSettings
    from kit.spark.job import SparkJob
    from kit.spark.recording import recorded
    from kit.spark.running_jobs import running
    from kit.spark.session import create_session
    from kit.spark.tls import Tls

_offer(
    __name__,
    {
        "kit.host.job_failed": ["JobFailedError"],
        "kit.spark.driver_settings": ["DriverSettings"],
        "kit.spark.endpoint": ["WireSettings"],
        "kit.spark.job": ["SparkJob"],
        "kit.spark.recording": ["recorded"],
        "kit.spark.running_jobs": ["running"],
        "kit.spark.session": ["create_session"],
        "kit.spark.tls": ["Tls"],
    },
)

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
