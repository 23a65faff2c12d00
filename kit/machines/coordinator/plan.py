"""The participants of a checkpoint: the tasks that start it, must acknowledge it, and are notified of its end.

While all tasks run, the sources start it and all tasks acknowledge. Once tasks have finished, the barrier must come
from the tasks that have no running task upstream. Over an all-to-all edge one running upstream task is enough; over a
pointwise edge only the subtask's own upstream tasks count. A finished task has no state; the checkpoint records that it
finished.

Follows Flink's `DefaultCheckpointPlanCalculator` and `DefaultCheckpointPlan`. 1.11 has no finished tasks: there a
checkpoint fails as soon as one source has finished.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState
from kit.core.state.handles import ByteStreamStateHandle, OperatorStateMode
from kit.core.state.operator_state import FINISHED_SUBTASK_STATE, OperatorState, OperatorSubtaskState
from kit.stream.graph.execution_graph import ExecutionGraph, ExecutionVertex
from kit.stream.graph.job_graph import ChainedOperator


class PartialFinishingNotSupportedByState(CheckpointException):
    """A partly finished vertex with union list state, whose list would lose the finished subtasks' entries."""

    def __init__(self, vertex: str, what: str) -> None:
        super().__init__(
            CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING,
            f"Vertex {vertex!r} uses union list state and {what}; checkpoints go on once all of its subtasks have "
            "finished.",
        )


@dataclass(slots=True)
class OperatorStateBuilder:
    """A builder of an `OperatorState`, subtask by subtask."""

    operator_id: str
    parallelism: int
    max_parallelism: int
    name: str | None = None
    uid: str | None = None
    subtask_states: dict[int, OperatorSubtaskState] = field(default_factory=dict)
    coordinator_state: ByteStreamStateHandle | None = None
    fully_finished: bool = False

    @classmethod
    def of(cls, task: ExecutionVertex, operator: ChainedOperator) -> OperatorStateBuilder:
        """Create an empty builder for an operator in the chain of `task`."""
        return cls(operator.operator_id, task.parallelism, task.max_parallelism, operator.name, operator.uid)

    def call(self, operator: ChainedOperator) -> None:
        """Set the operator's names, if only its coordinator has reported before."""
        if self.name is None:
            self.name, self.uid = operator.name, operator.uid

    def set_coordinator_state(self, state: ByteStreamStateHandle) -> None:
        """Set the state of the operator's coordinator."""
        self.coordinator_state = state

    def build(self) -> OperatorState:
        """Return the state, with subtasks in order of index; a fully finished operator keeps nothing else."""
        kept = {} if self.fully_finished else dict(sorted(self.subtask_states.items()))
        return OperatorState(
            self.operator_id,
            self.parallelism,
            self.max_parallelism,
            kept,
            None if self.fully_finished else self.coordinator_state,
            self.name,
            self.uid,
            self.fully_finished,
        )

    def uses_union_list_state(self) -> bool:
        """Return True if any subtask reported a list that every subtask restores as a whole."""
        return any(
            info.mode is OperatorStateMode.UNION
            for state in self.subtask_states.values()
            for handle in (*state.managed_operator_state, *state.raw_operator_state)
            for info in handle.state_name_to_partition_offsets.values()
        )


@dataclass(slots=True)
class CheckpointPlan:
    """The participants of one checkpoint, upstream before downstream, each in its attempt according to `attempts`.

    `fully_finished` names the vertices of which no subtask will ever have state again, each with one of its subtasks.

    Its `tasks_to_trigger` are Flink's `tasksToTrigger` (the sources), `tasks_to_wait_for` its `tasksToWaitFor`,
    `tasks_to_commit_to` its `tasksToCommitTo`.
    """

    attempts: Attempts
    tasks_to_trigger: Sequence[ExecutionVertex]
    tasks_to_wait_for: Sequence[ExecutionVertex]
    tasks_to_commit_to: Sequence[ExecutionVertex]
    finished_tasks: Sequence[ExecutionVertex] = ()
    fully_finished: dict[str, ExecutionVertex] = field(default_factory=dict)
    may_have_finished_tasks: bool = True
    _finished_operators: Counter[str] = field(default_factory=Counter)

    @property
    def names_to_trigger(self) -> tuple[str, ...]:
        """The names of the tasks to trigger."""
        return tuple(task.task for task in self.tasks_to_trigger)

    def report_task_finished_on_restore(self, task: ExecutionVertex) -> None:
        """Record that this task, and so its whole vertex, was restored as finished."""
        self.fully_finished.setdefault(task.vertex.name, task)

    def report_task_has_finished_operators(self, task: ExecutionVertex) -> None:
        """Record that this task runs, but its operators have processed all their input."""
        self._finished_operators[task.vertex.name] += 1

    def fulfill_finished_task_status(self, states: dict[str, OperatorStateBuilder]) -> None:
        """Record in the states, by operator id, what has finished.

        Raises PartialFinishingNotSupportedByState if that would lose entries of a union list.
        """
        if not self.may_have_finished_tasks:
            return
        self._refuse_partial_union_lists(states)
        for task in self.fully_finished.values():
            for operator in task.vertex.operators:
                builder = states.setdefault(operator.operator_id, OperatorStateBuilder.of(task, operator))
                if builder.subtask_states:
                    raise ValueError(
                        f"all subtasks of {task.vertex.name!r} have finished, but {sorted(builder.subtask_states)} "
                        f"reported state of {operator.name!r}"
                    )
                builder.fully_finished = True
        for task in self.finished_tasks:
            for operator in task.vertex.operators:
                builder = states.setdefault(operator.operator_id, OperatorStateBuilder.of(task, operator))
                if not builder.fully_finished:
                    builder.subtask_states[task.subtask_index] = FINISHED_SUBTASK_STATE

    def _refuse_partial_union_lists(self, states: Mapping[str, OperatorStateBuilder]) -> None:
        partly = {task.vertex.name: task for task in self.finished_tasks}
        partly = {name: task for name, task in partly.items() if name not in self.fully_finished}
        for name, task in partly.items():
            if _uses_union_list_state(task, states):
                raise PartialFinishingNotSupportedByState(name, "only part of its tasks have finished")
        if not self._finished_operators:
            return
        running = {task.vertex.name: task for task in self.tasks_to_wait_for}
        for name, count in self._finished_operators.items():
            task = running[name]
            if name not in partly and count != task.parallelism and _uses_union_list_state(task, states):
                raise PartialFinishingNotSupportedByState(name, "only part of its tasks have processed all their input")

    def __repr__(self) -> str:
        return (
            f"CheckpointPlan(epoch {self.attempts.epoch}: trigger {len(self.tasks_to_trigger)}, "
            f"wait for {len(self.tasks_to_wait_for)}, {len(self.finished_tasks)} finished)"
        )


def _uses_union_list_state(task: ExecutionVertex, states: Mapping[str, OperatorStateBuilder]) -> bool:
    builders = (states.get(operator.operator_id) for operator in task.vertex.operators)
    return any(builder is not None and builder.uses_union_list_state() for builder in builders)


class CheckpointPlanCalculator:
    """The calculation of each checkpoint's plan for one graph (Flink's `DefaultCheckpointPlanCalculator`)."""

    def __init__(self, graph: ExecutionGraph, *, allow_finished_tasks: bool) -> None:
        self.graph = graph
        self.allow_finished_tasks = allow_finished_tasks
        self._sources = tuple(task for task in graph.tasks if task.vertex.is_source)

    def calculate(self, attempts: Attempts, execution_state: Callable[[str], ExecutionState]) -> CheckpointPlan:
        """Return the plan for the present states of the tasks.

        Raises CheckpointException with NOT_ALL_REQUIRED_TASKS_RUNNING, which names the first task that prevents it.

        Flink: `calculateCheckpointPlan`; in 1.11 `getTriggerExecutions` and `getAckTasks`.
        """
        states = {task.task: execution_state(task.task) for task in self.graph.tasks}
        finished = next((name for name, state in states.items() if state is ExecutionState.FINISHED), None)
        if finished is not None and not self.allow_finished_tasks:
            raise CheckpointException(
                CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING,
                f"{finished} has finished already, and the settings do not allow checkpoints after tasks finish.",
            )
        for name, state in states.items():
            if state not in (ExecutionState.RUNNING, ExecutionState.FINISHED):
                raise CheckpointException(
                    CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING, f"{name} is {state.name}."
                )
        if finished is not None:
            return self._after_tasks_finished(
                attempts, {name for name, state in states.items() if state is ExecutionState.RUNNING}
            )
        tasks = self.graph.tasks
        return CheckpointPlan(attempts, self._sources, tasks, tasks, may_have_finished_tasks=self.allow_finished_tasks)

    def _after_tasks_finished(self, attempts: Attempts, running: set[str]) -> CheckpointPlan:
        waiting = [task for task in self.graph.tasks if task.task in running]
        finished = [task for task in self.graph.tasks if task.task not in running]
        running_in = Counter(task.vertex.name for task in waiting)
        return CheckpointPlan(
            attempts,
            [task for task in waiting if not self._has_running_upstream(task, running, running_in)],
            waiting,
            waiting,
            finished,
            {task.vertex.name: task for task in reversed(finished) if not running_in[task.vertex.name]},
        )

    def _has_running_upstream(self, task: ExecutionVertex, running: set[str], running_in: Mapping[str, int]) -> bool:
        for gate in task.gates:
            source = gate.edge.source
            if not running_in[source]:
                continue
            if not gate.edge.is_pointwise or running_in[source] == self.graph.parallelism[source]:
                return True
            if any(self.graph.channel(number).source_task in running for number in gate.channels):
                return True
        return False
