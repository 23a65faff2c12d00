"""The checkpoint kit: Apache Flink's checkpointing in Python, to step through in a notebook and to run on Spark.

The names that a job is written with are here; `kit.Lab` steps through a job in this process, `kit.SparkJob` runs it
on Spark. Importing `kit` needs neither Spark nor Java, and imports nothing else: a name is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.lazily import offer as _offer
from kit.protocol import showing as _showing

if TYPE_CHECKING:
    from kit.api import StreamEnvironment
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
    from kit.checkup import doctor
    from kit.connectors import (
        CollectionSource,
        CollectSink,
        CsvSource,
        GeneratorSource,
        ParquetSink,
        ParquetSource,
        TextSource,
    )
    from kit.coordinator import MasterHook
    from kit.glossary import where
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
    from kit.host.job_ended import JobEndedError
    from kit.host.job_failed import JobFailedError
    from kit.lab import Lab
    from kit.operators import (
        BatchContext,
        BatchState,
        BatchTimers,
        BroadcastContext,
        BroadcastProcessFunction,
        CheckpointedFunction,
        CheckpointListener,
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
    from kit.protocol.trace import Trace
    from kit.spark import SparkJob, create_session, running

_offer(
    __name__,
    {
        "kit.api": ["StreamEnvironment"],
        "kit.backend.descriptors": [
            "AggregateFunction",
            "AggregatingStateDescriptor",
            "ListStateDescriptor",
            "MapStateDescriptor",
            "ReducingStateDescriptor",
            "ValueStateDescriptor",
        ],
        "kit.backend.keyed_states": ["AggregatingState", "ListState", "MapState", "ReducingState", "ValueState"],
        "kit.backend.operator_store": ["BroadcastState", "OperatorListState"],
        "kit.checkup": ["doctor"],
        "kit.connectors": [
            "CollectionSource",
            "CollectSink",
            "CsvSource",
            "GeneratorSource",
            "ParquetSink",
            "ParquetSource",
            "TextSource",
        ],
        "kit.coordinator": ["MasterHook"],
        "kit.glossary": ["where"],
        "kit.graph": [
            "CheckpointConfig",
            "CheckpointingMode",
            "ExponentialDelay",
            "FailureRate",
            "FixedDelay",
            "NoRestart",
            "Parts",
            "RescaleConfig",
        ],
        "kit.host.job_ended": ["JobEndedError"],
        "kit.host.job_failed": ["JobFailedError"],
        "kit.lab": ["Lab"],
        "kit.operators": [
            "BatchContext",
            "BatchState",
            "BatchTimers",
            "BroadcastContext",
            "BroadcastProcessFunction",
            "CheckpointedFunction",
            "CheckpointListener",
            "CoProcessFunction",
            "CumulativeEventTimeWindows",
            "EventTimeSessionWindows",
            "FunctionInitializationContext",
            "FunctionSnapshotContext",
            "KeyedBatchFunction",
            "KeyedBroadcastContext",
            "KeyedBroadcastProcessFunction",
            "KeyedCoProcessFunction",
            "KeyedProcessFunction",
            "KeyedProcessFunctionContext",
            "KeyedReadOnlyContext",
            "OperatorStates",
            "OutputTag",
            "ProcessFunction",
            "ProcessFunctionContext",
            "ReadOnlyBroadcastState",
            "ReadOnlyContext",
            "SlidingEventTimeWindows",
            "TimerServiceView",
            "TumblingEventTimeWindows",
            "Window",
            "WindowAssigner",
            "avg",
            "count",
            "max_",
            "min_",
            "sum_",
        ],
        "kit.protocol.properties": ["RetentionPolicy"],
        "kit.protocol.trace": ["Trace"],
        "kit.spark": ["SparkJob", "create_session", "running"],
    },
)

_showing.DRAW_JOB.is_at("kit.draw.chains", "chains_svg")
_showing.EXPLAIN.is_at("kit.why", "why")
_showing.EXPLORE.is_at("widgets.explorer", "show")


def show(thing: Any = None, *, tab: bool = False) -> Any:
    """Open the explorer: on a Lab, a SparkJob, a Trace, a play, or a job that is then stepped through in a lab. The job
    is a StreamEnvironment, a JobGraph, or the name of a ready one (`kit.lab.ready_jobs()`, the default is the first).

    With `tab` the explorer gets a tab of its own in JupyterLab. Raises TypeError for what is none of these.
    """
    return _showing.EXPLORE(thing, tab=tab)


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
    "CheckpointListener",
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
    "JobEndedError",
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
