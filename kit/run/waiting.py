"""What a subtask that has not finished a checkpoint waits for: which barriers, and where each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeGuard

from kit.run.checkpoint_path import TRIGGER
from kit.run.checkpoint_words import begins_with, enumerated
from kit.run.job_state import PENDING, CheckpointMoment
from kit.run.journeys import Journey, Journeys, Letter


class Waiting:
    """Who waits for what in one checkpoint, as it was when that ended, or is now. `ends` are sender and receiver of
    each channel of its epoch.
    """

    def __init__(self, found: Journeys, known: CheckpointMoment, ends: Mapping[int, tuple[str, str]]) -> None:
        self._found = found
        self._known = known
        self._id = known.checkpoint_id
        life = found.lives.get(known.checkpoint_id)
        finished = None if life is None else life.finished
        self._n = found.last.n if finished is None else finished.n
        self._since = 0 if life is None else life.triggered.n
        self._ends = ends

    def of(self, task: str, phase: str) -> str:
        """What a task waits for in a phase that has not ended, in words; "" for one that is gone."""
        if self._is_gone(task):
            return ""
        if phase == "ack":
            return self._message("ack", task, "its acknowledgement")
        if phase == "start_delay" and begins_with(self._known, task) == TRIGGER:
            return self._message("begin", task, "the trigger")
        barriers = self._missing(task)
        if phase == "async":
            rest = f", and {barriers}" if barriers else ""
            return f"its files to be written{rest}"
        if phase == "in_flight":
            return barriers or "its in-flight data to be written"
        return barriers or "its barriers"

    def _is_gone(self, task: str) -> bool:
        """Return True if the task is not running although the checkpoint is pending."""
        now = self._found.last.tasks.get(task)
        return self._known.status == PENDING and now is not None and now.state != "RUNNING"

    def _message(self, mail: str, task: str, what: str) -> str:
        sent = [each for each in self._letters if (each.mail, each.task) == (mail, task)]
        if not sent:
            return f"{what}, not sent yet"
        if all(each.lost is not None and each.lost.n <= self._n for each in sent):
            return f"{what}, lost on its way"
        is_there = sent[-1].received is not None and sent[-1].received.n <= self._n
        return what if is_there else f"{what}, on its way"

    def _missing(self, task: str) -> str:
        """The barriers that it has not taken, of channels that have not ended."""
        inputs = self._inputs.get(task, [])
        known, ends = self._barriers.get(task, {}), self._last.get(task, {})
        inputs = inputs or [(each.channel, each.sender) for each in known.values()]
        told = [
            f"{source} ({self._place(known.get(number), ends.get(number))})"
            for number, source in inputs
            if not _is_by(known.get(number), self._n) and not _is_by(ends.get(number), self._n)
        ]
        return f"barrier {self._id} from {enumerated(told)}" if told else ""

    def _place(self, barrier: Journey | None, end: Journey | None) -> str:
        """Where a barrier is, or the end of the stream that comes in its place."""
        if self._is_made(barrier):
            return self._where(barrier)
        return f"its end instead, {self._where(end)}" if self._is_made(end) else "not sent yet"

    def _is_made(self, each: Journey | None) -> TypeGuard[Journey]:
        return each is not None and each.made is not None and each.made.n <= self._n

    def _where(self, each: Journey) -> str:
        if each.lost is not None and each.lost.n <= self._n:
            return "lost"
        ahead = sum(self._is_ahead(other, each) for other in self._by_channel.get(each.channel, ()))
        behind = f", behind {ahead}" if ahead else ""
        if each.sent is None or each.sent.n > self._n:
            return f"in its sender's queue{behind}"
        if each.received is None or each.received.n > self._n:
            return f"on its way{behind}"
        return f"in the queue here{behind}"

    def _is_ahead(self, each: Journey, barrier: Journey) -> bool:
        return (
            each.kind == "buffer"
            and each.made is not None
            and barrier.made is not None
            and each.made.n < barrier.made.n
            and (each.over is None or each.over.n > self._n)
        )

    @cached_property
    def _barriers(self) -> dict[str, dict[int, Journey]]:
        """Those of the checkpoint, by receiver and channel."""
        found: dict[str, dict[int, Journey]] = {}
        for each in self._found.elements:
            if each.kind == "barrier" and each.checkpoint_id == self._id:
                found.setdefault(each.receiver, {})[each.channel] = each
        return found

    @cached_property
    def _last(self) -> dict[str, dict[int, Journey]]:
        """The ends of streams, by receiver and channel, of the checkpoint's epoch."""
        life = self._found.lives.get(self._id)
        epoch = self._found.last.epoch if life is None else self._found.epoch_at(life.triggered)
        found: dict[str, dict[int, Journey]] = {}
        for each in self._found.elements:
            if each.kind == "last" and each.epoch == epoch:
                found.setdefault(each.receiver, {})[each.channel] = each
        return found

    @cached_property
    def _inputs(self) -> dict[str, list[tuple[int, str]]]:
        """Each task's channels with their senders, where the shape is known."""
        found: dict[str, list[tuple[int, str]]] = {}
        for number, (source, target) in self._ends.items():
            found.setdefault(target, []).append((number, source))
        return found

    @cached_property
    def _letters(self) -> list[Letter]:
        return [each for each in self._found.letters if each.checkpoint_id == self._id and each.sent.n <= self._n]

    @cached_property
    def _by_channel(self) -> dict[int, list[Journey]]:
        """The buffers under way since the checkpoint began, by channel."""
        found: dict[int, list[Journey]] = {}
        for each in self._under_way():
            found.setdefault(each.channel, []).append(each)
        return found

    def _under_way(self) -> Iterable[Journey]:
        return (each for each in self._found.elements if each.over is None or each.over.n > self._since)


def _is_by(barrier: Journey | None, n: int) -> bool:
    return barrier is not None and barrier.taken is not None and barrier.taken.n <= n
