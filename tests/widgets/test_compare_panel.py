"""The explorer's panel that compares."""

from __future__ import annotations

from typing import Any

from kit.hosts.lab import Lab, ready_job
from widgets import Explorer
from widgets.panels.compare_panel import MODES, RUNS


def _panel(lab: Lab) -> tuple[Explorer, Any]:
    explorer = Explorer(lab)
    return explorer, explorer.turn_to("Compare")


def test_the_job_is_run_under_each_mode() -> None:
    lab = Lab(ready_job("two-sources", rows=16, interval_ms=60))
    explorer, panel = _panel(lab)
    panel.go.click()
    assert explorer.error == ""
    assert all(name in panel.shown.value for name in ("at least once", "aligned, 40 ms timeout", "unaligned"))
    assert "compare_modes(env, busy_ms={&#x27;sums&#x27;: 12" in panel.code.value
    assert lab.position == 1, "the explorer's own run stays as it is"
    explorer.close()


def test_a_job_without_checkpoints_of_its_own_is_not_compared_in_silence() -> None:
    explorer, panel = _panel(Lab(ready_job("keyed-sum")))
    panel.fail_after.value = 0
    panel.go.click()
    assert "takes no checkpoints by itself" in panel.note.value
    assert "fail_after=None" in panel.code.value
    explorer.close()


def test_forks_are_compared_once_there_are_two() -> None:
    lab = Lab(ready_job("keyed-sum", rows=8))
    lab.run_until(at_ms=20)
    explorer, panel = _panel(lab)
    panel.what.value = RUNS
    assert panel.go.disabled
    assert "fork it" in panel.note.value
    explorer.fork()
    panel.update()
    assert not panel.go.disabled
    panel.go.click()
    assert explorer.explored.name in panel.shown.value
    explorer.close()


def test_a_picture_goes_with_the_question_it_answers() -> None:
    lab = Lab(ready_job("keyed-sum", rows=8))
    lab.run_until(at_ms=20)
    explorer, panel = _panel(lab)
    panel.go.click()
    shown = panel.shown.value
    assert shown
    panel.update()
    explorer.step()
    panel.update()
    assert panel.shown.value == shown, "nothing that it is of has changed"
    panel.what.value = RUNS
    assert panel.shown.value == panel.code.value == ""
    explorer.fork()
    panel.update()
    panel.go.click()
    assert panel.shown.value
    explorer.step()
    panel.update()
    assert panel.shown.value == "", "a run has gone on"
    panel.what.value = MODES
    panel.go.click()
    panel.fail_after.value = 1
    assert panel.shown.value == "", "it was of a failure after another checkpoint"
    explorer.close()
