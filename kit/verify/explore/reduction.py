"""The steps that the search can skip, because they commute with everything that may come.

Steps of two machines commute: each takes from its own queues and appends to others'. So only the order in which one
machine takes its events makes a difference. A step may be taken at once, and alone, if nothing that may come to its
machine before it would change the result. A step that is postponed now is tried later, when there is a choice to make.
Each rule says why it is sound; a test explores small jobs with and without the rules, and finds the same checkpoints,
output and ends.

0. *Turns.* A task with inputs takes what arrives in the step in which it arrives: an element that waits in its queue
might as well wait on its channel. If barriers overtake, an exception is what is before a barrier on the same channel:
it may also arrive together with the barrier (a step `overtake`), and is then overtaken. What other channels hold at
that moment is in flight on the channel as well as in the queue. If barriers may time out, they overtake what the task
has received and not taken yet. There a turn is a step of its own, tried at every moment with one exception: a task that
no barrier can reach, and that receives no message, takes what it has at once. Rules 4 to 8 are not used there. 1.
*Deployment.* A task is deployed, reads its state and reports that it runs before anything else can reach it. 2.
*Splits.* Events between a source and its coordinator arrive at once: what comes in between might as well have come
before they were sent. 3. *Beginnings and ends of checkpoints.* An id is allocated, a directory is made, and unneeded
files are deleted at once: this early they may interfere with something, later they do not. Reports that only measure,
and those of a checkpoint that has ended, are ignored whenever they come. 4. *Marks.* Watermarks, barriers and ends
commute with what other inputs bring, so they are taken as they come. The barrier that begins a snapshot does not
commute with the news of an older checkpoint if the task then publishes, or leaves: in that case both orders are tried.
5. *Arrivals with a choice.* Suppose that on each input of a task something has arrived, or nothing will (it is blocked,
or has ended). Then the choice which comes first is made now: only messages of the JobMaster may come in between. If
such a message may be the abort of a checkpoint, the machine is asked whether it matters (`kit.verify.explore.aborts`),
for rules 4 and 8 too: it matters only to what begins a snapshot. 6. *Arrivals without a choice yet.* While an input is
empty and its sender still works, nothing is taken from the other inputs. The result would not be visible before the
empty input has delivered as well. 7. *Own affairs.* If a task has received a message of the JobMaster, and something
has come on each of its inputs, no other machine can add a choice for it. Then only its steps are tried. If barriers
overtake, the first one on an input decides what is in flight on the others. So rules 4, 5 and 7 apply only if no
barrier may still come from further upstream than the task's own channels. If one is on its way there, or may be before
the sources have read on, the task takes nothing: the machines that bring it do not wait for that. 8. *Sources.* A
source reads on at once if it cannot be told to take a checkpoint any more. 9. *Acknowledgements.* While others have not
acknowledged a checkpoint, it makes no difference to them when one task writes its part. What is written is acknowledged
at once, because it might as well be written later. What all have acknowledged is stored at once, because another
checkpoint would wait. The same applies to reports that a task has seen all its input, and to the completion of a
checkpoint if a task does not react to it. 10. *After the last fault.* Suppose that no further faults or requests are
possible, no timer may start anything, and at most one checkpoint is pending. Then the order in which messages and files
arrive makes no difference. This holds because rules 5, 7 and 8 have handled all steps of the sources before. The
completion of a checkpoint lets the JobMaster request the last one, which then starts before or after a source has
ended. Where those rules are not used, it holds only when the last checkpoint is complete. 11. *Leaving.* When the tasks
of an epoch must leave, only their files will remain: they leave before or after each step that concerns files, theirs
or the JobMaster's. All other steps could have been taken before.

If faults are still possible, a fault may replace each step that is taken at once and that changes what a failure leaves
behind: the JobMaster or a file. The JobMaster learns of a failed file of a task later. So while that is possible, its
actions to begin or to store a checkpoint are not taken at once. When a worker is killed, the other workers of its epoch
leave at once: what they could still do, they could have done before.

Subtasks are not folded, not even sources with the same rows. Exchanging two is sound only if everything else is
exchanged with them. Subtasks of one number share a worker, which dies as a whole, so the keyed subtask and the sink of
that number go with a source; and those differ, because each has key groups of its own. If all of that were equal, two
states would become one at most, and to recognise them all numbers of subtasks within machines, handles and paths would
have to be exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from kit.core.protocol.commands import (
    AllocateCheckpointId,
    CommitEffects,
    DiscardSnapshot,
    DropEffects,
    InitializeLocation,
    ReadState,
    ScheduleCoordinatorCheckpoint,
    SetCheckpointIdCounter,
    StopEpoch,
    StoreCheckpoint,
    WriteMetadata,
    WriteSnapshot,
)
from kit.core.protocol.duties import Command, Duty
from kit.core.protocol.elements import (
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    Watermark,
    WatermarkStatus,
)
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    DeployTask,
    NotifyCheckpointComplete,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    ReportCheckpointMetrics,
    TaskStateChanged,
)
from kit.core.protocol.tasks import ExecutionState
from kit.machines.job.job_master import RESTART_TIMER, JobMaster
from kit.machines.task.stream_task import StreamTask
from kit.verify.explore.aborts import Aborts
from kit.verify.explore.barriers import Barriers
from kit.verify.explore.queues import Contents
from kit.verify.explore.space import EXPIRY, Places, Space
from kit.verify.explore.steps import MOST_TIMERS, MOST_TRIED, Step
from kit.verify.explore.tables import Function, Ids, Rows

Mask = npt.NDArray[np.bool_]
_MARKS = (Watermark, WatermarkStatus, EndOfData)
_MARKS_OF_EXACTLY_ONCE = (*_MARKS, CheckpointBarrier, EndOfPartition)
"""The marks of exactly once: the last barrier of a checkpoint comes when all other inputs are blocked, so there is no
choice. If barriers are only counted, it matters to at-least-once whether a record comes before the last one. The
reaction of a user-defined handler to a barrier is unknown."""


class Reduction:
    """The choice of steps to be tried, for rows of a space. `exact` tries all."""

    def __init__(self, space: Space, *, exact: bool = False) -> None:
        self._space = space
        self._exact = exact
        checkpoint = space.job.settings.checkpoint
        self._overtakes = checkpoint.unaligned
        exactly_once = (
            checkpoint.is_exactly_once and not checkpoint.unaligned and space.job.parts.barrier_handler is None
        )
        self._marks = _MARKS_OF_EXACTLY_ONCE if exactly_once else _MARKS
        self._inputs = space.inputs
        self._barriers = Barriers(space)
        self._at_once: dict[int, bool] = {}
        self._aborts = Aborts(space)
        self._works = Function(self._would_work)
        self._begins = Function(self._begins_something)
        self._counts = Function(self._count)
        self._older = Function(self._count_older)
        self._late = Function(self._ended_before)
        self._over = Function(self._took_last)
        self._early = (self._is_told_too_early(space.queues), self._is_told_too_early(space.bags))
        self._kinds: dict[tuple[type, ...], dict[int, bool]] = {}
        self._not_last = Function(self._others_are_awaited)
        self._holding = {task: Function(partial(self._holds, task)) for task in space.tasks}

    def groups(self, rows: Rows) -> Iterator[tuple[Places, Sequence[Step]]]:
        """Yield rows by number, with the steps to try in all of them: all steps, or those that a rule selects."""
        left = np.arange(len(rows))
        if not self._exact:
            for steps, mask in self._rules(rows):
                at = left[mask[left]]
                if len(at):
                    yield at, steps
                    left = left[~mask[left]]
                if not len(left):
                    return
        yield left, self._space.steps

    def tried(self, rows: Rows, step: Step) -> Places | None:
        """Return the rows in which this step is tried; None: in all."""
        off = self._put_off(rows, step)
        return None if off is None or not off.any() else np.flatnonzero(~off)

    def _put_off(self, rows: Rows, step: Step) -> Mask | None:
        """Return in which of the rows this step is put off; None: in none."""
        if self._exact or not self._space.takes_turns or step.kind not in ("wire", "overtake"):
            return None
        task = step.machine
        settled = self._space.machines[task].settled.of(rows[:, task])
        inputs = self._inputs[task]
        own = next(place for place, (number, _) in enumerate(inputs) if number == step.number)
        off: Mask = settled[:, own] == 2
        for place, (number, sender) in enumerate(inputs):
            if place != own:
                empty = (rows[:, self._space.wires + number] == 0) & (settled[:, place] == 0)
                off |= empty & self._barriers.sources_at_work(rows, sender)
        if self._overtakes:
            off |= self._barriers.are_coming(rows, task)
        off &= rows[:, task] != 0
        return off

    # --- rules ----------------------------------------------------------------------------------------------------

    def _rules(self, rows: Rows) -> Iterator[tuple[list[Step], Mask]]:
        space = self._space
        yield from self._leaving(rows)
        for task in space.tasks:
            heads = space.queues.heads(rows[:, space.mail_to + task])
            yield self._alone("message", task), self._is_at_once(heads) | self._is_unseen(task, rows[:, task], heads)
            heads = space.queues.heads(rows[:, space.mail_from + task])
            yield self._alone("report", task), self._is_at_once(heads) | self._is_too_late(rows[:, 0], heads)
            for place in range(2):
                work = space.bags.member(rows[:, space.work + task], place)
                yield self._alone("work", task, place), self._is_at_once(work)
        contested = self._aborts.contest(rows)
        for place in range(3):
            work = space.bags.member(rows[:, space.work], place)
            begins = contested & self._is_of(work, *_BEGINNINGS)
            yield self._alone("work", 0, place), self._is_at_once(work) & ~begins
        may_abort = self._aborts.threaten(rows)
        if space.takes_turns:
            for task in space.tasks:
                if self._inputs[task]:
                    yield from self._arrivals(rows, task, may_abort)
            yield from self._own_affairs(rows)
            yield from self._source_turns(rows, may_abort)
        else:
            yield from self._turns(rows, may_abort)
        yield from self._acknowledgements(rows, contested)
        quiet = self._is_quiet(rows[:, 0]) & ~may_abort & ~contested & self._barriers.times_nothing(rows)
        quiet &= (rows[:, space.failed] >= space.faults) & (rows[:, space.asked] >= space.requests)
        if not space.takes_turns:
            quiet &= self._is_over(rows[:, 0])
        if quiet.any():
            for machine in range(len(space.machine_names)):
                if machine in space.tasks:
                    yield [Step("message", machine)], quiet & (rows[:, space.mail_to + machine] != 0)
                    yield [Step("report", machine)], quiet & (rows[:, space.mail_from + machine] != 0)
                yield [Step("work", machine, 0)], quiet & (rows[:, space.work + machine] != 0)

    def _arrivals(self, rows: Rows, task: int, may_abort: Mask) -> Iterator[tuple[list[Step], Mask]]:
        """Yield marks as they come, and arrivals where each input has an element or will have none."""
        space, inputs = self._space, self._inputs[task]
        settled = space.machines[task].settled.of(rows[:, task])[:, : len(inputs)] == 2
        arrived = np.stack([rows[:, space.wires + number] != 0 for number, _ in inputs], axis=1)
        heads = np.stack([space.queues.heads(rows[:, space.wires + number]) for number, _ in inputs], axis=1)
        calm = rows[:, task] != 0
        takes = arrived & ~settled & calm[:, None]
        told = space.queues.heads(rows[:, space.mail_to + task])
        calm &= may_abort | (told == 0) | self._is_of(told, NotifyCheckpointComplete)
        overtaking = np.stack([space.barriers_on(rows, number) for number, _ in inputs], axis=1)
        if self._overtakes:
            calm &= ~self._barriers.may_overtake(rows, task)
            takes &= calm[:, None]
        ready = (arrived | settled).all(axis=1) & calm
        for place, (number, _) in enumerate(inputs):
            barriers = np.flatnonzero(takes[:, place] & self._is_of(heads[:, place], CheckpointBarrier))
            bound = np.zeros(len(rows), bool)
            bound[barriers] = ~self._commutes(rows[barriers], task, heads[barriers, place])
            threatened = np.flatnonzero(takes[:, place] & may_abort)
            others = [each for each, _ in inputs if each != number]
            among = np.flatnonzero(self._is_mark(heads[threatened, place]))
            unmoved = np.zeros(len(threatened), bool)
            unmoved[among] = self._aborts.change_nothing(
                rows[threatened[among]], task, heads[threatened[among], place], others
            )
            early = takes[:, place] & self._is_mark(heads[:, place]) & ~bound
            if self._overtakes:
                early &= ~self._barriers.on(rows, [each for each, _ in inputs])
            early[threatened] &= unmoved
            bound[threatened] |= ~self._aborts.change_nothing(rows[threatened], task, heads[threatened, place], ())
            ready &= ~bound
            yield [Step("wire", task, number)], early
        ready &= takes.any(axis=1)
        possible = np.concatenate([takes, overtaking], axis=1)
        steps_of = [Step(kind, task, number) for kind in ("wire", "overtake") for number, _ in inputs]
        for chosen in np.unique(possible[ready], axis=0):
            steps = [step for step, is_chosen in zip(steps_of, chosen, strict=True) if is_chosen]
            yield steps, ready & (possible == chosen).all(axis=1)

    def _leaving(self, rows: Rows) -> Iterator[tuple[list[Step], Mask]]:
        """Yield the leaving of tasks that must leave, and the steps before and after it that concern files."""
        space = self._space
        works = [(machine, at) for machine in range(len(space.machine_names)) for at in range(MOST_TRIED)]
        possible = [Step(kind, task) for kind in ("message", "report") for task in space.tasks]
        possible += [Step("work", *each) for each in works]
        possible += [Step("timer", 0, at) for at in range(MOST_TIMERS)]
        for place in range(MOST_TRIED):
            leaving = np.flatnonzero(self._is_of(space.bags.member(rows[:, space.work], place), StopEpoch))
            if not len(leaving):
                continue
            told = np.stack([self._has_file_work(rows[leaving], task) for task in space.tasks], axis=1)
            heads = [space.queues.heads(rows[leaving, space.mail_from + task]) for task in space.tasks]
            busy = np.stack(
                [space.bags.member(rows[leaving, space.work + each], at) != 0 for each, at in works], axis=1
            )
            set_timers = [space.timers.member(rows[leaving, space.timer], at) for at in range(MOST_TIMERS)]
            due = np.stack([self._begins.of(each * 0, each) == 1 for each in set_timers], axis=1)
            said = np.stack([(each != 0) & ~self._is_unheard(rows[leaving, 0], each) for each in heads], axis=1)
            different, which = np.unique(np.concatenate([told, said, busy, due], axis=1), axis=0, return_inverse=True)
            for number, chosen in enumerate(different):
                steps = [step for step, is_one in zip(possible, chosen) if is_one]
                found = np.zeros(len(rows), bool)
                found[leaving[which.ravel() == number]] = True
                yield [*steps, *self._faults_of(steps)], found

    def _has_file_work(self, rows: Rows, task: int) -> Mask:
        """Return where a task that has received all its messages would do something with files."""
        return self._works.of(rows[:, task] * 64 + task, rows[:, self._space.mail_to + task]) == 1

    def _would_work(self, key: int, queue: int) -> int:
        state, task = divmod(key, 64)
        space = self._space
        states = space.machines[task]
        for word in space.queues.values[queue]:
            number = states.step(np.array([state], np.int32), np.array([word], np.int32))
            state, changes, _ = states.outcome(int(number[0]))
            if any(space.work <= column < space.timer for column, _ in changes):
                return 1
        return 0

    def _is_unheard(self, states: Ids, words: Ids) -> Mask:
        """Return where the JobMaster does nothing about a report, and keeps its state."""
        master = self._space.machines[0]
        outcomes = master.step(states, words)
        unheard: Mask = (master.next_states.of(outcomes) == states) & master.leads_to_nothing(states, words)
        return unheard

    def _commutes(self, rows: Rows, task: int, barriers: Ids) -> Mask:
        """Return where a barrier has the same effect before and after the completion of a checkpoint.

        It does not if it begins a snapshot of a task that publishes, or leaves, because of that completion.
        """
        states = self._space.machines[task]
        free = states.leads_to_nothing(rows[:, task], barriers) | ~states.listens.of(rows[:, task])
        left = np.flatnonzero(~free)
        if len(left):
            told = rows[left, self._space.mail_to + task] != 0
            told |= self._publishes(rows[left, self._space.work + task])
            free[left] = ~told & (self._older.of(rows[left, 0], barriers[left]) == 0)
        return free

    def _publishes(self, bags: Ids) -> Mask:
        """Return where a task is about to publish something."""
        found = np.zeros(len(bags), bool)
        for place in range(MOST_TRIED):
            found |= self._is_of(self._space.bags.member(bags, place), CommitEffects)
        return found

    def _count_older(self, state: int, barrier: int) -> int:
        """Return the number of pending checkpoints that are older than the barrier's."""
        master = self._space.machines[0].machines[state]
        if not isinstance(master, JobMaster):
            return 1
        return sum(each < self._space.words[barrier].element.checkpoint_id for each in master.checkpoints.pending)

    def _own_affairs(self, rows: Rows) -> Iterator[tuple[list[Step], Mask]]:
        """Yield the steps of a task that no other machine can influence.

        It has received a message, and something has come on each of its inputs.
        """
        space = self._space
        for task in space.tasks:
            told = (rows[:, space.mail_to + task] != 0) & (rows[:, task] != 0)
            steps = [Step("message", task), Step("turn", task)]
            if self._overtakes and self._inputs[task]:
                told &= ~self._barriers.may_overtake(rows, task)
            settled = space.machines[task].settled.of(rows[:, task]) == 2
            for place, (number, _) in enumerate(self._inputs[task]):
                told &= (rows[:, space.wires + number] != 0) | settled[:, place]
                steps.extend(space.arrivals_on(task, number))
            steps.extend(Step("work", task, place) for place in range(MOST_TRIED))
            yield [*steps, *self._faults_of(steps)], told

    def _faults_of(self, steps: Sequence[Step]) -> list[Step]:
        """Return the faults that may replace one of these steps."""
        return list(dict.fromkeys(fault for step in steps for fault in self._space.faults_of(step)))

    def _is_too_late(self, states: Ids, words: Ids) -> Mask:
        """Return where a report is about a checkpoint that has ended: it is ignored, whenever it comes."""
        return self._late.of(states, words) == 1

    def _ended_before(self, state: int, number: int) -> int:
        word, master = self._space.words[number], self._space.machines[0].machines[state]
        if not isinstance(word, AcknowledgeCheckpoint | DeclineCheckpoint) or not isinstance(master, JobMaster):
            return 0
        return int(word.checkpoint_id in master.checkpoints.ledger.ended)

    def _source_turns(self, rows: Rows, may_abort: Mask) -> Iterator[tuple[list[Step], Mask]]:
        """Yield the turns of sources whose possible messages make no difference to what they read."""
        space = self._space
        left_alone = self._barriers.cannot_begin(rows)
        for task in space.tasks:
            if not self._inputs[task]:
                calm = left_alone & (may_abort | (rows[:, space.mail_to + task] == 0))
                calm &= space.machines[task].has_turn.of(rows[:, task])
                threatened = np.flatnonzero(calm & may_abort)
                turns = np.full(len(threatened), space.turn, np.int32)
                calm[threatened] = self._aborts.change_nothing(rows[threatened], task, turns, ())
                yield [Step("turn", task)], calm

    def _turns(self, rows: Rows, may_abort: Mask) -> Iterator[tuple[list[Step], Mask]]:
        """Yield turns as single steps: no barrier may overtake the task's elements, and no message may come."""
        space = self._space
        for task in space.tasks:
            calm = space.machines[task].has_turn.of(rows[:, task]) & (rows[:, space.mail_to + task] == 0) & ~may_abort
            calm &= (rows[:, space.timer + task] == 0) & ~self._barriers.may_overtake(rows, task)
            calm &= ~self._barriers.on(rows, [number for number, _ in self._inputs[task]])
            yield [Step("turn", task)], calm & ~self._holds_barriers(task, rows[:, task])

    def _holds_barriers(self, task: int, states: Ids) -> Mask:
        """Return where a barrier is in the queues of a task, or one that has come is not processed yet."""
        return self._holding[task].of(states, states * 0) == 1

    def _holds(self, task: int, state: int, nothing: int) -> int:
        machine = self._space.machines[task].machines[state]
        if not isinstance(machine, StreamTask):
            return 0
        held = (item.element for channel in machine.inputs for item in channel._queue)
        waits = any(each.blocked for each in machine.inputs)
        return int(waits or any(isinstance(each, CheckpointBarrier) for each in held))

    def _begins_something(self, nothing: int, timer: int) -> int:
        """Return 1 if the timer begins something; a restart timer does not: it waits until the tasks have left."""
        name = self._space.words[timer].timer if timer else EXPIRY
        return int(not name.startswith(EXPIRY) and name != RESTART_TIMER)

    def _is_of(self, words: Ids, *kinds: type) -> Mask:
        """Return which words are, or bring, something of these types."""
        known = self._kinds.setdefault(kinds, {})
        different = np.unique(words).tolist()
        for number in different:
            if number not in known:
                word = self._space.words[number]
                known[number] = isinstance(getattr(word, "element", word), kinds)
        return np.isin(words, [number for number in different if known[number]])

    def _is_mark(self, words: Ids) -> Mask:
        """Return where a mark arrives, which commutes with what other inputs bring: no data, no cancellation."""
        return self._is_of(words, *self._marks)

    def _alone(self, kind: str, machine: int, number: int = 0) -> list[Step]:
        """Return a step that is taken at once, and the faults that may replace it."""
        step = Step(kind, machine, number)
        return [step, *self._space.faults_of(step)]

    def _acknowledgements(self, rows: Rows, contested: Mask) -> Iterator[tuple[list[Step], Mask]]:
        """Yield what is processed at once: acknowledgements, writes while others are missing, and complete stores."""
        space = self._space
        for task in space.tasks:
            heads = space.queues.heads(rows[:, space.mail_from + task])
            acknowledges = self._is_of(heads, AcknowledgeCheckpoint) & ~contested
            yield self._alone("report", task), self._is_not_the_last(rows[:, 0], heads) | acknowledges
            for place in range(2):
                work = space.bags.member(rows[:, space.work + task], place)
                yield self._alone("work", task, place), self._is_not_the_last(rows[:, 0], work)
        over = self._is_over(rows[:, 0])
        for task in space.tasks:
            stays = over & space.machines[task].listens.of(rows[:, task])
            for place in range(2):
                work = space.bags.member(rows[:, space.work + task], place)
                yield self._alone("work", task, place), stays & self._is_of(work, CommitEffects)
        told = self._are_told_too_early(rows)
        for place in range(3):
            work = space.bags.member(rows[:, space.work], place)
            yield self._alone("work", 0, place), self._is_of(work, WriteMetadata, StoreCheckpoint) & ~told & ~contested

    def _are_told_too_early(self, rows: Rows) -> Mask:
        """Return where a task is notified of a complete checkpoint, or publishes it, before it is stored.

        That would be an error of the protocol, and then the order matters.
        """
        space = self._space
        found = np.zeros(len(rows), bool)
        storing = np.flatnonzero(self._counts.of(rows[:, 0], rows[:, 0] * 0) > 0)
        for task in space.tasks if len(storing) else ():
            for column in (space.mail_to + task, space.work + task):
                early = self._early[column >= space.work]
                found[storing] |= early.of(rows[storing, 0], rows[storing, column]) == 1
        return found

    def _is_told_too_early(self, contents: Contents) -> Function:
        def told(state: int, number: int) -> int:
            master = self._space.machines[0].machines[state]
            if not isinstance(master, JobMaster):
                return 0
            words = (self._space.words[each] for each in contents.values[number])
            return int(
                any(isinstance(word, _NEWS) and word.checkpoint_id in master.checkpoints.pending for word in words)
            )

        return Function(told)

    def _is_over(self, states: Ids) -> Mask:
        """Return where the last checkpoint is complete, and no other is pending."""
        return self._over.of(states, states * 0) == 1

    def _took_last(self, state: int, nothing: int) -> int:
        master = self._space.machines[0].machines[state]
        if not isinstance(master, JobMaster):
            return 0
        ledger = master.checkpoints.ledger
        return int(ledger.took_last_checkpoint and not ledger.pending and bool(self._barriers.is_idle(state, 0)))

    def _is_not_the_last(self, states: Ids, words: Ids) -> Mask:
        return self._not_last.of(states, words) == 1

    def _others_are_awaited(self, state: int, number: int) -> int:
        word, master = self._space.words[number], self._space.machines[0].machines[state]
        if not isinstance(master, JobMaster):
            return 0
        if isinstance(word, TaskStateChanged):
            return int(self._others_are_to_end(state, master, word))
        if not isinstance(word, AcknowledgeCheckpoint | WriteSnapshot):
            return 0
        checkpoint = master.checkpoints.pending.get(word.checkpoint_id)
        return int(checkpoint is not None and checkpoint.waits_for_others)

    def _others_are_to_end(self, state: int, master: JobMaster, word: TaskStateChanged) -> bool:
        """Return True if other tasks have yet to see all their input, or to leave after the last checkpoint."""
        records = master.tasks.items()
        if word.end_of_data:
            return sum(not record.data_ended for _, record in records) > 1
        if word.state is not ExecutionState.FINISHED or not self._barriers.is_idle(state, 0):
            return False
        staying = sum(record.state is not ExecutionState.FINISHED for _, record in records)
        return master.checkpoints.ledger.took_last_checkpoint and staying > 1

    def _is_at_once(self, words: Ids) -> Mask:
        known = self._at_once
        different = np.unique(words)
        for number in different.tolist():
            if number not in known:
                known[number] = bool(number) and _is_done_at_once(self._space.words[number])
        wanted = [number for number in different.tolist() if known[number]]
        return np.isin(words, wanted) if wanted else np.zeros(len(words), bool)

    def _is_unseen(self, task: int, states: Ids, words: Ids) -> Mask:
        """Return where a message reports a complete checkpoint to a task that does not react to it."""
        different = np.unique(words).tolist()
        told = [each for each in different if isinstance(self._space.words[each], NotifyCheckpointComplete)]
        unseen = np.isin(words, told)
        at = np.flatnonzero(unseen)
        if len(at):
            unseen[at] = self._space.machines[task].leads_to_nothing(states[at], words[at])
        return unseen

    def _is_quiet(self, states: Ids) -> Mask:
        """Return where the JobMaster has at most one pending checkpoint."""
        return self._under_way(states) <= 1

    def _under_way(self, states: Ids) -> Ids:
        """Return the number of checkpoints that are pending or requested; a large number if it is unknown."""
        return self._counts.of(states, states * 0)

    def _count(self, state: int, nothing: int) -> int:
        master = self._space.machines[0].machines[state]
        if not isinstance(master, JobMaster):
            return 2
        return len(master.checkpoints.pending) + len(master.checkpoints.decider.queue)


_NEWS = (NotifyCheckpointComplete, CommitEffects)
_BEGINNINGS = (AllocateCheckpointId, InitializeLocation, ScheduleCoordinatorCheckpoint)
_AT_ONCE = (
    DeployTask,
    ReadState,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    *_BEGINNINGS,
    SetCheckpointIdCounter,
    DiscardSnapshot,
    DropEffects,
    ReportCheckpointMetrics,
)
"""Rules 1 to 3: steps taken at once, besides those that only clean up, and reports that a task runs."""


def _is_done_at_once(word: object) -> bool:
    if isinstance(word, Command) and word.duty is Duty.CLEAN_UP:
        return True
    runs = isinstance(word, TaskStateChanged) and word.state is ExecutionState.RUNNING and not word.end_of_data
    return runs or isinstance(word, _AT_ONCE)
