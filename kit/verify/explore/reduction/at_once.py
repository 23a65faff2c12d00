"""Rules about steps that may be taken at once, because nothing that comes before them changes their result."""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.protocol.commands import (
    AllocateCheckpointId,
    DiscardSnapshot,
    DropEffects,
    InitializeLocation,
    ReadState,
    ScheduleCoordinatorCheckpoint,
    SetCheckpointIdCounter,
)
from kit.core.protocol.duties import Command, Duty
from kit.core.protocol.messages import (
    DeployTask,
    NotifyCheckpointComplete,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    TaskStateChanged,
)
from kit.core.protocol.tasks import ExecutionState
from kit.verify.explore.reduction.facts import Batch, Chosen
from kit.verify.explore.steps import Step


def deployment(batch: Batch) -> Iterator[Chosen]:
    """Deploy a task, read its state and hear that it runs.

    Nothing else can reach a task before it runs, and the JobMaster asks for nothing before all tasks do.
    """
    known = batch.known
    for steps, words, _ in batch.messages():
        yield steps, known.is_of(words, DeployTask)
    for steps, words, _ in batch.works_of_tasks():
        yield steps, known.is_of(words, ReadState)
    for steps, words in batch.reports():
        yield steps, known.satisfy(words, _runs)


def _runs(word: object) -> bool:
    return isinstance(word, TaskStateChanged) and word.state is ExecutionState.RUNNING and not word.end_of_data


def splits(batch: Batch) -> Iterator[Chosen]:
    """Deliver events between a source and its coordinator.

    They arrive at once: what comes in between might as well have come before they were sent.
    """
    for steps, words, _ in batch.messages():
        yield steps, batch.known.is_of(words, OperatorEventToTask)
    for steps, words in batch.reports():
        yield steps, batch.known.is_of(words, OperatorEventToCoordinator)


def beginnings(batch: Batch) -> Iterator[Chosen]:
    """Allocate the id of a checkpoint, and make its directory.

    Whatever comes between the request and the trigger is as well before the request, unless a task's file may fail: the
    JobMaster learns of that later, and may learn of it in between.
    """
    for steps, words in batch.works_of_job():
        begins = batch.known.is_of(words, AllocateCheckpointId, InitializeLocation, ScheduleCoordinatorCheckpoint)
        yield steps, begins & ~batch.contested
        yield steps, batch.known.is_of(words, SetCheckpointIdCounter)


def clean_up(batch: Batch) -> Iterator[Chosen]:
    """Delete files that are no longer needed.

    This early it may interfere with something, later it does not: so a deletion of what is needed is still found.
    """
    for steps, words, _ in batch.works_of_tasks():
        yield steps, batch.known.satisfy(words, _cleans_up)
    for steps, words in batch.works_of_job():
        yield steps, batch.known.satisfy(words, _cleans_up)


def _cleans_up(word: object) -> bool:
    return isinstance(word, DiscardSnapshot | DropEffects) or (isinstance(word, Command) and word.duty is Duty.CLEAN_UP)


def ignored_completions(batch: Batch) -> Iterator[Chosen]:
    """Notify a task of a complete checkpoint that it does not react to: it gives no commands, now or later."""
    for steps, words, task in batch.messages():
        notice = batch.known.is_of(words, NotifyCheckpointComplete)
        if notice.any():
            notice[notice] = batch.space.machines[task].leads_to_nothing(batch.rows[notice, task], words[notice])
        yield steps, notice


def awaited(batch: Batch) -> Iterator[Chosen]:
    """Write, and report, one part of what the JobMaster waits for, while it waits for other parts too.

    It reacts to the last part alone, so the order of those before makes no difference, to others or to it. This applies
    to the parts of a checkpoint, and to reports that a task has seen all its input or has left.
    """
    for steps, words in batch.reports():
        yield steps, batch.known.is_not_the_last(batch.master, words)
    for steps, words, _ in batch.works_of_tasks():
        yield steps, batch.known.is_not_the_last(batch.master, words)


def after_the_last_fault(batch: Batch) -> Iterator[Chosen]:
    """Take messages and files in one order, once the order makes no difference.

    Faults and requests are over, no timer may begin anything, and at most one checkpoint is pending. This
    holds because `splits`, `choices`, `own_affairs` and `source_turns` have handled before all that a source may do:
    which split it reads, and whether the last checkpoint begins before or after it has ended, since what completes a
    checkpoint lets the JobMaster request the last one. Where turns are steps of their own, it holds only when the last
    checkpoint is complete. Once a region has restarted it no longer holds: tasks of another region may be leaving,
    after a checkpoint that was to be the last, while one more is taken.
    """
    space, known, rows = batch.space, batch.known, batch.rows
    quiet = (known.under_way(batch.master) <= 1) & ~batch.may_abort & ~batch.contested
    quiet &= known.barriers.times_nothing(rows)
    quiet &= (rows[:, space.failed] >= space.faults) & (rows[:, space.asked] >= space.requests)
    if not space.takes_turns:
        quiet &= known.is_over(batch.master)
    if space.fails_in_regions:
        quiet &= ~known.has_failed_over(batch.master)
    if quiet.any():
        for machine in range(len(space.machine_names)):
            if machine in space.tasks:
                yield [Step("message", machine)], quiet & (rows[:, space.mail_to + machine] != 0)
                yield [Step("report", machine)], quiet & (rows[:, space.mail_from + machine] != 0)
            yield [Step("work", machine, 0)], quiet & (rows[:, space.work + machine] != 0)
