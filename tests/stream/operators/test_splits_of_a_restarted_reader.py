"""The splits that a reader loses when it goes back to a checkpoint alone, and gets again."""

from __future__ import annotations

from typing import Any

import pytest

from kit.stream.operators.coordinator import NO_CHECKPOINT
from kit.stream.operators.sources.source_coordinator import SourceCoordinator
from kit.stream.operators.sources.split_assignment_tracker import SplitAssignmentTracker

Payload = dict[str, Any]


class Gateway:
    """A gateway to a reader, which keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Payload] = []

    def send_event(self, payload: Payload) -> None:
        self.sent.append(payload)

    @property
    def splits(self) -> list[int]:
        return [each["split"]["index"] for each in self.sent if "split" in each]


class Context:
    """The context of a coordinator of two readers."""

    operator_id, name, parallelism = "rows", "rows", 2

    def __init__(self, splits: int) -> None:
        self.splits = [{"id": f"split-{number}"} for number in range(splits)]
        self.backlog: bool | None = None

    def set_is_processing_backlog(self, is_processing: bool) -> None:
        self.backlog = is_processing

    def discover_splits(self, after_ms: int) -> None:
        """Do nothing: the test lists the splits."""


class Snapshot:
    """A snapshot of a coordinator."""

    def __init__(self, checkpoint_id: int) -> None:
        self.checkpoint_id, self.state = checkpoint_id, b""

    def complete(self, state: bytes | None) -> None:
        self.state = state or b""


class Source:
    """A coordinator at work, with a gateway to each of its two readers."""

    def __init__(self, splits: int = 6, **how: Any) -> None:
        self.context = Context(splits)
        self.coordinator = SourceCoordinator(self.context, **how)  # type: ignore[arg-type]
        self.coordinator.start()
        self.gateways: dict[int, Gateway] = {}
        for reader in range(2):
            self.run(reader)

    def run(self, reader: int, attempt: int = 1) -> None:
        """Let an attempt of a reader run."""
        self.gateways[reader] = Gateway()
        self.coordinator.execution_attempt_ready(reader, attempt, self.gateways[reader])  # type: ignore[arg-type]

    def ask(self, reader: int, after: int = -1) -> None:
        """Let a reader request a split."""
        self.coordinator.handle_event(reader, 1, {"kind": "request_split", "after": after, "before": None})

    def checkpoint(self, checkpoint_id: int, *, complete: bool = True) -> bytes:
        """Take a snapshot for a checkpoint, and complete that."""
        snapshot = Snapshot(checkpoint_id)
        self.coordinator.checkpoint_coordinator(snapshot)  # type: ignore[arg-type]
        if complete:
            self.coordinator.notify_checkpoint_complete(checkpoint_id)
        return snapshot.state

    def go_back(self, reader: int, checkpoint_id: int) -> None:
        """Let a reader restart from a checkpoint."""
        self.coordinator.execution_attempt_failed(reader, 1, "it broke")
        self.coordinator.subtask_reset(reader, checkpoint_id)
        self.run(reader, 2)

    @property
    def left(self) -> list[int]:
        return [split["index"] for split in self.coordinator.enumerator.remaining]


def test_a_reader_gets_the_splits_again_that_it_was_assigned_after_the_checkpoint() -> None:
    source = Source()
    source.ask(1)
    source.checkpoint(1)
    source.ask(1, 1)
    source.ask(0)
    assert source.left == [2, 4, 5]
    source.go_back(1, 1)
    assert source.left == [2, 3, 4, 5], "split 1 is in the reader's state, and split 0 belongs to the other one"
    source.ask(1, 1)
    assert source.gateways[1].splits == [3]


def test_without_a_checkpoint_a_reader_loses_all_its_splits() -> None:
    source = Source()
    for reader in (0, 1, 1):
        source.ask(reader)
    source.go_back(1, NO_CHECKPOINT)
    assert source.left == [1, 2, 3, 4, 5]


def test_an_aborted_checkpoint_counts_for_nothing() -> None:
    source = Source()
    source.ask(1)
    source.checkpoint(1)
    source.ask(1, 1)
    source.checkpoint(2, complete=False)
    source.ask(1, 3)
    source.go_back(1, 1)
    assert source.left == [0, 2, 3, 4, 5]


def test_a_later_checkpoint_has_the_splits_in_the_coordinators_state() -> None:
    source = Source(splits=2)
    source.ask(1)
    source.go_back(1, NO_CHECKPOINT)
    assert b"split-1" in source.checkpoint(1)


def test_a_split_that_was_taken_back_keeps_the_order_of_the_other_reader() -> None:
    source = Source(splits=4)
    for after in (-1, 0):
        source.ask(0, after)
    source.ask(0, 2)  # reader 0 has none left of its own, and takes one of reader 1
    assert source.gateways[0].splits == [0, 2, 1] or source.gateways[0].splits == [0, 2, 3]
    stolen = source.gateways[0].splits[-1]
    source.go_back(0, NO_CHECKPOINT)
    source.ask(1, stolen)
    assert stolen not in source.gateways[1].splits, "its watermark may be past the rows of this split"
    for after in (-1, 0, 2):
        source.ask(0, after)
    assert sorted([*source.gateways[0].splits, *source.gateways[1].splits, *source.left]) == [0, 1, 2, 3]


def test_a_removed_split_does_not_come_back() -> None:
    source = Source(splits=2, discover_every_ms=10, removes_splits=True)
    source.ask(1)
    source.coordinator.splits_discovered([{"id": "split-0"}])
    source.go_back(1, NO_CHECKPOINT)
    assert source.left == [0]
    assert {"kind": "remove_splits", "ids": ["split-1"]} in source.gateways[1].sent, "the checkpoint may have it"


def test_a_reader_that_waits_gets_a_split_that_another_one_lost() -> None:
    source = Source(splits=1, discover_every_ms=10)
    source.ask(0)
    source.ask(1)
    source.go_back(0, NO_CHECKPOINT)
    assert source.gateways[1].splits == [0]


@pytest.mark.parametrize("says", [True, False])
def test_a_reader_that_goes_back_counts_as_behind_until_it_says_otherwise(says: bool) -> None:
    source = Source(splits=4, backlog_splits=2)
    for reader in (0, 1):
        source.ask(reader)
        source.ask(reader, reader)
    assert source.context.backlog is False
    source.go_back(1, NO_CHECKPOINT)
    assert source.context.backlog is True
    request: Payload = {"kind": "request_split", "after": -1, "before": None, **({"backlog": True} if says else {})}
    source.coordinator.handle_event(1, 2, request)
    source.coordinator.handle_event(1, 2, {**request, "after": 1})
    assert source.context.backlog is says


def test_of_several_checkpoints_the_later_ones_give_back_their_splits_in_the_order_of_their_assignment() -> None:
    tracker = SplitAssignmentTracker()
    for checkpoint_id in (1, 2, 3, 4):
        for reader in (0, 1):
            tracker.assigned(reader, {"id": f"{checkpoint_id}/{reader}"})
        tracker.on_checkpoint(checkpoint_id)
    tracker.assigned(0, {"id": "5/0"})
    tracker.on_checkpoint_complete(2)  # 1 never completed, and no job goes back behind 2
    assert repr(tracker) == "SplitAssignmentTracker(5 splits assigned since the last completed checkpoint)"
    assert [split["id"] for split in tracker.take_back(0, 2)] == ["3/0", "4/0", "5/0"]
    assert [split["id"] for split in tracker.take_back(1, 3)] == ["4/1"]
    assert [split["id"] for split in tracker.take_back(1, 2)] == ["3/1"]


def test_the_tracker_forgets_what_no_restore_needs() -> None:
    tracker = SplitAssignmentTracker()
    tracker.assigned(0, {"id": "a"})
    tracker.on_checkpoint(1)
    tracker.assigned(0, {"id": "b"})
    tracker.on_checkpoint(2)
    tracker.on_checkpoint_complete(1)
    assert repr(tracker) == "SplitAssignmentTracker(1 splits assigned since the last completed checkpoint)"
    assert tracker.take_back(0, 1) == [{"id": "b"}]
    assert tracker.take_back(0, 1) == []
