"""Links: a run of a ready job as a short text, and the same run from it."""

from __future__ import annotations

import pytest

import kit
from kit.hosts.lab import Lab, LabError, link_of, open_link, ready_job

JOB = "flights, rows=30, restart=3"


def eventful() -> Lab:
    """A run with choices of its own, a fault of a worker, a late message, requests, and the scheduler's steps."""
    lab = Lab(ready_job("flights", rows=30, restart=3), seed=7)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint()
    lab.step(lab.enabled()[-1])
    lab.run_until(lambda lab: any(each.mail == "ack" for each in lab.look.moment().messages.values()))
    lab.faults.delay("AcknowledgeCheckpoint", by_ms=5)
    lab.run_until(checkpoint=1)
    lab.wait_until(lab.look.at_ms + 10)
    lab.faults.kill(1)
    lab.savepoint()
    lab.run_until(ended=True)
    return lab


def test_a_link_of_a_few_hundred_characters_makes_the_same_run() -> None:
    lab = eventful()
    link = link_of(lab, JOB)
    assert len(link) < 500
    again = open_link(f"https://example.org/course#{link}")
    assert again.past.actions == lab.past.actions
    assert list(again.trace) == list(lab.trace)
    assert again.past.seed == 7


def test_a_link_has_the_savepoint_that_was_deleted() -> None:
    lab = Lab(ready_job("flights", rows=30), seed=7)
    lab.run_until(record="AllTasksRunning")
    path = lab.savepoint(wait=True)
    lab.dispose_savepoint(path)
    lab.run_until(ended=True)
    again = open_link(link_of(lab, "flights, rows=30"))
    assert again.past.actions == lab.past.actions
    assert list(again.trace) == list(lab.trace)


def test_the_explorer_gives_a_link_and_opens_one() -> None:
    explorer = kit.show("keyed-sum")
    explorer.controls.until.value = "all tasks are running"
    explorer.controls.go.click()
    explorer.controls.checkpoint.click()
    panel = explorer.turn_to("Save")
    panel.make_link.click()
    again = kit.show(panel.link.text)
    assert again.lab.past.actions == explorer.lab.past.actions
    again.step()
    assert open_link(again.branch.link).past.actions == again.lab.past.actions
    explorer.step()
    assert panel.link.text == "", "the link is that of another step"


def test_what_has_no_link_says_so() -> None:
    lab = eventful()
    with pytest.raises(LabError, match="takes another course"):
        link_of(lab, "flights, rows=29, restart=3")
    with pytest.raises(LabError, match="contains no run"):
        open_link("https://example.org/course")
    with pytest.raises(LabError, match="copy the whole link"):
        open_link(link_of(lab, JOB)[:-20])
    explorer = kit.show(ready_job("keyed-sum"))
    panel = explorer.turn_to("Save")
    panel.make_link.click()
    assert "started with a ready job" in explorer.told
