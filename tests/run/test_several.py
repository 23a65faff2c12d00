"""What is read from a run that has several of everything: each is of its own checkpoint, task, epoch and channel."""

from __future__ import annotations

from tests.run.several import STORED, written


def test_each_figure_is_of_its_own_of_several() -> None:
    stored, found = STORED.read_text(encoding="utf-8").split("\n\n"), written().split("\n\n")
    for part, expected in zip(found, stored, strict=True):
        assert part.splitlines() == expected.splitlines(), "if it is meant to differ: python -m tests.run.several"
