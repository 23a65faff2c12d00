"""Faults: the actions that never happen by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kit.lab.actions import Fault, Group


@dataclass(frozen=True, slots=True, repr=False)
class KillWorker(Fault):
    """A worker's process dies: all subtasks with this index are gone at once, with all that they had not sent."""

    worker: int

    group: ClassVar = Group.WORKERS
    verb: ClassVar = "kill"
    pattern: ClassVar = "kill worker {worker}"
    whom: ClassVar = "worker"


@dataclass(frozen=True, slots=True, repr=False)
class DropMessage(Fault):
    """The `place`-th message from `sender` to `receiver`, counted from 0, never arrives; those behind it do."""

    message: str
    checkpoint_id: int | None
    sender: str
    receiver: str
    place: int = 0

    group: ClassVar = Group.MESSAGES
    verb: ClassVar = "drop"
    pattern: ClassVar = "lose {message}{of_checkpoint} from {sender} to {receiver}"
    whom: ClassVar = "receiver"
