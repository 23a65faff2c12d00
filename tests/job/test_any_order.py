"""A whole job in any order: no event raises, the invariants hold, everybody who asked is answered once."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kit.core.protocol import commands, events
from kit.core.protocol.messages import (
    CheckpointMetrics,
    DeployTask,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventToTask,
    ReportCheckpointMetrics,
)
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import Word
from kit.machines.job.status import PHASES, JobStatus
from kit.stream.settings.job_settings import FixedDelay
from tests.coordinator.harness import JOB, keyed_state
from tests.job.harness import ANSWERED, JobHarness

TASKS = ("source/0", "source/1", "sums/0", "sums/1")
LIFE = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED)
tasks = st.sampled_from(TASKS)
old = st.sampled_from([0, 0, 0, 1])
"""How many attempts, or checkpoints, ago."""

STEPS = {(phase.status, after.status) for phase in PHASES for after in PHASES.targets(phase)}
"""What may follow what, as the user sees it."""


class AnyOrder(RuleBasedStateMachine):
    """A host that answers when it likes, tasks that live and die at will, and users who ask for everything."""

    def __init__(self) -> None:
        super().__init__()
        self.job = JobHarness(
            coordinator=True,
            slow=True,
            hooks=["mail"],
            restart=FixedDelay(6, 20),
            interval_ms=100,
            timeout_ms=250,
            min_pause_ms=20,
            max_concurrent=2,
            max_retained=2,
            tolerable_failures=3,
        )
        self.open: list[Word] = []
        self.asked: set[int] = set()
        self.answered: list[int] = []
        self.confirmed: set[int] = set()
        self.aborted: set[int] = set()
        self.statuses: list[JobStatus] = [JobStatus.CREATED]
        self.epochs: list[int] = []
        self.job.give(events.StartJob())
        self.read()

    def read(self) -> None:
        """Sort out what the JobMaster said."""
        emitted, self.job.emitted = self.job.emitted, []
        for word in emitted:
            match word:
                case commands.CompleteRequest(request_id=request_id):
                    if request_id > 0:
                        self.answered.append(request_id)
                case commands.JobStatusChanged(status=status):
                    assert (self.statuses[-1], JobStatus[status]) in STEPS
                    self.statuses.append(JobStatus[status])
                case commands.StartEpoch(epoch=epoch):
                    self.epochs.append(epoch)
                case NotifyCheckpointComplete(checkpoint_id=checkpoint_id):
                    self.confirmed.add(checkpoint_id)
                case NotifyCheckpointAborted(checkpoint_id=checkpoint_id):
                    self.aborted.add(checkpoint_id)
                case DeployTask() | OperatorEventToTask():
                    assert word.attempt == self.job.master.epoch
                    assert self.job.status is JobStatus.RUNNING
                case _ if isinstance(word, ANSWERED):
                    self.open.append(word)

    # --- the host -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.open)
    @rule(data=st.data(), well=st.sampled_from([True, True, True, True, False]))
    def answer(self, data: st.DataObject, well: bool) -> None:
        """The host answers one of its commands."""
        command = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if well:
            self.job._answer(command)
        else:
            self.refuse(command)
        self.read()

    @rule()
    def answer_all(self) -> None:
        """The host answers all it was asked, favourably, and what that leads to."""
        while self.open:
            self.job._answer(self.open.pop(0))
            self.read()

    def refuse(self, command: Any) -> None:
        match command:
            case commands.AllocateCheckpointId():
                self.job.give(events.CheckpointIdFailed(error="no"))
            case commands.InitializeLocation(checkpoint_id=checkpoint_id):
                self.job.give(events.LocationFailed(checkpoint_id=checkpoint_id, error="no"))
            case commands.TriggerMasterHook(checkpoint_id=checkpoint_id, hook=hook):
                self.job.give(events.MasterHookFailed(checkpoint_id=checkpoint_id, hook=hook, error="no"))
            case commands.RestoreMasterHooks(checkpoint_id=checkpoint_id):
                hook = self.job.master.checkpoints.job.hooks[0]
                self.job.give(events.MasterHookFailed(checkpoint_id=checkpoint_id, hook=hook, error="no"))
            case commands.ResetMasterHooks():
                self.job.give(events.MasterHooksReset(error="no"))
            case commands.WriteMetadata(checkpoint_id=checkpoint_id):
                self.job.give(events.MetadataFailed(checkpoint_id=checkpoint_id, error="no"))
            case commands.StoreCheckpoint(checkpoint_id=checkpoint_id):
                self.job.give(events.CheckpointStoreFailed(checkpoint_id=checkpoint_id, error="no"))
            case _:
                self.job._answer(command)

    @rule(ms=st.sampled_from([1, 10, 100, 250]))
    def pass_time(self, ms: int) -> None:
        """Time passes; timers fire in order."""
        self.job.wait(ms)
        self.read()

    @rule(timer=st.sampled_from(["restart", "checkpoint-trigger", "checkpoint-timeout-1", "none"]))
    def late_timer(self, timer: str) -> None:
        """A timer fires that was cancelled, or never set."""
        self.job.give(events.TimerFired(timer=timer))
        self.read()

    @rule(slot=st.integers(0, 1), ago=old)
    def lose_worker(self, slot: int, ago: int) -> None:
        """A worker dies."""
        self.job.give(events.SlotLost(epoch=self.job.master.epoch - ago, slot=slot, error="gone"))
        self.read()

    @rule(task=st.sampled_from(TASKS[:2]), ago=old)
    def lose_event(self, task: str, ago: int) -> None:
        """An operator event is lost."""
        attempt = self.job.master.epoch - ago
        lost = events.OperatorEventLost(task=task, attempt=attempt, operator_id=self.job.operator_id, error="cut off")
        self.job.give(lost)
        self.read()

    @rule(ago=st.integers(0, 1))
    def stray_end(self, ago: int) -> None:
        """A host says that an epoch has ended, asked or not."""
        if not any(isinstance(word, commands.StopEpoch) for word in self.open):
            self.job.give(events.EpochEnded(epoch=self.job.master.epoch - ago))
        self.read()

    # --- users --------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(["request", "request", "savepoint", "stop"]))
    def ask(self, kind: str) -> None:
        """A user asks for something."""
        self.asked.add(getattr(self.job, kind)())
        self.read()

    @rule(kind=st.sampled_from(["request", "savepoint", "stop"]))
    def begin(self, kind: str) -> None:
        """A user asks for something while all is well: the tasks are triggered."""
        self.answer_all()
        self.all_run()
        self.ask(kind)
        self.answer_all()
        self.speak(0, {"snapshot": "complete"}, 0)
        self.answer_all()

    @rule(kind=st.sampled_from(["request", "request", "savepoint"]))
    def complete(self, kind: str) -> None:
        """The same, and everybody acks."""
        self.begin(kind)
        while self.job.master.checkpoints.pending and not self.open:
            pending = len(self.job.master.checkpoints.pending)
            self.all_ack()
            self.answer_all()
            if len(self.job.master.checkpoints.pending) == pending:
                break

    @precondition(lambda self: self.job.master.epoch > 3)
    @rule()
    def cancel(self) -> None:
        """A user cancels the job."""
        self.job.give(events.RequestCancel())
        self.read()

    # --- tasks --------------------------------------------------------------------------------------------------------

    @rule()
    def all_run(self) -> None:
        """All tasks come to run."""
        for task in TASKS:
            self.live(task, ExecutionState.RUNNING, 0)

    @rule(task=tasks, state=st.sampled_from(LIFE), ago=old)
    def live(self, task: str, state: ExecutionState, ago: int) -> None:
        """A task goes on in its life."""
        self.job.become(task, state, attempt=self.job.master.epoch - ago)
        self.read()

    @rule(task=tasks, ago=old)
    def die(self, task: str, ago: int) -> None:
        """A task fails."""
        self.job.become(task, ExecutionState.FAILED, "it broke", self.job.master.epoch - ago)
        self.read()

    @rule(task=tasks, back=old, ago=old)
    def ack(self, task: str, back: int, ago: int) -> None:
        """A task acks one of the newest checkpoints."""
        checkpoint_id = self.job.next_id - 1 - back
        state = keyed_state(f"{task}-{checkpoint_id}")
        self.job.ack(checkpoint_id, task, state, attempt=self.job.master.epoch - ago)
        self.read()

    @precondition(lambda self: self.job.master.checkpoints.pending)
    @rule()
    def all_ack(self) -> None:
        """All tasks ack the oldest pending checkpoint."""
        checkpoint_id = min(self.job.master.checkpoints.pending, default=0)
        for task in TASKS:
            self.job.ack(checkpoint_id, task, keyed_state(f"{task}-{checkpoint_id}"))
        self.read()

    @rule(task=tasks, back=old)
    def decline(self, task: str, back: int) -> None:
        """A task declines."""
        self.job.decline(self.job.next_id - 1 - back, task)
        self.read()

    @rule(task=tasks, back=old)
    def report(self, task: str, back: int) -> None:
        """A task reports its figures of an aborted checkpoint."""
        self.job.give(
            ReportCheckpointMetrics(
                task=task,
                attempt=self.job.master.epoch,
                job_id=JOB,
                checkpoint_id=self.job.next_id - 1 - back,
                metrics=CheckpointMetrics(),
            )
        )
        self.read()

    @rule(
        subtask=st.integers(0, 1),
        payload=st.sampled_from([{"send": 1, "to": 0}, {"snapshot": "complete"}, {"snapshot": "no"}, {}]),
        ago=old,
    )
    def speak(self, subtask: int, payload: dict[str, Any], ago: int) -> None:
        """An operator speaks to its coordinator, which may raise for it: that fails the job and nothing else."""
        self.job.say(f"source/{subtask}", payload, self.job.master.epoch - ago)
        self.read()

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def answered_once(self) -> None:
        """Nobody is answered twice, nor without having asked."""
        assert len(self.answered) == len(set(self.answered))
        assert set(self.answered) <= self.asked

    @invariant()
    def never_both(self) -> None:
        """An aborted checkpoint is never confirmed, and never retained."""
        assert not self.confirmed & self.aborted
        assert not self.aborted & {each.checkpoint_id for each in self.job.master.checkpoints.store.checkpoints}

    @invariant()
    def epochs_follow(self) -> None:
        """Epochs are counted from 1, each begun once."""
        assert self.epochs == list(range(1, len(self.epochs) + 1))

    @invariant()
    def one_coordinator_at_a_time(self) -> None:
        """Each old operator coordinator was closed, once."""
        closed = [len(coordinator.said("close")) for coordinator in self.job.spec.made]
        assert closed[:-1] == [1] * (len(closed) - 1)
        assert closed[-1] == (1 if self.job.status.is_terminal else 0)

    def teardown(self) -> None:
        """In the end everybody is answered, nothing is pending, and no timer is left."""
        self.job.give(events.RequestCancel())
        self.read()
        self.answer_all()
        assert self.job.status.is_terminal
        assert set(self.answered) == self.asked
        assert self.job.master.checkpoints.pending == {}
        assert set(self.job.timers) <= {"restart"}


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(stateful_step_count=40, max_examples=60)
