"""The commonest mistakes of a first hour: each ends at once, in one message of at most six lines that names the thing
and the way out.

A mistake is what a person would type; `says` are words that the message must have: what it is about, and what to do.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    CsvSource,
    JobFailedError,
    KeyedProcessFunction,
    Lab,
    NoRestart,
    ParquetSink,
    SparkJob,
    StreamEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    sum_,
)
from kit.core.arguments import signposts
from tests.hosts.spark.jobs import ThreadGang
from widgets import Stepper

ROWS = [{"letter": "abc"[i % 3], "n": i} for i in range(40)]
MOST_LINES = 6


def letters(**settings: Any) -> tuple[StreamEnvironment, Any]:
    """Return an environment and the stream of its source."""
    env = StreamEnvironment("letters", parallelism=2, checkpoint=CheckpointConfig(interval_ms=50), **settings)
    return env, env.from_source(CollectionSource(ROWS, batch_rows=1), uid="letters")


def run(env: StreamEnvironment, **options: Any) -> Lab:
    lab = Lab(env, **options)
    lab.run()
    return lab


def to_sink() -> StreamEnvironment:
    env, stream = letters()
    stream.sink_to(CollectSink("out"))
    return env


# --- in the graph -----------------------------------------------------------------------------------------------------


def a_column_that_is_not_there() -> None:
    letters()[1].key_by("leter")


def a_sum_of_what_is_not_there() -> None:
    letters()[1].key_by("letter").aggregate(total=sum_("m"))


def a_sum_of_strings() -> None:
    letters()[1].key_by("n").aggregate(total=sum_("letter"))


def a_uid_given_twice() -> None:
    _, stream = letters()
    stream.map(dict).uid("same")
    stream.map(dict).uid("same")


def an_object_where_a_class_is_expected() -> None:
    class Count(KeyedProcessFunction):
        pass

    letters()[1].key_by("letter").process(Count())


def a_keyed_function_without_a_key() -> None:
    class Count(KeyedProcessFunction):
        pass

    letters()[1].process(Count)


def windows_without_event_time() -> None:
    letters()[1].key_by("letter").window(TumblingEventTimeWindows(10)).aggregate(total=sum_("n"))


def more_subtasks_than_key_groups() -> None:
    env, stream = letters(max_parallelism=2)
    stream.map(dict).set_parallelism(4).sink_to(CollectSink("out"))
    Lab(env)


def an_environment_without_operators() -> None:
    Lab(StreamEnvironment("empty"))


def a_type_that_is_no_type() -> None:
    ValueStateDescriptor("seen", "int")


def settings_by_position() -> None:
    CheckpointConfig(1_000)  # type: ignore[misc]


def an_interval_in_words() -> None:
    CheckpointConfig(interval_ms="soon")  # type: ignore[arg-type]


def one_column_of_pandas() -> None:
    StreamEnvironment().from_source(pd.DataFrame(ROWS)["n"])


def an_interval_of_zero() -> None:
    CheckpointConfig(interval_ms=0)


def settings_that_exclude_each_other() -> None:
    CheckpointConfig(interval_ms=50, unaligned=True, max_concurrent=2)


def files_that_are_not_there() -> None:
    CsvSource("nothing/*.csv")


def rows_of_several_types() -> None:
    CollectionSource([{"a": 1}, {"a": "x"}])


def a_key_by_a_function() -> None:
    letters()[1].key_by(lambda row: row["letter"])  # type: ignore[arg-type]


def a_key_by_a_list() -> None:
    letters()[1].key_by(["letter", "n"])  # type: ignore[arg-type]


def a_selection_by_number() -> None:
    letters()[1].select("letter", 1)  # type: ignore[arg-type]


def a_source_that_is_a_list() -> None:
    StreamEnvironment().from_source(ROWS)


def a_source_that_is_a_path() -> None:
    StreamEnvironment().from_source("letters.csv")


def a_source_that_is_a_class() -> None:
    StreamEnvironment().from_source(CollectionSource)


def a_collection_of_one_row() -> None:
    CollectionSource(ROWS[0])


def a_parallelism_in_quotes() -> None:
    StreamEnvironment(parallelism="2")  # type: ignore[arg-type]


def a_parallelism_with_a_fraction() -> None:
    letters()[1].map(dict).set_parallelism(2.0)  # type: ignore[arg-type]


def a_filter_in_quotes() -> None:
    letters()[1].filter("n > 3")  # type: ignore[arg-type]


def a_column_in_brackets() -> None:
    letters()[1]["n"]  # type: ignore[index]


def attribute(thing: Callable[[], Any], name: str) -> Callable[[], None]:
    """Look up a name that users of PyFlink, Spark or pandas try first."""

    def look_up() -> None:
        getattr(thing(), name)

    look_up.__name__ = f"the_name_{name}"
    return look_up


def stream() -> Any:
    return letters()[1]


def keyed() -> Any:
    return letters()[1].key_by("letter")


def windows() -> Any:
    return letters()[1].assign_timestamps("n").key_by("letter").window(TumblingEventTimeWindows(10))


# --- in a function ----------------------------------------------------------------------------------------------------


def a_map_that_drops_a_column() -> None:
    env, stream = letters()
    stream.map(lambda row: {"letter": row["letter"]}).uid("shorter").sink_to(CollectSink("out"))
    run(env)


def a_map_that_adds_a_column() -> None:
    env, stream = letters()
    stream.map(lambda row: {**row, "square": row["n"] ** 2}).uid("squares").sink_to(CollectSink("out"))
    run(env)


def a_map_that_gives_no_row() -> None:
    env, stream = letters()
    stream.map(lambda row: row["n"]).uid("numbers").sink_to(CollectSink("out"))
    run(env)


def a_function_that_raises() -> None:
    def look_up(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "n": {"a": 1}[row["letter"]]}

    env, stream = letters()
    stream.map(look_up).uid("prices").sink_to(CollectSink("out"))
    run(env)


# --- at the lab -------------------------------------------------------------------------------------------------------


def a_snapshot_that_is_not_there() -> None:
    run(to_sink(), restore_path="/savepoints/nope")


def an_output_of_another_name() -> None:
    run(to_sink()).output("nope")


def a_record_misspelt() -> None:
    Lab(to_sink()).run_until(record="CheckpointCompletd")


def an_action_that_is_none() -> None:
    Lab(to_sink()).step("nonsense")


def a_worker_that_does_not_run() -> None:
    lab = Lab(to_sink())
    lab.run_until(record="AllTasksRunning")
    lab.faults.kill(7)


def doing(what: Callable[[Lab], object], name: str) -> Callable[[], None]:
    """Do something to a lab that has begun."""

    def do() -> None:
        lab = Lab(to_sink())
        lab.step()
        what(lab)

    do.__name__ = name.replace(" ", "_")
    return do


def having_run(what: Callable[[Lab], object], name: str) -> Callable[[], None]:
    """Ask something of a lab whose job has ended."""

    def ask() -> None:
        what(run(to_sink()))

    ask.__name__ = name.replace(" ", "_")
    return ask


def in_a_function(what: Callable[[Any], object], name: str) -> Callable[[], None]:
    """Do something with the context of a keyed function."""

    def call() -> None:
        class Function(KeyedProcessFunction):
            def process_element(self, row: Any, context: Any) -> None:
                what(context)

        env, stream = letters()
        stream.key_by("letter").process(Function, returns={"n": pa.int64()}).sink_to(CollectSink("out"))
        Lab(env).run()

    call.__name__ = name.replace(" ", "_")
    return call


def a_timer_at(time: object) -> Callable[[], None]:
    """Register it."""
    return in_a_function(lambda context: context.timer_service.register_event_time_timer(time), f"a timer at {time!r}")


def a_lab() -> Lab:
    return Lab(to_sink())


def a_spark_job() -> SparkJob:
    return SparkJob(to_sink(), launch=ThreadGang)


def a_context() -> Any:
    seen = []
    in_a_function(seen.append, "")()
    return seen[0]


def a_stepper_over_a_job_that_does_not_run() -> None:
    Stepper(to_sink())


# --- on Spark ---------------------------------------------------------------------------------------------------------


def a_job_that_was_not_started() -> None:
    SparkJob(to_sink(), launch=ThreadGang).wait()


def a_master_where_a_session_is_expected() -> object:
    return SparkJob(to_sink(), spark="local[4]")


def a_context_where_a_session_is_expected() -> object:
    return SparkJob(to_sink(), spark=object())


def a_lock_that_cannot_travel() -> None:
    lock = threading.Lock()

    def guarded(row: dict[str, Any]) -> dict[str, Any]:
        with lock:
            return row

    env, stream = letters()
    stream.map(guarded).uid("guarded").sink_to(CollectSink("out"))
    SparkJob(env, launch=ThreadGang).start()


@dataclass(frozen=True)
class Mistake:
    """The code that a user types, and what the message must say."""

    typed: Callable[[], None]
    says: tuple[str, ...]


MISTAKES = [
    Mistake(a_column_that_is_not_there, ("'leter'", "'letter', 'n'")),
    Mistake(a_sum_of_what_is_not_there, ("'m'", "'letter', 'n'")),
    Mistake(a_sum_of_strings, ("'letter' is string", "needs numbers")),
    Mistake(a_uid_given_twice, ("uid 'same'", "each operator needs its own")),
    Mistake(an_object_where_a_class_is_expected, ("give the class Count itself",)),
    Mistake(a_keyed_function_without_a_key, ("Count", "key_by")),
    Mistake(windows_without_event_time, ("TumblingEventTimeWindows", "call assign_timestamps(column)")),
    Mistake(more_subtasks_than_key_groups, ("'map'", "lower the one or raise the other")),
    Mistake(an_environment_without_operators, ("'empty'", "begin with env.from_source")),
    Mistake(a_type_that_is_no_type, ("'seen'", "pa.int64()")),
    Mistake(settings_by_position, ("by name", "CheckpointConfig(interval_ms=1000)")),
    Mistake(an_interval_in_words, ("interval_ms = 'soon'", "'10s'")),
    Mistake(one_column_of_pandas, ("found 0 0 1 1", "(Series)", "a data frame")),
    Mistake(an_interval_of_zero, ("interval_ms = 0", "or None for no periodic checkpoints")),
    Mistake(settings_that_exclude_each_other, ("max_concurrent = 2", "expected 1 with unaligned=True")),
    Mistake(a_key_by_a_function, ("key_by", "'letter', 'n'", 'with_column("key", ...)')),
    Mistake(a_key_by_a_list, ("key_by('letter', 'n')",)),
    Mistake(a_selection_by_number, ("named by a string, found 1 (int)",)),
    Mistake(a_source_that_is_a_list, ("CollectionSource(rows)", "(list)")),
    Mistake(a_source_that_is_a_path, ("CsvSource(path)", "'letters.csv'")),
    Mistake(a_source_that_is_a_class, ("the class CollectionSource",)),
    Mistake(a_collection_of_one_row, ("a list of dicts", "'letter'")),
    Mistake(a_parallelism_in_quotes, ("parallelism '2'", "a whole number")),
    Mistake(a_parallelism_with_a_fraction, ("'map'", "parallelism 2.0", "a whole number")),
    Mistake(a_filter_in_quotes, ("'n > 3'", 'pc.field("n") > 0')),
    Mistake(a_column_in_brackets, ("['n']", "select('a', 'b')", "pc.field")),
    *(Mistake(attribute(to_sink, name), (repr(name), "SparkJob(env).start().wait()")) for name in ("execute", "run")),
    Mistake(attribute(to_sink, "from_collection"), ("from_source(CollectionSource(rows))",)),
    Mistake(attribute(to_sink, "add_source"), ("from_source(CollectionSource(rows))",)),
    Mistake(attribute(to_sink, "enable_checkpointing"), ("CheckpointConfig(interval_ms=1_000)",)),
    Mistake(attribute(to_sink, "job_grap"), ("did you mean 'job_graph'?",)),
    *(Mistake(attribute(stream, name), (repr(name), ".sink_to(")) for name in ("print", "show", "collect", "toPandas")),
    *(Mistake(attribute(stream, name), (repr(name), "key_by('column')")) for name in ("groupBy", "window", "sum")),
    Mistake(attribute(stream, "assign_timestamps_and_watermarks"), ("assign_timestamps('at'",)),
    Mistake(attribute(stream, "withColumn"), ("with_column(",)),
    Mistake(attribute(stream, "key_bye"), ("did you mean 'key_by'?",)),
    Mistake(attribute(keyed, "sum"), ("keyed.aggregate(total=sum_('n'))",)),
    Mistake(attribute(keyed, "count"), ("aggregate(n=count())",)),
    Mistake(attribute(windows, "sum"), ("windows.aggregate(total=sum_('n'))",)),
    Mistake(attribute(windows, "trigger"), ("when the watermark passes its end",)),
    Mistake(files_that_are_not_there, ("nothing/*.csv", "no such file")),
    Mistake(rows_of_several_types, ("row 1, column 'a'", "say the types as `columns`")),
    Mistake(a_map_that_drops_a_column, ("shorter", "no column 'n'", "returns={")),
    Mistake(a_map_that_adds_a_column, ("squares", "'square'", '"square": pa.int64()')),
    Mistake(a_map_that_gives_no_row, ("numbers", "of type int", "a row is a dict")),
    Mistake(a_function_that_raises, ("prices", "look_up", "KeyError", "test_mistakes.py")),
    Mistake(a_snapshot_that_is_not_there, ("/savepoints/nope", "chk-<id> or savepoint directory")),
    Mistake(an_output_of_another_name, ("'nope'", "'out'")),
    Mistake(a_record_misspelt, ("'CheckpointCompletd'", "did you mean CheckpointCompleted")),
    Mistake(an_action_that_is_none, ("'nonsense'", "enabled are")),
    Mistake(a_worker_that_does_not_run, ("no worker 7", "0, 1")),
    Mistake(doing(lambda lab: lab.goto("chk"), "goto a word"), ("position is 'chk'", "a whole number")),  # type: ignore[arg-type]
    Mistake(doing(lambda lab: lab.goto(2.5), "goto half"), ("position is 2.5", "a whole number")),  # type: ignore[arg-type]
    Mistake(doing(lambda lab: lab.goto(True), "goto True"), ("position is True", "a whole number")),
    Mistake(doing(lambda lab: lab.back(-1), "back by less than nothing"), ("steps is -1", "0 or more")),
    Mistake(doing(lambda lab: lab.back("x"), "back by a word"), ("steps is 'x'", "a whole number")),  # type: ignore[arg-type]
    Mistake(doing(lambda lab: lab.back(9), "back too far"), ("there is no step -7", "goto(1) to goto(2)")),
    Mistake(doing(lambda lab: lab.step(-1), "step minus one"), ("no action -1", "counted from 0")),
    Mistake(doing(lambda lab: lab.step(0.5), "half a step"), ("0.5 cannot happen now", "enabled are")),  # type: ignore[arg-type]
    Mistake(doing(lambda lab: lab.wait_until("x"), "wait for a word"), ("at_ms is 'x'", "a whole number")),  # type: ignore[arg-type]
    Mistake(doing(lambda lab: lab.wait_until(-1), "wait for the past"), ("at_ms is -1", "or more")),
    Mistake(doing(lambda lab: lab.rescale("x"), "rescale to a word"), ("parallelism is 'x'", "a whole number")),  # type: ignore[arg-type]
    Mistake(doing(lambda lab: lab.rescale(True), "rescale to True"), ("parallelism is True", "a whole number")),
    Mistake(doing(lambda lab: lab.rescale({"letters": "2"}), "rescale in quotes"), ("'2'", "a whole number")),  # type: ignore[dict-item]
    Mistake(doing(lambda lab: lab.output(None), "output of None"), ("output(None)", "such as 'out'")),  # type: ignore[arg-type]
    Mistake(having_run(lambda lab: lab.savepoint(wait=True), "a savepoint too late"), ("FINISHED", "back(n)")),
    Mistake(having_run(lambda lab: lab.rescale(3, wait=True), "a rescale too late"), ("FINISHED", "back(n)")),
    *(Mistake(a_timer_at(time), (f"a timer at {time!r}", "whole ms since 1970")) for time in (5.5, "x", True, None)),
    *(Mistake(attribute(a_lab, name), ("lab.run()", "lab.step()")) for name in ("execute", "start", "pause", "next")),
    *(Mistake(attribute(a_lab, name), ("lab.back(n)", "lab.goto(")) for name in ("undo", "reset")),
    *(Mistake(attribute(a_lab, name), ("output(",)) for name in ("collect", "results", "to_pandas")),
    Mistake(attribute(a_lab, "kill_worker"), ("lab.faults.kill(0)",)),
    Mistake(attribute(a_lab, "checkpoint"), ("trigger_checkpoint()",)),
    Mistake(a_stepper_over_a_job_that_does_not_run, ("StreamEnvironment", "Lab(env) or SparkJob(env)")),
    Mistake(a_job_that_was_not_started, ("letters", "call start()")),
    *(Mistake(attribute(a_spark_job, name), ("job.start()", "job.wait()")) for name in ("execute", "run")),
    Mistake(attribute(a_spark_job, "awaitTermination"), ("job.wait()",)),
    *(Mistake(attribute(a_spark_job, name), ("output(",)) for name in ("collect", "toPandas")),
    Mistake(attribute(a_spark_job, "stop_with_savepoint"), ("stop()", "cancel()")),
    Mistake(attribute(a_spark_job, "step"), ("kit.Lab(env)",)),
    *(Mistake(attribute(a_context, name), ("ctx.state(descriptor)",)) for name in ("get_state", "get_map_state")),
    Mistake(attribute(a_context, "collect"), ("ctx.emit(row)",)),
    Mistake(attribute(a_context, "get_current_key"), ("ctx.current_key",)),
    Mistake(attribute(a_context, "register_event_time_timer"), ("ctx.timer_service.register_event_time_timer(",)),
    Mistake(a_master_where_a_session_is_expected, ("spark is the text", "create_session(master='local[4]')")),
    Mistake(a_context_where_a_session_is_expected, ("spark is <object", "must be a Spark session", "create_session()")),
    Mistake(a_lock_that_cannot_travel, ("'guarded'", "`lock`", "inside the function")),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed.__name__)
def test_a_mistake_ends_in_one_short_message(mistake: Mistake) -> None:
    with pytest.raises(Exception) as caught:
        mistake.typed()
    text = str(caught.value)
    assert len(text.splitlines()) <= MOST_LINES
    context = caught.value.__context__
    assert context is None or caught.value.__cause__ is context or caught.value.__suppress_context__, "two tracebacks"
    for words in mistake.says:
        assert words in text


def test_output_that_is_there_already(tmp_path: Path) -> None:
    for number in (1, 2):
        env, stream = letters()
        stream.sink_to(ParquetSink(str(tmp_path / "out")))
        job = SparkJob(env, launch=ThreadGang)
        if number == 1:
            job.start().wait()
            continue
        with pytest.raises(FileExistsError, match=r'mode="overwrite"') as caught:
            job.start()
        assert len(str(caught.value).splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    "condition",
    [
        {"checkpoint": 1},
        {"record": "StateAssigned"},
        {"at_ms": 10**9},
        {"ended": True},
        {"until": lambda lab: False},
    ],
    ids=lambda condition: next(iter(condition)),
)
def test_whatever_one_waits_for_a_job_that_failed_says_why(condition: dict[str, Any]) -> None:
    def breaks(row: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no such letter")

    env = StreamEnvironment("letters", restart=NoRestart())
    env.from_source(CollectionSource([{"n": 1}])).map(breaks).sink_to(CollectSink("out"))
    lab = Lab(env)
    for _ in range(2):
        with pytest.raises(JobFailedError, match=r"(?s)job 'letters' FAILED at step .*no such letter"):
            lab.run_until(**condition)


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (StreamEnvironment, signposts.ENVIRONMENT),
        (Lab, signposts.LAB),
        (SparkJob, signposts.JOB),
        (type(keyed()), signposts.KEYED),
        (type(windows()), signposts.WINDOWED),
    ],
)
def test_no_signpost_stands_where_something_is(kind: type, table: dict[str, str]) -> None:
    assert [name for name in table if name in dir(kind)] == []


@pytest.mark.parametrize("thing", [to_sink, stream, keyed, windows, a_lab, a_spark_job, a_context])
def test_a_signpost_does_not_stand_in_the_way(thing: Callable[[], Any]) -> None:
    """`copy`, `hasattr` and IPython look for attributes that are not there, and must find none."""
    found = thing()
    for name in (
        "_ipython_display_",
        "_repr_png_",
        "_repr_mimebundle_",
        "__deepcopy__",
        "__array__",
        "_sum",
        "nothing",
    ):
        assert not hasattr(found, name)
    with pytest.raises(AttributeError) as caught:
        found._sum  # noqa: B018
    assert str(caught.value).endswith("has no attribute '_sum'")
    copied = copy.copy(found)
    assert repr(copied) == repr(found)
    assert copied is not found
    with pytest.raises(TypeError):
        iter(found)
