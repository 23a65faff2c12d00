"""The three bugs of the lab "find the bug", each in one part of the protocol. For teachers: students get `jobs.py`.

`python -m scripts.labs` writes this module without names and comments to `notebooks/labs/source/find-the-bug/jobs.py`,
which students import. All jobs have the same parts, and one of them is
wrong, so a job's parts do not show which one.

`ANSWERS` has the part that is wrong, and the explanation. The students' file has no answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kit.core.protocol.elements import CheckpointBarrier
from kit.machines.coordinator.request_decider import CheckpointRequestDecider
from kit.machines.task.barrier_handler import BarrierActions
from kit.machines.task.barrier_states import WaitingForFirstBarrier
from kit.machines.task.single_barrier_handler import SingleCheckpointBarrierHandler
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.connectors.sink import SinkOperator, SinkSpec
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.aggregates import count
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay
from kit.stream.settings.parts import Parts

ANSWERS = {
    "first": ("pending checkpoint", "the last task's acknowledgement comes, and its state is not kept"),
    "second": (
        "barrier handler",
        "the last barrier comes behind a row, the checkpoint is taken, and that channel is not let go on",
    ),
    "third": ("sink", "the task goes on from the checkpoint, and does not publish what that had staged"),
}
"""The part that is wrong in each job, and what it does."""


class Pending:
    """A record of acknowledgements. The wrong one does not keep the state that comes last."""

    def __init__(self, tasks: Sequence[str], *, wrong: bool) -> None:
        self.waiting_for = set(tasks)
        self.states: dict[str, Any] = {}
        self.to_delete: list[Any] = []
        self.over = False
        self.wrong = wrong

    def acknowledge(self, task: str, state: Any) -> str:
        """Record that a task has written its state."""
        if self.over:
            self.to_delete.append(state)
            return "DISCARDED"
        if task in self.states:
            return "DUPLICATE"
        if task not in self.waiting_for:
            self.to_delete.append(state)
            return "UNKNOWN"
        self.waiting_for.remove(task)
        self.states[task] = None if self.wrong and not self.waiting_for else state
        return "SUCCESS"

    @property
    def is_complete(self) -> bool:
        """True if all have acknowledged."""
        return not self.over and not self.waiting_for

    def abort(self) -> None:
        """Abort the checkpoint."""
        if not self.over:
            self.to_delete += self.states.values()
        self.over = True


class Handler(SingleCheckpointBarrierHandler):
    """A handler that aligns barriers. The wrong one does not resume the last channel if rows came meanwhile."""

    def __init__(self, gates: Any, actions: BarrierActions, *, wrong: bool, **settings: Any) -> None:
        super().__init__(gates, actions, WaitingForFirstBarrier, **settings)
        self.wrong = wrong
        self.meanwhile = False

    def add_processed_bytes(self, size_bytes: int) -> None:
        """Record that a row was processed."""
        self.meanwhile |= self.is_during_alignment and self.wrong
        super().add_processed_bytes(size_bytes)

    def process_barrier(self, barrier: CheckpointBarrier, channel: Any, *, is_rpc: bool = False) -> None:
        """Handle a barrier."""
        closed_by = channel._closed_by
        super().process_barrier(barrier, channel, is_rpc=is_rpc)
        if self.pending_checkpoint_id is None and self.meanwhile:
            channel._closed_by = closed_by
            channel.block()
            self.meanwhile = False

    def validate(self) -> None:
        """Do nothing, so the bug is not reported."""


class Sink(CollectSink):
    """A sink with an operator of its own."""

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        """Create a sound operator."""
        return Operator(spec)


class WrongSink(CollectSink):
    """A sink whose operator forgets what it had to publish when a worker dies."""

    def create_operator(self, spec: SinkSpec) -> SinkOperator:
        """Create the wrong operator."""
        return WrongOperator(spec)


class Operator(SinkOperator):
    """An operator that publishes what was restored."""


class WrongOperator(SinkOperator):
    """An operator that does not publish what was restored."""

    def open(self) -> None:
        """Start the task."""


def make(name: str, sound: bool) -> JobGraph:
    """Return the job called "first", "second" or "third", with its bug or without."""
    bug = "" if sound else name
    settings = CheckpointConfig(interval_ms=None, memory_threshold_bytes=0, max_concurrent=2)
    env = StreamEnvironment(name, parallelism=1, max_parallelism=2, checkpoint=settings, restart=FixedDelay(3, 1_000))
    rows = env.from_source(CollectionSource([{"letter": "a"}], batch_rows=1), uid="rows")
    sink = WrongSink("out") if bug == "third" else Sink("out")
    if name == "third":
        rows.sink_to(sink, uid="out")
    else:
        readers = rows.set_parallelism(2 if name == "second" else 1)
        readers.key_by("letter").aggregate(n=count()).uid("counts").sink_to(sink, uid="out")
    parts = Parts(
        request_decider=CheckpointRequestDecider,
        pending_checkpoint=partial(Pending, wrong=bug == "first"),
        barrier_handler=partial(Handler, wrong=bug == "second"),
    )
    return env.job_graph().with_parts(parts)
