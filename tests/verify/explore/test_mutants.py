"""Planted faults are found by exploring a small job, and reproduced: the lab reaches the same state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mutants.by_explore import look
from tests.mutants.finders import ByExplore
from tests.mutants.planting import Mutant, planted
from tests.mutants.table import MUTANTS

EXPLORED: dict[str, Any] = {name: mutant for name, mutant in MUTANTS.items() if isinstance(mutant.found_by, ByExplore)}
BREAKS = "no machine breaks"
MOST_STEPS = 60


@pytest.mark.parametrize("mutant", EXPLORED.values(), ids=EXPLORED)
def test_a_planted_fault_is_found_and_shown(mutant: Mutant) -> None:
    finder = mutant.found_by
    assert isinstance(finder, ByExplore)
    with planted(mutant):
        example = look(finder.job, finder.checkpoints, finder.fault).counterexample
        assert example is not None
        assert len(example) <= MOST_STEPS
        if example.property.startswith(BREAKS):
            with pytest.raises(AssertionError):
                example.lab().look.validate()
        else:
            assert not example.holds_in(example.lab())


def test_there_are_ten_of_them() -> None:
    assert len(EXPLORED) >= 10


LARGE = (ByExplore(job="collects", checkpoints=1, fault="kill"), ByExplore(job="overtakes", checkpoints=1, fault=""))
"""What is explored with another fault, or with other properties, in `make test` too."""


@pytest.mark.parametrize(
    "finder",
    [
        pytest.param(finder, id=repr(finder), marks=[pytest.mark.soak] if finder in LARGE else [])
        for finder in sorted({mutant.found_by for mutant in EXPLORED.values()}, key=repr)
    ],
)
def test_nothing_is_found_in_the_kit_as_it_is(finder: ByExplore) -> None:
    assert look(finder.job, finder.checkpoints, finder.fault).holds
