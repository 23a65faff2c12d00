"""The checkpoint kit: Apache Flink's checkpointing in Python, to step through in a notebook and to run on Spark.

The names that a job is written with are here; `kit.Lab` steps through a job in this process, `kit.SparkJob` runs it
on Spark. Importing `kit` needs neither Spark nor Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.graph import (
    CheckpointConfig,
    CheckpointingMode,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    StreamEnvironment,
)
from kit.graph import display as _display
from kit.operators import (
    BroadcastProcessFunction,
    CollectionSource,
    CollectSink,
    CoProcessFunction,
    CsvSource,
    EventTimeSessionWindows,
    GeneratorSource,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ParquetSink,
    ParquetSource,
    ProcessFunction,
    SlidingEventTimeWindows,
    TextSource,
    TumblingEventTimeWindows,
    avg,
    count,
    max_,
    min_,
    sum_,
)
from kit.protocol.properties import RetentionPolicy
from kit.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from kit.lab import Lab
    from kit.spark import SparkJob, create_session, running

_LAZY = {"Lab": "kit.lab", "SparkJob": "kit.spark", "create_session": "kit.spark", "running": "kit.spark"}


def _draw(env: StreamEnvironment) -> str:
    """The picture of a job in the making."""
    from kit.draw.chains import chains_svg

    return chains_svg(env)


_display.draw_with(_draw)


def __getattr__(name: str) -> Any:
    """The two hosts are imported when they are first asked for."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kit' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What Tab offers: the names below, and nothing that this file happens to need."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


__all__ = [
    "AggregatingStateDescriptor",
    "BroadcastProcessFunction",
    "CheckpointConfig",
    "CheckpointingMode",
    "CoProcessFunction",
    "CollectSink",
    "CollectionSource",
    "CsvSource",
    "EventTimeSessionWindows",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "GeneratorSource",
    "KeyedBatchFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "Lab",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "NoRestart",
    "OutputTag",
    "ParquetSink",
    "ParquetSource",
    "ProcessFunction",
    "ReducingStateDescriptor",
    "RetentionPolicy",
    "SlidingEventTimeWindows",
    "SparkJob",
    "StreamEnvironment",
    "TextSource",
    "TumblingEventTimeWindows",
    "ValueStateDescriptor",
    "avg",
    "count",
    "create_session",
    "max_",
    "min_",
    "running",
    "sum_",
]
