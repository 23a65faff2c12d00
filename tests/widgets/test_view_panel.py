"""The explorer's views as Python sees them: typed input reaches only the view that uses it."""

from __future__ import annotations

from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from widgets import Explorer
from widgets.panels.panels import ViewPanel


def test_a_key_that_is_typed_in_is_followed_through_a_restore() -> None:
    lab = Lab(ready_job("keyed-sum", interval_ms=20, rows=60, restart=3), seed=1)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run_until(checkpoint=2)
    (panel,) = [each for each in Explorer(lab).panels if isinstance(each, ViewPanel)]
    panel.choice.value = "Redistribution"
    panel.update()
    assert panel.field.widget.layout.display != "none"
    assert panel.asked.description == "where is key"
    panel.asked.value = "UA"
    assert "Key &#x27;UA&#x27; of sums is in key group" in panel.shown.value
    panel.choice.value = "Snapshot"
    assert panel.field.widget.layout.display == "none"
    assert "UA" not in panel.shown.value
