"""The monitor of a job with several checkpoints, workers, vertices and requests. The lab takes the place of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from kit.hosts.lab import Lab, ready_job
from kit.run.durations import duration
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


def test_with_no_job_given_the_newest_that_runs_is_watched_for_as_long_as_it_does(
    job: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, third = Watched(), Watched()
    there = [job, other]
    monkeypatch.setattr("kit.hosts.spark.running", lambda: list(there))
    monitor, beside = Monitor(), Monitor(job, others=True)
    assert (monitor.job, beside.job) == (other, job)
    there.append(third)
    monitor.refresh()
    assert monitor.job is other, "a job that begins later does not take its place"
    there.remove(other)
    for each in (monitor, beside):
        each.refresh()
    assert (monitor.job, beside.job) == (third, job)
    monitor._buttons["Checkpoint"].click()
    assert (job.asked, other.asked, third.asked) == ([], [], [("checkpoint", False)])
    for each in (monitor, beside):
        each.close()


# --- what the numbers mean --------------------------------------------------------------------------------------------


def shown(monitor: Monitor) -> str:
    """Return the part of the page with the job's numbers, without its style rules."""
    *_, numbers = monitor.children
    return re.sub("<style>.*?</style>", "", numbers.value, flags=re.DOTALL)


@pytest.mark.parametrize("checkpoint", [1, 2])
def test_the_axis_of_the_phases_is_in_time_since_the_trigger(monitor: Monitor, job: Watched, checkpoint: int) -> None:
    _, menu = monitor.children[0].children
    menu.value = checkpoint
    lengths = job.statistics.subtasks(checkpoint).set_index("task")["end_to_end_ms"]
    assert lengths.nunique() > 1
    _, _, phases = shown(monitor).partition(f"<h4>Checkpoint {checkpoint} by subtask</h4>")
    marks = [(float(at), text) for at, text in re.findall(r'<i style="left:([\d.]+)%"><span>(.*?)</span></i>', phases)]
    assert marks == [(25.0 * n, duration(round(n * lengths.max() / 4))) for n in range(5)]
    assert marks[0][1] == "0 ms"
    rows = re.findall(r'<bdi dir="ltr">(.*?)</bdi>.*?<span class="ph-note ">(.*?)</span></div>', phases)
    assert rows == [(task, duration(length)) for task, length in lengths.items()]
    ends = [re.findall(r"left:([\d.]+)%;width:([\d.]+)%", row)[-1] for row in phases.split('class="ph-name"')[1:]]
    drawn = [float(left) + float(width) for left, width in ends]
    assert drawn == pytest.approx([100 * length / lengths.max() for length in lengths], abs=0.02)


def test_each_number_of_a_job_has_its_name_and_unit(monitor: Monitor, job: Watched) -> None:
    rows = [
        ("rows/0", 1_200.0, 300.0, 700.0, 200.0, 100.0, 0, 1_500.0, 0, 0),
        ("rows/1", 800.0, 200.0, 500.0, 300.0, 200.0, 2, 61_500.0, 0, 0),
        ("sums/0", 450.0, 45.0, 250.0, 0.0, 750.0, 1, None, 7, 900),
        ("sums/1", 50.0, 5.0, 1_000.0, 0.0, 0.0, 0, None, 5, 1_100),
    ]
    counts = ("late_rows_dropped", "behind_ms", "state_entries", "state_bytes")
    meters = pd.DataFrame(rows, columns=["task", "records_in_per_s", "records_out_per_s", *SHARES, *counts])
    job.meters = lambda: meters.assign(sample="")
    monitor.refresh()
    page = shown(monitor)
    assert "2,000 records/s read" in page, "the sum of the sources"
    boxes = dict(re.findall('<section aria-label="(.*?)">(.*?)</section>', page))
    assert "<p>2,000 in/s<br>500 out/s</p>" in boxes["rows"]
    assert "event time 1 min 1.5 s behind" in boxes["rows"], "the largest of both"
    assert "<p>500 in/s<br>50 out/s</p>" in boxes["sums"]
    assert "12 entries of state, 2,000 B in the last checkpoint" in boxes["sums"]
    assert re.findall('role="img" aria-label="(.*?)"', "".join(boxes.values())) == [
        "rows/0: 70 % busy, 20 % back-pressured, 10 % idle",
        "rows/1: 50 % busy, 30 % back-pressured, 20 % idle",
        "sums/0: 25 % busy, 0 % back-pressured, 75 % idle",
        "sums/1: 100 % busy, 0 % back-pressured, 0 % idle",
    ]
    legend = re.search('<p class="legend">(.*?)</p>', page)
    assert legend is not None
    signs = re.findall('<i class="(.*?)"></i>(.*?)</span>', legend[1])
    assert legend[1].startswith("time of a task: ")
    assert signs == [("busy", "busy"), ("backpressured", "back-pressured"), ("idle", "idle")]


def test_each_column_of_the_checkpoints_has_its_name_and_unit(monitor: Monitor, job: Watched) -> None:
    history = job.statistics.history.set_index("id")
    page = shown(monitor)
    heads = re.findall("<th(?: [^>]*)?>(.*?)</th>", page)
    assert heads == ["checkpoint", "", "acknowledged", "took", "stored", "in flight"]
    table = [re.findall("<td.*?>(.*?)</td>", row)[2:] for row in re.findall("<tr.*?>(.*?)</tr>", page)[1:]]
    assert table == [
        [
            f"{row['acknowledged']} of {row['subtasks']}",
            duration(row["duration_ms"]),
            f"{row['checkpointed_bytes']:,} B",
            f"{row['persisted_bytes']:,} B",
        ]
        for _, row in history.iterrows()
    ]
    assert history["duration_ms"].nunique() > 1
