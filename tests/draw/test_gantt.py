"""Phases of subtasks, finished or not, from the times in the trace."""

from __future__ import annotations

from io import BytesIO

import pytest

from kit.core.trace.trace import Trace
from kit.draw.charts.gantt import gantt
from kit.why.phases import phases
from tests.draw.labs import lab_of
from tests.draw.script import story


def test_the_phases_of_a_complete_checkpoint_add_up() -> None:
    table = phases(story(), checkpoint=1).set_index("task")
    assert set(table.status) == {"acknowledged"}
    assert list(table.index) == ["source/0", "source/1", "count/0", "count/1", "sink/0"]
    parts = table[["start_delay_ms", "alignment_ms", "sync_ms", "async_ms", "ack_ms"]].sum(axis=1)
    assert (parts == table.total_ms).all()
    assert table.loc["source/0", "alignment_ms"] == 0
    assert table.loc["count/0", "alignment_ms"] > 0
    assert set(table.bytes) == {120}


def test_an_unfinished_subtask_shows_how_far_it_came() -> None:
    table = phases(story(), checkpoint=2).set_index("task")
    assert table.open_phase.to_dict() == {
        "source/0": "",
        "source/1": "ack",
        "count/0": "alignment",
        "count/1": "start_delay",
        "sink/0": "start_delay",
    }
    assert table.loc["source/0", "status"] == "acknowledged"
    assert table.loc["sink/0", "total_ms"] == 61


def test_a_cluster_trace_gives_the_same_phases() -> None:
    detailed, plain = phases(story(), checkpoint=1), phases(story(detailed=False), checkpoint=1)
    assert detailed.equals(plain)


def test_the_lab_measures_what_the_coordinator_reports() -> None:
    lab = lab_of(seed=3)
    lab.run_until(checkpoint=1)
    table = phases(lab.trace, checkpoint=1)
    assert table.total_ms.max() <= lab.checkpoints().set_index("id").loc[1, "duration_ms"]


def test_the_chart_has_a_bar_for_every_phase_and_names_the_end() -> None:
    figure = gantt(story(), 1).figure
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "Checkpoint 1: complete after 59 ms"
    assert [label.get_text() for label in axes.get_yticklabels()] == list(phases(story(), 1).task)
    figure.savefig(BytesIO(), format="png")
    (axes,) = gantt(story()).figure.axes
    assert axes.get_title(loc="left") == "Checkpoint 2: aborted after 61 ms, job restarted"
    waits = phases(story(), 2).set_index("task")["waits_for"]
    unfinished = waits[waits != ""]
    assert list(unfinished.index) == ["source/1", "count/0", "count/1", "sink/0"]
    for note, text in zip(unfinished, axes.texts, strict=True):
        assert text.get_text().startswith(f"waited for {note}"[:60])
    assert waits["source/1"] == "its acknowledgement, on its way"
    assert waits["count/0"].startswith("barrier 2 from source/1 (")


def test_a_checkpoint_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no checkpoint 7; there are: 1, 2"):
        gantt(story(), 7)
    with pytest.raises(ValueError, match="no checkpoint yet"):
        gantt(Trace())
