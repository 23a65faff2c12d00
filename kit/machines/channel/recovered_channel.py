"""An input channel during recovery: it delivers what was in flight at the checkpoint, then becomes the live channel.

The restored buffers wait here, in order, followed by an `EndOfChannelState`. Only when that has been taken may the
channel be converted; new data from the sender comes behind it. Until then the channel takes no part in a checkpoint.

Follows `RecoveredInputChannel`.
"""

from __future__ import annotations

from collections import deque

from kit.core.protocol.elements import Element, EndOfChannelState
from kit.core.state.handles import InputChannelInfo


class RecoveredInputChannel:
    """The restored elements of one input channel that have not been taken yet; `info` is its place in the task."""

    __slots__ = ("_queue", "info", "state_consumed")

    def __init__(self, info: InputChannelInfo) -> None:
        self.info = info
        self.state_consumed = False
        self._queue: deque[Element] = deque()

    # --- recovering -----------------------------------------------------------------------------------------------

    def on_recovered_state_buffer(self, element: Element) -> None:
        """Add a restored element at the end."""
        self._queue.append(element)

    def finish_read_recovered_state(self) -> None:
        """Mark the end of the restored elements."""
        self.on_recovered_state_buffer(EndOfChannelState())

    def next_element(self) -> Element | None:
        """Take the next restored element; None if there is none, or for the end marker, which is consumed."""
        if not self._queue:
            return None
        element = self._queue.popleft()
        if isinstance(element, EndOfChannelState):
            self.state_consumed = True
            return None
        return element

    @property
    def has_data(self) -> bool:
        """True if a restored element, other than the end marker, is still to be taken."""
        return bool(self._queue) and not isinstance(self._queue[0], EndOfChannelState)

    @property
    def queued(self) -> tuple[Element, ...]:
        """The waiting elements, in order."""
        return tuple(self._queue)

    def check_consumed(self) -> None:
        """Raise RuntimeError while restored elements wait: the channel must not become live before."""
        if not self.state_consumed:
            raise RuntimeError(f"{self!r} cannot become a live channel: its recovered state is not fully consumed")

    def __repr__(self) -> str:
        state = "consumed" if self.state_consumed else f"{len(self._queue)} queued"
        return f"RecoveredInputChannel(gate {self.info.gate_idx} channel {self.info.input_channel_idx}, {state})"
