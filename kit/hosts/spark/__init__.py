"""The second host: it runs the protocol's machines in Spark's barrier tasks and connects them with its own sockets.

    from kit.hosts.spark import SparkJob, create_session

Importing this package does not need Spark; using these names does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.files.job_failed import JobFailedError
    from kit.hosts.spark.driver.driver_settings import DriverSettings
    from kit.hosts.spark.frames.checkpoint_state import register_checkpoints
    from kit.hosts.spark.job import SparkJob
    from kit.hosts.spark.recording import recorded
    from kit.hosts.spark.running_jobs import running
    from kit.hosts.spark.session import create_session
    from kit.hosts.spark.wire.endpoint import WireSettings
    from kit.hosts.spark.wire.tls import Tls

_offer(
    __name__,
    {
        "kit.files.job_failed": ["JobFailedError"],
        "kit.hosts.spark.driver.driver_settings": ["DriverSettings"],
        "kit.hosts.spark.wire.endpoint": ["WireSettings"],
        "kit.hosts.spark.frames.checkpoint_state": ["register_checkpoints"],
        "kit.hosts.spark.job": ["SparkJob"],
        "kit.hosts.spark.recording": ["recorded"],
        "kit.hosts.spark.running_jobs": ["running"],
        "kit.hosts.spark.session": ["create_session"],
        "kit.hosts.spark.wire.tls": ["Tls"],
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
    "register_checkpoints",
    "running",
]
