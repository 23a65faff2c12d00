"""Going back to an older snapshot neither repeats rows nor loses any in silence, however often and in which form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.stories.rollbacks import Chain, InLab, OnSlots

EXACT, WITH_COPIES = ("error", "error", "discard"), ("error", "discard", "keep")


def outcomes(
    host: type[InLab | OnSlots], directory: Path, policies: tuple[str, ...], chains: range, runs: int
) -> Counter[str]:
    """Run chains, and give how their restores ended."""
    found: Counter[str] = Counter()
    for seed in chains:
        (directory / str(seed)).mkdir()
        chain = Chain(host(directory / str(seed)), seed, policies)
        chain.run(runs)
        found += chain.outcomes
    return found


@pytest.mark.parametrize(("host", "chains"), [(InLab, 12), (OnSlots, 3)])
def test_each_row_comes_once_or_the_restore_is_refused(
    host: type[InLab | OnSlots], chains: int, tmp_path: Path
) -> None:
    found = outcomes(host, tmp_path, EXACT, range(chains), 10)
    assert {"again", "missing", "discard"} <= set(found) <= {"again", "missing", "discard", "went on"}


@pytest.mark.parametrize(("host", "chains"), [(InLab, 6), (OnSlots, 1)])
def test_no_row_is_missing_after_others_were_kept(host: type[InLab | OnSlots], chains: int, tmp_path: Path) -> None:
    assert {"refused", "keep", "discard"} <= set(outcomes(host, tmp_path, WITH_COPIES, range(chains), 10))


@pytest.mark.soak
@pytest.mark.parametrize("policies", [EXACT, WITH_COPIES], ids=["exact", "with copies"])
@pytest.mark.parametrize(("host", "chains"), [(InLab, 300), (OnSlots, 60)])
def test_in_many_chains(host: type[InLab | OnSlots], chains: int, policies: tuple[str, ...], tmp_path: Path) -> None:
    outcomes(host, tmp_path, policies, range(1_000, 1_000 + chains), 15)
