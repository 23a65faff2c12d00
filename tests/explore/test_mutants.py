"""Planted faults are found by exploring a small job, and shown: the lab comes to the same state."""

from __future__ import annotations

import pytest

from kit.explore import exactly_once, expected_output, explore
from tests.explore.jobs import counts
from tests.mutants.planting import planted
from tests.mutants.table import MUTANTS

JOB = {"rows": 2, "sources": 2}
BREAKS = "no machine breaks"


@pytest.mark.parametrize(
    ("mutant", "violated", "most_steps"),
    [
        ("last-ack-not-awaited", BREAKS, 30),
        ("notify-before-storing", "what is published is covered by a completed checkpoint", 60),
        ("leaves-before-publishing", "no row is lost", 70),
    ],
)
def test_a_planted_fault_is_found(mutant: str, violated: str, most_steps: int) -> None:
    env = counts(**JOB)
    wanted = exactly_once(expected_output(env))
    with planted(MUTANTS[mutant]):
        found = explore(env, wanted, faults=0, checkpoints=1)
        example = found.counterexample
        assert example is not None
        assert example.property.startswith(violated)
        assert len(example) <= most_steps
        if violated == BREAKS:
            with pytest.raises(AssertionError):
                example.lab().validate()
        else:
            assert not example.holds_in(example.lab())
