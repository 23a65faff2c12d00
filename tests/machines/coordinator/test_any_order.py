"""Events in any order: the invariants hold, each request is answered once, and no file is lost or left over."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kit.core.metadata import CheckpointMetadata, read_metadata
from kit.core.protocol import commands, events
from kit.core.protocol.messages import NotifyCheckpointAborted, NotifyCheckpointComplete
from kit.core.protocol.notes import CheckpointCompleted
from kit.core.protocol.reasons import CheckpointFailureReason as Reason
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.operator_state import TaskStateSnapshot
from tests.answers import refusal
from tests.machines.coordinator.harness import Harness, graph, keyed_state, operator_id

TASKS = ("source/0", "source/1", "sums/0", "sums/1")
ASKING = (
    commands.AllocateCheckpointId,
    commands.InitializeLocation,
    commands.ScheduleCoordinatorCheckpoint,
    commands.TriggerMasterHook,
    commands.WriteMetadata,
    commands.StoreCheckpoint,
)


def files_of(task: str, checkpoint_id: int) -> dict[str, str]:
    """Return the file of each operator of a task, by the operator's id."""
    vertex = task.rpartition("/")[0]
    ids = [operator_id(vertex, number) for number in range({"source": 2, "sums": 3}[vertex])]
    return {operator: f"{task}-{operator}-{checkpoint_id}" for operator in ids}


class AnyOrder(RuleBasedStateMachine):
    """A job whose host answers at any time, favourably or not, and whose tasks ack, decline and die at any time."""

    def __init__(self) -> None:
        super().__init__()
        settings = {
            "interval_ms": 100,
            "timeout_ms": 250,
            "min_pause_ms": 30,
            "max_concurrent": 3,
            "max_retained": 2,
            "tolerable_failures": 2**31 - 1,
        }
        self.job = Harness(
            graph(chains={"source": 2, "sums": 3}, **settings),
            hooks=["news", "mail", "audit"],
            coordinators=["sums", "source"],
        )
        self.open: list[ProtocolMessage] = []
        self.asked: set[int] = set()
        self.answered: list[int] = []
        self.files: set[str] = set()
        self.gone: set[str] = set()
        self.confirmed: set[int] = set()
        self.aborted: set[int] = set()
        self.savepoints: set[int | None] = set()
        self.job.coordinator.start_checkpoint_scheduler()

    def read(self) -> None:
        """Process the coordinator's commands."""
        for word in self.job.emitted:
            if isinstance(word, ASKING):
                self.open.append(word)
            elif isinstance(word, commands.CompleteRequest):
                self.answered.append(word.request_id)
            elif isinstance(word, commands.DiscardState):
                self.gone |= set(word.paths)
            elif isinstance(word, CheckpointCompleted):
                if "Savepoint" in word.snapshot:
                    self.savepoints.add(word.checkpoint_id)
            elif isinstance(word, NotifyCheckpointComplete):
                self.confirmed.add(word.checkpoint_id)
            elif isinstance(word, NotifyCheckpointAborted):
                self.aborted.add(word.checkpoint_id)
        self.job.emitted = []

    @rule(kind=st.sampled_from(["request", "request_savepoint", "request_stop"]))
    def ask(self, kind: str) -> None:
        """A user sends a request."""
        self.asked.add(getattr(self.job, kind)())
        self.read()

    @rule(kind=st.sampled_from(["request", "request", "request_savepoint"]))
    def begin(self, kind: str) -> None:
        """A user sends a request, and the tasks are triggered."""
        self.ask(kind)
        self.answer_all()

    @precondition(lambda self: self.job.pending())
    @rule()
    def finish(self) -> None:
        """All tasks ack, and the host answers all commands."""
        self.all_ack(1)
        self.answer_all()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), well=st.sampled_from([True, True, True, False]))
    def answer(self, data: st.DataObject, well: bool) -> None:
        """The host answers one of its commands."""
        command: Any = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if well:
            self._answer_well(command)
        else:
            self._refuse(command)
            self.read()

    @rule()
    def answer_all(self) -> None:
        """The host answers all commands favourably, and those that the answers lead to."""
        while self.open:
            self._answer_well(self.open.pop(0))

    def _answer_well(self, command: Any) -> None:
        if isinstance(command, commands.WriteMetadata):
            self.files.add(f"{command.location}/_metadata")
            self._check_metadata(read_metadata(command.data, command.location)[0])
        self.job._answer(command)
        self.read()

    def _check_metadata(self, metadata: CheckpointMetadata) -> None:
        """Check that the metadata has all acked state, in an order that does not depend on the order of acks."""
        found = {
            (state.operator_id, subtask): [*part.files()]
            for state in metadata.operator_states
            for subtask, part in state.subtask_states.items()
        }
        expected = {
            (operator, int(task.rpartition("/")[2])): [files_of(task, metadata.checkpoint_id)[operator]]
            for two in (TASKS[:2], TASKS[2:])
            for operator in reversed(files_of(two[0], metadata.checkpoint_id))
            for task in two
        }
        assert [*found] == [*expected]
        assert found == expected
        assert [state.name for state in metadata.master_states] == ["audit", "mail", "news"]
        states = {state.operator_id: state.coordinator_state for state in metadata.operator_states}
        assert [operator for operator, state in states.items() if state] == [operator_id("source"), operator_id("sums")]

    def _acknowledge(self, task: str, checkpoint_id: int) -> None:
        """A task acks with a file of each of its operators."""
        files = files_of(task, checkpoint_id)
        self.files |= {*files.values()}
        states = {operator: keyed_state(file) for operator, file in files.items()}
        self.job.ack(checkpoint_id, task, TaskStateSnapshot(states))

    def _refuse(self, command: Any) -> None:
        if isinstance(command, commands.ScheduleCoordinatorCheckpoint):
            trigger = self.job.coordinator.trigger
            trigger.on_coordinator_snapshot_failed(command.checkpoint_id, command.operator_id, "no")
            return
        refused = refusal(command)
        assert refused is not None
        self.job.give(refused)

    @rule(task=st.sampled_from(TASKS), back=st.integers(0, 3), late=st.booleans())
    def ack(self, task: str, back: int, late: bool) -> None:
        """A task acks one of the newest checkpoints, pending or not, perhaps again."""
        checkpoint_id = self.job.next_id - 1 - back
        if checkpoint_id < 1:
            return
        self._acknowledge(task, checkpoint_id)
        self.read()

    @rule(back=st.integers(0, 1))
    def all_ack(self, back: int) -> None:
        """All tasks ack a pending checkpoint."""
        for checkpoint_id in self.job.pending()[: back + 1]:
            for task in list(self.job.coordinator.pending[checkpoint_id].not_yet_acked_tasks):
                if checkpoint_id in self.job.coordinator.pending:
                    self._acknowledge(task, checkpoint_id)
        self.read()

    @rule(
        task=st.sampled_from(TASKS),
        back=st.integers(0, 2),
        reason=st.sampled_from([Reason.CHECKPOINT_DECLINED, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY]),
    )
    def decline(self, task: str, back: int, reason: Reason) -> None:
        """A task declines."""
        self.job.decline(self.job.next_id - 1 - back, task, reason)
        self.read()

    @rule(ms=st.sampled_from([1, 30, 100, 250]))
    def pass_time(self, ms: int) -> None:
        """Time passes; timers fire in order."""
        end = self.job.at + ms
        while self.job.timers and min(self.job.timers.values()) <= end:
            timer = min(self.job.timers, key=lambda name: (self.job.timers[name], name))
            self.job.at = max(self.job.at, self.job.timers.pop(timer))
            self.job.give(events.TimerFired(timer=timer))
        self.job.at = end
        self.read()

    @rule()
    def fail_over(self) -> None:
        """The job fails over; its tasks are started again."""
        self.job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION)
        self.read()

    @rule()
    def stop_and_start(self) -> None:
        """Periodic checkpoints are stopped and started again."""
        self.job.coordinator.stop_checkpoint_scheduler()
        self.job.coordinator.start_checkpoint_scheduler()
        self.read()

    @rule(state=st.sampled_from([ExecutionState.RUNNING] * 3 + [ExecutionState.INITIALIZING]))
    def become(self, state: ExecutionState) -> None:
        """A task starts to run, or stops running."""
        self.job.states["sums/1"] = state

    @invariant()
    def sound(self) -> None:
        """The coordinator is valid."""
        self.job.coordinator.validate()

    @invariant()
    def answered_once(self) -> None:
        """No request is answered twice, and no answer lacks a request."""
        assert len(self.answered) == len(set(self.answered))
        assert set(self.answered) <= self.asked

    @invariant()
    def never_both(self) -> None:
        """An aborted checkpoint is never confirmed, and never retained."""
        assert not self.confirmed & self.aborted
        assert not self.aborted & set(self.job.retained_ids())

    @invariant()
    def retained_files_stand(self) -> None:
        """No file that a retained checkpoint refers to has been discarded."""
        for checkpoint in self.job.retained():
            files = {file for state in checkpoint.operator_states.values() for file in state.files()}
            assert not (files | {checkpoint.path}) & self.gone

    def teardown(self) -> None:
        """In the end every request has been answered, and every file is either referred to or discarded."""
        self.answer_all()
        self.job.coordinator.shut_down("FAILED")
        self.read()
        self.answer_all()
        assert set(self.answered) == self.asked
        assert self.job.pending() == []
        assert self.job.timers == {}
        left = {file for file in self.files - self.gone if self._id_of(file) not in self.savepoints}
        assert not left, f"{sorted(left)} were left behind by a job that retains nothing"
        taken = {file for file in self.files & self.gone if self._id_of(file) in self.savepoints}
        assert not taken, f"{sorted(taken)} belong to savepoints"

    @staticmethod
    def _id_of(file: str) -> int:
        return int(file.removesuffix("/_metadata").rpartition("-")[2])


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(stateful_step_count=40, max_examples=60)
