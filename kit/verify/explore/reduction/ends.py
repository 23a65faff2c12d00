"""Rules about the end of an epoch, and of the faults and requests."""

from __future__ import annotations

from collections.abc import Iterator

from kit.verify.explore.reduction.facts import Batch, Chosen
from kit.verify.explore.steps import Step


def after_the_last_fault(batch: Batch) -> Iterator[Chosen]:
    """Take messages and files in one order, once the order makes no difference.

    No more faults or requests are possible, no timer may begin anything, and at most one checkpoint is pending. This
    holds because `splits`, `choices`, `own_affairs` and `source_turns` have handled before all that a source may do:
    which split it reads, and whether the last checkpoint begins before or after it has ended, since what completes a
    checkpoint lets the JobMaster request the last one. Where turns are steps of their own, it holds only when the last
    checkpoint is complete.
    """
    space, known, rows = batch.space, batch.known, batch.rows
    quiet = (known.under_way(batch.master) <= 1) & ~batch.may_abort & ~batch.contested
    quiet &= known.barriers.times_nothing(rows)
    quiet &= (rows[:, space.failed] >= space.faults) & (rows[:, space.asked] >= space.requests)
    if not space.takes_turns:
        quiet &= known.is_over(batch.master)
    if quiet.any():
        for machine in range(len(space.machine_names)):
            if machine in space.tasks:
                yield [Step("message", machine)], quiet & (rows[:, space.mail_to + machine] != 0)
                yield [Step("report", machine)], quiet & (rows[:, space.mail_from + machine] != 0)
            yield [Step("work", machine, 0)], quiet & (rows[:, space.work + machine] != 0)
