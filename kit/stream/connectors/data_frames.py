"""A data frame of Spark as a source: what the job says of it, whichever host runs the job.

Spark computes the rows. The Spark host has Spark write them once, and reads that copy (`kit.hosts.spark.frames`). A lab
has no copy: it collects a sample of the frame, if the job allows one. Nothing here imports Spark.

A streaming DataFrame has no end. Spark writes what it reads, batch after batch, to a directory that the job names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from kit.core.arguments.allowed import count, milliseconds, or_none
from kit.core.arguments.durations import Duration, to_ms
from kit.filesystems.places import absolute
from kit.stream.connectors.memory_sources import CollectionSource
from kit.stream.connectors.spark_frames import check_batch_frame, check_frame, frame_schema
from kit.stream.operators.sources.source import ReadResult, Source, Split


@dataclass(frozen=True, eq=False)
class DataFrameSource(Source):
    """The rows of a batch DataFrame of Spark, in no particular order.

    `sample` is the number of rows that a lab collects; with None a lab cannot run the job. On Spark it has no effect.

    Raises TypeError for anything but a DataFrame of a session with its own driver, ValueError for a streaming one,
    SchemaError if two columns have the same name.
    """

    frame: Any = field(repr=False)
    sample: int | None = None
    _schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_batch_frame(self.frame)
        self._check(sample=or_none(count(1), "no lab"))
        object.__setattr__(self, "_schema", frame_schema(self.frame))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the DataFrame, with times in UTC."""
        return self._schema

    @cached_property
    def _collected(self) -> CollectionSource:
        if self.sample is None:
            raise ValueError(
                "its rows are in Spark, and a lab keeps all rows in memory: give from_spark(df, sample=1_000) for a "
                "lab on that number of its rows, or run the job with SparkJob"
            )
        return CollectionSource(self.frame.limit(self.sample).toArrow().cast(self._schema))

    def enumerate_splits(self) -> list[Split]:
        """Return the ranges of the sample. Raises ValueError if there is none."""
        return self._collected.enumerate_splits()

    def splits_for(self, parallelism: int) -> list[Split]:
        """Return one range of the sample for each subtask."""
        return self._collected.splits_for(parallelism)

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Return rows of the sample."""
        return self._collected.read_split(split, position, max_rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the sample instead of the DataFrame, which only its own process can use."""
        if self.sample is not None:
            _ = self._collected
        return self.__dict__ | {"frame": None}

    def __repr__(self) -> str:
        return f"DataFrameSource({', '.join(self._schema.names)})"


@dataclass(frozen=True, eq=False)
class DataFrameStreamSource(Source):
    """The rows of a streaming DataFrame of Spark, without an end.

    `directory` keeps what Spark has read: its offsets, and the rows of each batch. A job that continues another one
    names the same directory. Spark looks for new rows every `trigger_every`.

    Raises TypeError for anything but a DataFrame of a session with its own driver, ValueError for one that is not
    streaming, SchemaError if two columns have the same name.
    """

    frame: Any = field(repr=False)
    directory: str
    trigger_every: Duration = 1_000
    _schema: pa.Schema = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_frame(self.frame, "from_spark_stream")
        if not self.frame.isStreaming:
            raise ValueError(
                "from_spark_stream was given a DataFrame that is not streaming: write env.from_spark(df, uid='rows'), "
                "or give one of spark.readStream"
            )
        object.__setattr__(self, "directory", absolute(self.directory).rstrip("/"))
        object.__setattr__(self, "trigger_every", to_ms(self.trigger_every, "trigger_every"))
        self._check(trigger_every=milliseconds(1))
        object.__setattr__(self, "_schema", frame_schema(self.frame))

    @property
    def trigger_every_ms(self) -> int:
        """The time in ms between two batches of Spark."""
        assert isinstance(self.trigger_every, int)  # in ms, since the source was made
        return self.trigger_every

    @property
    def schema(self) -> pa.Schema:
        """The columns of the DataFrame, with times in UTC."""
        return self._schema

    def enumerate_splits(self) -> list[Split]:
        """Raise ValueError: only Spark's own stream has rows."""
        raise ValueError(
            "only Spark reads a streaming DataFrame: run the job with SparkJob, or give a lab another source here, "
            "such as CollectionSource(rows)"
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"frame": None}

    def __repr__(self) -> str:
        return f"DataFrameStreamSource({', '.join(self._schema.names)})"
