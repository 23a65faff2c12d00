"""The time that a thread takes, without its waits for a processor: the clock and Linux' figures are the test's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.hosts.spark.slot import running_time
from kit.hosts.spark.slot.running_time import RunningTime


def test_waits_for_a_processor_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = tmp_path / "schedstat"
    figures.write_text("500000000 2000000000 7\n")
    stopwatch = RunningTime(str(figures))
    monkeypatch.setattr(running_time.time, "perf_counter", lambda: 100.0)
    began_s = stopwatch()
    monkeypatch.setattr(running_time.time, "perf_counter", lambda: 103.0)
    figures.write_text("900000000 4500000000 9\n")
    assert stopwatch() - began_s == pytest.approx(3.0 - 2.5)
    stopwatch.close()
    assert stopwatch() == 103.0
    assert repr(stopwatch) == "RunningTime(by the clock)"


def test_without_such_figures_the_clock_alone_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_time.time, "perf_counter", lambda: 100.0)
    stopwatch = RunningTime(str(tmp_path / "missing"))
    assert stopwatch() == 100.0
    stopwatch.close()
