"""The one timer of a task that stands for all processing-time timers of its operators."""

from __future__ import annotations

from types import SimpleNamespace

from kit.core.protocol.commands import ScheduleTimer
from kit.core.protocol.words import ProtocolMessage
from kit.machines.task.processing_timer import PROCESSING_TIME_TIMER, ProcessingTimer


class Owner:
    """A task of which the operators have timers at these times, in ms."""

    def __init__(self) -> None:
        self.timers: set[int] = set()
        self.fired: list[int] = []
        self.at = 0
        self.scheduled: list[int] = []
        self.chain = SimpleNamespace(
            next_processing_time_ms=lambda: min(self.timers, default=None), on_processing_time=self._fire
        )

    def emit(self, word: ProtocolMessage) -> None:
        assert isinstance(word, ScheduleTimer)
        assert word.timer == PROCESSING_TIME_TIMER
        self.scheduled.append(word.due_ms)

    def _fire(self, now_ms: int) -> None:
        due = {each for each in self.timers if each <= now_ms}
        self.fired += sorted(due)
        self.timers -= due


def test_it_is_set_for_the_earliest_of_all_timers_and_again_when_an_earlier_one_comes() -> None:
    owner = Owner()
    timer = ProcessingTimer(owner)  # type: ignore[arg-type]
    for due_ms, scheduled in ((500, [500]), (700, [500]), (300, [500, 300]), (400, [500, 300]), (600, [500, 300])):
        owner.timers.add(due_ms)
        timer.arm()
        timer.validate()
        assert owner.scheduled == scheduled
    for at, fired, due_ms in ((300, [300], 400), (550, [400, 500], 600), (700, [600, 700], None)):
        owner.at, owner.fired = at, []
        timer.fire()
        timer.validate()
        assert owner.fired == fired
        assert owner.scheduled[-1] == due_ms or due_ms is None
    assert owner.scheduled == [500, 300, 400, 600]
