"""The numbers of states and steps of explorations with every kind of fault."""

from __future__ import annotations

from tests.stored_parts import compare
from tests.verify.explore.several import STORED, parts


def test_explorations_have_as_many_states_and_steps_as_before() -> None:
    compare(STORED, parts())
