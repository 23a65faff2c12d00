"""The outline of a chart of measured times stays the same with other times, and changes with what the chart draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.draw import gantt, over_time
from kit.draw.picture import Chart
from kit.hosts.lab import Lab, ready_job
from kit.stream.settings.job_settings import FixedDelay
from tests.chart_outline import outline, without_times


def measured(seed: int) -> Lab:
    """Return a job with two checkpoints and two failures; its times depend on the seed."""
    lab = Lab(ready_job("keyed-sum", rows=200, restart=FixedDelay(attempts=2, delay_ms=10)), seed=seed)
    for number in (1, 2):
        lab.run_until(record="AllTasksRunning")
        lab.trigger_checkpoint()
        lab.run_until(checkpoint=number)
        lab.faults.kill(0)
    lab.run_until(record="AllTasksRunning")
    return lab


@pytest.fixture(scope="module")
def lab() -> Lab:
    return measured(1)


def test_the_outline_has_no_times(lab: Lab) -> None:
    other = measured(2)
    for draw in (gantt, over_time):
        once, again = draw(lab), draw(other)
        assert once.caption != again.caption
        assert outline(once._repr_svg_()) == outline(again._repr_svg_())
        assert outline(once._repr_html_()) == outline(again._repr_html_())


CHANGES: dict[str, tuple[Callable[[Lab], Chart], Callable[[Any], Any]]] = {
    "all bars": (gantt, lambda figure: [bar.remove() for bar in list(figure.axes[0].patches)]),
    "the first bar": (gantt, lambda figure: figure.axes[0].patches[0].remove()),
    "a bar in the middle": (gantt, lambda figure: figure.axes[0].patches[1].remove()),
    "the colour of a phase": (gantt, lambda figure: figure.axes[0].patches[0].set_facecolor("pink")),
    "a lane": (gantt, lambda figure: figure.axes[0].set_yticks(range(3), ("letters/0", "letters/1", "sums/0"))),
    "the order of lanes": (gantt, lambda figure: figure.axes[0].invert_yaxis()),
    "the unit": (gantt, lambda figure: figure.axes[0].set_xlabel("s since the trigger")),
    "an entry of the first legend": (gantt, lambda figure: figure.legends[0].legend_handles[0].set_facecolor("pink")),
    "a checkpoint": (over_time, lambda figure: figure.axes[0].containers[0].remove()),
    "the number of a checkpoint": (over_time, lambda figure: figure.axes[0].texts[0].set_text("4")),
    "an interruption": (over_time, lambda figure: figure.axes[2].patches[-1].remove()),
    "the slowest subtasks": (over_time, lambda figure: figure.axes[1].lines[1].remove()),
    "the lines to the slowest": (over_time, lambda figure: figure.axes[1].collections[0].remove()),
    "a panel": (over_time, lambda figure: figure.axes[2].remove()),
    "the title of a panel": (over_time, lambda figure: figure.axes[2].set_title("Size: MiB", loc="left")),
    "the legend of a panel": (over_time, lambda figure: figure.axes[1].get_legend().remove()),
    "the legend": (over_time, lambda figure: figure.legends[0].remove()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_chart_draws_is_in_its_outline(change: str, lab: Lab) -> None:
    draw, make = CHANGES[change]
    chart = draw(lab)
    once = outline(chart._repr_svg_())
    make(chart.figure)
    assert outline(chart._repr_svg_()) != once


def test_each_duration_becomes_one_word() -> None:
    for text in ("93 ms", "1,471 ms", "0.5 ms", "29.553 s", "1 min 0.015 s", "2 h 5 min"):
        assert without_times(f"over {text}: 3 completed") == "over TIME: 3 completed"
    assert without_times("ms since the trigger, at 14 sources") == "ms since the trigger, at 14 sources"
    assert outline("<p>complete after 93 ms</p>") == ["complete after TIME"]
