"""The explorer's panel that plans a rescale."""

from __future__ import annotations

from kit.hosts.lab import Lab, ready_job
from widgets import Explorer


def test_the_keys_are_those_at_the_cursor() -> None:
    lab = Lab(ready_job("keyed-sum", rows=12))
    explorer = Explorer(lab)
    panel = explorer.turn_to("Rescale").plan
    assert panel.planner is None
    assert panel.note.value
    lab.run_until(lambda lab: len(lab.output()) == 0 and lab.look.at_ms > 60)
    explorer.stepper.refresh()
    panel.again.click()
    assert panel.planner is not None, panel.note.value
    assert panel.planner.plan.keys == 4, "a, b, c and d"
    panel.planner.parallelism.value = 3
    panel.update()
    assert panel.planner.plan.parallelism == 3, "what was chosen stays"
    explorer.close()


def test_a_recorded_run_says_that_it_has_no_keys() -> None:
    lab = Lab(ready_job("keyed-sum", rows=4))
    lab.run()
    explorer = Explorer(lab.trace)
    panel = explorer.turn_to("Rescale").plan
    assert "takes keys" in panel.note.value
    explorer.close()
