"""The number of rows that a task may take in its next turn, from how long its last turns took.

A slot runs its tasks in one thread. While a task processes a batch, the slot reads no message, so a trigger waits, and
so does every barrier. The time of a turn is therefore limited (`JobSettings.turn_ms`), and with it the number of its
rows. A task of Arrow columns keeps its full batches, because these take less.

The time is that of `kit.hosts.spark.slot.running_time`, so other work on the machine does not make the turns shorter.
A turn costs a fixed time (the call of a model, say) and a time for each row. Only the rows can be limited, so the cost
of a row is what more rows take in addition: the difference between the last turn and one of another size. Without such
a turn, or if the cost has changed meanwhile, it is the average of the last turn. The first turns of a task take few
rows, and each takes at most `GROWTH` times the rows of the one before, so a function that turns out to be slow delays
the slot once, and not for long.

Flink has no such limit: a source has a thread of its own, and its buffers of 32 KiB hold few records.
"""

from __future__ import annotations

from typing import NamedTuple

GROWTH = 8
"""The factor by which the number of rows grows at most from one turn to the next."""
ANOTHER_SIZE = 1.5
"""The ratio of rows from which on the difference of two turns says what a row costs."""
ANOTHER_COST = 2.0
"""The ratio of times from which on a turn that took longer for fewer rows says that the cost has changed."""


class _Turn(NamedTuple):
    rows: int
    seconds: float


class TurnRows:
    """The limit on the rows of one task's turns, which are to take `turn_ms` at most.

    `most` is the number of rows in the next turn. A turn takes at least one row, whatever that costs.
    """

    def __init__(self, turn_ms: int) -> None:
        self.most = 1
        self._turn_s = turn_ms / 1_000
        self._row_s = self._fixed_s = 0.0
        """The cost of a row, and of a turn without its rows, as far as known."""
        self._last: _Turn | None = None
        self._other: _Turn | None = None
        """The last turn that had another number of rows."""

    def took(self, rows: int, seconds: float) -> None:
        """Take the measurement of a turn in which the task processed `rows` rows, at least one."""
        last, turn = self._last, _Turn(rows, seconds)
        as_known = rows < self.most and seconds <= ANOTHER_COST * (self._fixed_s + self._row_s * rows)
        if last is not None and _differ(last.rows, rows, ANOTHER_SIZE):
            self._other = last
        self._last = turn
        self._row_s = self._cost(turn)
        self._fixed_s = max(0.0, seconds - self._row_s * rows)
        fitting = self._turn_s / self._row_s if self._row_s > 0 else float("inf")
        if self._other is None:
            fitting = max(fitting, 2 * rows)  # one turn alone does not say what part of it was fixed
        most = int(min(fitting, GROWTH * rows))
        self.most = max(self.most if as_known else 1, most)  # fewer rows than allowed say nothing against more

    def _cost(self, turn: _Turn) -> float:
        """Return the cost of a row in seconds."""
        average_s, other = turn.seconds / turn.rows, self._other
        if other is None or not _differ(turn.rows, other.rows, ANOTHER_SIZE):
            return average_s
        more_s = (turn.seconds - other.seconds) / (turn.rows - other.rows)
        if more_s <= 0 and not _differ(turn.seconds, other.seconds, ANOTHER_COST):
            return 0.0  # the fixed time is so long that the rows do not show beside it
        return min(average_s, more_s) if more_s > 0 else average_s

    def __repr__(self) -> str:
        return f"TurnRows({self.most} rows)"


def _differ(one: float, other: float, ratio: float) -> bool:
    return max(one, other) >= ratio * min(one, other)
