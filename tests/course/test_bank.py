"""The bank of the course: an audit of a checkpoint finds what a restore would create or destroy."""

from __future__ import annotations

import pytest

from kit import Lab
from kit.course.bank import audit, balances
from kit.hosts.lab import open_scenario, ready_job
from kit.hosts.lab.jobs.story_jobs import OPENING_BALANCE

ACCOUNTS = 4


def money(lab: Lab) -> int:
    return int(balances(lab.output("book"))["all accounts"])


@pytest.mark.parametrize("unaligned", [False, True])
def test_every_checkpoint_accounts_for_every_posting_once(unaligned: bool) -> None:
    lab = Lab(ready_job("transfers", rows=80, interval_ms=20, max_retained=9, unaligned=unaligned), seed=3)
    flying = 0
    for number in range(1, 4):
        lab.run_until(checkpoint=number)
        found = audit(lab, number)
        flying += found.in_flight
        assert found.holds, str(found)
        assert found.read == found.counted + found.in_flight > 0
    assert bool(flying) is unaligned
    lab.run()
    assert money(lab) == ACCOUNTS * OPENING_BALANCE


def test_a_posting_that_counts_twice_changes_the_money() -> None:
    scenario = open_scenario("money-lost")
    scenario.next()
    scenario.next()
    found = audit(scenario.lab, 1)
    assert not found.holds
    assert found.difference > 0
    assert "counted" in str(found)
    assert "is wrong" in str(found)
    scenario.run()
    assert money(scenario.lab) - ACCOUNTS * OPENING_BALANCE == found.created != 0


def test_alignment_keeps_the_money() -> None:
    scenario = open_scenario("money-kept")
    scenario.next()
    scenario.next()
    assert audit(scenario.lab, 1).holds
    assert money(scenario.run().lab) == ACCOUNTS * OPENING_BALANCE


def test_what_is_in_flight_is_lost_without_its_data() -> None:
    scenario = open_scenario("money-in-flight")
    scenario.next()
    found = audit(scenario.lab, 1)
    assert found.holds
    assert found.in_flight > 0
    assert found.euros_in_flight != 0
    assert money(scenario.run().lab) == ACCOUNTS * OPENING_BALANCE - found.euros_in_flight


def test_the_audit_of_another_job_names_what_is_missing() -> None:
    lab = Lab(ready_job("keyed-sum"))
    lab.run_until(at_ms=40)
    lab.trigger_checkpoint(wait=True)
    with pytest.raises(KeyError, match="east and west"):
        audit(lab)
