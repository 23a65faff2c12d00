"""Rules about the order in which a task handles elements of its inputs, its own queues, and messages of the job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kit.core.protocol.elements import CheckpointBarrier
from kit.core.protocol.messages import NotifyCheckpointComplete
from kit.verify.explore.reduction.facts import Batch, Chosen, Mask
from kit.verify.explore.space import Places
from kit.verify.explore.steps import MOST_TRIED, Step
from kit.verify.explore.tables import Ids


@dataclass
class _Arriving:
    """The elements that may arrive at a task: a column for each of its inputs."""

    batch: Batch
    task: int

    @property
    def channels(self) -> list[int]:
        """The task's channels."""
        return [number for number, _ in self.batch.known.inputs[self.task]]

    @cached_property
    def heads(self) -> Ids:
        """The first element on each channel."""
        space = self.batch.space
        return np.stack([space.queues.heads(self.batch.rows[:, space.wires + each]) for each in self.channels], axis=1)

    @cached_property
    def settled(self) -> Mask:
        """True where the task takes nothing from an input, because it is blocked or has ended."""
        settled: Mask = self.batch.space.machines[self.task].settled.of(self.batch.rows[:, self.task])
        return settled[:, : len(self.channels)] == 2

    @cached_property
    def left_alone(self) -> Mask:
        """True where no message that affects data is in flight from the JobMaster; completions and aborts do not."""
        found = self.batch.message(self.task)
        return self.batch.may_abort | (found == 0) | self.batch.known.is_of(found, NotifyCheckpointComplete)

    @cached_property
    def undisturbed(self) -> Mask:
        """True where the task exists, and no barrier may still overtake the elements that it would take."""
        exists: Mask = self.batch.rows[:, self.task] != 0
        if self.batch.known.overtakes:
            exists &= self.left_alone & ~self.batch.known.barriers.may_overtake(self.batch.rows, self.task)
        return exists

    @cached_property
    def takes(self) -> Mask:
        """True where the task would take the first element of an input."""
        return (self.heads != 0) & ~self.settled & self.undisturbed[:, None]

    @cached_property
    def binding(self) -> Mask:
        """True where a barrier does not commute with the completion of an older checkpoint."""
        bound = np.zeros(self.heads.shape, bool)
        barriers = self.takes & self.batch.known.is_of(self.heads, CheckpointBarrier)
        for place in range(len(self.channels)):
            at = np.flatnonzero(barriers[:, place])
            bound[at, place] = ~self.batch.known.barrier_commutes(self.batch.rows[at], self.task, self.heads[at, place])
        return bound

    def unmoved(self, place: int, at: Places, others: Sequence[int]) -> Mask:
        """Return in which of these rows the abort of a checkpoint, also by a marker on `others`, changes nothing."""
        rows, heads = self.batch.rows[at], self.heads[at, place]
        return self.batch.known.aborts.change_nothing(rows, self.task, heads, others)


def _arriving(batch: Batch) -> Iterator[_Arriving]:
    for task in batch.space.tasks:
        if batch.known.inputs[task]:
            yield _Arriving(batch, task)


def marks(batch: Batch) -> Iterator[Chosen]:
    """Take a watermark, a barrier or an end as it comes: it commutes with what other inputs bring.

    The barrier that begins a snapshot does not commute with the news of an older checkpoint if the task then publishes,
    or leaves: in that case both orders are tried. If a checkpoint may be aborted, the task itself is asked whether the
    abort would matter.
    """
    for arriving in _arriving(batch):
        channels = arriving.channels
        for place, number in enumerate(channels):
            is_mark = batch.known.is_of(arriving.heads[:, place], *batch.known.marks)
            early = arriving.takes[:, place] & is_mark & ~arriving.binding[:, place]
            if batch.known.overtakes:
                early &= ~batch.known.barriers.on(batch.rows, channels)
            threatened = np.flatnonzero(early & batch.may_abort)
            others = [each for each in channels if each != number]
            early[threatened] = arriving.unmoved(place, threatened, others)
            yield [Step("wire", arriving.task, number)], early


def choices(batch: Batch) -> Iterator[Chosen]:
    """Choose now which element comes first, where each input has one or will have none (it is blocked, or has ended).

    Nothing else may come in between, except for messages of the JobMaster: the news of a complete checkpoint, which
    matter to barriers alone, or of an abort, for which the task itself is asked.
    """
    for arriving in _arriving(batch):
        task, channels = arriving.task, arriving.channels
        ready = arriving.left_alone & arriving.undisturbed & ((arriving.heads != 0) | arriving.settled).all(axis=1)
        ready &= ~arriving.binding.any(axis=1) & arriving.takes.any(axis=1)
        for place in range(len(channels)):
            threatened = np.flatnonzero(ready & arriving.takes[:, place] & batch.may_abort)
            ready[threatened] = arriving.unmoved(place, threatened, ())
        overtaking = np.stack([batch.space.barriers_on(batch.rows, number) for number in channels], axis=1)
        possible = np.concatenate([arriving.takes, overtaking], axis=1)
        steps_of = [Step(kind, task, number) for kind in ("wire", "overtake") for number in channels]
        for chosen in np.unique(possible[ready], axis=0):
            steps = [step for step, is_chosen in zip(steps_of, chosen, strict=True) if is_chosen]
            yield steps, ready & (possible == chosen).all(axis=1)


def own_affairs(batch: Batch) -> Iterator[Chosen]:
    """Try the steps of a task that no other machine can influence, and no others.

    It has received a message of the JobMaster, and something has come on each of its inputs: no other machine can add
    to what it may do next. If barriers overtake, the first one on an input decides what is in flight on the others, so
    none may still come from further upstream.
    """
    space, known, rows = batch.space, batch.known, batch.rows
    for task in space.tasks:
        has_mail = (rows[:, space.mail_to + task] != 0) & (rows[:, task] != 0)
        steps = [Step("message", task), Step("turn", task)]
        if known.overtakes and known.inputs[task]:
            has_mail &= ~known.barriers.may_overtake(rows, task)
        settled = space.machines[task].settled.of(rows[:, task]) == 2
        for place, (number, _) in enumerate(known.inputs[task]):
            has_mail &= (rows[:, space.wires + number] != 0) | settled[:, place]
            steps.extend(space.arrivals_on(task, number))
        steps.extend(Step("work", task, place) for place in range(MOST_TRIED))
        yield [*steps, *known.faults_of(steps)], has_mail


def source_turns(batch: Batch) -> Iterator[Chosen]:
    """Let a source read on, if it cannot be told to take a checkpoint any more.

    Other messages do not matter to what it reads; if a checkpoint may be aborted, the source itself is asked. What a
    reader in another region leaves to it, by failing, does matter.
    """
    space, known, rows = batch.space, batch.known, batch.rows
    left_alone = known.barriers.cannot_begin(rows)
    for task in space.tasks:
        if not known.inputs[task] and task not in space.sharing_coordinators:
            calm = left_alone & (batch.may_abort | (rows[:, space.mail_to + task] == 0))
            calm &= space.machines[task].has_turn.of(rows[:, task])
            threatened = np.flatnonzero(calm & batch.may_abort)
            turns = np.full(len(threatened), space.turn, np.int32)
            calm[threatened] = known.aborts.change_nothing(rows[threatened], task, turns, ())
            yield [Step("turn", task)], calm


# --- arrivals that are put off ----------------------------------------------------------------------------------------


def blocked_inputs(batch: Batch, task: int, number: int) -> Mask:
    """Put off what comes on an input that is blocked, or has ended: it might as well wait on its channel."""
    settled = batch.space.machines[task].settled.of(batch.rows[:, task])
    own = next(place for place, (each, _) in enumerate(batch.known.inputs[task]) if each == number)
    found: Mask = settled[:, own] == 2
    return found
