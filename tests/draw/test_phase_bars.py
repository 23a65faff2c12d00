"""The view of phases agrees with the table of phases at any moment, for few subtasks and for many."""

from __future__ import annotations

import re
from statistics import median

from kit.draw import phases
from kit.draw.views.phase_bars import MOST_SHOWN, phase_bars
from kit.run.checkpoint_words import SHARE, outliers, slow_phases
from kit.run.durations import duration
from kit.run.journeys import journeys
from kit.run.subject import Subject
from tests.draw.labs import lab_of
from tests.draw.script import story


def test_it_is_the_table_of_phases_as_bars() -> None:
    drawn = phase_bars(Subject(story(), checkpoint=1))
    assert drawn.to_pandas().equals(phases(story(), 1))
    html = drawn._repr_html_()
    assert "Checkpoint 1 is complete after 59 ms" in html
    for task in drawn.to_pandas()["task"]:
        assert f">{task}</bdi>" in html
    lengths = sum(map(float, re.findall(r'<i class="alignment" style="left:[\d.]+%;width:([\d.]+)%', html)))
    table = drawn.to_pandas()
    assert abs(lengths - 100 * table["alignment_ms"].sum() / table["total_ms"].max()) < 0.1


def test_it_is_what_was_known_at_the_moment() -> None:
    lab = lab_of(1)
    lab.run_until(checkpoint=1)
    kinds = [record.kind for record in lab.trace]
    early = phase_bars(Subject(lab, kinds.index("BarrierAligned") + 1))
    assert "is under way" in early._repr_html_()
    assert "waits for barrier 1 from" in early._repr_html_()
    assert "is complete after" in phase_bars(Subject(lab))._repr_html_()
    assert "No checkpoint has begun" in phase_bars(Subject(lab, 3))._repr_html_()


def test_of_many_subtasks_some_are_shown_and_the_others_folded() -> None:
    lab = lab_of(1, rows=40, parallelism=14)
    lab.run_until(record="SnapshotWritten")
    html = phase_bars(Subject(lab))._repr_html_()
    shown = re.sub(r"<details.*?</details>", "", html, flags=re.DOTALL)
    assert shown.count(">totals/") <= MOST_SHOWN
    assert all(f">totals/{subtask}</bdi>" in html for subtask in range(14))


def test_those_that_are_folded_are_told_by_the_shortest_the_longest_and_the_median() -> None:
    lab = lab_of(1, rows=40, parallelism=14)
    lab.run_until(checkpoint=1)
    html = phase_bars(Subject(lab))._repr_html_()
    shown = re.sub(r"<details.*?</details>", "", html, flags=re.DOTALL)
    lengths = phases(lab, 1).set_index("task")["total_ms"]
    for vertex in ("letters", "totals"):
        rest = [
            int(lengths[task]) for task in lengths.index if task.startswith(vertex) and f">{task}</bdi>" not in shown
        ]
        assert min(rest) < max(rest)
        assert f"{len(rest)} more of {vertex}" in html
        assert f"{duration(min(rest))} to {duration(max(rest))}, half of them within {duration(median(rest))}" in html


def test_slow_is_what_lasted_much_longer_and_mattered() -> None:
    assert outliers({"a/0": 10, "a/1": 11, "a/2": 40, "b/0": 40}) == {"a/2": (40, 11)}
    assert outliers({"a/0": 1, "a/1": 1, "a/2": 5}) == {}, "a few ms are nothing"
    lab = lab_of(1, rows=200, parallelism=6)
    lab.run_until(checkpoint=1)
    found = journeys(lab)
    known = found.last.checkpoints[1]
    slow = slow_phases(found, known)
    table = phases(lab, 1).set_index("task")
    assert slow
    for (task, phase), (length, usual) in slow.items():
        assert table.loc[task, f"{phase}_ms"] == length
        assert length > 2 * usual
        assert length >= SHARE * table["total_ms"].max()


def test_a_checkpoint_takes_equally_long_wherever_it_is_told() -> None:
    """The picture, the view and the answer to why all count from the trigger's timestamp, as in Flink, not from the
    allocation of its number. The time to the last acknowledgement is the web UI's end to end duration.
    """
    lab = lab_of(1, interval_ms=30)
    lab.run_until(checkpoint=2)
    known = lab.moment().checkpoints[2]
    told = lab.checkpoints().set_index("id").loc[2]
    assert known.triggered_ms == told["triggered_at_ms"]
    assert max(known.acked_ms) - known.triggered_ms == told["duration_ms"]
    assert f"is complete after {known.duration_ms} ms" in phase_bars(Subject(lab))._repr_html_()
    assert lab.why(checkpoint=2).question == f"Why did checkpoint 2 take {known.duration_ms} ms?"
