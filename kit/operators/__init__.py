"""Operators: sources, transforms, aggregates, windows, joins and process functions, all on Arrow batches."""

from kit.operators.aggregate import (
    KeyedAggregate,
)
from kit.operators.aggregates import (
    Aggregate,
    avg,
    count,
    max_,
    min_,
    sum_,
)
from kit.operators.base import (
    Operator,
    OperatorContext,
    OperatorSpec,
    Output,
)
from kit.operators.batch_process import (
    BatchContext,
    BatchState,
    BatchTimers,
    KeyedBatchFunction,
    KeyedBatchProcess,
)
from kit.operators.broadcast import (
    BroadcastContext,
    BroadcastProcess,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyContext,
    ReadOnlyBroadcastState,
    ReadOnlyContext,
)
from kit.operators.checkpoint_listener import CheckpointListener
from kit.operators.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStates,
)
from kit.operators.coordinator import (
    OperatorCoordinator,
    OperatorCoordinatorContext,
)
from kit.operators.cumulative_windows import CumulativeEventTimeWindows
from kit.operators.function_operator import (
    FunctionInput,
    KeyedProcessFunctionContext,
    ProcessFunctionContext,
    TimerServiceView,
)
from kit.operators.interval_join import (
    IntervalJoin,
)
from kit.operators.process import (
    CoProcess,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcess,
    KeyedProcessFunction,
    Process,
    ProcessFunction,
)
from kit.operators.reduce import (
    KeyedReduce,
)
from kit.operators.side_output import (
    OutputTag,
)
from kit.operators.source import (
    ReadResult,
    Source,
    SourceListener,
    Split,
    SplitReader,
)
from kit.operators.source_coordinator import (
    SourceCoordinator,
)
from kit.operators.source_spec import (
    SourceSpec,
)
from kit.operators.spec import (
    SchemaError,
    UserFunctionError,
)
from kit.operators.split_enumerator import (
    SplitEnumerator,
)
from kit.operators.transform import (
    Filter,
    FlatMap,
    Map,
    MapBatches,
    Rename,
    Select,
    WithColumn,
)
from kit.operators.watermarks import (
    TimestampsAndWatermarks,
)
from kit.operators.window import (
    WindowAggregate,
    WindowProcess,
    WindowReduce,
)
from kit.operators.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from kit.operators.window_contents import (
    Window,
)
from kit.operators.window_join import (
    WindowJoin,
)

__all__ = [
    "Aggregate",
    "BatchContext",
    "BatchState",
    "BatchTimers",
    "BroadcastContext",
    "BroadcastProcess",
    "BroadcastProcessFunction",
    "CheckpointListener",
    "CheckpointedFunction",
    "CoProcess",
    "CoProcessFunction",
    "CumulativeEventTimeWindows",
    "EventTimeSessionWindows",
    "Filter",
    "FlatMap",
    "FunctionInitializationContext",
    "FunctionInput",
    "FunctionSnapshotContext",
    "IntervalJoin",
    "KeyedAggregate",
    "KeyedBatchFunction",
    "KeyedBatchProcess",
    "KeyedBroadcastContext",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcess",
    "KeyedProcessFunction",
    "KeyedProcessFunctionContext",
    "KeyedReadOnlyContext",
    "KeyedReduce",
    "Map",
    "MapBatches",
    "Operator",
    "OperatorContext",
    "OperatorCoordinator",
    "OperatorCoordinatorContext",
    "OperatorSpec",
    "OperatorStates",
    "Output",
    "OutputTag",
    "Process",
    "ProcessFunction",
    "ProcessFunctionContext",
    "ReadOnlyBroadcastState",
    "ReadOnlyContext",
    "ReadResult",
    "Rename",
    "SchemaError",
    "Select",
    "SlidingEventTimeWindows",
    "Source",
    "SourceCoordinator",
    "SourceListener",
    "SourceSpec",
    "Split",
    "SplitEnumerator",
    "SplitReader",
    "TimerServiceView",
    "TimestampsAndWatermarks",
    "TumblingEventTimeWindows",
    "UserFunctionError",
    "Window",
    "WindowAggregate",
    "WindowAssigner",
    "WindowJoin",
    "WindowProcess",
    "WindowReduce",
    "WithColumn",
    "avg",
    "count",
    "max_",
    "min_",
    "sum_",
]
