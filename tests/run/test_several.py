"""What is read from two runs with several of everything: each is of its own checkpoint, task, epoch and channel."""

from __future__ import annotations

from tests.run.several import STORED, parts
from tests.stored_parts import compare


def test_each_figure_is_of_its_own_of_several() -> None:
    compare(STORED, parts())
