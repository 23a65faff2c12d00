"""One StreamTask by hand: tests put elements into its channels and see each command it gives.

`TaskHarness(environment, "sums/0")` deploys the task and gives its outputs the credits that the receivers would give.
After every event the machine's invariants are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from kit.core.protocol.commands import GrantCredit, ReadSplit, SendElement, WriteSnapshot
from kit.core.protocol.elements import (
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    Element,
    EndOfData,
    EndOfPartition,
    Watermark,
    WatermarkStatus,
)
from kit.core.protocol.events import CreditReceived, ElementReceived, ProcessInput
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    DeployTask,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventToTask,
    TaskStateChanged,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.properties import SavepointFormatType, SavepointType, SnapshotType
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import ProtocolMessage
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.task_files import TaskFiles
from kit.filesystems.memory import MemoryFiles
from kit.machines.task.stream_task import StreamTask
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count, sum_
from kit.stream.settings.job_settings import CheckpointConfig

W = TypeVar("W", bound=ProtocolMessage)

LOCATION = "/checkpoints/chk"
ROW = {"k": "a", "n": 1}
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
SUSPEND = SavepointType.suspend(SavepointFormatType.CANONICAL)
DRAIN = SavepointType.terminate(SavepointFormatType.CANONICAL)


def fan_in(
    senders: int = 3, *, sources: int = 1, chaining: bool = True, rebalance: bool = False, **settings: Any
) -> StreamEnvironment:
    """Return `rows` x senders (and `more-1`, ... with several sources) -hash-> `sums` x1 -> `out`.

    Without chaining `sums` and `out` are tasks of their own, joined by a forward edge, or a `rebalance` one, which in
    contrast to it supports unaligned checkpoints.
    """
    checkpoint = {"interval_ms": 1_000} | settings
    env = StreamEnvironment(
        "task", parallelism=1, max_parallelism=16, chaining=chaining, checkpoint=CheckpointConfig(**checkpoint)
    )
    source = CollectionSource([], SCHEMA)
    streams = [
        env.from_source(source, uid=f"more-{n}" if n else "rows").set_parallelism(senders) for n in range(sources)
    ]
    sums = streams[0].union(*streams[1:]).key_by("k").aggregate(rows=count(), total=sum_("n")).uid("sums")
    (sums.rebalance() if rebalance else sums).sink_to(CollectSink("out"), uid="out")
    return env


def buffer(rows: Iterable[dict[str, Any]] = (ROW,)) -> Buffer:
    """Return rows as a buffer."""
    return Buffer(pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA))


def options(kind: SnapshotType | None = None, **settings: Any) -> CheckpointOptions:
    """Return options of a checkpoint, or of another kind of snapshot."""
    if kind is not None:
        settings["snapshot_type"] = kind
    return CheckpointOptions(**{"location": LOCATION} | settings)


class TaskHarness:
    """A task, its clock, and what it has said: `emitted` are the commands that were not taken yet."""

    def __init__(
        self,
        env: StreamEnvironment,
        task: str = "sums/0",
        *,
        restore: TaskRestore | None = None,
        deploy: bool = True,
        credits: bool = True,
        attempt: int = 1,
    ) -> None:
        self.graph = env.execution_graph()
        self.machine = StreamTask(self.graph, task, attempt)
        self.attempt = attempt
        self.at = 1_000
        self.emitted: list[ProtocolMessage] = []
        job = self.graph.job_graph
        self.output = MemoryOutput()
        self.memory = MemoryFiles()
        storage = CheckpointStorage("/checkpoints", job.job_id, None, 0, self.memory.filesystem)
        self.files = TaskFiles(job, storage, self.output)
        self._buffers = {channel.number: 0 for channel in self.machine.inputs}
        if deploy:
            self.deploy(restore, credits=credits)

    # --- what goes in ---------------------------------------------------------------------------------------------

    def give(self, event: ProtocolMessage) -> list[ProtocolMessage]:
        """Let the task handle an event; it must be sound afterwards."""
        commands = self.machine.handle(event, self.at)
        self.machine.validate()
        self.emitted += commands
        return commands

    def to_task(self, message: type[W], **fields: Any) -> list[ProtocolMessage]:
        """Return a message from the JobMaster."""
        return self.give(message(**{"task": self.machine.name, "attempt": self.attempt, **fields}))

    def deploy(self, restore: TaskRestore | None = None, *, credits: bool = True) -> None:
        """Deploy the task; the receivers of its output give their credits."""
        self.to_task(DeployTask, restore=restore)
        if credits:
            self.give_credits(self.graph.job_graph.settings.channel_credits)

    def give_credits(self, credits: int = 1) -> None:
        """Give every output channel `credits` more credits."""
        for number in self.output_channels:
            self.give(CreditReceived(channel=number, credits=credits))

    def receive(self, channel: int, *elements: Element, run: bool = True) -> None:
        """Let elements arrive on input channel `channel` of the task, counted from 0, and have the task run."""
        number = self.machine.inputs.channels[channel].number
        for element in elements:
            self.give(ElementReceived(channel=number, element=element))
        if run:
            self.run()

    def run(self) -> None:
        """Give the task its turn as long as it can do something without an answer."""
        while self.machine.available:
            self.give(ProcessInput())

    def rows(self, channel: int, *rows: dict[str, Any]) -> None:
        """A buffer arrives."""
        self.receive(channel, buffer(rows or (ROW,)))

    def barrier(self, checkpoint_id: int, *channels: int, at: int | None = None, **settings: Any) -> None:
        """The barrier of a checkpoint arrives on these channels, one after the other."""
        for channel in channels:
            timestamp_ms = self.at if at is None else at
            self.receive(channel, CheckpointBarrier(checkpoint_id, timestamp_ms, options(**settings)))

    def cancel_marker(self, checkpoint_id: int, *channels: int) -> None:
        """A cancel marker arrives on these channels."""
        for channel in channels:
            self.receive(channel, CancelCheckpointMarker(checkpoint_id))

    def watermark(self, channel: int, timestamp_ms: int) -> None:
        """A watermark arrives."""
        self.receive(channel, Watermark(timestamp_ms))

    def status(self, channel: int, *, idle: bool) -> None:
        """A status arrives."""
        self.receive(channel, WatermarkStatus(idle))

    def end_data(self, *channels: int, drain: bool = True) -> None:
        """The data of these channels ends."""
        for channel in channels:
            self.receive(channel, EndOfData(drain))

    def end(self, *channels: int) -> None:
        """These channels end, their data first."""
        for channel in channels:
            self.receive(channel, EndOfData(True), EndOfPartition())

    def trigger(self, checkpoint_id: int, kind: SnapshotType | None = None, **settings: Any) -> None:
        """The JobMaster triggers a checkpoint here."""
        self.to_task(
            TriggerTaskCheckpoint,
            checkpoint_id=checkpoint_id,
            timestamp_ms=self.at,
            options=options(kind, **settings),
        )

    def complete(self, checkpoint_id: int) -> None:
        """The JobMaster says that a checkpoint is complete."""
        self.to_task(NotifyCheckpointComplete, checkpoint_id=checkpoint_id, timestamp_ms=0)

    def abort(self, checkpoint_id: int, latest: int = 0) -> None:
        """The JobMaster says that a checkpoint is aborted."""
        self.to_task(NotifyCheckpointAborted, checkpoint_id=checkpoint_id, timestamp_ms=0, latest_completed_id=latest)

    def no_more_splits(self) -> None:
        """Tell a source that it has received all splits, and let it act on that."""
        self.to_task(OperatorEventToTask, operator_id=self.head_id, payload={"kind": "no_more_splits"})
        self.run()

    def assign(self, rows: int, name: str = "split") -> None:
        """Give a source a split; it asks for its first rows."""
        split = {"id": name, "index": 0, "start": 0, "end": rows}
        self.to_task(OperatorEventToTask, operator_id=self.head_id, payload={"kind": "assign_split", "split": split})
        self.run()

    # --- the host -------------------------------------------------------------------------------------------------

    def write(self, checkpoint_id: int) -> None:
        """Write a snapshot, and report it to the task."""
        command = next(
            word for word in self.emitted if isinstance(word, WriteSnapshot) and word.checkpoint_id == checkpoint_id
        )
        self.emitted.remove(command)
        answer = self.files.carry_out(command)
        assert answer is not None
        self.give(answer)

    def carry_out(self, kind: type[ProtocolMessage]) -> None:
        """Carry the commands of this kind out, and give the answers."""
        for command in self.take(kind):
            answer = self.files.carry_out(command)
            if answer is not None:
                self.give(answer)

    # --- what comes out -------------------------------------------------------------------------------------------

    def take(self, kind: type[W]) -> list[W]:
        """Take the commands of this kind that have not been taken yet."""
        found = [word for word in self.emitted if isinstance(word, kind)]
        self.emitted = [word for word in self.emitted if not isinstance(word, kind)]
        return found

    def sent(self) -> list[Element]:
        """Take the elements that were sent, in order, whatever the channel."""
        return [word.element for word in self.take(SendElement)]

    def sent_to(self) -> dict[int, list[Element]]:
        """Take the elements that were sent, by channel number."""
        found: dict[int, list[Element]] = {number: [] for number in self.output_channels}
        for word in self.take(SendElement):
            found[word.channel].append(word.element)
        return found

    def triggered(self) -> list[int]:
        """Take the ids of the checkpoints whose synchronous part was done."""
        return [word.checkpoint_id for word in self.take(WriteSnapshot)]

    def declined(self) -> list[tuple[int, str]]:
        """Take what was declined: (checkpoint, reason)."""
        return [(word.checkpoint_id, word.reason.name) for word in self.take(DeclineCheckpoint)]

    def acknowledged(self) -> list[AcknowledgeCheckpoint]:
        """Take the acks."""
        return self.take(AcknowledgeCheckpoint)

    def states(self) -> list[ExecutionState]:
        """Take the states that were reported; end of data is not one."""
        return [word.state for word in self.take(TaskStateChanged) if not word.end_of_data]

    def credits_back(self) -> list[int]:
        """Take the channels for which credits were given."""
        return [word.channel for word in self.take(GrantCredit)]

    def reads(self) -> list[ReadSplit]:
        """Take what the source asked for."""
        return self.take(ReadSplit)

    # --- where it stands --------------------------------------------------------------------------------------------

    @property
    def blocked(self) -> list[int]:
        """The blocked input channels, counted from 0."""
        return [number for number, channel in enumerate(self.machine.inputs) if channel.blocked]

    @property
    def queued(self) -> list[int]:
        """The number of elements in the queue of each input channel."""
        return [len(channel.queue) for channel in self.machine.inputs]

    @property
    def output_channels(self) -> Sequence[int]:
        """The numbers of the output channels."""
        return [subpartition.number for partition in self.machine.outputs for subpartition in partition]

    @property
    def head_id(self) -> str:
        """The operator id of the head of the chain."""
        return self.machine.chain.links[0].operator_id
