"""Every command about several checkpoints with several of everything prints what belongs to each."""

from __future__ import annotations

from tests.cli.several import STORED, parts
from tests.stored_parts import compare


def test_each_line_is_of_its_own_of_several() -> None:
    compare(STORED, parts())
