"""The facts about rows of a space that the rules use: `Knowledge` lasts for the whole search, `Batch` has some rows.

Every answer is a mask, which is True for the rows in which the fact holds. A fact about a machine's state and a word is
computed once for each pair, and looked up afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kit.core.protocol.commands import CommitEffects, WriteSnapshot
from kit.core.protocol.elements import CheckpointBarrier, EndOfData, EndOfPartition, Watermark, WatermarkStatus
from kit.core.protocol.messages import AcknowledgeCheckpoint, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState
from kit.machines.job.job_master import JobMaster
from kit.verify.explore.reduction.aborts import Aborts
from kit.verify.explore.reduction.barriers import Barriers
from kit.verify.explore.space import Space
from kit.verify.explore.steps import MOST_TRIED, Step
from kit.verify.explore.tables import Function, Ids, Rows, of_one

Mask = npt.NDArray[np.bool_]
Chosen = tuple[list[Step], Mask]
"""The steps to try, no others, in the rows of the mask."""
MOST_OF_TASK, MOST_OF_JOB = 2, 3
"""The number of works of a task, and of the JobMaster, of which one may be taken at once."""
_MARKS = (Watermark, WatermarkStatus, EndOfData)
_MARKS_OF_EXACTLY_ONCE = (*_MARKS, CheckpointBarrier, EndOfPartition)
"""The marks of exactly once: the last barrier of a checkpoint comes when all other inputs are blocked, so there is no
choice. If barriers are only counted, it matters to at-least-once whether a record comes before the last one. The
reaction of a user-defined handler to a barrier is unknown."""


class Knowledge:
    """The answers known so far, for one space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        checkpoint = space.job.settings.checkpoint
        self.overtakes = checkpoint.unaligned
        """True if barriers overtake, at once or after a timeout."""
        exactly_once = (
            checkpoint.is_exactly_once and not checkpoint.unaligned and space.job.parts.barrier_handler is None
        )
        self.marks: tuple[type, ...] = _MARKS_OF_EXACTLY_ONCE if exactly_once else _MARKS
        """The elements that commute with what other inputs bring: no data, no cancellation."""
        self.inputs = space.inputs
        self.barriers = Barriers(space)
        self.aborts = Aborts(space)
        self._answers: dict[Hashable, Mask] = {}
        """The answers to questions about words, by the types or the function of the question."""
        self._under_way = of_one(self._count)
        self._older = Function(self._is_older_pending)
        self._over = of_one(self._took_last)
        self._failed_over = of_one(self._has_failed_over)
        self._not_last = Function(self._others_are_awaited)

    # --- words --------------------------------------------------------------------------------------------------------

    def is_of(self, words: Ids, *kinds: type) -> Mask:
        """Return which words are, or bring, something of these types."""
        return self._matching(kinds, words, lambda word: isinstance(getattr(word, "element", word), kinds))

    def satisfy(self, words: Ids, is_one: Callable[[object], bool]) -> Mask:
        """Return for which words this function of a word is True."""
        return self._matching(is_one, words, is_one)

    def _matching(self, question: Hashable, words: Ids, is_one: Callable[[object], bool]) -> Mask:
        """Return the answers for these words; each word is asked about once, and word 0 is none."""
        known = self._answers.get(question, np.zeros(1, bool))
        if len(known) < len(self.space.words):
            new = [is_one(self.space.words[number]) for number in range(len(known), len(self.space.words))]
            known = self._answers[question] = np.concatenate([known, np.array(new, bool)])
        found: Mask = known[words]
        return found

    # --- the JobMaster ------------------------------------------------------------------------------------------------

    def master(self, state: int) -> JobMaster | None:
        """Return the JobMaster in a state; None if it broke."""
        machine = self.space.machines[0].machines[state]
        return machine if isinstance(machine, JobMaster) else None

    def under_way(self, states: Ids) -> Ids:
        """Return the number of checkpoints that are pending or requested; a large number if it is unknown."""
        return self._under_way.of(states)

    def _count(self, state: int) -> int:
        master = self.master(state)
        return 2 if master is None else len(master.checkpoints.pending) + len(master.checkpoints.decider.queue)

    def are_older(self, states: Ids, barriers: Ids) -> Mask:
        """Return where a checkpoint is pending that is older than the barrier's."""
        return self._older.holds(states, barriers)

    def _is_older_pending(self, state: int, barrier: int) -> bool:
        master, newer = self.master(state), self.space.words[barrier].element.checkpoint_id
        return master is None or any(each < newer for each in master.checkpoints.pending)

    def is_over(self, states: Ids) -> Mask:
        """Return where the last checkpoint is complete, and no other is pending."""
        return self._over.holds(states)

    def _took_last(self, state: int) -> bool:
        master = self.master(state)
        if master is None:
            return False
        ledger = master.checkpoints.ledger
        return ledger.took_last_checkpoint and not ledger.pending and self.barriers.is_idle(state)

    def has_failed_over(self, states: Ids) -> Mask:
        """Return where a region has restarted, or does so, while others run."""
        return self._failed_over.holds(states)

    def _has_failed_over(self, state: int) -> bool:
        master = self.master(state)
        return master is not None and (master.failover.is_under_way or bool(master.attempts.restarted))

    def is_not_the_last(self, states: Ids, words: Ids) -> Mask:
        """Return where the JobMaster also waits for others before it reacts to what this word reports, or leads to."""
        return self._not_last.holds(states, words)

    def _others_are_awaited(self, state: int, number: int) -> bool:
        word, master = self.space.words[number], self.master(state)
        if master is not None and isinstance(word, TaskStateChanged):
            return self._others_are_to_end(state, master, word)
        if master is None or not isinstance(word, AcknowledgeCheckpoint | WriteSnapshot):
            return False
        checkpoint = master.checkpoints.pending.get(word.checkpoint_id)
        return checkpoint is not None and checkpoint.waits_for_others

    def _others_are_to_end(self, state: int, master: JobMaster, word: TaskStateChanged) -> bool:
        """Return True if other tasks have yet to see all their input, or to leave after the last checkpoint.

        If a region may restart meanwhile, the last checkpoint is taken again, and it matters which tasks have left.
        """
        records = master.tasks.items()
        if word.end_of_data:
            return sum(not record.data_ended for _, record in records) > 1
        if word.state is not ExecutionState.FINISHED or not self.barriers.is_idle(state):
            return False
        if self.space.fails_in_regions and self.space.kinds:
            return False
        staying = sum(record.state is not ExecutionState.FINISHED for _, record in records)
        return master.checkpoints.ledger.took_last_checkpoint and staying > 1

    # --- tasks --------------------------------------------------------------------------------------------------------

    def barrier_commutes(self, rows: Rows, task: int, barriers: Ids) -> Mask:
        """Return where a barrier has the same effect before and after the completion of a checkpoint.

        It does not if it begins a snapshot of a task that publishes, or leaves, because of that completion.
        """
        states = self.space.machines[task]
        free = states.leads_to_nothing(rows[:, task], barriers) | ~states.listens.of(rows[:, task])
        left = np.flatnonzero(~free)
        if len(left):
            awaits = rows[left, self.space.mail_to + task] != 0
            for place in range(MOST_TRIED):
                awaits |= self.is_of(self.space.bags.member(rows[left, self.space.work + task], place), CommitEffects)
            free[left] = ~awaits & ~self.are_older(rows[left, 0], barriers[left])
        return free

    # --- steps --------------------------------------------------------------------------------------------------------

    def faults_of(self, steps: Sequence[Step]) -> list[Step]:
        """Return the faults that may replace one of these steps."""
        return list(dict.fromkeys(fault for step in steps for fault in self.space.faults_of(step)))

    def alone(self, kind: str, machine: int, number: int = 0) -> list[Step]:
        """Return a step that is taken at once, and the faults that may replace it."""
        step = Step(kind, machine, number)
        return [step, *self.space.faults_of(step)]


class Batch:
    """Rows of a space, for which the rules select steps."""

    def __init__(self, known: Knowledge, rows: Rows) -> None:
        self.known, self.space, self.rows = known, known.space, rows
        self._messages: dict[int, Ids] = {}
        self._reports: dict[int, Ids] = {}

    @cached_property
    def may_abort(self) -> Mask:
        """True where a checkpoint may still be aborted while the job continues, or the notifications are in flight."""
        return self.known.aborts.threaten(self.rows)

    @cached_property
    def contested(self) -> Mask:
        """True where a task's file may fail between actions of the JobMaster, or the failure is in flight to it."""
        return self.known.aborts.contest(self.rows)

    @property
    def master(self) -> Ids:
        """The states of the JobMaster."""
        return self.rows[:, 0]

    def message(self, task: int) -> Ids:
        """Return the first message to a task."""
        if task not in self._messages:
            self._messages[task] = self.space.queues.heads(self.rows[:, self.space.mail_to + task])
        return self._messages[task]

    def report(self, task: int) -> Ids:
        """Return the first report of a task."""
        if task not in self._reports:
            self._reports[task] = self.space.queues.heads(self.rows[:, self.space.mail_from + task])
        return self._reports[task]

    def work(self, machine: int, place: int) -> Ids:
        """Return one of a machine's works."""
        return self.space.bags.member(self.rows[:, self.space.work + machine], place)

    def messages(self) -> Iterator[tuple[list[Step], Ids, int]]:
        """Yield for each task the step that takes its first message, that message, and the task."""
        for task in self.space.tasks:
            yield self.known.alone("message", task), self.message(task), task

    def reports(self) -> Iterator[tuple[list[Step], Ids]]:
        """Yield for each task the step that takes its first report, and that report."""
        for task in self.space.tasks:
            yield self.known.alone("report", task), self.report(task)

    def works_of_tasks(self) -> Iterator[tuple[list[Step], Ids, int]]:
        """Yield for each task the steps that carry out one of its works, that work, and the task."""
        for task in self.space.tasks:
            for place in range(MOST_OF_TASK):
                yield self.known.alone("work", task, place), self.work(task, place), task

    def works_of_job(self) -> Iterator[tuple[list[Step], Ids]]:
        """Yield the steps that carry out one of the JobMaster's works, and that work."""
        for place in range(MOST_OF_JOB):
            yield self.known.alone("work", 0, place), self.work(0, place)
