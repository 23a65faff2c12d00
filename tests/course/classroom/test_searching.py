"""Searches of one part without a job: the shortest failing run, with numbered steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.course.classroom.checking import NotYet
from kit.course.classroom.searching import orders, searched, use_seed


class _Counter:
    """A part that breaks at the third "up" in a row."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ups = 0

    def choices(self) -> list[str]:
        return ["down", "up"]

    def do(self, step: str) -> None:
        self._ups = self._ups + 1 if step == "up" else 0
        if self._ups == self._most:
            raise NotYet(f"{self._ups} in a row.")


@pytest.fixture(autouse=True)
def _same_seed() -> Iterator[None]:
    yield
    use_seed(0)


def _failure(*, most: int, **limits: int) -> str:
    with pytest.raises(NotYet) as found:
        searched(lambda: _Counter(most), **limits)
    return str(found.value)


def test_the_first_failure_is_a_shortest_one() -> None:
    assert _failure(most=3).splitlines() == ["Step 3, up: 3 in a row.", "The run:", "  1 up", "  2 up", "  3 up"]


def test_a_random_walk_that_fails_is_shortened() -> None:
    found = _failure(most=4, runs=1, walks=200, length=30)
    assert found.splitlines()[2:] == ["  1 up", "  2 up", "  3 up", "  4 up"]


def test_a_sound_part_is_told_what_was_tried() -> None:
    assert searched(lambda: _Counter(99), runs=7, walks=2, length=5) == (
        "all 7 shortest runs of up to 2 steps, and 2 random ones of up to 5"
    )


def test_a_grader_adds_orders_that_students_do_not_know() -> None:
    assert orders(3) == [0, 1, 2]
    use_seed(7)
    one = orders(3)
    use_seed(8)
    assert one[:3] == orders(3)[:3] == [0, 1, 2]
    assert len(one) == 6
    assert one != orders(3)
