"""The page of the demonstration opens where a worker is killed."""

from __future__ import annotations

from examples.flights.report import at_the_kill
from kit.draw.stage.film import film
from kit.hosts.lab import Lab, ready_job


def test_the_page_opens_at_the_kill() -> None:
    lab = Lab(ready_job("flights", rows=20, restart=3), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint()
    lab.run_until(checkpoint=1)
    assert at_the_kill(lab.trace) == 0
    lab.faults.kill(1)
    lab.run_until(ended=True)
    n = at_the_kill(lab.trace)
    (frame,) = [each for each in film(lab)["frames"] if each["n"] == n]
    assert frame["mark"] == "failure"
