"""An input channel while it recovers: first what was in flight at the checkpoint, then it becomes the live channel.

The buffers that were restored wait here, in order, with an `EndOfChannelState` after the last one. Only when that has
been taken may the channel be converted: what the sender sends from then on comes behind it. Until then the channel
takes no part in a checkpoint.

Follows `RecoveredInputChannel`.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol, TypeVar

from kit.protocol.elements import CheckpointBarrier, Element, EndOfChannelState
from kit.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.state.handles import InputChannelInfo

FIRST_SEQUENCE_NUMBER = -(2**31)
"""Recovered buffers are numbered from here, so that their numbers are none of the live channel's."""


class LiveChannel(Protocol):
    """What a recovered channel becomes."""

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        """This checkpoint needs none of the channel's buffers any more."""


LiveT = TypeVar("LiveT", bound=LiveChannel)


class RecoveredInputChannel:
    """What is restored of one input channel and has not been taken yet. `info` is the channel's place in the task."""

    __slots__ = ("_last_stopped_id", "_queue", "info", "is_released", "sequence_number", "state_consumed")

    def __init__(self, info: InputChannelInfo) -> None:
        self.info = info
        self.state_consumed = False
        self.is_released = False
        self.sequence_number = FIRST_SEQUENCE_NUMBER
        self._queue: deque[Element] = deque()
        self._last_stopped_id = -1

    # --- recovering -----------------------------------------------------------------------------------------------

    def on_recovered_state_buffer(self, element: Element) -> None:
        """Put a restored element at the end; a channel that was released keeps none."""
        if not self.is_released:
            self._queue.append(element)

    def finish_read_recovered_state(self) -> None:
        """Nothing more will be restored."""
        self.on_recovered_state_buffer(EndOfChannelState())

    def next_element(self) -> Element | None:
        """Take the next restored element; None when there is none, or with the end of them, now consumed.

        Raises RuntimeError when the channel was released.
        """
        if self.is_released:
            raise RuntimeError(f"{self!r} was released and cannot be read")
        if not self._queue:
            return None
        element = self._queue.popleft()
        if isinstance(element, EndOfChannelState):
            self.state_consumed = True
            return None
        self.sequence_number += 1
        return element

    @property
    def has_data(self) -> bool:
        """Whether something restored, other than the end of it, is still to be taken."""
        return bool(self._queue) and not isinstance(self._queue[0], EndOfChannelState)

    @property
    def available(self) -> bool:
        """Whether `next_element` would do something."""
        return bool(self._queue)

    @property
    def queued(self) -> tuple[Element, ...]:
        """What waits, in order."""
        return tuple(self._queue)

    def to_input_channel(self, live: LiveT) -> LiveT:
        """Become this live channel; RuntimeError while something restored waits."""
        if not self.state_consumed:
            raise RuntimeError(f"{self!r} cannot become a live channel: its recovered state is not fully consumed")
        live.checkpoint_stopped(self._last_stopped_id)
        return live

    def release(self) -> None:
        """The task leaves: what waits is dropped."""
        self.is_released = True
        self._queue.clear()

    # --- what only a live channel does ----------------------------------------------------------------------------

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """A channel that recovers cannot take part: raises CheckpointException(CHECKPOINT_DECLINED_TASK_NOT_READY)."""
        raise CheckpointException(
            CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
            f"{self!r} still recovers and cannot take part in checkpoint {barrier.checkpoint_id}",
        )

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        """Remember it for the live channel."""
        self._last_stopped_id = checkpoint_id

    def __repr__(self) -> str:
        state = "released" if self.is_released else "consumed" if self.state_consumed else f"{len(self._queue)} queued"
        return f"RecoveredInputChannel(gate {self.info.gate_idx} channel {self.info.input_channel_idx}, {state})"
