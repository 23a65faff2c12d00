"""One coordinator and its gates: what is said before its snapshot arrives before the barrier, what after it, behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.notes import CoordinatorNotified, CoordinatorReset
from kit.core.protocol.words import ProtocolMessage
from kit.machines.job.operator_coordinators import OperatorCoordinatorHolder, OperatorCoordinators
from kit.machines.job.subtask_gateway import GatedSubtask
from kit.stream.graph.job_graph import ChainedOperator
from kit.stream.operators.coordinator import NO_CHECKPOINT, Payload
from tests.machines.coordinator.harness import graph
from tests.machines.job.harness import STATE, CoordinatedSpec, RecordingCoordinator


class Host:
    """A host that records what a holder does."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.snapshots: dict[int, bytes | None] = {}
        self.failed_snapshots: dict[int, str] = {}
        self.outages: list[bool] = []
        self.failures: list[str] = []
        self.notes: list[tuple[str, int | None, str | None]] = []

    def send_operator_event(self, vertex: str, operator_id: str, subtask: int, attempt: int, payload: Payload) -> None:
        self.sent.append((subtask, payload["n"]))

    def coordinator_snapshot_taken(self, checkpoint_id: int, operator_id: str, state: bytes | None) -> None:
        self.snapshots[checkpoint_id] = state

    def coordinator_snapshot_failed(self, checkpoint_id: int, operator_id: str, error: str) -> None:
        self.failed_snapshots[checkpoint_id] = error

    def emit(self, word: ProtocolMessage) -> None:
        assert isinstance(word, CoordinatorReset | CoordinatorNotified)
        assert word.operator == "reads"
        outcome = word.outcome if isinstance(word, CoordinatorNotified) else None
        self.notes.append((type(word).__name__, word.checkpoint_id, outcome))

    def coordinator_failed(self, error: str, *, may_pass: bool) -> None:
        self.failures.append(error)
        self.outages.append(may_pass)


class Held:
    """A holder of a coordinator with three subtasks, all ready."""

    def __init__(self, **spec: Any) -> None:
        self.host = Host()
        self.spec = CoordinatedSpec(**{"slow": True} | spec)
        (vertex, _) = graph({"source": 3, "sums": 3}).job_graph.vertices
        operator = ChainedOperator("0" * 32, "reads", "reads", self.spec, None)
        self.holder = OperatorCoordinatorHolder(operator, vertex, self.host)
        self.deploy(1)

    def deploy(self, attempt: int, checkpoint_id: int = NO_CHECKPOINT, state: bytes | None = None) -> None:
        self.holder.deploy(checkpoint_id, state, 3)
        for subtask in range(3):
            self.holder.attempt_ready(subtask, attempt)

    @property
    def coordinator(self) -> RecordingCoordinator:
        return self.spec.made[-1]

    def send(self, n: int, subtask: int = 0) -> None:
        self.coordinator.gateways[subtask].send_event({"n": n})

    def ask(self, checkpoint_id: int) -> Any:
        """Ask for a snapshot; returns it."""
        self.holder.checkpoint(checkpoint_id)
        return self.coordinator.snapshots[-1]

    def take(self, checkpoint_id: int) -> None:
        """Take a snapshot: the gates are closed."""
        self.ask(checkpoint_id).complete(STATE)

    def barriers(self, checkpoint_id: int) -> None:
        """All subtasks have their barrier."""
        for subtask in range(3):
            self.holder.open_gate(subtask, checkpoint_id)


@pytest.mark.flink("OperatorCoordinatorHolderTest.checkpointFutureInitiallyNotDone")
def test_a_snapshot_asked_for_is_not_there_yet() -> None:
    held = Held()
    held.ask(1)
    assert held.coordinator.said("checkpoint") == [("checkpoint", 1)]
    assert (held.host.snapshots, held.host.failed_snapshots) == ({}, {})


@pytest.mark.flink("OperatorCoordinatorHolderTest.completedCheckpointFuture")
def test_its_bytes_are_handed_in_once() -> None:
    held = Held()
    snapshot = held.ask(9)
    snapshot.complete(b"\x0b\x16!,")
    assert held.host.snapshots == {9: b"\x0b\x16!,"}
    snapshot.complete(b"again")
    snapshot.fail("too late")
    assert held.host.snapshots == {9: b"\x0b\x16!,"}
    assert held.host.failed_snapshots == {}


@pytest.mark.flink("OperatorCoordinatorHolderTest.eventsBeforeCheckpointFutureCompletionPassThrough")
def test_events_pass_until_the_snapshot_is_taken() -> None:
    held = Held()
    held.ask(1)
    held.send(1, subtask=1)
    assert held.host.sent == [(1, 1)]
    held.holder.open_gate(1, 1)
    assert held.host.sent == [(1, 1)]


@pytest.mark.flink("OperatorCoordinatorHolderTest.eventsAreBlockedAfterCheckpointFutureCompletes")
def test_events_after_the_snapshot_are_held() -> None:
    held = Held()
    held.take(10)
    held.send(1337)
    assert held.host.sent == []
    assert repr(held.holder) == "OperatorCoordinatorHolder(reads, 3 subtasks ready, gates closed to [0, 1, 2])"


@pytest.mark.flink("OperatorCoordinatorHolderTest.abortedCheckpointReleasesBlockedEvents")
@pytest.mark.parametrize("how", ["while triggering", "later"])
def test_a_checkpoint_given_up_lets_events_go(how: str) -> None:
    held = Held()
    held.take(123)
    held.send(1337)
    if how == "later":
        held.holder.notify_aborted(123)
        assert held.coordinator.said("aborted") == [("aborted", 123)]
    else:
        held.holder.abort_triggering()
    assert held.host.sent == [(0, 1337)]


@pytest.mark.flink("OperatorCoordinatorHolderTest.acknowledgeCheckpointEventReleasesBlockedEvents")
def test_a_barrier_lets_events_go() -> None:
    held = Held()
    held.take(1111)
    held.send(1337)
    held.holder.open_gate(0, 1110)
    assert held.host.sent == []
    held.holder.open_gate(0, 1111)
    assert held.host.sent == [(0, 1337)]


def test_a_complete_checkpoint_holds_nothing_any_more() -> None:
    held = Held()
    held.take(3)
    held.send(1)
    held.holder.notify_complete(3)
    assert held.host.sent == [(0, 1)]
    assert held.coordinator.said("complete") == [("complete", 3)]


@pytest.mark.flink("OperatorCoordinatorHolderTest.restoreOpensGatewayEvents")
def test_after_a_restore_events_pass() -> None:
    held = Held()
    held.take(1000)
    held.send(1)
    held.deploy(2, 1, b"")
    held.send(999, subtask=1)
    assert held.host.sent == [(1, 999)], "what was held for the attempt before is gone with it"


@pytest.mark.flink("OperatorCoordinatorHolderTest.lateCompleteCheckpointFutureDoesNotBlockEvents")
def test_a_snapshot_that_comes_too_late_closes_nothing() -> None:
    held = Held()
    late = held.ask(1000)
    held.holder.abort_triggering()
    held.take(1010)
    held.holder.open_gate(0, 1010)
    late.complete(b"")
    held.send(123)
    assert held.host.sent == [(0, 123)]


@pytest.mark.flink("OperatorCoordinatorHolderTest.takeCheckpointAfterSuccessfulCheckpoint")
def test_order_is_kept_over_two_checkpoints() -> None:
    held = Held()
    held.send(0)
    held.take(22)
    held.send(1)
    held.barriers(22)
    held.send(2)
    held.take(23)
    held.send(3)
    held.barriers(23)
    assert held.host.sent == [(0, n) for n in range(4)]


@pytest.mark.flink("OperatorCoordinatorHolderTest.takeCheckpointAfterAbortedCheckpoint")
def test_order_is_kept_after_a_checkpoint_was_given_up() -> None:
    held = Held()
    held.send(0)
    held.take(22)
    held.send(1)
    held.holder.abort_triggering()
    held.send(2)
    held.take(23)
    held.send(3)
    held.holder.open_gate(0, 23)
    assert held.host.sent == [(0, n) for n in range(4)]


@pytest.mark.flink("OperatorCoordinatorHolderTest.testControlGatewayAtSubtaskGranularity")
def test_each_subtask_has_a_gate_of_its_own() -> None:
    held = Held()
    held.take(1)
    held.send(0, subtask=0)
    held.send(1, subtask=1)
    held.holder.open_gate(1, 1)
    assert held.host.sent == [(1, 1)]
    held.holder.open_gate(0, 1)
    assert held.host.sent == [(1, 1), (0, 0)]


@pytest.mark.flink("OperatorCoordinatorHolderTest.testFailingJobMultipleTimesNotCauseCascadingJobFailure")
def test_a_coordinator_fails_the_job_once_until_it_is_made_anew() -> None:
    held = Held(fail_in="event")
    for subtask in range(2):
        held.holder.handle_event(subtask, 1, {})
    assert held.host.failures == ["the coordinator of reads failed: RuntimeError: no event"]
    held.deploy(2)
    held.holder.handle_event(1, 2, {})
    assert len(held.host.failures) == 2


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testSnapshotAsyncFailureFailsCheckpoint")
def test_a_snapshot_that_fails_later_fails_the_checkpoint_only() -> None:
    held = Held()
    held.ask(5).fail("the shop is closed")
    assert held.host.failed_snapshots == {5: "the shop is closed"}
    assert held.host.failures == []


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
def test_with_two_checkpoints_under_way_each_holds_its_own(order: tuple[int, int]) -> None:
    """Opened out of order, events wait behind the older checkpoint, still in order."""
    held = Held()
    held.take(7)
    held.send(0)
    held.take(8)
    held.send(1)
    held.holder.open_gate(0, order[0])
    held.send(2)
    assert held.host.sent == ([(0, 0)] if order[0] == 7 else [])
    held.holder.open_gate(0, order[1])
    assert held.host.sent == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.flink(
    "OperatorCoordinatorHolderTest.verifyCheckpointEventOrderWhenCheckpointFutureCompletedImmediately",
    "OperatorCoordinatorHolderTest.verifyCheckpointEventOrderWhenCheckpointFutureCompletesLate",
)
@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_what_tasks_see_is_the_coordinators_own_cut(before: int, between: int, after: int) -> None:
    """Numbers are sent to three subtasks in turn: those sent before the snapshot was taken, and no others, arrive
    before the barrier; with `between` 0 the snapshot is taken immediately.
    """
    held = Held()
    count = 0

    def send(events: int) -> None:
        nonlocal count
        for _ in range(events):
            held.send(count, subtask=count % 3)
            count += 1

    send(before)
    snapshot = held.ask(1)
    send(between)
    snapshot.complete(count.to_bytes(1, "big"))
    send(after)
    cut = held.host.snapshots[1]
    assert cut is not None
    assert [n for _, n in held.host.sent] == list(range(cut[0]))
    held.barriers(1)
    assert sorted(n for _, n in held.host.sent) == list(range(count))


# --- created again at every restore -----------------------------------------------------------------------------------


@pytest.mark.flink("RecreateOnResetOperatorCoordinatorTest.testQuiesceableContextForwardsProperties")
def test_a_coordinators_context_knows_its_operator() -> None:
    context = Held().coordinator.context
    assert (context.operator_id, context.name, context.parallelism) == ("0" * 32, "reads", 3)


@pytest.mark.flink("RecreateOnResetOperatorCoordinatorTest.testQuiesceableContextNotQuiesced")
def test_a_coordinator_may_fail_the_job() -> None:
    held = Held()
    held.coordinator.context.fail_job("enough")
    assert held.host.failures == ["the coordinator of reads failed: enough"]


@pytest.mark.flink("RecreateOnResetOperatorCoordinatorTest.testQuiescedContext")
@pytest.mark.parametrize("ending", ["replaced", "closed"])
def test_an_old_coordinator_is_not_heard(ending: str) -> None:
    held = Held()
    old, gateway, snapshot = held.coordinator, held.coordinator.gateways[0], held.ask(4)
    if ending == "replaced":
        held.deploy(2)
    else:
        held.holder.close()
    old.context.fail_job("enough")
    snapshot.complete(b"late")
    assert (held.host.failures, held.host.snapshots) == ([], {})
    assert gateway.attempt == 1, "the host drops what is sent to an attempt that is over"


@pytest.mark.flink("RecreateOnResetOperatorCoordinatorTest.testResetToCheckpoint")
def test_a_restore_closes_the_old_coordinator_and_resets_a_new_one() -> None:
    held = Held()
    old = held.coordinator
    held.deploy(2, 1, b"bytes")
    assert old.calls[-1] == ("close",)
    assert old.said("reset") == []
    assert held.coordinator is not old
    assert held.coordinator.calls[:2] == [("reset", 1, b"bytes"), ("start",)]


@pytest.mark.flink("RecreateOnResetOperatorCoordinatorTest.testConsecutiveResetToCheckpoint")
def test_of_many_restores_each_coordinator_sees_its_own_time_only() -> None:
    held = Held()
    for number in range(1_000):
        held.holder.handle_event(1, number + 1, {"n": number})
        held.holder.attempt_failed(1, number + 1, "it broke")
        held.take(number)
        held.holder.notify_complete(number)
        held.deploy(number + 2, number, bytes(number % 7))
    held.holder.close()
    assert len(held.spec.made) == 1_001
    for number, coordinator in enumerate(held.spec.made[:-1]):
        assert coordinator.said("event") == [("event", 1, number + 1, {"n": number})]
        assert coordinator.said("failed") == [("failed", 1, number + 1, "it broke")]
        assert coordinator.said("checkpoint", "complete") == [("checkpoint", number), ("complete", number)]
        assert coordinator.said("reset") == ([("reset", number - 1, bytes((number - 1) % 7))] if number else [])
        assert coordinator.said("close") == [("close",)]
    assert held.coordinator.said("close", "event") == [("close",)]


@pytest.mark.flink("RecreateOnResetOperatorCoordinatorTest.testNotifyCheckpointAbortedSuccess")
def test_it_is_told_of_a_checkpoint_given_up() -> None:
    held = Held()
    held.deploy(2)
    held.holder.notify_aborted(10)
    assert held.coordinator.said("aborted") == [("aborted", 10)]


def test_the_trace_has_what_it_is_told_of_checkpoints_and_restores() -> None:
    held = Held()
    assert held.host.notes == [], "at the very start there is nothing to go back to"
    held.holder.notify_complete(9)
    held.holder.notify_aborted(10)
    held.deploy(2, 9, b"17")
    held.deploy(3)
    assert held.host.notes == [
        ("CoordinatorNotified", 9, "complete"),
        ("CoordinatorNotified", 10, "aborted"),
        ("CoordinatorReset", 9, None),
        ("CoordinatorReset", None, None),
    ]


def test_what_was_held_for_a_lost_attempt_is_lost_and_the_rest_is_not() -> None:
    held = Held()
    held.take(18)
    held.send(1, subtask=1)
    held.send(2, subtask=2)
    held.holder.attempt_failed(1, 1, "it broke")
    held.holder.attempt_ready(1, 2)
    held.send(3, subtask=1)
    held.barriers(18)
    assert held.host.sent == [(1, 3), (2, 2)]


def test_of_two_checkpoints_that_are_triggered_the_latest_opens_the_gate() -> None:
    sent: list[Any] = []
    gateway = GatedSubtask(0, 1, lambda *event: sent.append(event[2]))
    gateway.mark(2)
    gateway.mark(3)
    assert gateway.close(2)
    gateway.send_event({"n": 1})
    gateway.open_latest()
    assert not gateway.close(3), "it was given up"
    assert not sent, "checkpoint 2 still holds what followed its snapshot"
    gateway.open(2)
    assert sent == [{"n": 1}]


def test_events_wait_for_the_newest_of_the_checkpoints_before_theirs_that_still_closes_the_gate() -> None:
    sent: list[int] = []
    gateway = GatedSubtask(0, 1, lambda *event: sent.append(event[2]["n"]))
    for checkpoint_id in (2, 3, 4, 5):
        gateway.mark(checkpoint_id)
        assert gateway.close(checkpoint_id)
        gateway.send_event({"n": checkpoint_id})
    gateway.open(5)
    gateway.open(2)
    assert sent == [2]
    gateway.open(3)
    assert sent == [2, 3]
    gateway.open(4)
    assert sent == [2, 3, 4, 5]


def test_gates_refuse_to_go_back() -> None:
    gateway = GatedSubtask(0, 1, lambda *event: None)
    gateway.mark(2)
    with pytest.raises(ValueError, match="chk-2 comes after chk-2 at the gate of 0"):
        gateway.mark(2)
    assert repr(gateway) == "GatedSubtask(0@1, open)"
    gateway.close(2)
    gateway.send_event({})
    assert repr(gateway) == "GatedSubtask(0@1, closed by [2], 1 held)"
    gateway.mark(3)
    gateway.close(3)
    gateway.send_event({"n": 2})
    assert repr(gateway) == "GatedSubtask(0@1, closed by [2, 3], 2 held)"


class SeveralHost(Host):
    """A host of several coordinators, which remembers the operator of each event and backlog."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, int, int]] = []
        self.backlogs: list[tuple[str, bool]] = []

    def send_operator_event(self, vertex: str, operator_id: str, subtask: int, attempt: int, payload: Payload) -> None:
        self.events.append((operator_id, subtask, payload["n"]))

    def set_is_processing_backlog(self, operator_id: str, is_processing: bool) -> None:
        self.backlogs.append((operator_id, is_processing))

    def emit(self, word: ProtocolMessage) -> None:
        """Take any note."""


class Several:
    """Three coordinators, two of them in one chain, each with three ready subtasks."""

    def __init__(self) -> None:
        job = graph({"source": 3, "sums": 3}, chains={"source": 2}).job_graph
        self.specs: dict[str, CoordinatedSpec] = {}
        vertices = []
        for vertex in job.vertices:
            operators = []
            for operator in vertex.operators:
                spec = self.specs[operator.operator_id] = CoordinatedSpec()
                operators.append(replace(operator, spec=spec))
            vertices.append(replace(vertex, operators=tuple(operators)))
        self.host = SeveralHost()
        self.all = OperatorCoordinators(replace(job, vertices=tuple(vertices)), self.host)
        self.tasks = [f"{vertex}/{subtask}" for vertex in ("source", "sums") for subtask in range(3)]
        self.deploy(1, 3)

    def deploy(self, attempt: int, parallelism: int) -> None:
        self.all.deploy(None, dict.fromkeys(("source", "sums"), parallelism))
        for task in self.tasks:
            if int(task[-1]) < parallelism:
                self.all.attempt_ready(task, attempt)

    def close_gates(self, checkpoint_id: int) -> set[tuple[str, int, int]]:
        """Close all gates and send an event through each; returns those events, which are held."""
        for each in self.specs:
            self.all[each].checkpoint(checkpoint_id)
            for gateway in self.specs[each].made[-1].gateways.values():
                gateway.send_event({"n": checkpoint_id})
        assert self.host.events == []
        return {(each, subtask, checkpoint_id) for each in self.specs for subtask in range(3)}


@pytest.mark.parametrize("how", ["abort_triggering", "notify_complete", "notify_aborted", "open_gate"])
def test_the_gates_of_all_subtasks_of_all_coordinators_open(how: str) -> None:
    several = Several()
    for checkpoint_id in (4, 5):
        held = several.close_gates(checkpoint_id)
        if how == "abort_triggering":
            several.all.abort_triggering()
        elif how == "open_gate":
            for task in several.tasks:
                several.all.open_gate(task, checkpoint_id)
        else:
            getattr(several.all, how)(checkpoint_id)
        assert {*several.host.events} == held
        assert len(several.host.events) == len(held)
        several.host.events.clear()


def test_a_backlog_ends_with_the_last_subtask_of_each_operator_at_each_parallelism() -> None:
    several = Several()
    for attempt, parallelism in enumerate((3, 1, 2), 1):
        several.deploy(attempt, parallelism)
        for vertex in ("sums", "source"):
            operators = [each for each in several.specs if several.all[each].vertex == vertex]
            for subtask in range(parallelism):
                assert several.host.backlogs == []
                several.all.data_ended(f"{vertex}/{subtask}")
            assert several.host.backlogs == [(each, False) for each in operators]
            several.host.backlogs.clear()


def test_the_splits_of_every_operator_that_needs_them_are_listed() -> None:
    several = Several()
    assert several.all.needing_splits() == []
    first, second, third = several.specs
    for each in (second, third):
        several.specs[each].made[-1].needs_splits = True
    assert several.all.needing_splits() == [second, third]
    several.specs[first].made[-1].needs_splits = True
    assert several.all.needing_splits() == [first, second, third]
