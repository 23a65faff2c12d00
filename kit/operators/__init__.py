"""Operators: sources, transforms, aggregates, windows, process functions and sinks, all on Arrow batches."""

from kit.operators.aggregate import KeyedAggregate
from kit.operators.aggregates import Aggregate, avg, count, max_, min_, sum_
from kit.operators.base import Operator, OperatorContext, OperatorSpec, Output
from kit.operators.coordinator import OperatorCoordinator, OperatorCoordinatorContext
from kit.operators.file_sources import CsvSource, ParquetSource
from kit.operators.files import CommitError
from kit.operators.memory_sources import CollectionSource, GeneratorSource
from kit.operators.process import KeyedProcess, KeyedProcessFunction, ProcessContext
from kit.operators.side_output import OutputTag
from kit.operators.sink import CollectSink, ParquetSink, Sink, SinkSpec
from kit.operators.source import ReadResult, Source, SourceSpec, Split, SplitReader
from kit.operators.source_coordinator import SourceCoordinator
from kit.operators.spec import SchemaError, UserFunctionError
from kit.operators.split_enumerator import SplitEnumerator
from kit.operators.transform import Filter, FlatMap, Map, MapBatches, Rename, Select, WithColumn
from kit.operators.watermarks import TimestampsAndWatermarks
from kit.operators.window import WindowAggregate, WindowProcess, WindowReduce
from kit.operators.window_assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from kit.operators.window_contents import Window

__all__ = [
    "Aggregate",
    "CollectSink",
    "CollectionSource",
    "CommitError",
    "CsvSource",
    "EventTimeSessionWindows",
    "Filter",
    "FlatMap",
    "GeneratorSource",
    "KeyedAggregate",
    "KeyedProcess",
    "KeyedProcessFunction",
    "Map",
    "MapBatches",
    "Operator",
    "OperatorContext",
    "OperatorCoordinator",
    "OperatorCoordinatorContext",
    "OperatorSpec",
    "Output",
    "OutputTag",
    "ParquetSink",
    "ParquetSource",
    "ProcessContext",
    "ReadResult",
    "Rename",
    "SchemaError",
    "Select",
    "Sink",
    "SinkSpec",
    "SlidingEventTimeWindows",
    "Source",
    "SourceCoordinator",
    "SourceSpec",
    "Split",
    "SplitEnumerator",
    "SplitReader",
    "TimestampsAndWatermarks",
    "TumblingEventTimeWindows",
    "UserFunctionError",
    "Window",
    "WindowAggregate",
    "WindowAssigner",
    "WindowProcess",
    "WindowReduce",
    "WithColumn",
    "avg",
    "count",
    "max_",
    "min_",
    "sum_",
]
