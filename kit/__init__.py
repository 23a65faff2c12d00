"""The checkpoint kit: Apache Flink's checkpointing in Python, to step through in a notebook and to run on Spark.

It has the names with which a job is written; `kit.Lab` steps through a job in this process, `kit.SparkJob` runs it on
Spark. Importing `kit` needs neither Spark nor Java, and imports nothing else: a name is imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit import displays as _displays
from kit.core.extras import naming_extras as _naming_extras
from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.checkup import doctor as doctor
    from kit.core.protocol.properties import RetentionPolicy as RetentionPolicy
    from kit.core.trace.trace import Trace as Trace
    from kit.course.missions.missions import mission as mission
    from kit.course.missions.missions import missions as missions
    from kit.files.disposal import CheckpointInUseError as CheckpointInUseError
    from kit.files.disposal import dispose_savepoint as dispose_savepoint
    from kit.files.master_hooks import MasterHook as MasterHook
    from kit.glossary import where as where
    from kit.hosts.lab import Lab as Lab
    from kit.hosts.spark import SparkJob as SparkJob
    from kit.hosts.spark import create_session as create_session
    from kit.hosts.spark import running as running
    from kit.machines.job.errors import JobEndedError as JobEndedError
    from kit.machines.job.errors import JobFailedError as JobFailedError
    from kit.snapshots.checkpoints import Checkpoint as Checkpoint
    from kit.snapshots.checkpoints import CheckpointError as CheckpointError
    from kit.snapshots.checkpoints import Checkpoints as Checkpoints
    from kit.snapshots.checkpoints import open_checkpoint as open_checkpoint
    from kit.snapshots.checkpoints import open_checkpoints as open_checkpoints
    from kit.snapshots.surgery.edit import Edit as Edit
    from kit.stream.api import StreamEnvironment as StreamEnvironment
    from kit.stream.backend.operator_store import BroadcastState as BroadcastState
    from kit.stream.backend.operator_store import OperatorListState as OperatorListState
    from kit.stream.backend.states.descriptors import AggregateFunction as AggregateFunction
    from kit.stream.backend.states.descriptors import AggregatingStateDescriptor as AggregatingStateDescriptor
    from kit.stream.backend.states.descriptors import ListStateDescriptor as ListStateDescriptor
    from kit.stream.backend.states.descriptors import MapStateDescriptor as MapStateDescriptor
    from kit.stream.backend.states.descriptors import ReducingStateDescriptor as ReducingStateDescriptor
    from kit.stream.backend.states.descriptors import ValueStateDescriptor as ValueStateDescriptor
    from kit.stream.backend.states.keyed_states import AggregatingState as AggregatingState
    from kit.stream.backend.states.keyed_states import ListState as ListState
    from kit.stream.backend.states.keyed_states import MapState as MapState
    from kit.stream.backend.states.keyed_states import ReducingState as ReducingState
    from kit.stream.backend.states.keyed_states import ValueState as ValueState
    from kit.stream.backend.states.state_ttl_config import StateTtlConfig as StateTtlConfig
    from kit.stream.connectors import CollectionSource as CollectionSource
    from kit.stream.connectors import CollectSink as CollectSink
    from kit.stream.connectors import CsvSource as CsvSource
    from kit.stream.connectors import DirectorySource as DirectorySource
    from kit.stream.connectors import GeneratorSource as GeneratorSource
    from kit.stream.connectors import ParquetSink as ParquetSink
    from kit.stream.connectors import ParquetSource as ParquetSource
    from kit.stream.connectors import TailSource as TailSource
    from kit.stream.connectors import TextSource as TextSource
    from kit.stream.operators.aggregates import avg as avg
    from kit.stream.operators.aggregates import count as count
    from kit.stream.operators.aggregates import max_ as max_
    from kit.stream.operators.aggregates import min_ as min_
    from kit.stream.operators.aggregates import sum_ as sum_
    from kit.stream.operators.checkpoint_listener import CheckpointListener as CheckpointListener
    from kit.stream.operators.functions.batch_process import BatchContext as BatchContext
    from kit.stream.operators.functions.batch_process import BatchState as BatchState
    from kit.stream.operators.functions.batch_process import BatchTimers as BatchTimers
    from kit.stream.operators.functions.batch_process import KeyedBatchFunction as KeyedBatchFunction
    from kit.stream.operators.functions.broadcast import BroadcastContext as BroadcastContext
    from kit.stream.operators.functions.broadcast import BroadcastProcessFunction as BroadcastProcessFunction
    from kit.stream.operators.functions.broadcast import KeyedBroadcastContext as KeyedBroadcastContext
    from kit.stream.operators.functions.broadcast import KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction
    from kit.stream.operators.functions.broadcast import KeyedReadOnlyContext as KeyedReadOnlyContext
    from kit.stream.operators.functions.broadcast import ReadOnlyBroadcastState as ReadOnlyBroadcastState
    from kit.stream.operators.functions.broadcast import ReadOnlyContext as ReadOnlyContext
    from kit.stream.operators.functions.checkpointed import CheckpointedFunction as CheckpointedFunction
    from kit.stream.operators.functions.checkpointed import (
        FunctionInitializationContext as FunctionInitializationContext,
    )
    from kit.stream.operators.functions.checkpointed import FunctionSnapshotContext as FunctionSnapshotContext
    from kit.stream.operators.functions.checkpointed import OperatorStates as OperatorStates
    from kit.stream.operators.functions.function_operator import (
        KeyedProcessFunctionContext as KeyedProcessFunctionContext,
    )
    from kit.stream.operators.functions.function_operator import ProcessFunctionContext as ProcessFunctionContext
    from kit.stream.operators.functions.function_operator import TimerServiceView as TimerServiceView
    from kit.stream.operators.functions.process import CoProcessFunction as CoProcessFunction
    from kit.stream.operators.functions.process import KeyedCoProcessFunction as KeyedCoProcessFunction
    from kit.stream.operators.functions.process import KeyedProcessFunction as KeyedProcessFunction
    from kit.stream.operators.functions.process import ProcessFunction as ProcessFunction
    from kit.stream.operators.side_output import OutputTag as OutputTag
    from kit.stream.operators.windows.cumulative_windows import CumulativeEventTimeWindows as CumulativeEventTimeWindows
    from kit.stream.operators.windows.window_assigners import EventTimeSessionWindows as EventTimeSessionWindows
    from kit.stream.operators.windows.window_assigners import SlidingEventTimeWindows as SlidingEventTimeWindows
    from kit.stream.operators.windows.window_assigners import TumblingEventTimeWindows as TumblingEventTimeWindows
    from kit.stream.operators.windows.window_assigners import WindowAssigner as WindowAssigner
    from kit.stream.operators.windows.window_contents import Window as Window
    from kit.stream.settings.job_settings import CheckpointConfig as CheckpointConfig
    from kit.stream.settings.job_settings import CheckpointingMode as CheckpointingMode
    from kit.stream.settings.job_settings import ExponentialDelay as ExponentialDelay
    from kit.stream.settings.job_settings import FailureRate as FailureRate
    from kit.stream.settings.job_settings import FixedDelay as FixedDelay
    from kit.stream.settings.job_settings import NoRestart as NoRestart
    from kit.stream.settings.job_settings import RescaleConfig as RescaleConfig
    from kit.stream.settings.parts import Parts as Parts
    from kit.version import __version__ as __version__


def _no_name(package: str, name: str) -> None:
    """Raise ImportError for the name of another library, with what to write here."""
    from kit.core.arguments.signposts import no_name

    no_name(package, name)


_offer(__name__, "show", signs=_no_name)


def show(thing: Any = None, *, tab: bool = False) -> Any:
    """Open the explorer on a Lab, a SparkJob, a Trace, a scenario, or a job, which is then stepped through in a lab.

    The job is a StreamEnvironment, a JobGraph, or the name of a ready one (`kit.hosts.lab.ready_jobs()`, the default is
    the first). A checkpoint that was opened is browsed. With `tab` the explorer or browser gets a JupyterLab tab of its
    own. Raises TypeError for anything else.
    """
    with _naming_extras():
        return _displays.show(thing, tab=tab)
