"""A whole job in any order: no event raises, the invariants hold, and each request is answered once.

The host has a disk and, in one of the two machines, a durable store. Tasks write files for checkpoints and may die
before they acknowledge them. The host carries out deletions at any time. In the end the disk has only the checkpoints
that the job retains, and its savepoints.
"""

from __future__ import annotations

from typing import Any, ClassVar

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
from kit.core.protocol.notes import CheckpointCompleted
from kit.core.protocol.properties import RetentionPolicy
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolMessage
from kit.machines.job.status import PHASES, JobStatus
from kit.stream.settings.job_settings import FixedDelay
from tests.answers import refusal
from tests.machines.coordinator.harness import JOB, keyed_state
from tests.machines.job.harness import ANSWERED, OPERATORS, JobHarness

TASKS = ("source/0", "source/1", "sums/0", "sums/1", "sums/2")
RETAINED = 2
"""The number of checkpoints that the job retains."""
OPEN = (*ANSWERED, commands.DiscardState, commands.RemoveStored)
"""The commands that the host carries out at any time."""
LIFE = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED)
tasks = st.sampled_from(TASKS)
old = st.sampled_from([0, 0, 0, 1])
"""The number of attempts, or checkpoints, ago."""

STEPS = {(phase.status, after.status) for phase in PHASES for after in PHASES.targets(phase)}
"""The transitions of the job's status that a user may see."""


class AnyOrder(RuleBasedStateMachine):
    """A host that answers at any time, tasks that live and die at any time, and users with all kinds of requests."""

    checkpoint: ClassVar[dict[str, Any]] = {}
    """The settings in which the machines differ."""

    def __init__(self) -> None:
        super().__init__()
        self.job = JobHarness(
            coordinator=True,
            slow=True,
            hooks=["mail", "news"],
            restart=FixedDelay(6, 20),
            interval_ms=100,
            timeout_ms=250,
            min_pause_ms=20,
            max_concurrent=3,
            max_retained=RETAINED,
            tolerable_failures=3,
            **self.checkpoint,
        )
        self.disk: dict[str, set[str]] = {}
        """The files in each directory."""
        self.begun: dict[str, int] = {}
        """The epoch in which each directory was made."""
        self.entries: set[int] = set()
        """The checkpoints in the durable store."""
        self.completed: list[int] = []
        self.savepoints: set[int] = set()
        self.has_workers = False
        self.open: list[ProtocolMessage] = []
        self.asked: set[int] = set()
        self.answered: list[int] = []
        self.confirmed: set[int] = set()
        self.aborted: set[int] = set()
        self.statuses: list[JobStatus] = [JobStatus.CREATED]
        self.epochs: list[int] = []
        self.job.give(events.StartJob())
        self.read()

    def read(self) -> None:
        """Process the JobMaster's commands."""
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
                    self.has_workers = True
                case CheckpointCompleted(checkpoint_id=checkpoint_id, snapshot=snapshot):
                    if "Savepoint" in snapshot:
                        self.savepoints.add(checkpoint_id)
                    else:
                        self.completed.append(checkpoint_id)
                case NotifyCheckpointComplete(checkpoint_id=checkpoint_id):
                    self.confirmed.add(checkpoint_id)
                case NotifyCheckpointAborted(checkpoint_id=checkpoint_id):
                    self.aborted.add(checkpoint_id)
                case DeployTask() | OperatorEventToTask():
                    assert word.attempt == self.job.master.epoch
                    assert self.job.status is JobStatus.RUNNING
                    if isinstance(word, DeployTask) and (self.completed or word.restore is not None):
                        assert word.restore is not None
                        assert word.restore.checkpoint_id == self.completed[-1]
                case _ if isinstance(word, OPEN):
                    self.open.append(word)

    # --- the host -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.open)
    @rule(data=st.data(), well=st.sampled_from([True, True, True, True, False]))
    def answer(self, data: st.DataObject, well: bool) -> None:
        """The host answers one of its commands."""
        command = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if well:
            self.carry_out(command)
        else:
            self.refuse(command)
        self.read()

    @rule()
    def answer_all(self) -> None:
        """The host answers all commands favourably, and those that the answers lead to."""
        while self.open:
            self.carry_out(self.open.pop(0))
            self.read()
        needed = {*self.job.master.checkpoints.pending, *self.savepoints, *self.completed[-RETAINED:]}
        for location, epoch in self.begun.items():
            if location in self.disk and int(location.removeprefix("chk-")) not in needed:
                assert epoch == self.job.master.epoch, f"{location} outlived its epoch"

    def carry_out(self, command: Any) -> None:
        """Carry out the command on the disk and the store, and answer it."""
        match command:
            case commands.InitializeLocation(checkpoint_id=checkpoint_id):
                self.disk[f"chk-{checkpoint_id}"] = set()
                self.begun[f"chk-{checkpoint_id}"] = self.job.master.epoch
            case commands.WriteMetadata(location=location):
                self.disk[location].add(f"{location}/_metadata")
            case commands.StoreCheckpoint(checkpoint_id=checkpoint_id):
                self.entries.add(checkpoint_id)
            case commands.StopEpoch(epoch=epoch) if epoch == self.job.master.epoch:
                self.has_workers = False
            case commands.RemoveOrphans(keep=keep):
                kept = {f"chk-{checkpoint_id}" for checkpoint_id in keep}
                self.disk = {location: files for location, files in self.disk.items() if location in kept}
            case commands.RemoveStored(checkpoint_id=checkpoint_id):
                self.entries.discard(checkpoint_id)
            case commands.DiscardState():
                self.discard(command)
                return
        self.job._answer(command)

    def discard(self, command: commands.DiscardState) -> None:
        """Delete files, then their directory if it is empty or to be deleted, then the entry in the store."""
        for files in self.disk.values():
            files -= {*command.paths}
        if command.location is not None:
            if command.everything or not self.disk.get(command.location):
                self.disk.pop(command.location, None)
            if command.stored and command.checkpoint_id is not None:
                self.entries.discard(command.checkpoint_id)
            self.job.give(events.StateDiscarded(checkpoint_id=command.checkpoint_id))

    def refuse(self, command: Any) -> None:
        hooks = self.job.master.checkpoints.job.hooks
        refused = refusal(command, hook=hooks[-1] if hooks else "")
        if refused is None:
            self.carry_out(command)
        else:
            self.job.give(refused)

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
        """An operator event is lost; of this epoch only to a task that it has."""
        if ago == 0 and task not in self.job.tasks:
            return
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
        """A user sends a request."""
        self.asked.add(getattr(self.job, kind)())
        self.read()

    @rule(kind=st.sampled_from(["request", "savepoint", "stop"]))
    def begin(self, kind: str) -> None:
        """A user sends a request while nothing fails, so the tasks are triggered."""
        self.answer_all()
        self.all_run()
        self.ask(kind)
        self.answer_all()
        self.speak(0, {"snapshot": "complete"}, 0)
        self.answer_all()

    @rule(kind=st.sampled_from(["request", "request", "savepoint"]))
    def complete(self, kind: str) -> None:
        """The same, and all tasks ack."""
        self.begin(kind)
        while self.job.master.checkpoints.pending and not self.open:
            pending = len(self.job.master.checkpoints.pending)
            self.all_ack()
            self.answer_all()
            if len(self.job.master.checkpoints.pending) == pending:
                break

    @rule(vertex=st.sampled_from(["source", "sums"]), parallelism=st.integers(1, 3), at_once=st.booleans())
    def rescale(self, vertex: str, parallelism: int, at_once: bool) -> None:
        """A user requests another parallelism."""
        number = self.job._next_request()
        self.asked.add(number)
        self.job.give(events.RequestRescale(request_id=number, parallelism={vertex: parallelism}, at_once=at_once))
        self.read()

    @precondition(lambda self: self.job.master.epoch > 3)
    @rule()
    def cancel(self) -> None:
        """A user cancels the job."""
        self.job.give(events.RequestCancel())
        self.read()

    # --- tasks --------------------------------------------------------------------------------------------------------

    @rule()
    def all_run(self) -> None:
        """All tasks start to run."""
        for task in self.job.tasks:
            self.live(task, ExecutionState.RUNNING, 0)

    @rule(task=tasks, state=st.sampled_from(LIFE), ago=old)
    def live(self, task: str, state: ExecutionState, ago: int) -> None:
        """A task moves to its next state."""
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
        self.acknowledge(self.job.next_id - 1 - back, task, ago)

    @precondition(lambda self: self.job.master.checkpoints.pending)
    @rule()
    def all_ack(self) -> None:
        """All tasks ack the oldest pending checkpoint."""
        checkpoint_id = min(self.job.master.checkpoints.pending, default=0)
        for task in self.job.tasks:
            self.acknowledge(checkpoint_id, task, 0)

    def acknowledge(self, checkpoint_id: int, task: str, ago: int) -> None:
        """A task acks with a file of each of its operators; they exist if it can still write.

        A task that has ended does not ack: its messages arrive in order.
        """
        if ago == 0 and self.has_workers and not self.job.master.tasks.is_live(task):
            return
        files = self.write(checkpoint_id, task) if ago == 0 else self.files_of(checkpoint_id, task)
        states = {each: keyed_state(file) for each, file in files.items()}
        self.job.ack(checkpoint_id, task, states, attempt=self.job.master.epoch - ago)
        self.read()

    @rule(task=tasks, back=old)
    def write_only(self, task: str, back: int) -> None:
        """A task writes its files and dies before the ack."""
        self.write(self.job.next_id - 1 - back, task)

    def write(self, checkpoint_id: int, task: str) -> dict[str, str]:
        """Write the files of a task, unless it has left or the directory does not exist."""
        files = self.files_of(checkpoint_id, task)
        if self.has_workers and self.job.master.tasks.is_live(task) and f"chk-{checkpoint_id}" in self.disk:
            self.disk[f"chk-{checkpoint_id}"] |= {*files.values()}
        return files

    def files_of(self, checkpoint_id: int, task: str) -> dict[str, str]:
        """Return the file of each of the task's operators."""
        vertex = task.rpartition("/")[0]
        return {each: f"chk-{checkpoint_id}/{task}-{each}" for each, name in OPERATORS.items() if name == vertex}

    @rule(task=tasks, back=old)
    def decline(self, task: str, back: int) -> None:
        """A task declines."""
        self.job.decline(self.job.next_id - 1 - back, task)
        self.read()

    @rule(task=tasks, back=old)
    def report(self, task: str, back: int) -> None:
        """A task reports its metrics of an aborted checkpoint."""
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
        """An operator sends its coordinator an event; if the coordinator raises, only the job fails."""
        self.job.say(f"source/{subtask}", payload, self.job.master.epoch - ago)
        self.read()

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def answered_once(self) -> None:
        """No request is answered twice, and no answer lacks a request."""
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

    @invariant()
    def retained_is_readable(self) -> None:
        """The newest checkpoints are retained with all their files, and with their entries in a durable store."""
        if self.job.status.is_terminal:
            return
        store = self.job.master.checkpoints.store
        assert [each.checkpoint_id for each in store.checkpoints] == self.completed[-RETAINED:]
        for checkpoint in store.checkpoints:
            files = {file for state in checkpoint.operator_states.values() for file in state.files()}
            assert files | {checkpoint.path} <= self.disk[checkpoint.location]
            assert checkpoint.checkpoint_id in self.entries or not store.is_durable

    def teardown(self) -> None:
        """In the end each request is answered, nothing is pending, and no timer or file is left."""
        self.job.give(events.RequestCancel())
        self.read()
        self.answer_all()
        assert self.job.status.is_terminal
        assert set(self.answered) == self.asked
        assert self.job.master.checkpoints.pending == {}
        assert set(self.job.timers) <= {"restart"}
        retains = self.checkpoint.get("retention") and self.job.status is not JobStatus.FINISHED
        kept = {*self.savepoints, *(self.completed[-RETAINED:] if retains else ())}
        assert set(self.disk) == {f"chk-{checkpoint_id}" for checkpoint_id in kept}
        assert all(f"{location}/_metadata" in files for location, files in self.disk.items())
        assert not self.entries


class AnyOrderDurable(AnyOrder):
    """The same with a durable store and with checkpoints that stay when the job is cancelled or fails."""

    checkpoint: ClassVar = {
        "store": "filesystem",
        "directory": "/there",
        "retention": RetentionPolicy.RETAIN_ON_CANCELLATION,
    }


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(stateful_step_count=40, max_examples=60)
TestAnyOrderDurable = AnyOrderDurable.TestCase
TestAnyOrderDurable.settings = TestAnyOrder.settings
