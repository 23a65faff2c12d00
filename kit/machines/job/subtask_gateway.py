"""The gateway from an operator's coordinator to one attempt of a subtask, with the gate that checkpoints close.

The coordinator and its operator are snapshotted at different moments: the coordinator first, the operator when its
barrier passes. An event that the coordinator sends in between would be in neither snapshot, or in both. So the gate
closes behind the coordinator's snapshot and opens when the subtask has its barrier; events sent in between follow.

    mark(n)    the coordinator was asked for its snapshot of checkpoint n: events still pass
    close(n)   it took the snapshot: events are held from here on; rejected if n was aborted in the meantime
    open(n)    the subtask's barrier is on its way before anything that follows, or n was aborted

With several pending checkpoints the gate is closed as long as one of them holds it. If the gate of a later one opens
first, its events move back behind the checkpoint before it, in order.

Follows Flink's `SubtaskGatewayImpl`.
"""

from __future__ import annotations

from collections.abc import Callable

from kit.stream.operators.coordinator import NO_CHECKPOINT, Payload

Send = Callable[[int, int, Payload], None]
"""A function of subtask, attempt and payload."""


class GatedSubtask:
    """The gateway of attempt `attempt` of subtask `subtask` (a `SubtaskGateway`)."""

    def __init__(self, subtask: int, attempt: int, send: Send) -> None:
        self.subtask = subtask
        self.attempt = attempt
        self._send = send
        self._marked: set[int] = set()
        self._latest_id = NO_CHECKPOINT
        self._held: dict[int, list[Payload]] = {}
        """The events held behind each checkpoint that has closed the gate, in the order of closing."""

    @property
    def is_closed(self) -> bool:
        """True if events are held."""
        return bool(self._held)

    def send_event(self, payload: Payload) -> None:
        """Send an event, now or when the gate opens."""
        if self._held:
            self._held[max(self._held)].append(payload)
        else:
            self._send(self.subtask, self.attempt, payload)

    def mark(self, checkpoint_id: int) -> None:
        """Record that a snapshot was requested. Raises ValueError unless it is the newest so far."""
        if checkpoint_id <= self._latest_id:
            raise ValueError(f"chk-{checkpoint_id} comes after chk-{self._latest_id} at the gate of {self.subtask}")
        self._latest_id = checkpoint_id
        self._marked.add(checkpoint_id)

    def close(self, checkpoint_id: int) -> bool:
        """Hold what is sent from now on; return False if the checkpoint was opened, that is, aborted, before."""
        if checkpoint_id not in self._marked:
            return False
        self._held.setdefault(checkpoint_id, [])
        return True

    def open(self, checkpoint_id: int) -> None:
        """Release what this checkpoint holds; do nothing if it holds nothing."""
        self._marked.discard(checkpoint_id)
        held = self._held.pop(checkpoint_id, [])
        before = max((other for other in self._held if other < checkpoint_id), default=None)
        if before is not None:
            self._held[before] += held
            return
        for payload in held:
            self._send(self.subtask, self.attempt, payload)

    def open_latest(self) -> None:
        """Open the gate for the last marked checkpoint, which was aborted while it was being triggered."""
        if self._marked:
            self.open(max(self._marked))

    def __repr__(self) -> str:
        held = sum(map(len, self._held.values()))
        gate = f"closed by {sorted(self._held)}, {held} held" if self._held else "open"
        return f"GatedSubtask({self.subtask}@{self.attempt}, {gate})"
