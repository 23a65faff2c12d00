"""The checkpoint kit: Apache Flink's checkpointing in Python, to step through in a notebook and to run on Spark.

The names that a job is written with are here; `kit.Lab` steps through a job in this process, `kit.SparkJob` runs it
on Spark. Importing `kit` needs neither Spark nor Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.api import StreamEnvironment
from kit.api.environment import draw_with as _draw_with
from kit.backend.descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from kit.backend.keyed_states import AggregatingState, ListState, MapState, ReducingState, ValueState
from kit.backend.operator_store import BroadcastState, OperatorListState
from kit.connectors import (
    CollectionSource,
    CollectSink,
    CsvSource,
    GeneratorSource,
    ParquetSink,
    ParquetSource,
    TextSource,
)
from kit.graph import (
    CheckpointConfig,
    CheckpointingMode,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    Parts,
    RescaleConfig,
)
from kit.operators import (
    BatchContext,
    BatchState,
    BatchTimers,
    BroadcastContext,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoProcessFunction,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBatchFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedProcessFunctionContext,
    KeyedReadOnlyContext,
    OperatorStates,
    OutputTag,
    ProcessFunction,
    ProcessFunctionContext,
    ReadOnlyBroadcastState,
    ReadOnlyContext,
    SlidingEventTimeWindows,
    TimerServiceView,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
    avg,
    count,
    max_,
    min_,
    sum_,
)
from kit.protocol.properties import RetentionPolicy
from kit.protocol.showing import show_with as _show_with
from kit.protocol.trace import explain_with as _explain_with

if TYPE_CHECKING:
    from kit.checkup import doctor
    from kit.coordinator import MasterHook
    from kit.draw import Svg
    from kit.glossary import where
    from kit.host.job_failed import JobFailedError
    from kit.lab import Lab
    from kit.protocol.trace import Trace
    from kit.spark import SparkJob, create_session, running
    from kit.why import Why

_LAZY = {
    "JobFailedError": "kit.host.job_failed",
    "Lab": "kit.lab",
    "MasterHook": "kit.coordinator",
    "SparkJob": "kit.spark",
    "Trace": "kit.protocol.trace",
    "create_session": "kit.spark",
    "doctor": "kit.checkup",
    "running": "kit.spark",
    "where": "kit.glossary",
}


def _draw(env: StreamEnvironment) -> Svg:
    """The picture of a job in the making."""
    from kit.draw.chains import chains_svg

    return chains_svg(env)


_draw_with(_draw)


def _explain(trace: Trace, about: object = None, **named: Any) -> Why:
    """The answer to a question about a trace."""
    from kit.why import why

    return why(trace, about, **named)


_explain_with(_explain)


def show(thing: Any = None, *, tab: bool = False) -> Any:
    """Open the explorer: on a Lab, a SparkJob, a Trace, a play, or a job that is then stepped through in a lab. The job
    is a StreamEnvironment, a JobGraph, or the name of a ready one (`kit.lab.ready_jobs()`, the default is the first).

    With `tab` the explorer gets a tab of its own in JupyterLab. Raises TypeError for what is none of these.
    """
    from importlib import import_module

    return import_module("widgets.explorer").show(thing, tab=tab)


_show_with(show)


def __getattr__(name: str) -> Any:
    """The hosts are imported when they are first asked for, and what else not every script needs."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'kit' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What Tab offers: the names below, and nothing that this file happens to need."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BatchContext",
    "BatchState",
    "BatchTimers",
    "BroadcastContext",
    "BroadcastProcessFunction",
    "BroadcastState",
    "CheckpointConfig",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CoProcessFunction",
    "CollectSink",
    "CollectionSource",
    "CsvSource",
    "CumulativeEventTimeWindows",
    "EventTimeSessionWindows",
    "ExponentialDelay",
    "FailureRate",
    "FixedDelay",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GeneratorSource",
    "JobFailedError",
    "KeyedBatchFunction",
    "KeyedBroadcastContext",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedProcessFunctionContext",
    "KeyedReadOnlyContext",
    "Lab",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MasterHook",
    "NoRestart",
    "OperatorListState",
    "OperatorStates",
    "OutputTag",
    "ParquetSink",
    "ParquetSource",
    "Parts",
    "ProcessFunction",
    "ProcessFunctionContext",
    "ReadOnlyBroadcastState",
    "ReadOnlyContext",
    "ReducingState",
    "ReducingStateDescriptor",
    "RescaleConfig",
    "RetentionPolicy",
    "SlidingEventTimeWindows",
    "SparkJob",
    "StreamEnvironment",
    "TextSource",
    "TimerServiceView",
    "Trace",
    "TumblingEventTimeWindows",
    "ValueState",
    "ValueStateDescriptor",
    "Window",
    "WindowAssigner",
    "avg",
    "count",
    "create_session",
    "doctor",
    "max_",
    "min_",
    "running",
    "show",
    "sum_",
    "where",
]
