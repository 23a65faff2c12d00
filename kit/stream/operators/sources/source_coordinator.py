"""The coordinator of a source: it assigns the splits of its `SplitEnumerator` to the readers that request them.

Its state has the splits that are not assigned yet; assigned splits are in the readers' state. It reports to the job
whether splits of a backlog are still being read. If the source discovers splits, it lets the host list them at an
interval.

If a single reader goes back to a checkpoint, the splits that it was assigned later are assigned again.

Follows Flink's `SourceCoordinator`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.stream.operators.coordinator import (
    CoordinatorSnapshot,
    OperatorCoordinator,
    OperatorCoordinatorContext,
    Payload,
    SubtaskGateway,
)
from kit.stream.operators.sources.split_alignment import REPORT_WATERMARK, CoordinatorAlignment
from kit.stream.operators.sources.split_assignment_tracker import SplitAssignmentTracker
from kit.stream.operators.sources.split_enumerator import HELD, REMOVE_SPLITS, SplitEnumerator


class SourceCoordinator(OperatorCoordinator):
    """The coordinator. It answers each reader's request for a split. Follows Flink's `SourceCoordinator`."""

    needs_splits = True

    def __init__(
        self,
        context: OperatorCoordinatorContext,
        backlog_splits: int = 0,
        *,
        discover_every_ms: int | None = None,
        removes_splits: bool = False,
    ) -> None:
        super().__init__(context)
        self._discover_every_ms = discover_every_ms
        self._removes_splits = removes_splits
        discovers = discover_every_ms is not None
        self.enumerator = SplitEnumerator(context.operator_id, context.parallelism, backlog_splits, discovers=discovers)
        self._alignment = CoordinatorAlignment()
        self._gateways: dict[int, SubtaskGateway] = {}
        self._restored = False
        self._said_backlog: bool | None = None
        self._tracker = SplitAssignmentTracker()
        self._removed: dict[str, None] = {}
        """The ids of splits that no longer exist, for readers that go back to a checkpoint that has them."""
        self._reset: set[int] = set()
        """The readers that have gone back to a checkpoint and do not run yet."""
        self._done: set[int] = set()
        """The readers for which there was no split left."""
        self._held: dict[int, int] = {}
        """How many splits each reader holds, of those that hold more than one."""

    @property
    def splits_done(self) -> tuple[int, int]:
        """The number of splits read to their end, according to the readers' requests, and the total."""
        given = len(self.context.splits) - len(self.enumerator.remaining)
        if self._held:
            return max(0, given - sum(self._held.values())), len(self.context.splits)
        return max(0, given - (self.context.parallelism - len(self._done))), len(self.context.splits)

    def start(self) -> None:
        """Start with all splits, unless a checkpoint has those that are left."""
        if not self._restored:
            self.enumerator.start(self.context.splits)
        self._report_backlog()
        self._discover_later()

    def _discover_later(self) -> None:
        if self._discover_every_ms is not None:
            self.context.discover_splits(self._discover_every_ms)

    def splits_discovered(self, splits: Sequence[Payload]) -> None:
        """Assign new splits to waiting readers, and schedule the next listing. Notify all readers of removed splits."""
        if not self._removes_splits or len(self._gateways) == self.context.parallelism:
            said = self.enumerator.discovered(splits, removes=self._removes_splits)
            self._removed |= dict.fromkeys(each for _, payload in said for each in payload.get("ids", ()))
            self._send(said)
        self._discover_later()

    def _report_backlog(self) -> None:
        if self.enumerator.is_processing_backlog != self._said_backlog:
            self._said_backlog = self.enumerator.is_processing_backlog
            self.context.set_is_processing_backlog(self._said_backlog)

    def handle_event(self, subtask: int, attempt: int, payload: Payload) -> None:
        """Answer a reader."""
        if payload.get("kind") == REPORT_WATERMARK:
            self._align(self._alignment.take(subtask, payload))
            return
        answers = self.enumerator.handle_event(subtask, payload)
        for receiver, answer in answers:
            if "split" not in answer:
                self._done.add(receiver)
            if HELD in payload:
                self._held[subtask] = payload[HELD] + ("split" in answer)
        self._send(answers)
        self._report_backlog()

    def _align(self, said: Payload | None) -> None:
        if said is not None:
            self._send([(reader, said) for reader in self._gateways])

    def _send(self, said: Sequence[tuple[int, Payload]]) -> None:
        for receiver, payload in said:
            if "split" in payload:
                self._tracker.assigned(receiver, payload["split"])
            if receiver in self._gateways:
                self._gateways[receiver].send_event(payload)

    def checkpoint_coordinator(self, snapshot: CoordinatorSnapshot) -> None:
        """Take a snapshot of the splits that are not assigned yet."""
        self._tracker.on_checkpoint(snapshot.checkpoint_id)
        snapshot.complete(self.enumerator.checkpoint())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Forget the assignments that the checkpoint contains."""
        self._tracker.on_checkpoint_complete(checkpoint_id)

    def reset_to_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        """Resume from the splits that were left, or start from all."""
        self._done.clear()
        self._held.clear()
        self._alignment, self._tracker = CoordinatorAlignment(), SplitAssignmentTracker()
        self.enumerator.restore(state, self.context.splits)
        self._restored = True

    def subtask_reset(self, subtask: int, checkpoint_id: int) -> None:
        """Take back the splits that a reader was assigned after this checkpoint."""
        self._done.discard(subtask)
        self._held.pop(subtask, None)
        self._reset.add(subtask)
        self._send(self.enumerator.add_splits_back(self._tracker.take_back(subtask, checkpoint_id), subtask))
        self._report_backlog()

    def execution_attempt_ready(self, subtask: int, attempt: int, gateway: SubtaskGateway) -> None:
        """Register a reader, which can receive answers from now on."""
        self._gateways[subtask] = gateway
        if subtask in self._reset and self._removed:
            gateway.send_event({"kind": REMOVE_SPLITS, "ids": list(self._removed)})
        self._reset.discard(subtask)
        if self._alignment.limit is not None:
            gateway.send_event(self._alignment.limit)

    def execution_attempt_failed(self, subtask: int, attempt: int, reason: str | None) -> None:
        """Remove a reader, which can no longer receive answers."""
        self._gateways.pop(subtask, None)
        self.enumerator.reader_left(subtask)
        self._align(self._alignment.reader_left(subtask))

    def __repr__(self) -> str:
        return f"SourceCoordinator({self.context.name}, {len(self.enumerator.remaining)} splits left)"
