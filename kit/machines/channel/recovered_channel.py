"""An input channel while it recovers: first what was in flight at the checkpoint, then it becomes the live channel.

The buffers that were restored wait here, in order, with an `EndOfChannelState` after the last one. Only when that has
been taken may the channel be converted: what the sender sends from then on comes behind it. Until then the channel
takes no part in a checkpoint.

Follows `RecoveredInputChannel`.
"""

from __future__ import annotations

from collections import deque

from kit.core.protocol.elements import Element, EndOfChannelState
from kit.core.state.handles import InputChannelInfo


class RecoveredInputChannel:
    """What is restored of one input channel and has not been taken yet. `info` is the channel's place in the task."""

    __slots__ = ("_queue", "info", "state_consumed")

    def __init__(self, info: InputChannelInfo) -> None:
        self.info = info
        self.state_consumed = False
        self._queue: deque[Element] = deque()

    # --- recovering -----------------------------------------------------------------------------------------------

    def on_recovered_state_buffer(self, element: Element) -> None:
        """Put a restored element at the end."""
        self._queue.append(element)

    def finish_read_recovered_state(self) -> None:
        """Nothing more will be restored."""
        self.on_recovered_state_buffer(EndOfChannelState())

    def next_element(self) -> Element | None:
        """Take the next restored element; None when there is none, or with the end of them, now consumed."""
        if not self._queue:
            return None
        element = self._queue.popleft()
        if isinstance(element, EndOfChannelState):
            self.state_consumed = True
            return None
        return element

    @property
    def has_data(self) -> bool:
        """Whether something restored, other than the end of it, is still to be taken."""
        return bool(self._queue) and not isinstance(self._queue[0], EndOfChannelState)

    @property
    def queued(self) -> tuple[Element, ...]:
        """What waits, in order."""
        return tuple(self._queue)

    def check_consumed(self) -> None:
        """Raise RuntimeError while something restored waits: the channel must not become live before."""
        if not self.state_consumed:
            raise RuntimeError(f"{self!r} cannot become a live channel: its recovered state is not fully consumed")

    def __repr__(self) -> str:
        state = "consumed" if self.state_consumed else f"{len(self._queue)} queued"
        return f"RecoveredInputChannel(gate {self.info.gate_idx} channel {self.info.input_channel_idx}, {state})"
