"""The items in a driver's inbox that do not come from its server or its gang."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.words import ProtocolMessage


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a command, or the event of a host's timer; `cause` is the command's id."""

    event: ProtocolMessage
    cause: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A user's request: `make` creates the event from the number of the request."""

    make: Callable[[int], ProtocolMessage]
    answer: Future[CompleteRequest] | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The background thread failed with an unexpected error."""

    error: Exception


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """A notice that the job has ended and all pending deletions are done."""


@dataclass(frozen=True, slots=True)
class Look:
    """A notice to count the slots."""
