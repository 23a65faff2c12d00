"""Operators: sources, transforms, aggregates, windows, joins and process functions, all on Arrow batches."""

from kit.stream.operators.aggregate import (
    KeyedAggregate,
)
from kit.stream.operators.aggregates import (
    Aggregate,
    avg,
    count,
    max_,
    min_,
    sum_,
)
from kit.stream.operators.base import (
    Operator,
    OperatorContext,
    OperatorSpec,
    Output,
)
from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.coordinator import (
    OperatorCoordinator,
    OperatorCoordinatorContext,
)
from kit.stream.operators.functions.batch_process import (
    BatchContext,
    BatchState,
    BatchTimers,
    KeyedBatchFunction,
    KeyedBatchProcess,
)
from kit.stream.operators.functions.broadcast import (
    BroadcastContext,
    BroadcastProcess,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyContext,
    ReadOnlyBroadcastState,
    ReadOnlyContext,
)
from kit.stream.operators.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStates,
)
from kit.stream.operators.functions.function_operator import (
    FunctionInput,
    KeyedProcessFunctionContext,
    ProcessFunctionContext,
    TimerServiceView,
)
from kit.stream.operators.functions.process import (
    CoProcess,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcess,
    KeyedProcessFunction,
    Process,
    ProcessFunction,
)
from kit.stream.operators.reduce import (
    KeyedReduce,
)
from kit.stream.operators.side_output import (
    OutputTag,
)
from kit.stream.operators.sources.source import (
    ReadResult,
    Source,
    SourceListener,
    Split,
    SplitReader,
)
from kit.stream.operators.sources.source_coordinator import (
    SourceCoordinator,
)
from kit.stream.operators.sources.source_spec import (
    SourceSpec,
)
from kit.stream.operators.sources.split_enumerator import (
    SplitEnumerator,
)
from kit.stream.operators.spec import (
    SchemaError,
    UserFunctionError,
)
from kit.stream.operators.transform import (
    Filter,
    FlatMap,
    Map,
    MapBatches,
    Rename,
    Select,
    WithColumn,
)
from kit.stream.operators.watermarks import (
    TimestampsAndWatermarks,
)
from kit.stream.operators.windows.cumulative_windows import CumulativeEventTimeWindows
from kit.stream.operators.windows.interval_join import (
    IntervalJoin,
)
from kit.stream.operators.windows.window import (
    WindowAggregate,
    WindowProcess,
    WindowReduce,
)
from kit.stream.operators.windows.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from kit.stream.operators.windows.window_contents import (
    Window,
)
from kit.stream.operators.windows.window_join import (
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
