"""Going back to an older snapshot neither repeats rows nor loses any in silence, however often and in which form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kit import Lab
from kit.hosts.lab.errors import LabError
from kit.hosts.spark.job import SparkJob
from tests.hosts.lab.jobs import output_of_failed
from tests.hosts.spark.jobs import ThreadGang
from tests.stories.rollbacks import ALL, Chain, InLab, OnSlots, environment

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


@pytest.mark.parametrize(("host", "chains"), [(InLab, 8), (OnSlots, 3)])
def test_each_row_comes_once_or_the_restore_is_refused(
    host: type[InLab | OnSlots], chains: int, tmp_path: Path
) -> None:
    found = outcomes(host, tmp_path, EXACT, range(chains), 10)
    if host is InLab:  # real jobs take no checkpoint at a certain row
        assert set(found) == {"again", "missing", "discard", "went on"}


@pytest.mark.parametrize(("host", "chains"), [(InLab, 4), (OnSlots, 1)])
def test_no_row_is_missing_after_others_were_kept(host: type[InLab | OnSlots], chains: int, tmp_path: Path) -> None:
    found = outcomes(host, tmp_path, WITH_COPIES, range(chains), 10)
    if host is InLab:
        assert {"refused", "keep", "discard"} <= set(found)


RECOVERED_AFTER = {"discard": "they would be missing", "keep": "their rows would come again"}


@pytest.mark.parametrize("policy", RECOVERED_AFTER)
def test_a_driver_that_recovers_finds_that_another_run_went_on_from_an_older_snapshot(policy: str) -> None:
    durable, other = (
        environment("/out", "/checkpoints", parallelism=2, durable=durable, mode="append") for durable in (True, False)
    )
    first = Lab(durable)
    first.run_until(checkpoint=1)
    savepoint = first.savepoint(wait=True)
    covered = len(first.output("out"))
    first.run_until(lambda lab: len(lab.output("out")) > covered + 12)
    second = Lab(other, restore_path=savepoint, later_output=policy, after=first)
    second.run()
    before = Counter(second.output("out")["n"])
    again = Lab(durable, recover=True, after=second)
    with pytest.raises(LabError, match=RECOVERED_AFTER[policy]):
        again.run()
    assert Counter(output_of_failed(again, "out")["n"]) == before


@pytest.mark.parametrize("policy", ["discard", "keep"])
def test_the_lab_repeats_a_run_that_resumed_from_an_older_snapshot(policy: str, tmp_path: Path) -> None:
    host = OnSlots(tmp_path)
    env = environment(host.out, host.checkpoints, parallelism=2, durable=False, rows_per_second=100)
    with SparkJob(env, launch=ThreadGang) as job:
        savepoint = job.start().wait_until_running(timeout_s=60).savepoint(tmp_path / "savepoints")
        assert job.wait(timeout_s=60) == "FINISHED"
    with SparkJob(env, launch=ThreadGang, restore_path=savepoint, later_output=policy, record=True) as job:
        assert job.start().wait(timeout_s=60) == "FINISHED"
    owed = ALL - host.rows_of(savepoint)
    assert host.output() == Counter(ALL) + Counter(owed if policy == "keep" else ())
    lab = Lab.follow(env, job.trace)
    assert lab.status == "FINISHED"
    assert owed <= set(lab.output("out")["n"])


@pytest.mark.soak
@pytest.mark.parametrize("policies", [EXACT, WITH_COPIES], ids=["exact", "with copies"])
@pytest.mark.parametrize(("host", "chains"), [(InLab, 300), (OnSlots, 60)])
def test_in_many_chains(host: type[InLab | OnSlots], chains: int, policies: tuple[str, ...], tmp_path: Path) -> None:
    outcomes(host, tmp_path, policies, range(1_000, 1_000 + chains), 15)
