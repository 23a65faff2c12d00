"""The first questions of a stranger, answered by the app's public state, one or two clicks from the start."""

from __future__ import annotations

from typing import Any

import pytest

import kit
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from widgets import Explorer
from widgets.panels.compare_panel import RUNS


@pytest.fixture(scope="module")
def app() -> Explorer:
    lab = Lab(ready_job("keyed-sum", interval_ms=20, rows=120), seed=1)
    lab.run_until(checkpoint=3)
    return Explorer(lab)


def look(app: Explorer, view: str, selected: str = "") -> str:
    """Click on an item on the stage, and return what a view shows."""
    app.stepper.selected = selected
    panel = app.turn_to("Look closer")
    panel.choice.value = view
    panel.update()
    return str(panel.shown.value)


@pytest.mark.parametrize("view", ["Snapshot", "Phases", "Life of a checkpoint"])
def test_a_view_is_of_the_checkpoint_that_was_clicked(app: Explorer, view: str) -> None:
    """A view shows checkpoint 2 after a click on it, and not always the newest checkpoint."""
    assert "heckpoint 3" in look(app, view)
    clicked = look(app, view, "checkpoint:2")
    assert "heckpoint 2" in clicked
    assert "heckpoint 3" not in clicked.partition("<details")[0].partition("</h3>")[0]


def test_a_checkpoint_that_was_clicked_says_first_why_it_took_so_long(app: Explorer) -> None:
    app.stepper.selected = "checkpoint:2"
    assert app.stepper.item_details["html"].index("Why did checkpoint 2 take") < 80


def test_what_a_death_would_undo_is_one_view(app: Explorer) -> None:
    assert "If a worker died now, the job would go back to checkpoint 3" in look(app, "At risk")


def test_two_runs_are_what_is_compared(app: Explorer) -> None:
    panel = app.turn_to("Compare")
    assert panel.what.value != RUNS
    app.fork()
    panel.update()
    assert panel.what.value == RUNS


def lab_of(app: Explorer) -> Lab:
    """The lab that is shown."""
    assert app.lab is not None
    return app.lab


def widths(app: Explorer) -> set[int]:
    """Return the parallelisms of the run's vertices."""
    return {vertex.parallelism for vertex in lab_of(app).look.stages[-1].vertices}


def test_where_a_key_went_is_three_clicks_away() -> None:
    """Rescale…, Rescale, the key: the view says who held it before and who holds it now. It is the same run."""
    app = kit.show("flights")
    app.controls.rescale.click()
    assert app.tabs.get_title(app.tabs.selected_index) == "Rescale"
    app.panel("Rescale").rescale.click()
    assert app.error == ""
    assert len(app.explored_runs) == 1
    assert lab_of(app).look.master.epoch == 2
    assert widths(app) == {3}
    panel = app.panel("Look closer")
    assert app.panels[app.tabs.selected_index] is panel
    keys = {each.description: each for each in panel.field.buttons}
    keys["AA"].click()
    assert "it was with totals/1 and is with totals/2 now" in panel.shown.value
    keys["UA"].click()
    assert "totals/1 had it and has it still" in panel.shown.value
    finder = app.turn_to("Find a key")
    finder.update()
    assert "UA" in finder.key.options
    known: dict[str, Any] = {}
    exec(app.code, known)
    assert known["lab"].past.actions == lab_of(app).past.actions


def test_a_rescale_that_is_only_asked_for_is_stepped_through_by_vertex() -> None:
    env = ready_job("keyed-sum", rows=30)
    app = Explorer(Lab(env, seed=1))
    lab_of(app).run_until(record="AllTasksRunning")
    app.stepper.refresh()
    app.controls.rescale.click()
    panel = app.panel("Rescale")
    first, *others = panel.fields
    panel.fields[first].value = lab_of(app).job.vertex(first).parallelism
    panel.ask.click()
    assert app.error == ""
    assert lab_of(app).look.master.epoch == 1
    assert "Rescale: requested, not done yet" in app.controls.why_not.value
    app.controls.until.value = "all tasks are running"
    app.controls.go.click()
    assert [each.parallelism for each in lab_of(app).look.stages[-1].vertices] == [2, *(3 for _ in others)]
    known: dict[str, Any] = {"env": env}
    exec(app.code, known)
    assert known["lab"].past.actions == lab_of(app).past.actions
    panel.update()
    for name, field in panel.fields.items():
        field.value = {first: 2}.get(name, 3)
    panel.rescale.click()
    assert "that is the parallelism that the run has" in app.error


@pytest.mark.parametrize("later", [False, True])
def test_a_rescale_waits_for_the_next_checkpoint_if_the_user_says_so(later: bool) -> None:
    """The button is judged by what the lab did: without an interval no checkpoint comes unless one is taken for it."""
    app = Explorer(Lab(ready_job("keyed-sum", rows=300, interval_ms=60_000), seed=1))
    lab_of(app).run_until(record="AllTasksRunning")
    app.stepper.refresh()
    app.controls.rescale.click()
    panel = app.panel("Rescale")
    panel.later.value = later
    panel.ask.click()
    assert app.error == ""
    assert ("at_once=False" in app.code) == later
    lab = lab_of(app)
    for _ in range(150):
        lab.step()
    taken = lab.statistics.counts["triggered"][0]
    assert (int(taken), lab.look.master.epoch) == ((0, 1) if later else (1, 2))


def test_another_run_begins_with_a_snapshot_that_there_is() -> None:
    """Also when the job has ended: with the newest, as if the run had ended when that was complete."""
    env = ready_job("keyed-sum", interval_ms=30, rows=60)
    app = Explorer(Lab(env, seed=1))
    lab_of(app).run_until(checkpoint=1)
    lab_of(app).savepoint(wait=True)
    lab_of(app).run()
    app.stepper.refresh()
    app.controls.rescale.click()
    assert app.panel("Rescale").rescale.disabled
    assert "finished" in app.panel("Rescale").said.value
    app.panel("Rescale").another.click()
    begin = app.panel("Another run").begin
    assert [label.partition(",")[0] for label, _ in begin.options] == ["from scratch", "from savepoint 3"]
    app.panel("Another run").start.click()
    assert app.error == ""
    assert widths(app) == {3}
    assert "Checkpoint 3 was given to the tasks" in app.panel("Look closer").shown.value
    known: dict[str, Any] = {"env": env}
    exec(app.code, known)
    assert known["lab"].past.actions == lab_of(app).past.actions
    lab_of(app).run()
    assert len(lab_of(app).output()) == 60


def test_a_job_that_left_nothing_has_nothing_to_rescale() -> None:
    app = Explorer(Lab(ready_job("keyed-sum", rows=4)))
    lab_of(app).run()
    app.stepper.refresh()
    app.controls.rescale.click()
    app.panel("Rescale").another.click()
    assert "left no snapshot" in app.error
