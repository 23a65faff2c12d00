"""The three bugs of the lab "find the bug", each in one part of the protocol.

Spoiler: finding them is the lab. Each part is correct except for one method, and records when the bug has had its
effect (`acted`). So a check knows at which step of a student's counterexample that was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.protocol.elements import CheckpointBarrier
from kit.hosts.lab.lab import Lab
from kit.machines.task.barrier_handler import BarrierActions
from kit.machines.task.barrier_states import WaitingForFirstBarrier
from kit.machines.task.single_barrier_handler import SingleCheckpointBarrierHandler
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.connectors.sink import SinkOperator, SinkSpec
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators import count
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay
from kit.stream.settings.parts import Parts
from kit.verify.explore import expected_output
from kit.verify.explore.properties import Row


class FirstPending:
    """A record of acknowledgements that does not keep the state that comes last."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self.waiting_for = set(tasks)
        self.states: dict[str, Any] = {}
        self.to_delete: list[Any] = []
        self.over = False
        self.acted = False

    def acknowledge(self, task: str, state: Any) -> str:
        """Record that a task has written its state."""
        if task in self.states:
            return "DUPLICATE"
        if self.over or task not in self.waiting_for:
            self.to_delete.append(state)
            return "DISCARDED" if self.over else "UNKNOWN"
        self.waiting_for.remove(task)
        self.acted = not self.waiting_for
        self.states[task] = None if self.acted else state
        return "SUCCESS"

    @property
    def is_complete(self) -> bool:
        """True if all have acknowledged."""
        return not self.over and not self.waiting_for

    def abort(self) -> None:
        """Abort the checkpoint."""
        self.over = True
        self.to_delete += self.states.values()


class SecondHandler(SingleCheckpointBarrierHandler):
    """A handler that aligns barriers, but does not resume the last channel if rows were processed meanwhile."""

    def __init__(self, gates: Any, actions: BarrierActions, **settings: Any) -> None:
        super().__init__(gates, actions, WaitingForFirstBarrier, **settings)
        self.acted = False
        self._rows_meanwhile = False

    def add_processed_bytes(self, size_bytes: int) -> None:
        """Record that a row was processed."""
        self._rows_meanwhile |= self.is_during_alignment
        super().add_processed_bytes(size_bytes)

    def process_barrier(self, barrier: CheckpointBarrier, channel: Any, *, is_rpc: bool = False) -> None:
        """Handle a barrier."""
        closed_by = channel._closed_by
        super().process_barrier(barrier, channel, is_rpc=is_rpc)
        if self.pending_checkpoint_id is None and self._rows_meanwhile:
            channel._closed_by = closed_by
            channel.block()
            self.acted = True
            self._rows_meanwhile = False

    def validate(self) -> None:
        """Do nothing, so the bug is not reported."""


class ThirdSink(CollectSink):
    """A sink whose operator forgets what it had to publish when a worker dies."""

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        return ThirdOperator(spec)


class ThirdOperator(SinkOperator):
    """An operator that does not publish what was restored."""

    acted = False

    def open(self) -> None:
        """Start the task."""
        self.acted = bool(self._publishing)


def _env(name: str, **checkpoint: Any) -> StreamEnvironment:
    settings: dict[str, Any] = {"interval_ms": None, "memory_threshold_bytes": 0, "max_concurrent": 2} | checkpoint
    return StreamEnvironment(
        name, parallelism=1, max_parallelism=2, checkpoint=CheckpointConfig(**settings), restart=FixedDelay(3, 1_000)
    )


def counts(name: str, sources: int) -> StreamEnvironment:
    """Return a job in which one row per reader is counted by one task."""
    env = _env(name)
    rows = env.from_source(CollectionSource([{"letter": "a"}], batch_rows=1), uid="rows").set_parallelism(sources)
    rows.key_by("letter").aggregate(n=count()).uid("counts").sink_to(CollectSink("out"), uid="out")
    return env


def collects(sink: CollectSink, **checkpoint: Any) -> StreamEnvironment:
    """Return a job in which one row is published by the task that reads it."""
    env = _env("third", **checkpoint)
    env.from_source(CollectionSource([{"letter": "a"}], batch_rows=1), uid="rows").sink_to(sink, uid="out")
    return env


@dataclass(frozen=True)
class Bug:
    """A bug: the job with and without it, the part that contains it, and whether it has acted in a lab."""

    part: str
    broken: Callable[[], JobGraph]
    sound: Callable[[], JobGraph]
    acted: Callable[[Lab], bool]
    told: str
    """The explanation of the bug."""


def _pending(lab: Lab) -> Iterator[Any]:
    return (getattr(each, "_part", None) for each in lab.look.master.checkpoints.pending.values())


def _operators(lab: Lab) -> Iterator[Any]:
    return (link.operator for task in lab.look.tasks.values() for link in task.chain.links)


BUGS = {
    "first": Bug(
        "pending checkpoint",
        lambda: counts("first", 1).job_graph().with_parts(Parts(pending_checkpoint=FirstPending)),
        lambda: counts("first", 1).job_graph(),
        lambda lab: any(each is not None and each.acted for each in _pending(lab)),
        "the last task's acknowledgement comes, and its state is not kept",
    ),
    "second": Bug(
        "barrier handler",
        lambda: counts("second", 2).job_graph().with_parts(Parts(barrier_handler=SecondHandler)),
        lambda: counts("second", 2).job_graph(),
        lambda lab: any(getattr(task.barriers, "acted", False) for task in lab.look.tasks.values()),
        "the last barrier comes behind a row, the checkpoint is taken, and that channel is not let go on",
    ),
    "third": Bug(
        "sink",
        lambda: collects(ThirdSink("out")).job_graph(),
        lambda: collects(CollectSink("out")).job_graph(),
        lambda lab: any(getattr(operator, "acted", False) for operator in _operators(lab)),
        "the task goes on from the checkpoint, and does not publish what that had staged",
    ),
}


def wanted(name: str) -> Counter[Row]:
    """Return the rows that the job publishes without faults."""
    return Counter(expected_output(BUGS[name].sound()))
