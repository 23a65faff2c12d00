"""Cells typed by a newcomer from PyFlink, Spark or pandas, and what the answers must have.

Each answer says what was found, what was expected, and what to write.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import kit
from kit import CollectionSource, CollectSink, Lab, StreamEnvironment
from kit.hosts.lab.errors import LabError
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import ThreadGang

ROWS = [{"letter": "abc"[i % 3], "n": i, "at": i * 1_000} for i in range(12)]


class Cell:
    """The names that a cell finds: the kit's, an environment `env` and its stream `s`."""

    def __init__(self) -> None:
        env = StreamEnvironment("shop", parallelism=2)
        stream = env.from_source(CollectionSource(ROWS), uid="rows")
        self.names: dict[str, Any] = {name: getattr(kit, name) for name in kit.__all__}
        self.names |= {"env": env, "s": stream, "pa": pa, "run": self._run}

    def _run(self, stream: Any) -> Lab:
        stream.sink_to(CollectSink("out"), uid="out")
        lab = Lab(self.names["env"])
        lab.run()
        return lab

    def typed(self, source: str) -> str:
        """Run the cell; return what its error says."""
        with pytest.raises(Exception) as caught:
            exec(source, self.names)  # a cell as a user types it
        return str(caught.value)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        # --- names of other libraries
        ("from kit import StreamExecutionEnvironment", ("kit has no StreamExecutionEnvironment", "StreamEnvironment(")),
        ("from kit import WatermarkStrategy", ("kit has no WatermarkStrategy", "assign_timestamps(")),
        ("from kit import Types", ("kit has no Types", "pa.int64()")),
        ("from kit import Time", ("kit has no Time", "'5s'")),
        ("from kit import SparkSession", ("kit has no SparkSession", "create_session()")),
        ("from kit import KafkaSource", ("kit has no KafkaSource", "ParquetSource(path)")),
        ("from kit import DataGenSource", ("kit has no DataGenSource", "write GeneratorSource(")),
        ("StreamEnvironment.get_execution_environment()", ("get_execution_environment", "StreamEnvironment('name')")),
        ("TumblingEventTimeWindows.of(5)", ("'TumblingEventTimeWindows' has no attribute 'of'", "Windows('5s')")),
        ("SlidingEventTimeWindows.of(5, 1)", ("has no attribute 'of'", "SlidingEventTimeWindows('10s', '5s')")),
        ("EventTimeSessionWindows.with_gap(5)", ("with_gap", "EventTimeSessionWindows('5s')")),
        ("s.connect(s).map(len)", ("'ConnectedStreams' object has no attribute 'map'", ".process(")),
        ("Lab(run_env()).explore()", ("'explore'", "kit.verify.explore.explore(env)")),
        # --- arguments of other libraries
        ("s.map(len, output_type='int')", ("map() takes no 'output_type'", "returns={'n': pa.int64()}")),
        ("s.process(len, output_type='int')", ("process() takes no 'output_type'", "returns=")),
        ("StreamEnvironment('a', checkpoint_interval=1)", ("'checkpoint_interval'", "CheckpointConfig(interval_ms=")),
        ("StreamEnvironment('a', restart_strategy=1)", ("'restart_strategy'", "restart=FixedDelay(")),
        ("StreamEnvironment('a', paralelism=1)", ("'paralelism'", "did you mean 'parallelism'?")),
        ("CheckpointConfig(interval='10s')", ("CheckpointConfig() takes no 'interval'", "did you mean 'interval_ms'?")),
        ("CheckpointConfig(exactly_once=True)", ("'exactly_once'", "mode='exactly_once'")),
        ("Lab(run_env(), path='/x')", ("Lab() takes no 'path'", "restore_path='")),
        (
            "SparkJob(run_env(), master='local[2]')",
            ("SparkJob() takes no 'master'", "create_session(master='local[2]')"),
        ),
        # --- values of the wrong type
        ("StreamEnvironment('a', checkpoint=1000)", ("checkpoint = 1000", "CheckpointConfig(interval_ms=1_000)")),
        ("StreamEnvironment('a', restart='fixed-delay')", ("restart = 'fixed-delay'", "FixedDelay(attempts=3")),
        ("StreamEnvironment('a', restart=3)", ("restart = 3", "NoRestart()")),
        ("StreamEnvironment('a', rescaling=3)", ("rescaling = 3", "RescaleConfig(")),
        ("StreamEnvironment(5)", ("name = 5", "a text")),
        ("s.map(dict).uid(5)", ("uid of 'map' is 5", "a text")),
        ("s.map(dict).name(5)", ("name of 'map' is 5", "a text")),
        ("s.sink_to('out')", ("sink_to takes a sink", "CollectSink('out')", "found 'out' (str)")),
        ("s.sink_to(CollectSink)", ("sink_to takes a sink", "found the class CollectSink")),
        ("s.key_by('letter').aggregate('sum')", ("aggregate takes", "total=sum_('n')", "found 'sum' (str)")),
        ("s.key_by('letter').aggregate({'n': 'sum'})", ("total=sum_('n')", "(dict)")),
        ("s.key_by('letter').aggregate(n='sum')", ("total=sum_('n')", "n='sum'")),
        ("s.key_by('letter').aggregate(n=count)", ("total=sum_('n')", "n=<function count")),
        ("s.key_by('letter').window('5s')", ("window() takes a kind of window", "TumblingEventTimeWindows(", "'5s'")),
        ("s.assign_timestamps('letter')", ("'letter' is string", "pc.field('letter').cast(pa.timestamp('ms'))")),
        ("ValueStateDescriptor('x', int)", ("<class 'int'>", "pa.int64()")),
        ("Lab(s)", ("an OperatorStream", "Lab(env)")),
        ("from kit.verify.explore import explore; explore(Lab(run_env()))", ("not a Lab", "give the environment")),
        ("show(1)", ("1 is an int", "expected a Lab")),
        ("len(s)", ("a stream has no length", "lab.output(")),
        ("for row in s: pass", ("a stream holds no rows to iterate over", "lab.output(")),
        ("Lab(run_env()).look.tasks['rows']", ("no task 'rows'", "AllTasksRunning")),
        ("FixedDelay('3', 1000)", ("attempts = '3'", "a whole number, 0 or more")),
        ("Lab(run_env()).faults.kill('rows')", ("no worker 'rows'", "which are numbers", "AllTasksRunning")),
        ("run(s).faults.kill(0)", ("no worker 0", "FINISHED", "lab.back(n)")),
        ("Lab(run_env()).run_until(checkpoint='1')", ("checkpoint '1'", "checkpoint=1 is the first")),
        ("StreamEnvironment('a', chekpoint_dir='/x')", ("takes no 'chekpoint_dir'", "checkpoint")),
        # --- functions
        ("run(s.filter(lambda row: row[0] > 1))", ("KeyError: 0", "a row is a dict", "row['letter']")),
        ("run(s.filter(lambda row: row.n > 1))", ("a row is a dict", "row['n']")),
        ("run(s.map(lambda a, b: a))", ("missing 1 required", "it is called with a row, a dict")),
    ],
)
def test_a_cell_says_what_was_found_and_what_to_write(source: str, says: tuple[str, ...]) -> None:
    cell = Cell()
    cell.names["run_env"] = lambda: _with_sink(cell)
    said = cell.typed(source)
    assert [words for words in says if words not in said] == [], said


def _with_sink(cell: Cell) -> StreamEnvironment:
    cell.names["s"].sink_to(CollectSink("out"), uid="out")
    return cell.names["env"]  # type: ignore[no-any-return]


def test_a_function_with_the_collector_of_java_is_told_how_rows_leave_it() -> None:
    class Java(kit.ProcessFunction):
        def process_element(self, row: Any, ctx: Any, out: Any) -> None:
            out.collect(row)

    said = _failure(Java)
    assert "process_element is called with a row, a dict, and a context" in said
    assert "ctx.emit(row)" in said


def test_the_timer_service_may_be_called_as_in_pyflink() -> None:
    class Timing(kit.KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(row["at"])

        def on_timer(self, timestamp: int, ctx: Any) -> None:
            ctx.emit({"letter": ctx.current_key, "n": 0, "at": timestamp})

    cell = Cell()
    keyed = cell.names["s"].assign_timestamps("at").key_by("letter")
    lab = cell._run(keyed.process(Timing).uid("timing"))
    assert len(lab.output("out")) == len(ROWS)


def _failure(function: type) -> str:
    cell = Cell()
    with pytest.raises(kit.JobFailedError) as caught:
        cell._run(cell.names["s"].process(function).uid("own"))
    return str(caught.value)


def _null_keys() -> StreamEnvironment:
    env = StreamEnvironment("nulls")
    rows = [{"k": "a", "n": 1}, {"k": None, "n": 2}]
    stream = env.from_source(CollectionSource(rows), uid="rows").key_by("k")
    stream.aggregate(n=kit.count()).uid("counts").sink_to(CollectSink("out"), uid="out")
    return env


def test_a_null_key_names_the_column_and_the_row_on_both_hosts() -> None:
    with pytest.raises(kit.JobFailedError) as in_the_lab:
        Lab(_null_keys()).run()
    with SparkJob(_null_keys(), launch=ThreadGang) as job, pytest.raises(kit.JobFailedError) as on_spark:
        job.start().wait()
    for caught in (in_the_lab, on_spark):
        said = str(caught.value)
        assert "key_by('k'): column 'k' is null in row {'k': None, 'n': 2}" in said
        assert "filter such rows out" in said


def test_a_job_that_was_cancelled_before_it_began_is_shown() -> None:
    env = _null_keys()
    lab = Lab(env)
    lab.cancel()
    assert "carry out" in lab.run()._repr_html_()
    assert lab.status == "CANCELED"


def test_a_savepoint_before_all_tasks_run_says_what_to_do() -> None:
    lab = Lab(_null_keys())
    request = lab.savepoint()
    lab.run_until(lambda lab: lab.look.master.epoch > 0 or len(lab.enabled()) == 0)
    with pytest.raises(LabError, match=r"run_until\(record='AllTasksRunning'\)"):
        lab.look.answer(request)


BOTH_HOSTS = [
    ({"claim_mode": "mine"}, ("claim_mode is 'mine'", "'CLAIM', 'NO_CLAIM', 'LEGACY'")),
    ({"later_output": "x"}, ("later_output is 'x'", "'error', 'discard', 'keep'")),
    ({"hooks": [1]}, ("1 is no master hook", "kit.MasterHook lists")),
    ({"restore_path": 5}, ("restore_path is 5", "path of a directory")),
    ({"path": "/x"}, ("takes no 'path'", "restore_path='...'")),
]


@pytest.mark.parametrize(("options", "says"), BOTH_HOSTS, ids=lambda value: next(iter(value)))
def test_both_hosts_word_wrong_options_alike(options: dict[str, Any], says: tuple[str, ...]) -> None:
    told = []
    for make in (Lab, lambda env, **given: SparkJob(env, launch=ThreadGang, **given).start()):
        with pytest.raises(Exception) as caught:
            make(_null_keys(), **options)  # type: ignore[operator]
        told.append(str(caught.value).replace("SparkJob()", "Lab()"))
    assert [words for words in says if words not in told[0]] == [], told[0]
    assert told[0] == told[1]


def test_a_wrong_directory_for_a_savepoint_is_named_on_both_hosts() -> None:
    with SparkJob(_null_keys(), launch=ThreadGang) as job:
        for host in (Lab(_null_keys()), job):
            for ask in (host.savepoint, host.stop):
                with pytest.raises(TypeError, match="target is 5, but must be the path of a directory"):
                    ask(5)  # type: ignore[call-overload, operator]
        with pytest.raises(TypeError, match="timeout_s is '1', but must be a number of seconds"):
            job.start().wait("1")  # type: ignore[arg-type]


def test_replay_takes_actions() -> None:
    with pytest.raises(LabError, match=r"replay takes the actions of a lab, other\.past\.actions; found 'x'"):
        Lab(_null_keys()).replay("x")  # type: ignore[arg-type]
