"""Every command about several checkpoints with several of everything prints what belongs to each."""

from __future__ import annotations

from tests.cli.several import STORED, written


def test_each_line_is_of_its_own_of_several() -> None:
    stored, found = STORED.read_text(encoding="utf-8").split("\n\n"), written().split("\n\n")
    for part, expected in zip(found, stored, strict=True):
        assert part.splitlines() == expected.splitlines(), "if it is meant to differ: python -m tests.cli.several"
