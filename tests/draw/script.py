"""A run written by hand: real events and commands from actors instead of machines, recorded by the real trace.

The job is `source x2 -> count x2 -> sink x1`, channels numbered as the execution graph does: 0..3 from source i to
count j, then 4 and 5 from count j to the sink.
"""

from __future__ import annotations

import pyarrow as pa

from kit.core.protocol.commands import GrantCredit, JobStatusChanged, SendElement, StartEpoch, WriteSnapshot
from kit.core.protocol.elements import Buffer, CheckpointBarrier, Element, Watermark
from kit.core.protocol.events import ElementReceived, ProcessInput, SlotLost, SnapshotWritten, StartJob, TimerFired
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    CheckpointMetrics,
    DeployTask,
    NotifyCheckpointComplete,
    TaskStateChanged,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.notes import (
    BarrierAligned,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointPending,
    StateAssigned,
    TaskAcknowledged,
    TriggeringStarted,
)
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.protocol.words import Envelope, Machine, ProtocolMessage
from kit.core.state.operator_state import TaskStateSnapshot
from kit.core.trace.shape import ShapeChannel, ShapeVertex
from kit.core.trace.trace import Trace
from kit.run.stage import Stage


def stage(epoch: int = 1, counts: int = 2, sources: int = 2) -> Stage:
    """The shape of the job with this many subtasks of `count`."""
    pairs = [(f"source/{i}", f"count/{j}", "HASH") for i in range(sources) for j in range(counts)]
    pairs += [(f"count/{j}", "sink/0", "GLOBAL") for j in range(counts)]
    return Stage(
        epoch,
        (
            ShapeVertex("source", ("clicks", "parse"), sources),
            ShapeVertex("count", ("count per page",), counts),
            ShapeVertex("sink", ("write files",), 1),
        ),
        tuple(ShapeChannel(number, *pair) for number, pair in enumerate(pairs)),
    )


class Script:
    """Says what happens; `trace` is the record of it."""

    def __init__(self, *, detailed: bool = True) -> None:
        self.trace = Trace(detailed=detailed)
        self.machines: dict[str, Machine] = {}
        self.at = 0
        self._given: dict[int, Envelope] = {}
        """What the machines have given, by identity: a word that is handled later was led to by that command."""

    def __call__(
        self, name: str, event: ProtocolMessage, *commands: ProtocolMessage, after: int = 1, cause: str = ""
    ) -> None:
        """`after` ms later machine `name` handles the event, to which `cause` led, and gives the commands."""
        machine = self.machines.setdefault(name, Machine(name))
        self.at += after
        machine.at, machine.cause = self.at, cause or self._led_to(event)
        machine.events_handled += 1
        machine.event_id = f"{machine.identity}#{machine.events_handled}"
        for number, command in enumerate(commands, 1):
            self._given[id(command)] = Envelope(command, f"{machine.event_id}.{number}")
        self.trace.record(machine, event, commands)

    def _led_to(self, word: ProtocolMessage) -> str:
        return self._given[id(word)].cause if id(word) in self._given else ""

    def send(self, task: str, channel: int, element: Element) -> SendElement:
        """The task sends this element."""
        word = SendElement(channel=channel, element=element)
        self(task, ProcessInput(), word)
        return word

    def receive(self, task: str, sent: SendElement) -> None:
        """It arrives."""
        self(task, ElementReceived(channel=sent.channel, element=sent.element), cause=self._led_to(sent))


def rows(count: int) -> Buffer:
    """A buffer of this many records."""
    return Buffer(pa.record_batch({"n": pa.array(range(count))}))


def barrier(checkpoint_id: int) -> CheckpointBarrier:
    """An aligned barrier."""
    return CheckpointBarrier(checkpoint_id, 0, CheckpointOptions())


def aligned(checkpoint_id: int, channel: int, *awaited: int) -> BarrierAligned:
    """Return the note of the barrier handler."""
    return BarrierAligned(checkpoint_id=checkpoint_id, channel=channel, awaited=awaited)


def deploy(script: Script, epoch: int, parallelism: dict[str, int], restored: int | None = None) -> None:
    """All tasks of an epoch are deployed and run."""
    tasks = [f"{vertex}/{i}" for vertex, many in parallelism.items() for i in range(many)]
    restore = None if restored is None else TaskRestore(restored, TaskStateSnapshot({}))
    deploys = [DeployTask(task=task, attempt=epoch, restore=restore) for task in tasks]
    start = StartEpoch(epoch=epoch, parallelism=parallelism, max_parallelism=dict.fromkeys(parallelism, 128))
    event: ProtocolMessage = StartJob() if epoch == 1 else TimerFired(timer="restart")
    notes = [] if restored is None else [state_assigned(restored, epoch)]
    script("job", event, JobStatusChanged(status="RUNNING"), *notes, start, *deploys)
    for message in deploys:
        state = TaskStateChanged(task=message.task, attempt=epoch, state=ExecutionState.RUNNING)
        script(message.task, message, state)
        script("job", state)


def state_assigned(checkpoint_id: int, epoch: int) -> StateAssigned:
    """Two subtasks of `count` become three."""
    old = {0: (0, 63), 1: (64, 127)}
    new = {0: (0, 42), 1: (43, 85), 2: (86, 127)}
    assignments = [
        {
            "operator": "count per page",
            "task": f"count/{subtask}",
            "kind": "keyed",
            "from": [i for i, (a, b) in old.items() if a <= last and first <= b],
            "key_groups": [first, last],
            "entries": last - first + 1,
            "bytes": 400,
        }
        for subtask, (first, last) in new.items()
    ]
    assignments += [
        {
            "operator": "clicks",
            "task": f"source/{i}",
            "kind": "operator",
            "from": [0, 1],
            "key_groups": None,
            "entries": 3 - i,
            "bytes": 90,
        }
        for i in range(2)
    ]
    return StateAssigned(checkpoint_id=checkpoint_id, epoch=epoch, path="chk-1", assignments=assignments)


def trigger(script: Script, number: int, tasks: list[str]) -> list[TriggerTaskCheckpoint]:
    """The coordinator begins a checkpoint."""
    words = [
        TriggerTaskCheckpoint(
            task=f"source/{i}", attempt=1, checkpoint_id=number, timestamp_ms=script.at, options=CheckpointOptions()
        )
        for i in range(2)
    ]
    sources = [word.task for word in words]
    started = TriggeringStarted(request="Checkpoint", trigger=sources)
    pending = CheckpointPending(
        checkpoint_id=number,
        snapshot="CHECKPOINT",
        tasks=len(tasks),
        finished=0,
        trigger=sources,
        coordinators=0,
        hooks=0,
        expires_ms=script.at + 600_000,
    )
    script("job", TimerFired(timer="checkpoint"), started, pending, *words, after=10)
    return words


def snapshot(number: int, task: str) -> WriteSnapshot:
    """The task has copied its state."""
    subtask = int(task.rpartition("/")[2])
    return WriteSnapshot(checkpoint_id=number, location="chk", subtask=subtask, parts=(), effects=())


def acknowledge(script: Script, number: int, task: str, *more: ProtocolMessage, deliver: bool = True) -> None:
    """The task's files are written; the acknowledgement reaches the coordinator, which gives `more`."""
    metrics = CheckpointMetrics(start_delay_ms=3, alignment_ms=4, sync_ms=1, async_ms=6, bytes_persisted=120)
    ack = AcknowledgeCheckpoint(task=task, attempt=1, job_id="j", checkpoint_id=number, metrics=metrics)
    written = SnapshotWritten(checkpoint_id=number, state=TaskStateSnapshot({}), bytes_written=120, sync_ms=1)
    script(task, written, ack, after=5)
    if deliver:
        note = TaskAcknowledged(checkpoint_id=number, task=task, acked=1, tasks=5, size_bytes=120)
        script("job", ack, note, *more, after=2)


def story(*, detailed: bool = True) -> Trace:
    """Checkpoint 1 completes; in checkpoint 2 a count waits for a barrier when worker 1 dies; epoch 2 has 3 counts."""
    script = Script(detailed=detailed)
    tasks = ["source/0", "source/1", "count/0", "count/1", "sink/0"]
    deploy(script, 1, {"source": 2, "count": 2, "sink": 1})
    checkpoint_one(script, tasks)
    half_of_checkpoint_two(script, tasks)
    script("job", SlotLost(epoch=1, slot=1, error="the worker's process died"), *fail_over(2), after=20)
    deploy(script, 2, {"source": 2, "count": 3, "sink": 1}, restored=1)
    script.trace.stages += [stage(1), stage(2, counts=3)]
    return script.trace


def fail_over(number: int) -> list[ProtocolMessage]:
    """Return what the JobMaster does after the loss of a worker."""
    return [
        CheckpointAborted(checkpoint_id=number, reason="JOB_FAILOVER_REGION", detail="", task=None, acked=0, tasks=5),
        JobStatusChanged(status="RESTARTING", error="worker 1 was lost"),
    ]


def checkpoint_one(script: Script, tasks: list[str]) -> None:
    """A checkpoint from its trigger to its end, barrier by barrier."""
    for i, message in enumerate(trigger(script, 1, tasks)):
        barriers = [SendElement(channel=2 * i + j, element=barrier(1)) for j in range(2)]
        script(f"source/{i}", message, *barriers, snapshot(1, f"source/{i}"))
        for j, sent in enumerate(barriers):
            script.receive(f"count/{j}", sent)
            acts: list[ProtocolMessage] = [aligned(1, sent.channel, *([2 + j] if i == 0 else []))]
            if i == 1:
                acts += [SendElement(channel=4 + j, element=barrier(1)), snapshot(1, f"count/{j}")]
            script(f"count/{j}", ProcessInput(), *acts)
            if i == 1:
                script.receive("sink/0", acts[1])
                acts = [aligned(1, 4 + j, *([5] if j == 0 else []))]
                script("sink/0", ProcessInput(), *acts, *([snapshot(1, "sink/0")] if j == 1 else []))
    for task in tasks[:-1]:
        acknowledge(script, 1, task)
    told = [NotifyCheckpointComplete(task=task, attempt=1, checkpoint_id=1, timestamp_ms=script.at) for task in tasks]
    done = CheckpointCompleted(checkpoint_id=1, snapshot="CHECKPOINT", size_bytes=600, duration_ms=100, subsumed=None)
    acknowledge(script, 1, tasks[-1], done, *told)
    for message in told:
        script(message.task, message)


def half_of_checkpoint_two(script: Script, tasks: list[str]) -> None:
    """Source 0's barrier is taken, source 1's is behind records; count/0 is blocked on one channel."""
    messages = trigger(script, 2, tasks)
    slow = [script.send("source/1", 2, rows(1)) for _ in range(3)]
    for sent in slow:
        script.receive("count/0", sent)
    for j in range(2):
        script.send("source/1", 2 + j, Watermark(1000))
    barriers = [SendElement(channel=j, element=barrier(2)) for j in range(2)]
    script("source/0", messages[0], *barriers, snapshot(2, "source/0"))
    for j, sent in enumerate(barriers):
        script.receive(f"count/{j}", sent)
    script("count/0", ProcessInput(), aligned(2, 0, 2))
    after = [script.send("source/0", 0, rows(1)) for _ in range(2)]
    for sent in after:
        script.receive("count/0", sent)
    script.send("source/0", 0, rows(40))
    script("count/0", ProcessInput(), GrantCredit(channel=2, credits=1), SendElement(channel=4, element=rows(1)))
    barriers = [SendElement(channel=2 + j, element=barrier(2)) for j in range(2)]
    script("source/1", messages[1], *barriers, snapshot(2, "source/1"))
    acknowledge(script, 2, "source/0")
    acknowledge(script, 2, "source/1", deliver=False)
