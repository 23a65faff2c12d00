"""Names of drivers, and a check whether a driver that leads a job may still be alive.

The leader's name is kept in the durable store. It identifies the process and the machine that lead a job. It is unique,
so two drivers of one process have different names.
"""

from __future__ import annotations

import os
import re
import socket
import uuid

_NAME = re.compile(r"process (?P<process>\d+) on (?P<host>.*), id \w+")


def this_driver() -> str:
    """Return a new name for a driver in this process."""
    return f"process {os.getpid()} on {socket.gethostname()}, id {uuid.uuid4().hex[:8]}"


_running: set[str] = set()
"""The drivers of this process that have started and not ended."""


def driver_started(driver: str) -> None:
    """Record that a driver of this process may lead a job from now on."""
    _running.add(driver)


def driver_ended(driver: str) -> None:
    """Record that a driver of this process has ended."""
    _running.discard(driver)


def may_be_alive(driver: str) -> bool:
    """Return False if the driver of this name ran on this machine and has ended, alone or with its process."""
    found = _NAME.fullmatch(driver)
    if found is None or found["host"] != socket.gethostname():
        return True
    if int(found["process"]) == os.getpid():
        return driver in _running
    try:
        os.kill(int(found["process"]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
