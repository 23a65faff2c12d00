"""The checkpoint kit: Apache Flink's checkpointing in Python, to step through in a notebook and to run on Spark.

It has the names with which a job is written; `kit.Lab` steps through a job in this process, `kit.SparkJob` runs it on
Spark. Importing `kit` needs neither Spark nor Java, and imports nothing else: a name is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit import displays as _displays
from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.checkup import doctor
    from kit.core.protocol.properties import RetentionPolicy
    from kit.core.trace.trace import Trace
    from kit.course.missions.missions import mission, missions
    from kit.files.disposal import CheckpointInUseError, dispose_savepoint
    from kit.files.job_ended import JobEndedError
    from kit.files.job_failed import JobFailedError
    from kit.glossary import where
    from kit.hosts.lab import Lab
    from kit.hosts.spark import SparkJob, create_session, running
    from kit.machines.coordinator import MasterHook
    from kit.snapshots.checkpoints import Checkpoint, CheckpointError, Checkpoints, open_checkpoint, open_checkpoints
    from kit.snapshots.surgery.edit import Edit
    from kit.stream.api import StreamEnvironment
    from kit.stream.backend.operator_store import BroadcastState, OperatorListState
    from kit.stream.backend.states.descriptors import (
        AggregateFunction,
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from kit.stream.backend.states.keyed_states import AggregatingState, ListState, MapState, ReducingState, ValueState
    from kit.stream.connectors import (
        CollectionSource,
        CollectSink,
        CsvSource,
        DirectorySource,
        GeneratorSource,
        ParquetSink,
        ParquetSource,
        TailSource,
        TextSource,
    )
    from kit.stream.graph import (
        CheckpointConfig,
        CheckpointingMode,
        ExponentialDelay,
        FailureRate,
        FixedDelay,
        NoRestart,
        Parts,
        RescaleConfig,
    )
    from kit.stream.operators import (
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


def _no_name(package: str, name: str) -> None:
    """Raise ImportError for the name of another library, with what to write here."""
    from kit.core.arguments.signposts import no_name

    no_name(package, name)


_offer(
    __name__,
    {
        "kit.stream.api": ["StreamEnvironment"],
        "kit.stream.backend.states.descriptors": [
            "AggregateFunction",
            "AggregatingStateDescriptor",
            "ListStateDescriptor",
            "MapStateDescriptor",
            "ReducingStateDescriptor",
            "ValueStateDescriptor",
        ],
        "kit.stream.backend.states.keyed_states": [
            "AggregatingState",
            "ListState",
            "MapState",
            "ReducingState",
            "ValueState",
        ],
        "kit.stream.backend.operator_store": ["BroadcastState", "OperatorListState"],
        "kit.checkup": ["doctor"],
        "kit.course.missions.missions": ["mission", "missions"],
        "kit.stream.connectors": [
            "CollectionSource",
            "CollectSink",
            "CsvSource",
            "DirectorySource",
            "GeneratorSource",
            "ParquetSink",
            "ParquetSource",
            "TailSource",
            "TextSource",
        ],
        "kit.machines.coordinator": ["MasterHook"],
        "kit.glossary": ["where"],
        "kit.stream.graph": [
            "CheckpointConfig",
            "CheckpointingMode",
            "ExponentialDelay",
            "FailureRate",
            "FixedDelay",
            "NoRestart",
            "Parts",
            "RescaleConfig",
        ],
        "kit.files.disposal": ["CheckpointInUseError", "dispose_savepoint"],
        "kit.files.job_ended": ["JobEndedError"],
        "kit.files.job_failed": ["JobFailedError"],
        "kit.hosts.lab": ["Lab"],
        "kit.snapshots.checkpoints": [
            "Checkpoint",
            "CheckpointError",
            "Checkpoints",
            "open_checkpoint",
            "open_checkpoints",
        ],
        "kit.snapshots.surgery.edit": ["Edit"],
        "kit.stream.operators": [
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
        "kit.core.protocol.properties": ["RetentionPolicy"],
        "kit.core.trace.trace": ["Trace"],
        "kit.hosts.spark": ["SparkJob", "create_session", "running"],
    },
    signs=_no_name,
)


def show(thing: Any = None, *, tab: bool = False) -> Any:
    """Open the explorer on a Lab, a SparkJob, a Trace, a scenario, or a job, which is then stepped through in a lab.

    The job is a StreamEnvironment, a JobGraph, or the name of a ready one (`kit.hosts.lab.ready_jobs()`, the default is
    the first). A text may also contain the link of a run, which is then repeated. With `tab` the explorer gets a
    JupyterLab tab of its own. Raises TypeError for anything else.
    """
    return _displays.explorer(thing, tab=tab)


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
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointError",
    "CheckpointInUseError",
    "CheckpointListener",
    "CheckpointedFunction",
    "CheckpointingMode",
    "Checkpoints",
    "CoProcessFunction",
    "CollectSink",
    "CollectionSource",
    "CsvSource",
    "CumulativeEventTimeWindows",
    "DirectorySource",
    "Edit",
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
    "TailSource",
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
    "dispose_savepoint",
    "doctor",
    "max_",
    "min_",
    "mission",
    "missions",
    "open_checkpoint",
    "open_checkpoints",
    "running",
    "show",
    "sum_",
    "where",
]
