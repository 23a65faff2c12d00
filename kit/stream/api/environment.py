"""The start of a job: its settings, its sources, and the graphs that are built from it.

    env = StreamEnvironment("flights", parallelism=2, checkpoint=CheckpointConfig(interval_ms=1_000))
    (
        env.from_source(ParquetSource("flights.parquet"), uid="flights")
        .key_by("carrier")
        .aggregate(flights=count(), delay=sum_("arr_delay"))
        .uid("totals")
        .sink_to(CollectSink(), uid="out")
    )
    env.job_graph()

Follows Flink's `StreamExecutionEnvironment` and `StreamGraphGenerator`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from kit.core.arguments.allowed import FLAG, expect
from kit.core.arguments.durations import Duration
from kit.core.arguments.signposts import CHECKPOINTS, ENVIRONMENT, SignedType, no_attribute, takes
from kit.core.display import Picture, display
from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html, rows_html
from kit.core.markup import element
from kit.stream.api.datastream import OperatorStream
from kit.stream.api.display import operators_table
from kit.stream.api.transformation import Transformation, check_parallelism
from kit.stream.api.transformations import Transformations
from kit.stream.connectors.data_frames import DataFrameSource, DataFrameStreamSource
from kit.stream.connectors.frame_files import files_of_frame
from kit.stream.connectors.memory_sources import source_of
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.hashing import murmur3_128
from kit.stream.graph.job_graph import JobGraph, create_job_graph
from kit.stream.graph.stream_graph import GraphError, StreamGraph
from kit.stream.operators.sources.source import DEFAULT_BATCH_ROWS, Source
from kit.stream.operators.sources.source_spec import SourceSpec
from kit.stream.operators.spec import shorten
from kit.stream.settings.job_settings import (
    CheckpointConfig,
    FailoverStrategy,
    JobSettings,
    RescaleConfig,
    RestartStrategy,
    StateBackend,
    default_restart_strategy,
)

if TYPE_CHECKING:
    import pandas as pd


_EXPECTED = {
    "checkpoint": "a CheckpointConfig, such as CheckpointConfig(interval_ms=1_000)",
    "restart": "a strategy, such as FixedDelay(attempts=3, delay_ms=1_000) or NoRestart()",
    "rescaling": "a RescaleConfig, such as RescaleConfig()",
}


class StreamEnvironment(metaclass=SignedType):
    """A job that is being built.

    `parallelism` and `max_parallelism` apply to operators that do not set their own. `job_id` (32 hex digits) is
    derived from the name by default; on Spark, where runs share directories, each run then gets an id of its own. With
    `chaining` False every operator gets a task of its own.

    Without `restart`, a job with periodic checkpoints restarts with growing delays, as in Flink
    (`default_restart_strategy`); in the lab it restarts ten times. Three failures with the same cause, without a
    completed checkpoint in between, end a job unless `restart` counts its restarts. `failover` says which tasks restart
    after a failure: those that exchanges connect with the failed one ("region"), or all ("full"). `rescaling` says when
    a running job may change its parallelism. With `state_backend` "disk", state that exceeds `state_memory_mb` in a
    slot is in files below `state_directory`. For these, `buffer_bytes`, `channel_credits` and `turn_ms` see
    `JobSettings`. Raises GraphError and SettingError.

    In a notebook, running a cell again removes what it added before and what depended on that. In a script each line
    adds to the job.
    """

    class_signs = ENVIRONMENT

    @takes(
        **dict.fromkeys(("checkpoint_interval", "checkpointing", "interval_ms", "checkpoint_interval_ms"), CHECKPOINTS),
        restart_strategy="write restart=FixedDelay(attempts=3, delay_ms=1_000)",
    )
    def __init__(
        self,
        name: str = "job",
        *,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        checkpoint: CheckpointConfig | None = None,
        restart: RestartStrategy | None = None,
        failover: FailoverStrategy | str = FailoverStrategy.REGION,
        rescaling: RescaleConfig | None = None,
        job_id: str | None = None,
        buffer_bytes: int = 4 * 1024 * 1024,
        channel_credits: int = 2,
        turn_ms: int = 60,
        state_backend: StateBackend | str = StateBackend.MEMORY,
        state_memory_mb: float = 256,
        state_directory: str | None = None,
        chaining: bool = True,
    ) -> None:
        expect(isinstance(name, str), "name", name, "a text")
        expect(FLAG.test(chaining), "chaining", chaining, FLAG.text)
        for setting, found, kind in (
            ("checkpoint", checkpoint, CheckpointConfig),
            ("restart", restart, RestartStrategy),
            ("rescaling", rescaling, RescaleConfig),
        ):
            expect(found is None or isinstance(found, kind), setting, found, _EXPECTED[setting])
        check_parallelism(name, parallelism, max_parallelism)
        self.name = name
        self.has_job_id = job_id is not None
        self.job_id = murmur3_128(name.encode()).hex() if job_id is None else job_id
        if not (isinstance(self.job_id, str) and re.fullmatch("[0-9a-f]{32}", self.job_id)):
            raise GraphError(f"job id {self.job_id!r}: expected 32 hex digits, in lower case")
        self.chaining = chaining
        checkpoint = checkpoint or CheckpointConfig()
        self.settings = JobSettings(
            checkpoint=checkpoint,
            restart=restart or default_restart_strategy(checkpoint),
            restart_is_default=restart is None,
            failover=failover,  # type: ignore[arg-type]  # a name becomes its member
            rescaling=rescaling or RescaleConfig(),
            buffer_bytes=buffer_bytes,
            channel_credits=channel_credits,
            turn_ms=turn_ms,
            state_backend=state_backend,  # type: ignore[arg-type]  # a name becomes its member
            state_memory_mb=state_memory_mb,
            state_directory=state_directory,
        )
        self.transformations = Transformations(parallelism, max_parallelism)

    if not TYPE_CHECKING:  # else mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, ENVIRONMENT)

    @property
    def parallelism(self) -> int:
        """The parallelism of the operators that do not set their own, those that exist already included. In Flink a
        new value applies to operators added later. A lab or a job that was made before keeps the number it has.
        """
        return self.transformations.defaults.parallelism

    @parallelism.setter
    def parallelism(self, parallelism: int) -> None:
        self.transformations.set_defaults(self.name, parallelism, self.max_parallelism)

    @property
    def max_parallelism(self) -> int | None:
        """The maximum parallelism of these operators; None: it follows from an operator's parallelism."""
        return self.transformations.defaults.max_parallelism

    @max_parallelism.setter
    def max_parallelism(self, max_parallelism: int | None) -> None:
        self.transformations.set_defaults(self.name, self.parallelism, max_parallelism)

    @property
    def operators(self) -> list[Transformation]:
        """The present operators, each after those that it depends on."""
        return list(self.transformations)

    def from_source(self, source: Source | Any, uid: str | None = None, name: str | None = None) -> OperatorStream:
        """Return the stream of a source's records.

        `source` may also be a data frame of pandas, or a table or a record batch of Arrow. It becomes a
        `CollectionSource`, whose rows are sent to Spark's workers with the job. If it is larger than some hundred MB,
        write it to Parquet and read it with `ParquetSource`. Raises TypeError for anything else. A DataFrame of Spark
        is read with `from_spark`.
        """
        source = source_of(source)
        added = self.transformations.add(SourceSpec(source, name=type(source).__name__))
        return OperatorStream(self.transformations, added).identified(uid, name)

    def from_spark(
        self,
        frame: Any,
        uid: str | None = None,
        name: str | None = None,
        *,
        mode: str = "staged",
        sample: int | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        rows_per_second: float | None = None,
    ) -> OperatorStream:
        """Return the stream of the rows of a Spark DataFrame, in no particular order.

            env.from_spark(spark.read.jdbc(url, "orders"), uid="orders")

        When the job starts, Spark writes the rows once, as Parquet files below the checkpoint directory, and the job
        reads these. So whatever Spark reads is a source, and a restart reads the same rows, even those of `rand()`. A
        lab collects `sample` rows, and cannot run the job without it. `rows_per_second` and `batch_rows` are those of
        a `Source`.

        With `mode="direct"`, the job reads the Parquet files of the DataFrame by itself, in a lab too, and nothing is
        written. This needs a DataFrame that only selects columns of Parquet files, which must stay until the job has
        ended.

        Raises TypeError for anything but a DataFrame of a session with its own driver, ValueError for a streaming one
        and for one that cannot be read directly, SchemaError for columns that a job cannot have.
        """
        expect(mode in ("staged", "direct"), "mode", mode, "'staged' or 'direct'")
        limits: dict[str, Any] = {"batch_rows": batch_rows, "rows_per_second": rows_per_second}
        direct = mode == "direct"
        source: Source = files_of_frame(frame, **limits) if direct else DataFrameSource(frame, sample, **limits)
        return self.from_source(source, uid, name)

    def from_spark_stream(
        self,
        frame: Any,
        directory: str | PathLike[str],
        uid: str | None = None,
        name: str | None = None,
        *,
        trigger_every: Duration = 1_000,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        rows_per_second: float | None = None,
    ) -> OperatorStream:
        """Return the stream of the rows of a streaming DataFrame of Spark, without an end.

            env.from_spark_stream(spark.readStream.format("kafka").options(...).load(), "orders-stream", uid="orders")

        While the job runs, a query of Spark looks for new rows every `trigger_every` and writes each batch once to
        `directory`, with the offsets of its source. A checkpoint holds the batches that the job has read and the
        positions in them. A job that resumes from a savepoint needs the same directory, and a job that starts from
        scratch reads from the first batch there. The query needs cores of Spark beside the job's slots.

        Raises TypeError for anything but a DataFrame of a session with its own driver, ValueError for one that is not
        streaming, SchemaError for columns that a job cannot have.
        """
        source = DataFrameStreamSource(
            frame, fspath(directory), trigger_every, batch_rows=batch_rows, rows_per_second=rows_per_second
        )
        return self.from_source(source, uid, name)

    def stream_graph(self) -> StreamGraph:
        """Return the job in its present form, including operators that reach no sink."""
        self.transformations.warn_of_removed()
        return self._stream_graph(self.operators)

    def _stream_graph(self, operators: list[Transformation]) -> StreamGraph:
        if not operators:
            raise GraphError(f"job {self.name!r} has no operators: begin with env.from_source(...)")
        return StreamGraph(
            name=self.name,
            job_id=self.job_id,
            nodes=tuple(operator.to_node() for operator in operators),
            edges=tuple(edge for operator in operators for edge in operator.to_edges()),
            settings=self.settings,
            chaining=self.chaining,
        )

    def job_graph(self) -> JobGraph:
        """Return the job as tasks, with everything chained that may be.

        Operators that reach no sink are left out, with a warning; functions (`process`) are kept, since they may have
        side effects.

        Flink: `FlinkPipelineTranslationUtil`, whose `getJobGraph` has a `StreamGraphTranslator` call
        `StreamGraph.getJobGraph`. Flink's `PipelineExecutor` submits the graph to a cluster; here `Lab` and `SparkJob`
        take it, so no executor is looked up.
        """
        self.transformations.warn_of_removed()
        return create_job_graph(self._stream_graph(self.transformations.used()))

    def execution_graph(self, parallelism: Mapping[str, int] | None = None) -> ExecutionGraph:
        """Return the job as subtasks and channels, with another parallelism for some vertices if given."""
        return ExecutionGraph(self.job_graph(), parallelism)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per operator: operator, kind, uid, parallelism, inputs, columns."""
        return operators_table(self.transformations)

    def _repr_svg_(self) -> str | None:
        """Return the job as a picture, or None if it cannot be drawn or is incomplete."""
        picture = self._picture()
        return None if picture is None else picture._repr_svg_()

    def _repr_html_(self) -> str:
        """Return the picture in the page's colours; without one, the operators as a table and what is missing."""
        picture = self._picture()
        if picture is not None:
            return picture._repr_html_()
        frame, problem = self.to_pandas(), ""
        try:
            self.stream_graph()
        except GraphError as error:
            problem = rows_html(("this is not a job yet",), [(str(error),)])
        about = element("div", element("b", shorten(repr(self))))
        return notebook_html("", about, frame_html(frame, NOTEBOOK_ROWS, all_in=".to_pandas()"), problem)

    def _picture(self) -> Picture | None:
        try:
            return display("chains_svg", self) if len(self.transformations) else None
        except (ImportError, GraphError):
            return None

    def __repr__(self) -> str:
        return f"StreamEnvironment({self.name!r}, {len(self.operators)} operators)"
