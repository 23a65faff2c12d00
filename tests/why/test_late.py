"""Answers to why rows were dropped as late, and why an output lacks rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    CsvSource,
    Lab,
    StreamEnvironment,
    Trace,
    TumblingEventTimeWindows,
    count,
)
from kit.hosts.lab.errors import LabWarning
from kit.hosts.spark import SparkJob
from kit.why import Why, WhyError
from tests.hosts.spark.jobs import ThreadGang
from tests.stream.operators.growing import Endless
from tests.why.jobs import says

Times = tuple[int, ...]


def windowed(*inputs: Times, idle_ms: int | None = None, **checkpoint: Any) -> StreamEnvironment:
    """Rows counted in windows of a second, from sources that each have rows of these event times."""
    config = CheckpointConfig(**{"interval_ms": 20, **checkpoint})
    env = StreamEnvironment("counting", parallelism=1, checkpoint=config)
    streams = []
    for number, times in enumerate(inputs):
        rows = [{"sensor": f"s{number}", "at": at} for at in times]
        stream = env.from_source(CollectionSource(rows, batch_rows=1, splits=1), uid=f"in{number}")
        stream = stream.assign_timestamps("at")
        streams.append(stream if idle_ms is None else stream.with_idleness(idle_ms))
    stream = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    windows = stream.key_by("sensor").window(TumblingEventTimeWindows("1s"))
    windows.aggregate(n=count()).uid("counts").name("counts").sink_to(CollectSink("out"), uid="out", name="file")
    return env


def ended(*inputs: Times, **settings: Any) -> Lab:
    """The lab at the end of its run, in which rows were dropped."""
    with pytest.warns(LabWarning, match=r"why\('late rows'\) names the inputs"):
        return _ended(Lab(windowed(*inputs, **settings)))


def _ended(lab: Lab) -> Lab:
    lab.run()
    return lab


def why_late(run: Any, about: str = "late rows") -> Why:
    why = run.why(about)
    assert isinstance(why, Why)
    return why


OUT_OF_ORDER = (0, 5_000, 100, 200, 9_000, 300)


def test_the_answer_leads_from_the_operator_to_the_reads_that_drove_its_watermark() -> None:
    answer = why_late(ended(OUT_OF_ORDER))
    assert answer.question == "Why were rows dropped as late?"
    assert says(answer) == [
        "'counts' in counts/0 has dropped 3 rows as late: its watermark, 8999 ms, had passed their time, "
        "by up to 8,700 ms",
        "the watermark of counts/0 is the minimum of its inputs: in0/0 at 8999 ms",
        "in0/0 had read rows-0 up to position 5",
        "the last of these rows came from in0/0",
        "in0/0 had read rows-0 up to position 6",
        "3 rows arrived at in0/0 behind the watermark of 'timestamps', by up to 8,700 ms: "
        "out_of_orderness_ms is too small by that much",
    ]


def test_out_of_orderness_that_is_larger_by_what_the_answer_says_keeps_all_rows() -> None:
    assert "by up to 4,900 ms" in says(why_late(ended((0, 5_000, 100))))[0]
    env = StreamEnvironment("counting", parallelism=1, checkpoint=CheckpointConfig(interval_ms=20))
    rows = [{"sensor": "a", "at": at} for at in (0, 5_000, 100)]
    stream = env.from_source(CollectionSource(rows, batch_rows=1, splits=1), uid="in")
    windows = stream.assign_timestamps("at", out_of_orderness_ms=4_900).key_by("sensor")
    windows.window(TumblingEventTimeWindows("1s")).aggregate(n=count()).sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run()
    assert lab.look.late_rows_dropped == {}
    assert says(why_late(lab)) == ["no operator has dropped a row as late"]


def test_of_several_inputs_each_is_told_with_its_watermark_least_first() -> None:
    told = says(why_late(ended((0, 5_000, 100), (20_000, 21_000))))
    assert any("the minimum of its inputs: in0/0 at 4999 ms, in1/0 at " in each for each in told)
    assert "the last of these rows came from in0/0" in told
    assert any("arrived at in0/0 behind the watermark of 'timestamps'" in each for each in told)
    assert not any("arrived at in1/0" in each for each in told)


def test_a_row_of_an_idle_input_is_late_without_having_been_behind() -> None:
    """Rows were in order where watermarks are generated: event time did not wait for the idle input."""
    ahead, quiet = Endless("a", {"a": 1_000}, batch_rows=100), Endless("b", {"b": 5}, batch_rows=5)
    env = StreamEnvironment("counting", parallelism=1, checkpoint=CheckpointConfig(interval_ms=20))
    streams = [
        env.from_source(source, uid=f"in{number}").assign_timestamps("t").with_idleness(5)
        for number, source in enumerate((ahead, quiet))
    ]
    windows = streams[0].union(streams[1]).key_by("split").window(TumblingEventTimeWindows("1s"))
    windows.aggregate(rows=count()).uid("counts").name("counts").sink_to(CollectSink("out"), uid="out", name="file")
    lab = Lab(env)
    lab.run_until(at_ms=200)
    quiet.rows["b"] = 10
    ahead.ended.add("a")
    quiet.ended.add("b")
    with pytest.warns(LabWarning):
        lab.run()
    told = says(why_late(lab))
    assert "the last of these rows came from in1/0, which was idle: event time did not wait for it" in told


def test_a_task_an_operator_or_an_output_may_be_named() -> None:
    lab = ended(OUT_OF_ORDER)
    for about, question in {
        "late rows of counts": "Why has counts dropped rows as late?",
        "why has counts/0 dropped rows": "Why has counts/0 dropped rows as late?",
        "dropped rows": "Why were rows dropped as late?",
    }.items():
        answer = why_late(lab, about)
        assert answer.question == question
        assert says(answer)[0].startswith("'counts' in counts/0 has dropped 3 rows as late")
    assert says(why_late(lab, "late rows of in0/0")) == ["no row was dropped as late by in0/0"]
    with pytest.raises(WhyError, match="rows dropped as late \\('late rows', 'late rows of counts'\\)"):
        lab.why("nonsense")


def test_the_longest_name_is_meant_where_one_begins_like_another() -> None:
    env = windowed((0, 5_000, 100, 200, 9_000, 300))
    others = env.from_source(
        CollectionSource([{"sensor": "t", "at": at} for at in (0, 7_000, 50)], batch_rows=1, splits=1), uid="more"
    ).assign_timestamps("at")
    windows = others.key_by("sensor").window(TumblingEventTimeWindows("1s")).aggregate(n=count())
    windows.uid("again").name("counts again").sink_to(CollectSink("again"), uid="out-again")
    with pytest.warns(LabWarning):
        lab = _ended(Lab(env))
    assert says(why_late(lab, "late rows of counts again"))[0].startswith("'counts again' in again/0 has dropped 1")
    assert says(why_late(lab, "late rows of counts"))[0].startswith("'counts' in counts/0 has dropped 3")
    assert says(why_late(lab))[0] == "4 late rows dropped by 2 subtasks"


@pytest.mark.parametrize("about", ["output out", "output", "why does file lack rows?", "missing rows"])
def test_an_output_that_lacks_rows_has_them_dropped_before_it(about: str) -> None:
    answer = why_late(ended(OUT_OF_ORDER), about)
    assert any("has dropped 3 rows as late" in each for each in says(answer))


def test_an_output_whose_job_runs_waits_for_a_checkpoint_and_for_event_time() -> None:
    lab = Lab(windowed((0, 100, 5_000), (0, 200)))
    lab.run_until(lambda lab: sum(each.kind == "SplitRead" for each in lab.trace) == 4)
    told = says(why_late(lab, "output out"))
    assert told[0].startswith("rows may be missing from the output of file for ")
    assert any(each.startswith("a sink publishes its rows when a checkpoint that covers them comp") for each in told)
    assert any(each.startswith("windows in counts/0 ") for each in told)


def test_an_output_that_lacks_nothing() -> None:
    lab = Lab(windowed((0, 1_000, 5_000)))
    lab.run()
    (told,) = says(why_late(lab, "output out"))
    assert told.startswith("no row was dropped as late, and all that reached the output of file is published")


def test_a_saved_trace_answers_as_the_lab_did(tmp_path: Path) -> None:
    lab = ended(OUT_OF_ORDER)
    lab.trace.save(tmp_path / "run.jsonl")
    assert says(why_late(Trace.load(tmp_path / "run.jsonl"))) == says(why_late(lab))


def test_a_job_on_spark_names_the_operator_the_inputs_and_the_splits() -> None:
    with SparkJob(windowed(OUT_OF_ORDER), launch=ThreadGang) as job:
        job.start()
        assert job.wait() == "FINISHED"
        dropped = int(job.meters()["late_rows_dropped"].sum())
        told = says(why_late(job))
        metrics = job.statistics.operator_metrics.set_index(["task", "operator"])["numLateRecordsDropped"]
    assert told[0].startswith(f"'counts' in counts/0 has dropped {dropped} row")
    assert any(each.startswith("the watermark of counts/0 is the minimum of its inputs") for each in told)
    assert any("arrived at in0/0 behind the watermark of 'timestamps'" in each for each in told)
    assert metrics["counts/0", "counts"] == dropped
    assert metrics.sum() == dropped


def test_statistics_have_them_under_the_name_that_flink_gives_them() -> None:
    statistics = ended(OUT_OF_ORDER).statistics
    metrics = statistics.operator_metrics.set_index(["task", "operator"])["numLateRecordsDropped"]
    assert metrics.to_dict() == {
        ("in0/0", "in0"): 0,
        ("in0/0", "timestamps"): 0,
        ("counts/0", "counts"): 3,
        ("counts/0", "file"): 0,
    }
    assert "numLateRecordsDropped" in statistics._repr_html_()


MANY_LATE = (0, 900_000, *range(1, 400))


@pytest.mark.filterwarnings("ignore:.*checkpoints_after_tasks_finish")
@pytest.mark.parametrize("after_finish", [True, False])
def test_many_late_rows_leave_few_records(after_finish: bool) -> None:
    """A count is noted again when it has grown by an eighth, and once more at the end."""
    lab = ended(MANY_LATE, checkpoints_after_tasks_finish=after_finish, interval_ms=None)
    assert lab.look.late_rows_dropped == {"counts": 399}
    notes = lab.trace.story(kind="LateRowsDropped")
    assert notes[-1].data["rows"] == 399
    assert {note.data["watermark_ms"] for note in notes} == {899_999}
    assert len(notes) < 50
    assert [note.data["rows"] for note in notes][:16] == [*range(1, 17)]


def test_with_each_checkpoint_the_count_is_exact() -> None:
    lab = Lab(windowed(MANY_LATE))
    for checkpoint_id in range(1, 10):
        lab.run_until(lambda lab, wanted=checkpoint_id: _has_snapshot(lab, wanted))
        counts = [note.data["rows"] for note in lab.trace.story(kind="LateRowsDropped")]
        assert counts[-1:] == [*lab.look.late_rows_dropped.values()]


def _has_snapshot(lab: Lab, checkpoint_id: int) -> bool:
    return any(
        record.kind == "WriteSnapshot" for record in lab.trace.story(machine="counts/0", checkpoint=checkpoint_id)
    )


def test_of_files_read_side_by_side_the_one_out_of_order_is_named(tmp_path: Path) -> None:
    """Each file has a watermark of its own, so only rows behind that of all files are late."""
    for name, times in {"a": (0, 6_000, 100), "b": (0, 3_000, 6_000)}.items():
        rows = "".join(f"{name},{at}\n" for at in times)
        (tmp_path / f"{name}.csv").write_text(f"sensor,at\n{rows}")
    env = StreamEnvironment("files", parallelism=1, checkpoint=CheckpointConfig(interval_ms=20))
    stream = env.from_source(CsvSource(tmp_path, batch_rows=1), uid="in").assign_timestamps("at")
    windows = stream.key_by("sensor").window(TumblingEventTimeWindows("1s"))
    windows.aggregate(n=count()).uid("counts").name("counts").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    with pytest.warns(LabWarning):
        lab.run()
    (behind,) = (each for each in says(why_late(lab)) if "behind the watermark of" in each)
    assert behind.startswith(f"1 row of {tmp_path}/a.csv arrived at in/0 behind")
