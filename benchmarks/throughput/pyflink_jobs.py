"""W5 and W6 in PyFlink: a keyed process function of its DataStream API, and a scalar function of its Table API.

Parallelism 2, object reuse, state on the heap, bundles of ten thousand rows. Java makes the rows and sums up what comes
out (`flink/Rows.java`, a jar of ours that is given by KIT_BENCH_JAR). Timed is from the first row that is made to the
last that comes out.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import DataTypes, StreamTableEnvironment
from pyflink.table.udf import udf

from benchmarks.throughput import workloads
from benchmarks.throughput.measured import Measured, main_of_peer


class RunningTotal(KeyedProcessFunction):
    """W5, a row at a time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_state(ValueStateDescriptor("running", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        total = (self._state.value() or 0) + value[1]
        self._state.update(total)
        yield value[0], total


@udf(result_type=DataTypes.BIGINT())
def mapped(key: int, value: int) -> int:
    """W6."""
    return (key * 31 + value) % 1_000


def _let_java_find_packages() -> None:
    """Python within Java's threads starts from this variable, and knows nothing of our environment."""
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), sysconfig.get_path("purelib")])


def environment(directory: Path, interval_ms: int) -> StreamTableEnvironment:
    """Settings of both jobs."""
    settings = Configuration()
    jar = Path(os.environ["KIT_BENCH_JAR"]).as_uri()
    for name, value in {
        "pipeline.jars": jar,
        "pipeline.object-reuse": "true",
        "pipeline.global-job-parameters": f"directory:{directory}",
        "state.backend.type": "hashmap",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "execution.checkpointing.interval": f"{interval_ms} ms",
        "python.fn-execution.bundle.size": "10000",
        "python.fn-execution.bundle.time": "200",
        "taskmanager.memory.managed.size": "512mb",
        "python.execution-mode": "thread",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "restart-strategy.type": "none",
    }.items():
        settings.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    for function in ("Scatter", "Fold"):
        tables.create_java_temporary_system_function(function, f"Rows${function}")
    return tables


def measure(workload: str, rows: int, directory: Path, texts: list[Path], interval_ms: int = 1_000) -> Measured:
    """One job."""
    tables = environment(directory, interval_ms)
    tables.execute_sql(
        "CREATE TEMPORARY TABLE numbers (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000000', "
        f"'fields.i.kind' = 'sequence', 'fields.i.start' = '0', 'fields.i.end' = '{rows - 1}')"
    )
    tables.execute_sql("CREATE TEMPORARY TABLE nowhere (folded BIGINT) WITH ('connector' = 'blackhole')")
    value = f"Scatter(i) % {workloads.KEYS} % {workloads.VALUES} + 1" if workload == "W5" else f"i % {workloads.VALUES}"
    given = tables.sql_query(f"SELECT Scatter(i) % {workloads.KEYS} AS k, {value} AS v FROM numbers")
    if workload == "W5":
        stream = tables.to_data_stream(given).key_by(lambda row: row[0], key_type=Types.LONG())
        totals = stream.process(RunningTotal(), output_type=Types.TUPLE([Types.LONG(), Types.LONG()]))
        tables.create_temporary_view("made", tables.from_data_stream(totals).alias("k", "v"))
    else:
        tables.create_temporary_function("mapped", mapped)
        tables.create_temporary_view("given", given)
        tables.create_temporary_view("made", tables.sql_query("SELECT k, mapped(k, v) AS v FROM given"))
    tables.execute_sql("INSERT INTO nowhere SELECT Fold(k, v) FROM made").wait()
    made = [path.read_text().split() for path in directory.glob("Scatter*.txt")]
    folded = [path.read_text().split() for path in directory.glob("Fold*.txt")]
    seconds = (max(int(end) for _, end in folded) - min(int(begin) for begin, _ in made)) / 1e9
    checksum = workloads.added(*(int(total) for total, _ in folded))
    return Measured(rows, seconds, int(seconds * 1_000 / interval_ms), checksum)


if __name__ == "__main__":
    _let_java_find_packages()
    main_of_peer(measure)
