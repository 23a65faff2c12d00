"""The charts of a run over time show its numbers."""

from __future__ import annotations

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from kit.draw import over_time
from kit.draw.assets import light_colours
from kit.draw.charts.over_time import INKS, OverTimeChart
from kit.hosts.lab import Lab
from tests.hosts.spark.saved_run import saved
from tests.several_run import job, moments


@pytest.fixture(scope="module")
def chart() -> OverTimeChart:
    """The run with several of everything, at its end."""
    *_, (_, lab, _) = moments()
    return over_time(lab)


def bars(axes: object) -> list[Rectangle]:
    return [bar for container in axes.containers for bar in container]  # type: ignore[attr-defined]


def test_each_checkpoint_is_as_high_as_it_took_in_the_colour_of_its_end(chart: OverTimeChart) -> None:
    duration, skew, size, backlog = chart.figure.axes
    table = chart.to_pandas()
    drawn = [(bar.get_x(), bar.get_height()) for bar in bars(duration)]
    assert drawn == list(zip(table["triggered_ms"], table["duration_ms"], strict=True))
    inks = [to_hex(bar.get_facecolor()) for bar in bars(duration)]
    assert inks == [light_colours()[INKS[status]] for status in table["status"]]
    assert len(set(inks)) == 2
    assert [bar.get_height() for bar in bars(size)] == table["size_bytes"].dropna().tolist()
    medians, slowest = (line.get_ydata().tolist() for line in skew.lines)
    known = table.dropna(subset=["slowest_ms"])
    assert (medians, slowest) == (known["median_ms"].tolist(), known["slowest_ms"].tolist())
    assert backlog.lines[0].get_ydata().tolist() == chart.numbers.backlog["records"].tolist()


def test_interruptions_are_shaded_in_each_panel_and_measured_in_the_first(chart: OverTimeChart) -> None:
    numbers = {str(number) for number in chart.to_pandas()["checkpoint_id"]}
    for axes in chart.figure.axes:
        drawn = {id(bar) for bar in bars(axes)}
        shades = [each for each in axes.patches if isinstance(each, Rectangle) and id(each) not in drawn]
        spans = [(shade.get_x(), shade.get_x() + shade.get_width()) for shade in shades]
        told = chart.numbers.recoveries
        assert spans == list(zip(told["stopped_ms"], told["running_ms"], strict=True))
    texts = [text.get_text() for text in chart.figure.axes[0].texts]
    assert [text for text in texts if text not in numbers] == ["52 ms", "74 ms", "71 ms"]
    assert numbers <= set(texts)


def test_what_is_not_over_reaches_to_the_end() -> None:
    lab = Lab(job(interval_ms=None), seed=1)
    lab.run_until(record="AllTasksRunning")
    for number in (1, 2):
        lab.trigger_checkpoint()
        lab.run_until(checkpoint=number)
    lab.trigger_checkpoint()
    lab.run_until(record="BarrierAligned")
    pending = bars(over_time(lab).figure.axes[0])
    assert [bool(bar.get_hatch()) for bar in pending] == [False, False, True]
    assert pending[-1].get_x() + pending[-1].get_height() == lab.trace[-1].at_ms
    lab.faults.kill(0)
    lab.run_until(lambda lab: lab.moment().job == "RESTARTING")
    assert "not over" in [text.get_text() for text in over_time(lab).figure.axes[0].texts]


def test_a_job_on_spark_has_no_panel_for_the_backlog() -> None:
    chart = over_time(saved())
    titles = [axes.get_title(loc="left").partition(":")[0] for axes in chart.figure.axes]
    assert titles == ["Duration", "Skew", "Size"]
    assert repr(chart).startswith("Chart('6 checkpoints over 2,740 ms: 5 completed, 1 aborted; 1 interruption'")
