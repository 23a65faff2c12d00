"""Which steps need not be tried: those that lead to nothing new, because they commute with all that may come.

A step that commutes with whatever else may happen before it, and that nobody outside sees, is taken at once and alone:
every schedule in which it comes later leads to the same. What is put off rather than tried now is tried later, when
there is a choice to make. Each rule says why it loses nothing; a test explores small jobs with and without them, and
finds the same checkpoints, output and ends.

1. *Deployment.* A task is deployed, reads its state and reports that it runs before anything else can reach it.
2. *Splits.* What a source and its coordinator have to say to each other arrives at once: what comes in between might as
   well have come before it was said.
3. *Beginnings and ends of checkpoints.* An id is allocated, a directory is made, files nobody wants are deleted at
   once: so early they may be in the way of something, later they are not.
4. *Turns.* A task with inputs takes what has arrived before more arrives: an element that waits in its queue might as
   well wait on its channel. Not so where barriers overtake.
5. *Arrivals with a choice.* When on each input of a task something has arrived, or nothing will (it is blocked, or has
   ended), which comes first is decided now: nothing else may come in between, except what the JobMaster has to say,
   which matters to the task only if a checkpoint may be aborted. Marks come first: they commute with other inputs'.
6. *Arrivals without a choice yet.* While an input of a task is empty whose sender is at work, nothing is taken from the
   others: whatever it would lead to is not seen before the empty one has delivered as well.
7. *Acknowledgements.* While others have not acknowledged a checkpoint, it makes no difference to them when one task
   writes and acknowledges its part. The same goes for reports that a task has seen all its input, and for the news that
   a checkpoint is complete where a task has nothing to do about it.
8. *After the last fault.* When nothing can fail any more, nothing more is asked for and one checkpoint at most is under
   way, the order in which messages and files arrive makes no difference.

Where something may still fail, it may fail instead of each step that is taken at once. When a worker is killed its
epoch's other workers leave at once: what they could still do, they could have done before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kit.explore.space import Places, Space, Step
from kit.explore.tables import Function, Ids, Rows
from kit.job.job_master import JobMaster
from kit.protocol.commands import (
    AllocateCheckpointId,
    DiscardSnapshot,
    DropEffects,
    InitializeLocation,
    ReadState,
    ScheduleCoordinatorCheckpoint,
    SetCheckpointIdCounter,
    WriteSnapshot,
)
from kit.protocol.duties import Command, Duty
from kit.protocol.elements import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    Watermark,
    WatermarkStatus,
)
from kit.protocol.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    DeployTask,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    TaskStateChanged,
)
from kit.protocol.tasks import ExecutionState

Mask = npt.NDArray[np.bool_]
_MARKS = (Watermark, WatermarkStatus, EndOfData)
_MARKS_OF_EXACTLY_ONCE = (*_MARKS, CheckpointBarrier, EndOfPartition)
"""The last barrier of a checkpoint comes when all other inputs are blocked, so there is no choice; where barriers are
only counted, whether a record comes before the last one is what at least once means. What a handler of the user's own
makes of a barrier is not known.
"""


class Reduction:
    """Says for rows of a space which steps are to be tried there. `exact` tries all."""

    def __init__(self, space: Space, *, exact: bool = False) -> None:
        self._space = space
        self._exact = exact
        self._eager = not space.job.settings.checkpoint.unaligned
        exactly_once = space.job.settings.checkpoint.is_exactly_once and space.job.parts.barrier_handler is None
        self._marks = _MARKS_OF_EXACTLY_ONCE if exactly_once else _MARKS
        graph = space.graph
        self._inputs: dict[int, list[tuple[int, int]]] = {task: [] for task in space.tasks}
        for number, channel in enumerate(graph.channels):
            self._inputs[space.number_of[channel.target_task]].append((number, space.number_of[channel.source_task]))
        self._sources = {task: self._sources_of(task) for task in space.tasks}
        self._at_once: dict[int, bool] = {}
        self._news: dict[int, bool] = {}
        self._counts = Function(self._count)
        self._not_last = Function(self._others_are_awaited)

    def _sources_of(self, task: int) -> frozenset[int]:
        """The tasks without inputs that a task's records come from."""
        inputs = self._inputs[task]
        return frozenset({task}) if not inputs else frozenset().union(*(self._sources_of(each) for _, each in inputs))

    def groups(self, rows: Rows) -> Iterator[tuple[Places, list[Step]]]:
        """Rows by number, and the steps to try in all of them."""
        left = np.arange(len(rows))
        if not self._exact:
            for steps, mask in self._rules(rows):
                at = left[mask[left]]
                if len(at):
                    yield at, steps
                    left = left[~mask[left]]
                if not len(left):
                    return
        yield left, list(self._space.steps)

    def tried(self, rows: Rows, step: Step) -> Places | None:
        """The rows in which this step is tried; None: in all."""
        off = self._put_off(rows, step)
        return None if off is None or not off.any() else np.flatnonzero(~off)

    def _put_off(self, rows: Rows, step: Step) -> Mask | None:
        """In which of the rows this step is put off; None: in none."""
        if self._exact or not self._eager or step.kind != "wire":
            return None
        task = step.machine
        settled = self._space.machines[task].settled.of(rows[:, task])
        inputs = self._inputs[task]
        own = next(place for place, (number, _) in enumerate(inputs) if number == step.number)
        off: Mask = settled[:, own] == 2
        for place, (number, sender) in enumerate(inputs):
            if place != own:
                empty = (rows[:, self._space.wires + number] == 0) & (settled[:, place] == 0)
                at_work = np.zeros(len(rows), bool)
                for source in self._sources[sender]:
                    at_work |= self._space.machines[source].has_turn.of(rows[:, source])
                off |= empty & at_work
        off &= rows[:, task] != 0
        return off

    # --- rules ----------------------------------------------------------------------------------------------------

    def _rules(self, rows: Rows) -> Iterator[tuple[list[Step], Mask]]:
        space = self._space
        for task in space.tasks:
            heads = space.queues.heads(rows[:, space.mail_to + task])
            yield self._alone("message", task), self._is_at_once(heads) | self._is_unseen(task, rows[:, task], heads)
            heads = space.queues.heads(rows[:, space.mail_from + task])
            yield self._alone("report", task), self._is_at_once(heads)
            for place in range(2):
                work = space.bags.member(rows[:, space.work + task], place)
                yield self._alone("work", task, place), self._is_at_once(work)
        for place in range(3):
            work = space.bags.member(rows[:, space.work], place)
            yield self._alone("work", 0, place), self._is_at_once(work)
        may_abort = self._may_abort(rows)
        if self._eager:
            for task in space.tasks:
                if self._inputs[task]:
                    yield [Step("turn", task)], space.machines[task].has_turn.of(rows[:, task])
            for task in space.tasks:
                if self._inputs[task]:
                    yield from self._arrivals(rows, task, may_abort)
        yield from self._acknowledgements(rows)
        quiet = self._is_quiet(rows[:, 0]) & ~may_abort
        quiet &= (rows[:, space.failed] >= space.faults) & (rows[:, space.asked] >= space.requests)
        if quiet.any():
            for machine in range(len(space.machine_names)):
                if machine in space.tasks:
                    yield [Step("message", machine)], quiet & (rows[:, space.mail_to + machine] != 0)
                    yield [Step("report", machine)], quiet & (rows[:, space.mail_from + machine] != 0)
                yield [Step("work", machine, 0)], quiet & (rows[:, space.work + machine] != 0)

    def _arrivals(self, rows: Rows, task: int, may_abort: Mask) -> Iterator[tuple[list[Step], Mask]]:
        """Where something may be taken from each input, or will not be: by the inputs that may."""
        space, inputs = self._space, self._inputs[task]
        settled = space.machines[task].settled.of(rows[:, task])[:, : len(inputs)] == 2
        arrived = np.stack([rows[:, space.wires + number] != 0 for number, _ in inputs], axis=1)
        ready = (arrived | settled).all(axis=1) & (arrived & ~settled).any(axis=1) & (rows[:, task] != 0)
        ready &= (rows[:, space.mail_to + task] == 0) & ~may_abort
        if not ready.any():
            return
        heads = np.stack([space.queues.heads(rows[:, space.wires + number]) for number, _ in inputs], axis=1)
        takes = arrived & ~settled
        marks = takes & self._is_mark(heads)
        for place, (number, _) in enumerate(inputs):
            yield [Step("wire", task, number)], ready & marks[:, place]
        for number in range(1, 1 << len(inputs)):
            chosen = [bool(number >> place & 1) for place in range(len(inputs))]
            steps = [Step("wire", task, each) for (each, _), is_chosen in zip(inputs, chosen) if is_chosen]
            yield steps, ready & (takes == chosen).all(axis=1)

    def _is_mark(self, words: Ids) -> Mask:
        """Whether what arrives is a mark, which commutes with what other inputs bring: no data, no cancellation."""
        different = np.unique(words).tolist()
        marks = [
            number for number in different if number and isinstance(self._space.words[number].element, self._marks)
        ]
        return np.isin(words, marks)

    def _alone(self, kind: str, machine: int, number: int = 0) -> list[Step]:
        """A step that is taken at once, and what may fail instead."""
        step = Step(kind, machine, number)
        return [step, *self._space.faults_of(step)]

    def _may_abort(self, rows: Rows) -> Mask:
        """Whether a checkpoint may yet be aborted while the job goes on, or the news of it are under way."""
        space = self._space
        if not space.kinds - {"kill"}:
            return np.zeros(len(rows), bool)
        may: Mask = (rows[:, space.failed] < space.faults) & self._has_pending(rows[:, 0])
        for column in range(space.mail_to, space.wires + space.graph.channel_count):
            may |= self._tells(rows[:, column])
        return may

    def _tells(self, queues: Ids) -> Mask:
        """Whether a queue holds news of an abort."""
        told = self._news
        different = np.unique(queues).tolist()
        for number in different:
            if number not in told:
                words = [self._space.words[each] for each in self._space.queues.values[number]]
                told[number] = any(_is_news_of_abort(word) for word in words)
        return np.isin(queues, [number for number in different if told[number]])

    def _acknowledgements(self, rows: Rows) -> Iterator[tuple[list[Step], Mask]]:
        """What a task has to write for a checkpoint, and says of it, while another task has not answered either."""
        space = self._space
        for task in space.tasks:
            heads = space.queues.heads(rows[:, space.mail_from + task])
            yield self._alone("report", task), self._is_not_the_last(rows[:, 0], heads)
            for place in range(2):
                work = space.bags.member(rows[:, space.work + task], place)
                yield self._alone("work", task, place), self._is_not_the_last(rows[:, 0], work)

    def _is_not_the_last(self, states: Ids, words: Ids) -> Mask:
        return self._not_last.of(states, words) == 1

    def _others_are_awaited(self, state: int, number: int) -> int:
        word, master = self._space.words[number], self._space.machines[0].machines[state]
        if isinstance(word, TaskStateChanged) and word.end_of_data and isinstance(master, JobMaster):
            working = [task for task, record in master.tasks.items() if not record.data_ended]
            return int(len(working) > 1)
        if not isinstance(word, AcknowledgeCheckpoint | WriteSnapshot) or not isinstance(master, JobMaster):
            return 0
        checkpoint = master.checkpoints.pending.get(word.checkpoint_id)
        return int(checkpoint is not None and len(checkpoint.not_yet_acked_tasks) > 1)

    def _is_at_once(self, words: Ids) -> Mask:
        known = self._at_once
        different = np.unique(words)
        for number in different.tolist():
            if number not in known:
                known[number] = bool(number) and _is_done_at_once(self._space.words[number])
        wanted = [number for number in different.tolist() if known[number]]
        return np.isin(words, wanted) if wanted else np.zeros(len(words), bool)

    def _is_unseen(self, task: int, states: Ids, words: Ids) -> Mask:
        """Whether a message says that a checkpoint is complete, and the task has nothing to do about it."""
        different = np.unique(words).tolist()
        told = [each for each in different if isinstance(self._space.words[each], NotifyCheckpointComplete)]
        unseen = np.isin(words, told)
        at = np.flatnonzero(unseen)
        if len(at):
            unseen[at] = self._space.machines[task].leads_to_nothing(states[at], words[at])
        return unseen

    def _is_quiet(self, states: Ids) -> Mask:
        """Whether the JobMaster has one checkpoint under way at most."""
        return self._under_way(states) <= 1

    def _has_pending(self, states: Ids) -> Mask:
        return self._under_way(states) > 0

    def _under_way(self, states: Ids) -> Ids:
        """How many checkpoints are under way, or asked for; many where that is not known."""
        return self._counts.of(states, states * 0)

    def _count(self, state: int, nothing: int) -> int:
        master = self._space.machines[0].machines[state]
        if not isinstance(master, JobMaster):
            return 2
        return len(master.checkpoints.pending) + len(master.checkpoints.decider.queue)


_AT_ONCE = (
    DeployTask,
    ReadState,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    AllocateCheckpointId,
    InitializeLocation,
    ScheduleCoordinatorCheckpoint,
    SetCheckpointIdCounter,
    DiscardSnapshot,
    DropEffects,
)
"""Rules 1 to 3: what is done at once, beside all that only cleans up, and reports that a task runs."""


def _is_done_at_once(word: object) -> bool:
    if isinstance(word, Command) and word.duty is Duty.CLEAN_UP:
        return True
    runs = isinstance(word, TaskStateChanged) and word.state is ExecutionState.RUNNING and not word.end_of_data
    return runs or isinstance(word, _AT_ONCE)


def _is_news_of_abort(word: object) -> bool:
    element = getattr(word, "element", word)
    return isinstance(element, NotifyCheckpointAborted | DeclineCheckpoint | CancelCheckpointMarker)
