"""What arrives in a driver's inbox beside what its server and its gang put there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.words import Word


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a command, or what a timer of the host's says; `cause` is the command's id."""

    event: Word
    cause: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The user asks for something: `make` makes the event with the number of the request."""

    make: Callable[[int], Word]
    answer: Future[CompleteRequest] | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The background met an error that nothing foresaw."""

    error: Exception


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """The job has ended, and all is deleted that was to be."""


@dataclass(frozen=True, slots=True)
class Look:
    """Look how many slots there are."""
