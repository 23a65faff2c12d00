"""The second host: it runs the protocol's machines in Spark's barrier tasks and connects them with its own sockets.

    from kit.hosts.spark import SparkJob, create_session

Importing this package does not need Spark; using these names does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.hosts.spark.driver.driver_settings import DriverSettings as DriverSettings
    from kit.hosts.spark.frames.checkpoint_state import register_checkpoints as register_checkpoints
    from kit.hosts.spark.job import SparkJob as SparkJob
    from kit.hosts.spark.recording import recorded as recorded
    from kit.hosts.spark.running_jobs import running as running
    from kit.hosts.spark.session import create_session as create_session
    from kit.hosts.spark.wire.endpoint import WireSettings as WireSettings
    from kit.hosts.spark.wire.tls import Tls as Tls
    from kit.machines.job.errors import JobFailedError as JobFailedError

_offer(__name__)
