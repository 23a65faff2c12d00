"""The effect that the abort of a checkpoint would have, determined by running the machines themselves.

While faults are possible, a checkpoint may be aborted at any moment. Each task learns of it separately: from the
JobMaster, from a cancel marker that the upstream task sends in place of a barrier, or because its own file fails. Most
events that a task takes meanwhile *commute* with such news: in either order, the task ends up in the same state and has
issued the same commands. Then the order makes no difference and is not explored. This is not guessed from the events:
both orders are run on the machine, for all the news that may arrive, in every order. So it also holds for a
user-defined handler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from kit.core.protocol.elements import CancelCheckpointMarker
from kit.core.protocol.events import ElementReceived
from kit.core.protocol.messages import (
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TaskStateChanged,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.tasks import ExecutionState
from kit.machines.job.job_master import JobMaster
from kit.machines.task.stream_task import StreamTask
from kit.verify.explore.machines import MachineStates, OutcomeParts
from kit.verify.explore.space import Space
from kit.verify.explore.steps import MOST_TRIED
from kit.verify.explore.tables import Function, Ids, Interned, Rows, of_one
from kit.verify.explore.words import NOW_MS

Mask = npt.NDArray[np.bool_]
AT_ANY_TIME = frozenset({"expire", "fail"})
"""The kinds of fault that may abort a checkpoint at any moment while the job continues. If a failure restarts one
region, a killed worker does so too, and the tasks of other regions learn of it.
"""
LATER = "lose"
"""The kind of fault that does so once nothing else can happen."""
_NEWS = (NotifyCheckpointAborted, DeclineCheckpoint, CancelCheckpointMarker)
MOST_NEWS = 5
"""The number of pieces of news that are tried in every order; with more, nothing is assumed to commute."""


class Aborts:
    """The checkpoints that may be aborted, and the steps that this does not affect."""

    def __init__(self, space: Space) -> None:
        self._space = space
        at_any_time = AT_ANY_TIME | {"kill"} if space.fails_in_regions else AT_ANY_TIME
        self._may_fail = bool(space.kinds & at_any_time)
        self._may_end_so = self._may_fail or LATER in space.kinds
        self._sets: Interned[frozenset[int]] = Interned()
        self._none = self._sets.number(frozenset())
        self._pending = of_one(self._pending_of)
        self._notices = of_one(self._notices_in)
        self._bad = of_one(self._is_bad)
        self._united = Function(lambda one, other: self._sets.number(self._sets[one] | self._sets[other]))
        self._known: dict[tuple[int, int, int, frozenset[int]], bool] = {}
        self._same: dict[tuple[int, int, int, int], bool] = {}
        self._asked: dict[tuple[int, ...], bool] = {}

    def threaten(self, rows: Rows) -> Mask:
        """Return where a checkpoint may still be aborted while the job continues, or the news of it are in flight."""
        if not self._may_end_so:
            return np.zeros(len(rows), bool)
        threatened: Mask = (self._at_stake(rows) != self._none) | (self._news(rows) != self._none)
        return threatened

    def contest(self, rows: Rows) -> Mask:
        """Return where a task's file may fail between actions of the JobMaster, or the failure is on its way to it."""
        space = self._space
        contested = np.zeros(len(rows), bool)
        if "fail" in space.kinds:
            contested |= rows[:, space.failed] < space.faults
            for task in space.tasks:
                contested |= self._bad.holds(rows[:, space.mail_from + task])
        return contested

    def _is_bad(self, queue: int) -> bool:
        words = [self._space.words[each] for each in self._space.queues.values[queue]]
        failed = (isinstance(each, TaskStateChanged) and each.state is ExecutionState.FAILED for each in words)
        return any(isinstance(each, DeclineCheckpoint) for each in words) or any(failed)

    def _at_stake(self, rows: Rows) -> Ids:
        """Return the checkpoints that a fault may still abort."""
        if not self._may_fail:
            return np.full(len(rows), self._none, np.int32)
        pending = self._pending.of(rows[:, 0])
        pending[rows[:, self._space.failed] >= self._space.faults] = self._none
        return pending

    def _news(self, rows: Rows) -> Ids:
        """Return the checkpoints whose abort is being announced to some machine."""
        space = self._space
        found = np.full(len(rows), self._none, np.int32)
        for column in range(space.mail_to, space.wires + space.graph.channel_count):
            if rows[:, column].any():
                found = self._united.of(found, self._notices.of(rows[:, column]))
        return found

    def _pending_of(self, state: int) -> int:
        master = self._space.machines[0].machines[state]
        pending = master.checkpoints.pending if isinstance(master, JobMaster) else ()
        return self._sets.number(frozenset(pending))

    def _notices_in(self, queue: int) -> int:
        words = (self._space.words[each] for each in self._space.queues.values[queue])
        elements = (getattr(word, "element", word) for word in words)
        return self._sets.number(frozenset(each.checkpoint_id for each in elements if isinstance(each, _NEWS)))

    # --- do they matter? ----------------------------------------------------------------------------------------------

    def change_nothing(self, rows: Rows, task: int, words: Ids, channels: Sequence[int]) -> Mask:
        """Return where a task that takes one of `words` now ends in the same state as after any news of aborts.

        The news are those that the JobMaster may send, or has sent, failures of the task's own files, and cancel
        markers on these other `channels`.
        """
        space = self._space
        asked = np.stack(
            [
                rows[:, task],
                words,
                self._at_stake(rows),
                self._news(rows),
                rows[:, space.mail_to + task],
                rows[:, space.work + task] * int("fail" in space.kinds),
            ],
            axis=1,
        )
        different, which = np.unique(asked, axis=0, return_inverse=True)
        answers = [self._changes_nothing(task, tuple(row), tuple(channels)) for row in different.tolist()]
        found: Mask = np.array(answers, np.bool_)[which.ravel()]
        return found

    def _changes_nothing(self, task: int, seen: tuple[int, ...], channels: tuple[int, ...]) -> bool:
        asked = (task, *seen, *channels)
        known = self._asked.get(asked)
        if known is None:
            state, word, *rest = seen
            at_stake, notices, mail, work = rest
            groups = self._news_to(task, state, at_stake, notices, mail, work, channels)
            known = self._asked[asked] = groups is not None and all(
                len(group) <= MOST_NEWS and self._commutes(task, state, word, group) for group in groups
            )
        return known

    def _news_to(
        self, task: int, state: int, at_stake: int, notices: int, mail: int, work: int, channels: tuple[int, ...]
    ) -> Iterable[frozenset[int]] | None:
        """Return the news that may come to a task, as words, or None if something else is waiting for it.

        There is one set for each checkpoint that may be aborted, since one fault aborts one checkpoint; the failure of
        a region aborts all of them.
        """
        space = self._space
        machine = space.machines[task].machines[state]
        if not isinstance(machine, StreamTask):
            return None
        mail_words = space.queues.values[mail]
        letters = [each for each in mail_words if not isinstance(space.words[each], NotifyCheckpointComplete)]
        if any(isinstance(space.words[each], TriggerTaskCheckpoint) for each in letters):
            return None
        over = self._sets[notices]
        if space.faults == 1 and self._sets[at_stake] and not space.fails_in_regions:
            alternatives = [over | {each} for each in sorted(self._sets[at_stake])]
        else:
            alternatives = [over | self._sets[at_stake]]
        failures = self._failures(work)
        return [
            frozenset(chain(letters, failures, *(self._news_of(machine, each, channels) for each in sorted(ids))))
            for ids in alternatives
        ]

    def _failures(self, work: int) -> list[int]:
        """Return the failures of a task's work in progress."""
        space = self._space
        if not work:
            return []
        places = [space.bags.member(np.array([work], np.int32), place) for place in range(MOST_TRIED)]
        failures = [int(space.failures.of(each)[0]) for each in places if each[0]]
        return [each for each in failures if each]

    def _news_of(self, machine: StreamTask, checkpoint_id: int, channels: Sequence[int]) -> list[int]:
        notice = NotifyCheckpointAborted(
            task=machine.name, attempt=machine.attempt, checkpoint_id=checkpoint_id, timestamp_ms=NOW_MS
        )
        markers = (ElementReceived(channel=each, element=CancelCheckpointMarker(checkpoint_id)) for each in channels)
        return [self._space.words.number(each) for each in (notice, *markers)]

    def _commutes(self, task: int, state: int, word: int, news: frozenset[int]) -> bool:
        """Return True if the word has the same effect before and after all this news, in any order."""
        asked = (task, state, word, news)
        known = self._known.get(asked)
        if known is None:
            known = all(
                self._leads_to_the_same(task, state, word, each)
                and self._commutes(task, _outcome(self._space.machines[task], state, each)[0], word, news - {each})
                for each in sorted(news)
            )
            self._known[asked] = known
        return known

    def _leads_to_the_same(self, task: int, state: int, one: int, other: int) -> bool:
        asked = (task, state, one, other)
        known = self._same.get(asked)
        if known is None:
            first, second = self._both(task, state, one, other), self._both(task, state, other, one)
            known = self._same[asked] = first is not None and first == second
        return known

    def _both(self, task: int, state: int, one: int, other: int) -> tuple[object, ...] | None:
        """Return the result of two words in a row: the state and all commands; None if the machine breaks."""
        states = self._space.machines[task]
        between, changes, handed = _outcome(states, state, one)
        after, more, also_handed = _outcome(states, between, other)
        if states.is_broken.of(after) or states.is_broken.of(between):
            return None
        asked: dict[int, tuple[object, ...]] = {}
        for column, change in (*changes, *more):
            asked[column] = asked.get(column, ()) + self._space.change(column, change)
        return after, tuple(sorted(asked.items())), handed + also_handed


def _outcome(states: MachineStates, state: int, word: int) -> OutcomeParts:
    return states.outcomes[int(states.step(np.array([state], np.int32), np.array([word], np.int32))[0])]
