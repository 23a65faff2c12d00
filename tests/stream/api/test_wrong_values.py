"""Values of a wrong kind: each is rejected immediately, in one line that names the setting and the accepted values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit import (
    CollectionSource,
    CollectSink,
    CsvSource,
    CumulativeEventTimeWindows,
    DirectorySource,
    EventTimeSessionWindows,
    GeneratorSource,
    Lab,
    OutputTag,
    ParquetSink,
    ParquetSource,
    SlidingEventTimeWindows,
    SparkJob,
    StreamEnvironment,
    TailSource,
    TextSource,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    count,
    create_session,
    dispose_savepoint,
    doctor,
    open_checkpoint,
    open_checkpoints,
    show,
    sum_,
    where,
)
from kit.advice import advise
from kit.core.state.errors import StateDescriptorError
from kit.hosts.lab import LabError, open_scenario, save_scenario
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.wire.endpoint import WireSettings
from kit.stream.connectors import RollingPolicy
from kit.verify.explore import explore
from kit.verify.swarm.swarm import swarm
from tests.hosts.spark.jobs import ThreadGang

ROWS = [{"letter": "abc"[n % 3], "n": n} for n in range(9)]
WRONG = ["x", -7, 0.5, True, [], {}, object(), dict]
"""No setting below takes one of these, unless its name is followed by the ones that it does take."""


def job() -> SparkJob:
    return SparkJob(environment(), launch=ThreadGang)


def environment() -> StreamEnvironment:
    env = StreamEnvironment("letters")
    stream(env).sink_to(CollectSink("out"))
    return env


def stream(env: StreamEnvironment | None = None) -> Any:
    return (env or StreamEnvironment("letters")).from_source(CollectionSource(ROWS), uid="letters")


def keyed() -> Any:
    return stream().key_by("letter")


def timed() -> Any:
    return stream().assign_timestamps("n").key_by("letter")


def joined() -> Any:
    other = stream().rename(letter="other", n="at").assign_timestamps("at").key_by("other")
    return timed().interval_join(other)


def windowed() -> Any:
    return timed().window(TumblingEventTimeWindows(10))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("files")
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, directory / "rows.parquet")
    (directory / "rows.csv").write_text("letter,n\na,1\n")
    return str(directory)


NUMBERS = {"rows_per_second": [0.5], "batch_rows": [], "backlog_splits": []}
NAMES = ["x"]
FLAGS = [True]
SETTINGS: dict[str, tuple[Callable[..., Any], dict[str, list[Any]]]] = {
    "DriverSettings": (
        DriverSettings,
        {
            "host": NAMES,
            "port": [],
            "advertised_host": NAMES,
            "slot_host": NAMES,
            "start_timeout_s": [0.5],
            "leave_ms": [],
            "kill_ms": [],
            "abandon_ms": [],
            "leader_check_ms": [],
            "trace_records": [],
            "wire": [],
        },
    ),
    "WireSettings": (
        WireSettings,
        {
            "heartbeat_interval_ms": [],
            "heartbeat_timeout_ms": [],
            "handshake_timeout_ms": [],
            "max_frame_bytes": [],
            "compression": [],
            "tls": [],
            "unix_sockets": FLAGS,
        },
    ),
    "RollingPolicy": (
        RollingPolicy,
        {"max_bytes": [], "max_rows": [], "rollover_ms": [], "inactivity_ms": [], "held_rows": []},
    ),
    "CollectionSource": (lambda **of: CollectionSource(ROWS, **of), {"columns": [{}], "splits": [], **NUMBERS}),
    "GeneratorSource": (
        lambda **of: GeneratorSource(**{"rows": 9, "key_count": 3, **of}),
        {"rows": [], "key_count": [], "seed": [-7], "splits": [], **NUMBERS},
    ),
    "CollectSink": (CollectSink, {"path": NAMES}),
    "ParquetSink": (ParquetSink, {"path": NAMES}),
    "StreamEnvironment": (StreamEnvironment, {"parallelism": [], "job_id": [], "chaining": FLAGS}),
    "Lab": (lambda **of: Lab(environment(), **of), {"allow_non_restored_state": FLAGS, "recover": FLAGS}),
    "SparkJob": (
        lambda **of: SparkJob(environment(), **of),
        {"allow_non_restored_state": FLAGS, "recover": FLAGS, "settings": [], "launch": [dict]},
    ),
    "Lab.stop": (lambda **of: lab().stop(**of), {"drain": FLAGS, "wait": FLAGS, "target": NAMES}),
    "Lab.trigger_checkpoint": (lambda **of: lab().trigger_checkpoint(**of), {"full": FLAGS, "wait": FLAGS}),
    "Lab.savepoint": (lambda **of: lab().savepoint(**of), {"wait": FLAGS, "target": NAMES}),
    "Lab.rescale": (lambda **of: lab().rescale(1, **of), {"at_once": FLAGS, "wait": FLAGS}),
    "Lab.run_until": (
        lambda **of: lab().run_until(**of),
        {"ended": FLAGS, "checkpoint": [], "at_ms": [], "until": [dict]},
    ),
    "Lab.show": (lambda **of: lab().show(**of), {"tab": FLAGS}),
    "Lab.look.answer": (lambda request: lab().look.answer(request=request), {"request": [-7]}),
    "Lab.look.why_not": (lambda action: lab().look.why_not(action=action), {"action": []}),
    "SparkJob.stop": (lambda **of: job().stop(**of), {"drain": FLAGS, "wait": FLAGS}),
    "SparkJob.trigger_checkpoint": (lambda **of: job().trigger_checkpoint(**of), {"full": FLAGS, "wait": FLAGS}),
    "SparkJob.savepoint": (lambda **of: job().savepoint(**of), {"wait": FLAGS}),
    "SparkJob.rescale": (lambda **of: job().rescale(1, **of), {"at_once": FLAGS, "wait": FLAGS}),
    "SparkJob.wait": (lambda **of: job().wait(**of), {"progress": FLAGS, "timeout_s": [-7, 0.5]}),
    "SparkJob.wait_until_running": (
        lambda **of: job().wait_until_running(**of),
        {"restarts": [], "timeout_s": [-7, 0.5]},
    ),
    "SparkJob.faults.kill": (lambda slot: job().faults.kill(slot=slot), {"slot": []}),
    "show": (lambda tab: show(lab(), tab=tab), {"tab": FLAGS}),
    "open_checkpoint": (
        lambda **of: open_checkpoint(**{"path": "/nope", **of}),
        {"path": NAMES, "follow": FLAGS, "decoders": [{}], "file_system": []},
    ),
    "open_checkpoints": (
        lambda **of: open_checkpoints(**{"directory": "/nope", **of}),
        {"directory": NAMES, "follow": FLAGS, "file_system": []},
    ),
    "dispose_savepoint": (
        lambda **of: dispose_savepoint(**{"path": "/nope", **of}),
        {"path": NAMES, "file_system": []},
    ),
    "advise": (advise, {"figures": []}),
    "where": (where, {"name": NAMES}),
    "doctor": (doctor, {"spark": FLAGS, "start_spark": FLAGS}),
    "open_scenario": (open_scenario, {"name": NAMES}),
    "save_scenario": (lambda path: save_scenario(lab(), path), {"path": NAMES}),
    "swarm": (lambda **of: swarm(range(1), environment(), **of), {"check": [dict], "progress": [dict]}),
    "execution_graph": (lambda **of: environment().execution_graph(**of), {"parallelism": [{}]}),
    "map, arguments": (lambda arguments: stream().map(dict, arguments=arguments), {"arguments": [[], {}]}),
    "rename": (lambda n: stream().rename(n=n), {"n": NAMES}),
    "with_column": (lambda type: stream().with_column("m", lambda batch: batch.column("n"), type), {"type": []}),
    "allowed_lateness": (lambda **of: windowed().allowed_lateness(**of), {"lateness_ms": []}),
    "ParquetSink, partition_by": (lambda **of: ParquetSink("out", **of), {"partition_by": ["x", [], {}]}),
    "create_session": (create_session, {"app_name": NAMES, "slots": [], "master": NAMES, "config": [{}]}),
    "OutputTag": (lambda **of: OutputTag(**{"name": "late", "columns": {}, **of}), {"name": NAMES, "columns": [{}]}),
    "ValueStateDescriptor": (lambda name: ValueStateDescriptor(name, pa.int64()), {"name": NAMES}),
    "sum_": (sum_, {"column": NAMES}),
    "count": (count, {"column": NAMES}),
    "map": (lambda returns: stream().map(dict, returns=returns), {"returns": [{}]}),
    "union": (lambda other: stream().union(other), {"other": []}),
    "connect": (lambda other: stream().connect(other), {"other": []}),
    "join": (lambda other: stream().join(other), {"other": []}),
    "interval_join": (lambda other: keyed().interval_join(other), {"other": []}),
    "apply": (lambda spec: stream().apply(spec), {"spec": []}),
    "broadcast": (lambda state: stream().broadcast(state), {"state": []}),
    "partition_custom": (lambda function: stream().partition_custom(function, "n"), {"function": [dict]}),
    "side_output": (lambda tag: stream().map(dict).side_output(tag), {"tag": []}),
    "side_output_late_data": (lambda tag: windowed().side_output_late_data(tag), {"tag": []}),
    "side_output_left_late_data": (
        lambda tag: joined().side_output_left_late_data(tag),
        {"tag": []},
    ),
    "side_output_right_late_data": (
        lambda tag: joined().side_output_right_late_data(tag),
        {"tag": []},
    ),
    "assign_timestamps": (lambda column: stream().assign_timestamps(column), {"column": []}),
}
OF_FILES = {
    "CsvSource": (
        CsvSource,
        "rows.csv",
        {
            "columns": [{}],
            "delimiter": NAMES,
            "null_values": [[], {}],
            "header": FLAGS,
            "quote": NAMES,
            "escape": NAMES,
            "multiline": FLAGS,
            "encoding": [],
            "types": [{}],
            **NUMBERS,
        },
    ),
    "ParquetSource": (ParquetSource, "rows.parquet", {"columns": [[], {}], "splits": [], **NUMBERS}),
    "TextSource": (TextSource, "rows.csv", {"columns": [[], {}], "splits": [], **NUMBERS}),
    "TailSource": (TailSource, "rows.csv", {"columns": [[], {}], "delimiter": NAMES, "format": [], **NUMBERS}),
    "DirectorySource": (DirectorySource, "", {"columns": [{}], "format": [], "discover_every": [], **NUMBERS}),
}


def wrong_values(takes: list[Any]) -> list[Any]:
    return [value for value in WRONG if not any(value is one or value == one for one in takes)]


def assert_refused(make: Callable[..., Any], setting: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError, StateDescriptorError, LabError)) as refused:
        make(**{setting: value})
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    assert repr(value)[:20] in text or getattr(value, "__name__", text) in text
    assert "raise " in str(refused.traceback[-1].statement), "an error of Python's own, not of the kit"


@pytest.mark.parametrize(("of", "setting"), [(of, setting) for of, (_, kinds) in SETTINGS.items() for setting in kinds])
def test_a_value_of_a_wrong_kind_is_refused_where_it_is_given(of: str, setting: str) -> None:
    make, settings = SETTINGS[of]
    for value in wrong_values(settings[setting]):
        assert_refused(make, setting, value)


@pytest.mark.parametrize(
    ("of", "setting"), [(of, setting) for of, (*_, kinds) in OF_FILES.items() for setting in kinds]
)
def test_a_source_of_files_refuses_it_too(of: str, setting: str, files: str) -> None:
    make, name, settings = OF_FILES[of]
    for value in wrong_values(settings[setting]):
        assert_refused(lambda **given: make(f"{files}/{name}", **given), setting, value)


WINDOWS = [TumblingEventTimeWindows, SlidingEventTimeWindows, EventTimeSessionWindows, CumulativeEventTimeWindows]


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_window_without_a_size_is_refused(kind: Callable[..., Any]) -> None:
    names = [name for name in kind.__match_args__ if name != "offset_ms"]  # type: ignore[attr-defined]
    for name in names:
        with pytest.raises(ValueError, match=f"{name} = None: expected whole milliseconds"):
            kind(**{**dict.fromkeys(names, 10), name: None})


def test_what_is_meant_is_said() -> None:
    for act, says in (
        (lambda: DriverSettings(start_timeout_s="x"), "start_timeout_s = 'x': expected a number of seconds above 0"),
        (lambda: create_session(5), "app_name = 5: expected a name, .*write slots=4"),
        (lambda: stream().map(dict, returns={"n": int}), "column 'n' has the type <class 'int'>: .* pa.int64()"),
        (lambda: SparkJob(environment(), record="/nowhere"), "record is '/nowhere', but there is no such directory"),
    ):
        with pytest.raises((ValueError, OSError), match=says):
            act()  # type: ignore[arg-type]
    assert DriverSettings(leave_ms="1min").leave_ms == 60_000  # type: ignore[arg-type]
    assert RollingPolicy(rollover_ms="10s").rollover_ms == 10_000  # type: ignore[arg-type]


LAB: dict[str, Callable[..., Any]] = {
    "run_until": lambda value: lab().run_until(record=value),
    "kill": lambda value: lab().faults.kill(worker=value),
    "lose": lambda value: lab().faults.lose(what=value),
    "fail": lambda value: lab().faults.fail(what=value),
    "offer_slots": lambda value: lab().faults.offer_slots(slots=value),
    "replay": lambda value: lab().replay([value]),
    "explore, kinds": lambda value: explore(environment(), kinds=value),
    "explore, faults": lambda value: explore(environment(), faults=value),
    "explore, checkpoints": lambda value: explore(environment(), checkpoints=value),
    "explore, properties": lambda value: explore(environment(), value),
    "swarm, seeds": lambda value: swarm(seeds=value),
    "swarm, faults": lambda value: swarm(range(1), faults=value),
    "swarm, most_failures": lambda value: swarm(range(1), most_failures=value),
    "swarm, shrink": lambda value: swarm(range(1), shrink=value),
}


def lab() -> Lab:
    found = Lab(environment())
    found.step()
    return found


@pytest.mark.parametrize("call", LAB)
@pytest.mark.parametrize("value", ["x", -7, 0.5, dict])
def test_the_lab_explorations_and_swarms_refuse_it_too(call: str, value: Any) -> None:
    with pytest.raises(LabError) as refused:
        LAB[call](value)
    assert len(str(refused.value).splitlines()) == 1
