"""What a lab shows of a run with several of everything: each is of its own task, channel, checkpoint and epoch."""

from __future__ import annotations

from tests.hosts.lab.several import STORED, parts
from tests.stored_parts import compare


def test_each_table_is_of_its_own_of_several() -> None:
    compare(STORED, parts())
