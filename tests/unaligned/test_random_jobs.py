"""Random jobs, orders, failures and cancels: every mode keeps its promise, and nothing is left behind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.unaligned.random_jobs import STORIES, Story


def to_its_end(story: Story) -> None:
    driver = story.play()
    driver.held = lambda task: False
    if not driver.lab.ended:
        driver.run()
    driver.settle()
    driver.check_finished()


@given(STORIES)
@settings(max_examples=6)
def test_what_is_committed_is_what_was_promised(story: Story) -> None:
    to_its_end(story)


@given(STORIES)
@settings(max_examples=4)
def test_a_cancelled_job_leaves_what_it_is_to_leave(story: Story) -> None:
    driver = story.play()
    if driver.lab.ended or driver.lab.look.master._is_over:
        driver.run_until(lambda: driver.lab.ended)
        driver.settle()
        driver.check_nothing_left()
    else:
        driver.cancel()


@pytest.mark.soak
@given(STORIES)
def test_for_long(story: Story) -> None:
    to_its_end(story)
