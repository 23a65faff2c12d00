"""The monitor of a job with several checkpoints, workers, vertices and requests. The lab takes the place of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from kit.hosts.lab import Lab, ready_job
from widgets.pictures.monitor import NEWEST, Monitor


class Watched:
    """A lab with what a monitor asks of a SparkJob, and a note of each request."""

    def __init__(self) -> None:
        self.lab = Lab(ready_job("keyed-sum", rows=200), seed=1)
        self.lab.run_until(record="AllTasksRunning")
        for _ in range(2):
            self.lab.trigger_checkpoint()
            self.lab.run_until(checkpoint=self.lab.look.master.checkpoints.store.latest_id + 1)
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[int, Any] = {}
        meters = pd.DataFrame(columns=["task", "records_in_per_s", "records_out_per_s", *SHARES, "late_rows_dropped"])
        self.meters, self.metrics, self.statistics = lambda: meters, lambda: None, self.lab.statistics
        self.look = SimpleNamespace(
            summary=lambda: SUMMARY,
            stages=self.lab.look.stages,
            workers=lambda: {1: 4711, 0: 4710},
            answer=self._answer,
        )
        self.job = SimpleNamespace(
            name="sums", vertices=[SimpleNamespace(name=name, parallelism=n, input_vertices=()) for name, n in WIDTHS]
        )
        self.faults = SimpleNamespace(kill=lambda slot: self.asked.append(("kill", slot)) or 4710 + slot)
        self.status, self.ended, self.error, self.trace = "RUNNING", False, "", self.lab.trace

    def _answer(self, number: int) -> Any:
        answer = self.answers.get(number)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def trigger_checkpoint(self, *, wait: bool) -> int:
        return self._ask("checkpoint", wait)

    def savepoint(self, target: str | None, *, wait: bool) -> int:
        return self._ask("savepoint", target, wait)

    def stop(self, target: str | None, *, drain: bool, wait: bool) -> int:
        return self._ask("stop", target, drain, wait)

    def _ask(self, *what: Any) -> int:
        self.asked.append(what)
        return len(self.asked)


WIDTHS = (("rows", 2), ("sums", 4), ("out", 1))
SHARES = ("busy_ms_per_s", "backpressured_ms_per_s", "idle_ms_per_s")
SUMMARY = {"name": "sums", "status": "RUNNING", "epoch": 1, "restarts": 0, "checkpoint": 2}


@pytest.fixture
def job() -> Watched:
    return Watched()


@pytest.fixture
def monitor(job: Watched) -> Iterator[Monitor]:
    shown = Monitor(job)
    yield shown
    shown.close()


def said(monitor: Monitor) -> str:
    return str(monitor._said.value)


def test_the_menus_have_all_checkpoints_and_workers(monitor: Monitor, job: Watched) -> None:
    assert dict(monitor._which.options) == {NEWEST: NEWEST, "checkpoint 2": 2, "checkpoint 1": 1}
    assert dict(monitor._worker.options) == {"slot 0, process 4710": 0, "slot 1, process 4711": 1}
    assert monitor._worker.value == 0
    assert monitor._parallelism.value == 4, "that of the widest vertex"
    assert "Checkpoint 2 by subtask" in monitor._shown.value
    monitor._which.value = 1
    assert "Checkpoint 1 by subtask" in monitor._shown.value
    monitor._worker.value = 1
    monitor.refresh()
    assert (monitor._which.value, monitor._worker.value) == (1, 1), "what was chosen stays"


def test_each_button_makes_its_own_request(monitor: Monitor, job: Watched) -> None:
    monitor._target.value = " /there "
    monitor._drain.value = True
    monitor._worker.value = 1
    for name in ("Checkpoint", "Savepoint", "Stop", "Kill worker"):
        monitor._buttons[name].click()
    assert job.asked == [
        ("checkpoint", False),
        ("savepoint", "/there", False),
        ("stop", "/there", True, False),
        ("kill", 1),
    ]
    assert "process 4711 was killed" in said(monitor)


def test_each_of_several_requests_is_answered_in_its_time(monitor: Monitor, job: Watched) -> None:
    for name in ("Checkpoint", "Savepoint", "Stop"):
        monitor._buttons[name].click()
    monitor.refresh()
    assert "stop with savepoint: asked" in said(monitor)
    job.answers = {1: RuntimeError("expired"), 3: "/stopped"}
    monitor.refresh()
    assert "stop with savepoint: /stopped" in said(monitor)
    job.answers[2] = "/saved"
    monitor.refresh()
    assert "savepoint: /saved" in said(monitor)
    assert "checkpoint: asked" not in said(monitor)
    monitor._buttons["Checkpoint"].click()
    job.answers[4] = RuntimeError("declined")
    monitor.refresh()
    assert "checkpoint: declined" in said(monitor)


def test_of_several_jobs_the_chosen_one_is_watched(job: Watched) -> None:
    other, third = Watched(), Watched()
    heard: list[Any] = []
    monitor = Monitor(job, other)
    monitor.on_job(heard.append)
    assert monitor.job is job
    monitor.watch(third)
    assert monitor.job is third
    monitor._buttons["Checkpoint"].click()
    assert (job.asked, other.asked, third.asked) == ([], [], [("checkpoint", False)])
    assert heard == [third]
    third.ended, third.status = True, "FINISHED"
    monitor.refresh()
    assert {button.disabled for button in monitor._buttons.values()} == {True}
    assert monitor._buttons["Stop"].tooltip == "the job is finished"
    monitor.watch(other)
    assert {button.disabled for button in monitor._buttons.values()} == {False}
    monitor.close()
