"""Names that users of PyFlink, Spark and pandas try first, and what to write here instead.

A class passes a missing attribute to `no_attribute`, which looks it up in the tables of its kind. Names that begin with
an underscore never have an entry: `copy`, `pickle` and IPython probe for those and must find nothing.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_RUN = "run the job with kit.Lab(env).run(), step by step, or with kit.SparkJob(env).start().wait() on Spark"
ROWS = "nothing has run yet: end the stream with .sink_to(CollectSink('out')), run the job, and read lab.output('out')"
_SOURCE = "write env.from_source(CollectionSource(rows)), or give a data frame or an Arrow table to env.from_source"
_FILES = "write env.from_source(ParquetSource(path)), or CsvSource or TextSource"
CHECKPOINTS = "write StreamEnvironment(checkpoint=CheckpointConfig(interval_ms=1_000))"
_EVENT_TIME = "write stream.assign_timestamps('at', out_of_orderness_ms=5_000), and .with_idleness(...) behind it"
_KEY = "write stream.key_by('column')"
_COLUMNS = "stream.schema.names has the columns, and stream.schema their types"
_SINK = "write stream.sink_to(ParquetSink(path)), or CollectSink('out') for results that are read at once"
_SIDE = "write processed.side_output(tag), on what process() returned"
RESTORE_PATH = "write restore_path='...', the directory of the savepoint or retained checkpoint"
OUTPUT_TYPE = "write returns={'n': pa.int64()}, the columns of the rows that the function makes"

ENVIRONMENT: Mapping[str, str] = {
    **dict.fromkeys(("execute", "run", "start", "execute_async", "submit", "launch"), _RUN),
    **dict.fromkeys(("from_collection", "from_elements", "add_source", "from_data", "fromCollection"), _SOURCE),
    **dict.fromkeys(("from_pandas", "from_arrow", "createDataFrame", "from_table", "parallelize"), _SOURCE),
    **dict.fromkeys(("read", "read_csv", "read_parquet", "read_text_file", "textFile"), _FILES),
    **dict.fromkeys(("spark", "sql", "from_dataframe", "from_data_frame"), "write env.from_spark(df, uid='rows')"),
    "readStream": "write env.from_spark_stream(spark.readStream..., directory, uid='rows')",
    **dict.fromkeys(("enable_checkpointing", "get_checkpoint_config", "set_state_backend"), CHECKPOINTS),
    "set_restart_strategy": "write StreamEnvironment(restart=FixedDelay(attempts=3, delay_ms=1_000))",
    "set_parallelism": "write StreamEnvironment(parallelism=2), or env.parallelism = 2",
    "get_parallelism": "read env.parallelism",
    "set_max_parallelism": "write StreamEnvironment(max_parallelism=128), or env.max_parallelism = 128",
    "get_execution_environment": "write StreamEnvironment('name')",
    "get_execution_plan": "env.job_graph() is the job as tasks; a notebook draws it where env is the last line",
}
STREAM: Mapping[str, str] = {
    **dict.fromkeys(("print", "show", "collect", "toPandas", "to_pandas", "head", "execute_and_collect"), ROWS),
    **dict.fromkeys(("take", "first", "display", "toLocalIterator", "foreach"), ROWS),
    **dict.fromkeys(("groupBy", "groupby", "group_by", "keyBy", "partition_by"), _KEY),
    **dict.fromkeys(
        ("assign_timestamps_and_watermarks", "withWatermark", "assignTimestampsAndWatermarks"), _EVENT_TIME
    ),
    **dict.fromkeys(("add_sink", "sinkTo", "write", "writeStream", "to_parquet", "to_csv"), _SINK),
    **dict.fromkeys(
        ("get_side_output", "getSideOutput", "side_output"), f"{_SIDE}, on the operator that sets rows aside"
    ),
    **dict.fromkeys(("columns", "dtypes", "printSchema", "get_type"), _COLUMNS),
    **dict.fromkeys(
        ("sum", "min", "max", "count", "mean", "avg", "agg", "aggregate", "reduce", "sum_"),
        f"{_KEY} before, and then .aggregate(total=sum_('n'))",
    ),
    **dict.fromkeys(("window", "windowAll", "window_all"), f"{_KEY} before, and then .window(...)"),
    **dict.fromkeys(("execute", "run", "start"), _RUN),
    "where": "write stream.filter(pc.field('n') > 0)",
    "withColumn": "write stream.with_column('double', pc.field('n') * 2)",
    "assign": "write stream.with_column('double', pc.field('n') * 2)",
    "withColumnRenamed": "write stream.rename(old='new')",
    "drop": "write stream.select(...) with the columns to keep",
    "flatMap": "write stream.flat_map(function)",
    "mapPartitions": "write stream.map_batches(function)",
    "merge": "write stream.join(other), or key_by on both and interval_join",
    "interval_join": f"{_KEY} before, on both streams",
    "process_batches": f"{_KEY} before",
    "with_idleness": "write it behind assign_timestamps: stream.assign_timestamps('at').with_idleness(30_000)",
    "setParallelism": "write stream.set_parallelism(2)",
}
KEYED: Mapping[str, str] = {
    **{
        name: f"write keyed.aggregate(total={name}_('n')), with `from kit import {name}_`"
        for name in ("sum", "min", "max")
    },
    **dict.fromkeys(("avg", "mean"), "write keyed.aggregate(mean=avg('n')), with `from kit import avg`"),
    **dict.fromkeys(("count", "size"), "write keyed.aggregate(n=count()), with `from kit import count`"),
    "agg": "write keyed.aggregate(total=sum_('n'))",
}
WINDOWED: Mapping[str, str] = {
    **{name: sign.replace("keyed.", "windows.") for name, sign in KEYED.items()},
    **dict.fromkeys(("apply", "flat_map"), "write windows.process(function), which gets key, window and rows"),
    **dict.fromkeys(("trigger", "evictor"), "a window fires when the watermark passes its end; that cannot be changed"),
    "map": "write windows.process(function), which gets key, window and rows",
}


_TO_ITS_END = "lab.run() runs to the end, lab.step() one step, lab.run_until(checkpoint=1) to that checkpoint"
_BACK = "lab.back(n) undoes n steps, lab.goto(n) goes to step n"
_OUTPUT = "read output('name of the sink')"
_STOPS = "stop() ends the job with a savepoint, cancel() without"
_CHECKPOINT = "trigger_checkpoint() takes a checkpoint, savepoint() a savepoint"

LAB: Mapping[str, str] = {
    **dict.fromkeys(("execute", "start", "resume", "submit", "await_termination"), _TO_ITS_END),
    **dict.fromkeys(("pause", "interrupt"), f"a lab only runs when it is told to: {_TO_ITS_END}"),
    **dict.fromkeys(("next", "tick", "advance"), _TO_ITS_END),
    **dict.fromkeys(("undo", "rewind", "previous", "prev"), _BACK),
    **dict.fromkeys(("reset", "restart", "replay_from"), f"{_BACK}; lab.goto(1) is the beginning"),
    **dict.fromkeys(("collect", "results", "result", "to_pandas", "toPandas", "head"), _OUTPUT),
    **dict.fromkeys(("checkpoint", "take_checkpoint"), _CHECKPOINT),
    **dict.fromkeys(("kill_worker", "crash", "kill_task"), "lab.faults.kill(0) kills worker 0"),
    **dict.fromkeys(("set_parallelism", "scale"), "lab.rescale(3)"),
    **dict.fromkeys(("stop_with_savepoint", "terminate", "shutdown"), _STOPS),
    **dict.fromkeys(("events", "log", "history"), "lab.trace has what happened, as records"),
    **dict.fromkeys(("finished", "is_finished", "done", "is_running"), "read lab.ended, or lab.status"),
    "scenario": "write open_scenario(name), with `from kit.hosts.lab import open_scenario`",
    "save_scenario": "write save_scenario(lab, path), with `from kit.hosts.lab import save_scenario`",
    **dict.fromkeys(("explain", "debug"), "lab.why('checkpoint 1') explains a checkpoint"),
    **dict.fromkeys(("explore", "check", "verify"), "kit.verify.explore.explore(env) tries every order of a small job"),
}
JOB: Mapping[str, str] = {
    **dict.fromkeys(("execute", "run", "submit", "launch"), "write job.start(), and job.wait() for its end"),
    **dict.fromkeys(("awaitTermination", "await_termination", "join", "get_job_execution_result"), "write job.wait()"),
    **dict.fromkeys(("collect", "results", "result", "toPandas", "to_pandas", "head"), _OUTPUT),
    **dict.fromkeys(("stop_with_savepoint", "terminate", "shutdown", "kill"), _STOPS),
    **dict.fromkeys(("cancel_with_savepoint",), "write job.stop()"),
    **dict.fromkeys(("checkpoint", "take_checkpoint"), _CHECKPOINT),
    **dict.fromkeys(("trigger_savepoint", "take_savepoint"), "write job.savepoint()"),
    **dict.fromkeys(("set_parallelism", "scale"), "write job.rescale(3)"),
    **dict.fromkeys(("get_job_status", "state", "is_running", "isActive"), "read job.status"),
    **dict.fromkeys(("lastProgress", "recentProgress", "progress"), "job.meters() has rates and counts"),
    **{name: f"it is job.look.{name}" for name in ("answer", "restores", "stages", "summary", "workers")},
    **dict.fromkeys(("toDF", "to_df", "to_dataframe", "table"), "write job.to_spark('name of the sink')"),
    "kill_worker": "job.faults.kill(0) kills worker 0",
    **dict.fromkeys(("exception", "get_exception"), "read job.error"),
    **dict.fromkeys(("step", "goto", "back"), "a lab has that: kit.Lab(env) runs the same job step by step"),
}
CONTEXT: Mapping[str, str] = {
    **dict.fromkeys(("collect", "yield_", "write", "send"), "write ctx.emit(row)"),
    **dict.fromkeys(
        ("get_state", "get_value_state", "value_state", "get_runtime_context"), "write ctx.state(descriptor)"
    ),
    **dict.fromkeys(("get_list_state", "get_map_state", "get_reducing_state"), "write ctx.state(descriptor)"),
    **dict.fromkeys(("get_current_key", "key"), "read ctx.current_key, in a function behind key_by"),
    **dict.fromkeys(("timestamp", "get_timestamp", "time"), "read ctx.timestamp_ms"),
    **dict.fromkeys(("current_watermark", "watermark", "get_current_watermark"), "read ctx.current_watermark_ms"),
    **dict.fromkeys(("current_processing_time", "processing_time"), "read ctx.current_processing_time_ms"),
    **dict.fromkeys(
        ("register_event_time_timer", "register_processing_time_timer", "register_timer", "timers"),
        "write ctx.timer_service.register_event_time_timer(ctx.timestamp_ms + 60_000), in a function behind key_by",
    ),
    **dict.fromkeys(("side_output", "emit_to", "output_tag"), "write ctx.output(tag, row)"),
    **dict.fromkeys(
        ("state", "current_key", "timer_service"),
        "a function has that behind key_by: write stream.key_by('column') before .process(...)",
    ),
}
OPERATOR_STATES: Mapping[str, str] = {
    f"get_{name}": f"write context.operator_state.{name}(descriptor)"
    for name in ("list_state", "union_list_state", "broadcast_state")
} | dict.fromkeys(
    ("state", "get_state"), "keyed state is ctx.state(descriptor), in the hooks of a function behind key_by"
)


_EXPIRES = "write StateTtlConfig('1h') and pass it to a descriptor: ValueStateDescriptor('seen', pa.bool_(), ttl=...)"
TTL: Mapping[str, str] = dict.fromkeys(("new_builder", "newBuilder", "Builder", "builder"), _EXPIRES)
DESCRIPTOR: Mapping[str, str] = dict.fromkeys(("enable_time_to_live", "enableTimeToLive", "ttl_config"), _EXPIRES)
CONNECTED: Mapping[str, str] = {
    **dict.fromkeys(
        ("map", "flat_map", "key_by", "select", "filter", "apply", "union"),
        "write first.connect(second).process(function), with a CoProcessFunction that has a hook for each stream",
    ),
}
MODULE: Mapping[str, str] = {
    **dict.fromkeys(("StreamExecutionEnvironment", "StreamTableEnvironment"), "write StreamEnvironment('name')"),
    **dict.fromkeys(("SparkSession", "SparkContext"), "SparkJob(env) starts a session, and so does create_session()"),
    **dict.fromkeys(("WatermarkStrategy", "TimestampAssigner"), _EVENT_TIME),
    **dict.fromkeys(
        ("Types", "DataTypes", "TypeInformation"), "types are Arrow's: pa.int64(), pa.string(), pa.timestamp('ms')"
    ),
    **dict.fromkeys(("Time", "Duration"), "write times as '5s', '1min', a timedelta or whole milliseconds"),
    "Row": "a row is a dict: {'letter': 'a', 'n': 1}",
    **dict.fromkeys(("MapFunction", "FlatMapFunction", "FilterFunction"), "give map, flat_map or filter a function"),
    **dict.fromkeys(("SinkFunction", "FileSink", "StreamingFileSink"), _SINK),
    **dict.fromkeys(("KafkaSource", "FileSource", "SourceFunction"), _FILES),
    **dict.fromkeys(("DataGenSource", "DatagenSource", "DataGeneratorSource"), "write GeneratorSource(...)"),
    **dict.fromkeys(
        ("TumblingProcessingTimeWindows", "SlidingProcessingTimeWindows", "GlobalWindows"),
        "windows are of event time: TumblingEventTimeWindows('5s') behind assign_timestamps('at')",
    ),
    "RestartStrategies": "write StreamEnvironment(restart=FixedDelay(attempts=3, delay_ms=1_000))",
    **dict.fromkeys(("StateTtl", "TTLConfig", "TtlConfig"), _EXPIRES),
    "CheckpointingMode": "write CheckpointConfig(mode='exactly_once') or 'at_least_once'",
}
"""Names of other libraries that are imported from `kit`."""
WINDOWS: Mapping[str, str] = {
    "of": "write {name}('10s', '5s') for a size and a slide, and {name}('5s') for a size",
    **dict.fromkeys(("with_gap", "withGap"), "write {name}('5s')"),
}
"""How other libraries make a kind of window."""


class SignedType(ABCMeta):
    """A class with signs for missing names of its own: `StreamEnvironment.get_execution_environment`."""

    class_signs: Mapping[str, str] = {}

    if not TYPE_CHECKING:  # mypy would take every attribute for one that exists

        def __getattr__(cls, name: str) -> Any:
            raise no_attribute(cls, name, type(cls).__getattribute__(cls, "class_signs"))


def takes(**signs: str) -> Callable[[F], F]:
    """Let the error for a keyword that a function or a class does not take say what to write: `signs`, by keyword."""

    def mark(function: F) -> F:
        """Return the function, or the class with its constructor, that explains wrong keywords."""
        if isinstance(function, type):
            function.__init__ = mark(function.__init__)  # type: ignore[misc]
            return function
        parameters = signature(function).parameters
        assert not any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()), function
        kinds = [each.kind for each in parameters.values()]
        by_position = len(kinds) - kinds.count(Parameter.KEYWORD_ONLY)
        if Parameter.VAR_POSITIONAL in kinds:
            by_position = sys.maxsize

        @wraps(function)
        def called(*arguments: Any, **named: Any) -> Any:
            for name in named:
                if name not in parameters:
                    raise _no_keyword(function, name, signs, list(parameters))
            if len(arguments) > by_position:
                raise _not_by_position(function, arguments[by_position], list(parameters)[by_position:])
            return function(*arguments, **named)

        return cast(F, called)

    return mark


def _no_keyword(function: Any, name: str, signs: Mapping[str, str], known: list[str]) -> TypeError:
    """Return the error for a keyword that a function does not take."""
    owner, _, own_name = function.__qualname__.rpartition(".")
    called = owner if own_name == "__init__" else own_name
    known = [each for each in known if each != "self"]
    alike = get_close_matches(name, known, 1)
    sign = signs.get(name) or (f"did you mean {alike[0]!r}?" if alike else f"it takes {', '.join(known)}")
    return TypeError(f"{called}() takes no {name!r}: {sign}")


def _not_by_position(function: Any, found: object, known: list[str]) -> TypeError:
    """Return the error for an argument that must be given by name."""
    owner, _, own_name = function.__qualname__.rpartition(".")
    called = owner if own_name == "__init__" else own_name
    if not known:
        return TypeError(f"{called}() was given {found!r} beyond all that it takes")
    return TypeError(
        f"{called}() takes its settings by name: write {called}({known[0]}={found!r}), or another of its names"
    )


def no_name(package: str, name: str) -> None:
    """Raise ImportError for the name of another library, if there is a sign for it.

    An AttributeError would lose its text: `from kit import name` replaces it.
    """
    if name in MODULE:
        raise ImportError(f"{package} has no {name}: {MODULE[name]}", name=package)


def no_attribute(owner: object, name: str, *signs: Mapping[str, str]) -> AttributeError:
    """Return the error for a missing attribute, with the first hint in `signs`, or else the closest existing name."""
    kind = owner if isinstance(owner, type) else type(owner)
    what = f"class {kind.__name__!r}" if kind is owner else f"{kind.__name__!r} object"
    said = f"{what} has no attribute {name!r}"
    if not name.startswith("_"):
        sign = next((table[name] for table in signs if name in table), "").replace("{name}", kind.__name__)
        alike = get_close_matches(name, [each for each in dir(kind) if not each.startswith("_")], 1)
        said += f": {sign}" if sign else f"; did you mean {alike[0]!r}?" if alike else ""
    return AttributeError(said)
