"""A host around a JobMaster that answers only when a test lets it, and a coordinator that records its calls.

The job is `source` x2 -hash-> `sums` x2, and `source` is a chain of two operators. With `coordinator=True` all three
operators have a `RecordingCoordinator`. The test looks at the one on the head of `source` (with `on="sums"` at that of
`sums`), and after each event the harness compares the others with it.

With `regions=True` the exchange is a forward one, so that the tasks of each subtask are a region, which restarts alone
unless `failover` and `rescaling` say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kit.core.protocol import commands, events
from kit.core.protocol.lineage import Lineage
from kit.core.protocol.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    DeployTask,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    TaskStateChanged,
)
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.machines.job.job_master import JobMaster
from kit.machines.job.status import JobStatus
from kit.stream.graph.job_graph import JobEdge, JobGraph
from kit.stream.graph.partitioners import PartitionerKind
from kit.stream.operators.base import OperatorSpec
from kit.stream.operators.coordinator import (
    CoordinatorSnapshot,
    OperatorCoordinator,
    OperatorCoordinatorContext,
    Payload,
)
from kit.stream.settings.job_settings import FailoverStrategy, FixedDelay, JobSettings, RescaleConfig, RestartStrategy
from tests.answers import favourable
from tests.machines.coordinator.harness import JOB, graph, operator_id

COVERED = Lineage("run").covered_at(1).encode()
"""The output that the snapshots of these tests cover."""
W = TypeVar("W", bound=ProtocolMessage)
STATE = b"\x07\x0b\x03\x05"
OPERATORS = {operator_id("source"): "source", operator_id("source", 1): "source", operator_id("sums"): "sums"}
"""The vertex of each operator."""
SHARED_CALLS = ("start", "complete", "aborted", "reset", "close")
"""The calls that all coordinators of a job receive; a reset gives each its own state."""


class RecordingCoordinator(OperatorCoordinator):
    """A coordinator that records its calls; `fail_in` names a call that raises; with `slow` snapshots stay open.

    It obeys subtasks: `{"send": n, "to": subtask}`, `{"snapshot": "complete"}` (or why it fails).
    """

    def __init__(self, context: OperatorCoordinatorContext, spec: CoordinatedSpec) -> None:
        super().__init__(context)
        self.spec = spec
        self.calls: list[tuple[Any, ...]] = []
        self.gateways: dict[int, Any] = {}
        self.snapshots: list[CoordinatorSnapshot] = []

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.spec.fail_in == call[0]:
            raise RuntimeError(f"no {call[0]}")

    def start(self) -> None:
        self._note("start")

    def handle_event(self, subtask: int, attempt: int, payload: Payload) -> None:
        self._note("event", subtask, attempt, payload)
        if "send" in payload:
            self.gateways[payload["to"]].send_event({"n": payload["send"]})
        elif payload.get("snapshot") == "complete":
            self.snapshots[-1].complete(self.spec.state)
        elif "snapshot" in payload:
            self.snapshots[-1].fail(payload["snapshot"])

    def checkpoint_coordinator(self, snapshot: CoordinatorSnapshot) -> None:
        self.snapshots.append(snapshot)
        self._note("checkpoint", snapshot.checkpoint_id)
        if not self.spec.slow:
            snapshot.complete(self.spec.state)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._note("complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._note("aborted", checkpoint_id)

    def reset_to_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        self._note("reset", checkpoint_id, state)

    def execution_attempt_ready(self, subtask: int, attempt: int, gateway: Any) -> None:
        self.gateways[subtask] = gateway
        self._note("ready", subtask, attempt)

    def execution_attempt_failed(self, subtask: int, attempt: int, reason: str | None) -> None:
        self._note("failed", subtask, attempt, reason)

    def subtask_reset(self, subtask: int, checkpoint_id: int) -> None:
        self._note("subtask reset", subtask, checkpoint_id)

    def close(self) -> None:
        self._note("close")

    def said(self, *kinds: str) -> list[tuple[Any, ...]]:
        """Return the calls of these kinds, in order."""
        return [call for call in self.calls if call[0] in kinds]


@dataclass(frozen=True, kw_only=True, eq=False)
class CoordinatedSpec(OperatorSpec):
    """An operator with a coordinator; `made` are all its coordinators so far."""

    name: str = "coordinated"
    input_schemas: Any = ()
    output_schema: Any = None
    has_coordinator: bool = True
    state: bytes = STATE
    slow: bool = False
    fail_in: str = ""
    made: list[RecordingCoordinator] = field(default_factory=list)

    @property
    def at_work(self) -> list[RecordingCoordinator]:
        """The coordinators without those that another one replaced before they were started.

        That happens to the coordinators of a vertex that is first deployed with another parallelism.
        """
        return [each for each in self.made if each.said("start") or each is self.made[-1]]

    def create_coordinator(self, context: OperatorCoordinatorContext) -> OperatorCoordinator | None:
        if not self.has_coordinator:
            return None
        self.made.append(RecordingCoordinator(context, self))
        return self.made[-1]


def _without_state(call: tuple[Any, ...]) -> tuple[Any, ...]:
    return call[:2] if call[0] == "reset" else call


def job_of(
    specs: Mapping[str, OperatorSpec],
    restart: RestartStrategy,
    *,
    regions: bool = False,
    failover: FailoverStrategy | None = None,
    rescaling: RescaleConfig | None = None,
    **checkpoint: Any,
) -> JobGraph:
    """Return the job graph with these specs, by operator id."""
    job = graph(chains={"source": 2}, **checkpoint).job_graph
    vertices = tuple(
        replace(
            vertex,
            operators=tuple(replace(operator, spec=specs[operator.operator_id]) for operator in vertex.operators),
            inputs=tuple(map(_forward, vertex.inputs)) if regions else vertex.inputs,
            outputs=tuple(map(_forward, vertex.outputs)) if regions else vertex.outputs,
        )
        for vertex in job.vertices
    )
    failover = failover or (FailoverStrategy.REGION if regions else FailoverStrategy.FULL)
    rescaling = rescaling or RescaleConfig()
    settings = JobSettings(checkpoint=job.settings.checkpoint, restart=restart, failover=failover, rescaling=rescaling)
    return JobGraph(JOB, "job", vertices, settings)


def _forward(edge: JobEdge) -> JobEdge:
    return replace(edge, partitioner=PartitionerKind.FORWARD, key_columns=())


class JobHarness:
    """One JobMaster and the host's side of it; `emitted` are the commands since they were taken."""

    def __init__(
        self,
        *,
        coordinator: bool = False,
        on: str = "source",
        restart: RestartStrategy | None = None,
        hooks: Sequence[str] = (),
        slow: bool = False,
        fail_in: str = "",
        regions: bool = False,
        job: JobGraph | None = None,
        **checkpoint: Any,
    ) -> None:
        """Initialize with the settings of this module's job, or with another `job`, which has no such coordinators."""
        self.spec = CoordinatedSpec(has_coordinator=coordinator, slow=slow, fail_in=fail_in)
        self.operator_id = operator_id(on)
        self.others = {
            each: CoordinatedSpec(has_coordinator=coordinator, state=each.encode())
            for each in OPERATORS
            if each != self.operator_id
        }
        specs = {**self.others, self.operator_id: self.spec}
        own = job_of(specs, FixedDelay(10, 5) if restart is None else restart, regions=regions, **checkpoint)
        self.master = JobMaster(own if job is None else job, hooks)
        self.at = 1_000
        self.next_id = 1
        self.emitted: list[ProtocolMessage] = []
        self.timers: dict[str, int] = {}
        self._requests = 0

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks."""
        return list(self.master.tasks)

    @property
    def status(self) -> JobStatus:
        """Return the status of the job."""
        return self.master.status

    @property
    def coordinator(self) -> RecordingCoordinator:
        """The present coordinator."""
        return self.spec.made[-1]

    # --- what comes out and goes in ---------------------------------------------------------------------------------

    def give(self, event: ProtocolMessage) -> list[ProtocolMessage]:
        """Let the JobMaster handle an event, and validate it afterwards."""
        given = self.master.handle(event, self.at)
        self.master.validate()
        self.compare_coordinators()
        for word in given:
            if isinstance(word, commands.ScheduleTimer):
                self.timers[word.timer] = word.due_ms
            elif isinstance(word, commands.CancelTimer):
                self.timers.pop(word.timer, None)
        self.emitted += given
        return given

    def compare_coordinators(self) -> None:
        """Check that the other coordinators received the same calls as the test's own, each with its own state."""
        for each, spec in self.others.items():
            others, owns = spec.at_work, self.spec.at_work
            assert len(others) == len(owns)
            same_vertex = OPERATORS[each] == OPERATORS[self.operator_id]
            kinds = (*SHARED_CALLS, *(["failed"] if same_vertex else ()))
            for other, own in zip(others, owns):
                heard, expected = ([_without_state(call) for call in one.said(*kinds)] for one in (other, own))
                assert heard == expected, f"{each} heard something else"
                assert {call[2] for call in other.said("reset")} <= {None, spec.state}
            for task, record in self.master.tasks.items() if spec.made else ():
                vertex, _, subtask = task.rpartition("/")
                if vertex == OPERATORS[each] and record.state is ExecutionState.RUNNING:
                    assert ("ready", int(subtask), self.master.attempts.of(task)) in spec.made[-1].calls

    def take(self, kind: type[W]) -> list[W]:
        """Return the commands of this kind that have not been taken yet."""
        found = [word for word in self.emitted if isinstance(word, kind)]
        self.emitted = [word for word in self.emitted if not isinstance(word, kind)]
        return found

    def answers(self) -> dict[int, str]:
        """Take the answers to requests: the error, or the path."""
        return {word.request_id: word.error or str(word.path) for word in self.take(commands.CompleteRequest)}

    def answer(self, *kinds: type[ProtocolMessage]) -> bool:
        """Answer every command of these kinds favourably; return False if there are none."""
        wanted = tuple(word for word in self.emitted if isinstance(word, kinds))
        self.emitted = [word for word in self.emitted if not isinstance(word, kinds)]
        for command in wanted:
            self._answer(command)
        return bool(wanted)

    def _answer(self, command: Any) -> None:
        if isinstance(command, commands.AllocateCheckpointId):
            self.next_id += 1
            self.give(events.CheckpointIdAllocated(checkpoint_id=self.next_id - 1))
            return
        answer = favourable(command)
        if answer is not None:
            self.give(answer)

    def answer_all(self, *, but: Iterable[type[ProtocolMessage]] = ()) -> None:
        """Answer all commands, and those that the answers lead to."""
        kinds = tuple(kind for kind in ANSWERED if kind not in tuple(but))
        while self.answer(*kinds):
            pass

    def wait(self, ms: int) -> None:
        """Let time pass; timers fire as they become due."""
        end = self.at + ms
        while self.timers and min(self.timers.values()) <= end:
            timer = min(self.timers, key=lambda name: (self.timers[name], name))
            self.at = max(self.at, self.timers.pop(timer))
            self.give(events.TimerFired(timer=timer))
        self.at = end

    # --- tasks ------------------------------------------------------------------------------------------------------

    def start(self) -> JobHarness:
        """Start the job: its tasks are deployed."""
        self.give(events.StartJob())
        self.answer_all()
        return self

    def run(self) -> JobHarness:
        """Start the job and let its tasks run."""
        self.start()
        return self.all_become(ExecutionState.RUNNING)

    def all_become(self, state: ExecutionState) -> JobHarness:
        """Let every task enter this state."""
        for task in self.tasks:
            self.become(task, state)
        return self

    def become(self, task: str, state: ExecutionState, error: str = "", attempt: int | None = None) -> None:
        """Let a task enter this state."""
        attempt = self.master.attempts.of(task) if attempt is None else attempt
        self.give(TaskStateChanged(task=task, attempt=attempt, state=state, error=error))

    def fail(self, task: str = "source/1") -> None:
        """Let a task fail."""
        self.become(task, ExecutionState.FAILED, "it broke")

    def restart(self) -> None:
        """Let the workers leave and the delay pass, so the job is deployed again and runs."""
        self.answer_all()
        self.wait(5)
        self.answer_all()
        self.all_become(ExecutionState.RUNNING)

    def deployed(self) -> list[DeployTask]:
        """Take the deployments of tasks."""
        return self.take(DeployTask)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _next_request(self) -> int:
        self._requests += 1
        return self._requests

    def request(self) -> int:
        """Request a checkpoint, and return the number of the request."""
        number = self._next_request()
        self.give(events.RequestCheckpoint(request_id=number))
        return number

    def savepoint(self, target: str | None = "savepoints") -> int:
        """Request a savepoint, and return the number of the request."""
        number = self._next_request()
        self.give(events.RequestSavepoint(request_id=number, target=target))
        return number

    def stop(self, *, drain: bool = False, target: str | None = "savepoints") -> int:
        """Request stop-with-savepoint, and return the number of the request."""
        number = self._next_request()
        self.give(events.RequestStop(request_id=number, target=target, drain=drain))
        return number

    def trigger(self, ask: Callable[[], int] | None = None) -> int:
        """Request a checkpoint, trigger its tasks, and return its id."""
        (ask or self.request)()
        self.answer_all()
        return self.next_id - 1

    def ack(
        self,
        checkpoint_id: int,
        task: str,
        state: OperatorSubtaskState | Mapping[str, OperatorSubtaskState] | None = None,
        *,
        attempt: int | None = None,
    ) -> None:
        """Let a task acknowledge; a state without an operator is that of the head."""
        if isinstance(state, OperatorSubtaskState):
            state = {operator_id(task.rpartition("/")[0]): state}
        snapshot = None if state is None else TaskStateSnapshot(state)
        self.give(
            AcknowledgeCheckpoint(
                task=task,
                attempt=self.master.attempts.of(task) if attempt is None else attempt,
                job_id=JOB,
                checkpoint_id=checkpoint_id,
                state=snapshot,
            )
        )

    def ack_all(self, checkpoint_id: int) -> None:
        """Let every task acknowledge that has not."""
        for task in list(self.master.checkpoints.pending[checkpoint_id].not_yet_acked_tasks):
            self.ack(checkpoint_id, task)

    def complete(self, ask: Callable[[], int] | None = None) -> int:
        """Take a complete checkpoint, and return its id."""
        checkpoint_id = self.trigger(ask)
        self.ack_all(checkpoint_id)
        self.answer_all()
        return checkpoint_id

    def decline(
        self,
        checkpoint_id: int,
        task: str = "sums/0",
        reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_DECLINED,
        detail: str = "",
        may_pass: bool = False,
    ) -> None:
        """Let a task decline."""
        self.give(
            DeclineCheckpoint(
                task=task,
                attempt=self.master.attempts.of(task),
                job_id=JOB,
                checkpoint_id=checkpoint_id,
                reason=reason,
                detail=detail,
                may_pass=may_pass,
            )
        )

    # --- operator events --------------------------------------------------------------------------------------------

    def say(self, task: str, payload: Payload, attempt: int | None = None) -> None:
        """Send an event from a task's operator to its coordinator."""
        attempt = self.master.attempts.of(task) if attempt is None else attempt
        self.give(OperatorEventToCoordinator(task=task, attempt=attempt, operator_id=self.operator_id, payload=payload))

    def told(self) -> list[tuple[str, Payload]]:
        """Take the events from coordinators to tasks."""
        return [(word.task, word.payload) for word in self.take(OperatorEventToTask)]


ANSWERED: tuple[type[ProtocolMessage], ...] = (
    commands.AllocateCheckpointId,
    commands.StopTasks,
    commands.InitializeLocation,
    commands.ScheduleCoordinatorCheckpoint,
    commands.TriggerMasterHook,
    commands.ResetMasterHooks,
    commands.RestoreMasterHooks,
    commands.WriteMetadata,
    commands.StoreCheckpoint,
    commands.StopEpoch,
    commands.RecoverCheckpoints,
    commands.RemoveOrphans,
    commands.StoreJobResult,
    commands.StoreParallelism,
)
