"""What may happen next in the lab: the actions that a step chooses from.

An action is a value: its `key` is the same in every replay of the same run, so a list of keys *is* the run. Messages
between one task and the JobMaster keep their order, and so do the elements of a channel; apart from that any enabled
action may be the next, which is all the freedom that a real cluster has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ActionKind(Enum):
    """The kinds of action, with what each does; `.text` is what a button says."""

    MESSAGE = "deliver the next message to {subject}: {detail}"
    WIRE = "let {subject} receive {detail}"
    RUN = "give {subject} its turn"
    IO = "{detail} for {subject}"
    TIMER = "timer {detail} of {subject} fires"
    WAIT = "wait until {detail} ms"
    KILL = "kill worker {subject}"
    LOSE = "lose the next message to {subject}, an event of its operator's coordinator"

    @property
    def text(self) -> str:
        """The sentence pattern."""
        return str(self.value)


FAULTS = frozenset({ActionKind.KILL, ActionKind.LOSE})
"""What never happens by itself."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that may happen: `subject` is whom it happens to, `detail` says what, `number` tells equals apart;
    `sender` is who sent the message that is delivered.
    """

    kind: ActionKind
    subject: str
    detail: str = ""
    number: int = 0
    sender: str = ""

    @property
    def key(self) -> str:
        """The action as one word, the same in every replay."""
        return ":".join(
            part for part in (self.kind.name.lower(), self.subject, self.detail, str(self.number or "")) if part
        )

    def __str__(self) -> str:
        return self.kind.text.format(subject=self.subject, detail=self.detail)

    def __repr__(self) -> str:
        return f"<{self}>"
