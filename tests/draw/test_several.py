"""Pictures of two runs that have several of everything: each is of its own checkpoint, task, epoch and channel."""

from __future__ import annotations

from tests.draw.several import STORED, written


def test_each_picture_is_of_its_own_of_several() -> None:
    stored, found = STORED.read_text(encoding="utf-8").split("\n\n"), written().split("\n\n")
    for picture, expected in zip(found, stored, strict=True):
        assert picture.splitlines() == expected.splitlines()
