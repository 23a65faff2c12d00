"""What a stranger asks first, as the app's public state answers it, a click or two from the first look."""

from __future__ import annotations

import pytest

from kit.lab import Lab
from kit.lab.ready_jobs import ready_job
from widgets import Explorer
from widgets.compare_panel import RUNS


@pytest.fixture(scope="module")
def app() -> Explorer:
    lab = Lab(ready_job("keyed-sum", interval_ms=20, rows=120), seed=1)
    lab.run_until(checkpoint=3)
    return Explorer(lab)


def look(app: Explorer, view: str, picked: str = "") -> str:
    """What a view shows once a thing was clicked on the stage."""
    app.stepper.picked = picked
    panel = app.turn_to("Look closer")
    panel.choice.value = view
    panel.update()
    return str(panel.shown.value)


@pytest.mark.parametrize("view", ["Snapshot", "Phases", "Life of a checkpoint"])
def test_a_view_is_of_the_checkpoint_that_was_clicked(app: Explorer, view: str) -> None:
    """Which record is in checkpoint 2, and who made it slow: not only of the newest."""
    assert "heckpoint 3" in look(app, view)
    clicked = look(app, view, "checkpoint:2")
    assert "heckpoint 2" in clicked
    assert "heckpoint 3" not in clicked.partition("<details")[0].partition("</h3>")[0]


def test_a_checkpoint_that_was_clicked_says_first_why_it_took_so_long(app: Explorer) -> None:
    app.stepper.picked = "checkpoint:2"
    assert app.stepper.told["html"].index("Why did checkpoint 2 take") < 80


def test_what_a_death_would_undo_is_one_view(app: Explorer) -> None:
    assert "If a worker died now, the job would go back to checkpoint 3" in look(app, "At risk")


def test_two_runs_are_what_is_compared(app: Explorer) -> None:
    panel = app.turn_to("Compare")
    assert panel.what.value != RUNS
    app.fork()
    panel.update()
    assert panel.what.value == RUNS
