"""Answers about a run that has several of everything: each is about its own checkpoint, task, epoch and request."""

from __future__ import annotations

from tests.why.several import STORED, written


def test_each_answer_is_about_its_own_of_several() -> None:
    stored, found = STORED.read_text(encoding="utf-8").split("\n\n"), written().split("\n\n")
    assert [each.partition("\n")[0] for each in found] == [each.partition("\n")[0] for each in stored]
    for answer, expected in zip(found, stored, strict=True):
        assert answer.splitlines() == expected.splitlines()
