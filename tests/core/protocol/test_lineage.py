"""The output that a snapshot accounts for, run by run."""

from __future__ import annotations

import pytest

from kit.core.protocol.lineage import CoveredOutput, RunOutput


def test_a_run_covers_no_less_than_before_wherever_it_stands() -> None:
    covered = CoveredOutput((RunOutput("first", 4),)).extended("second", 9).extended("third", 2)
    assert covered.extended("second", 7) == covered
    assert covered.extended("first", 6).runs == (RunOutput("first", 6), *covered.runs[1:])
    assert covered.extended("third", 3).runs == (*covered.runs[:2], RunOutput("third", 3))
    assert covered.first_run == "first"


def test_output_that_is_kept_is_told_apart_from_that_of_the_run() -> None:
    covered = CoveredOutput((RunOutput("first", 4),)).extended("first", 2, kept=True)
    assert covered.runs == (RunOutput("first", 4), RunOutput("first", 2, kept=True))
    assert CoveredOutput.decode(covered.encode()) == covered


@pytest.mark.parametrize("text", ["[]", "{}", "[[1, 2]]", '[["a", true]]', '[["a/b", 1]]', '[["a", 1, 2]]', '[["a"]]'])
def test_what_names_no_runs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"at least one RunOutput|not the name|a checkpoint id|names no runs"):
        CoveredOutput.decode(text)
