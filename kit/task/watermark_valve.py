"""Event time of a task with several inputs: the minimum over the inputs that take part.

A channel that says it is idle no longer holds the others back, and what it says about event time meanwhile does not
count. Once it is active again it takes part as soon as it has caught up with what was given out: until then it is
*unaligned*. When the last active channel becomes idle, event time goes on to the highest watermark of all, for none
of them promises less any more. Watermarks never go back.

Follows Flink's `StatusWatermarkValve`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kit.protocol.elements import MIN_WATERMARK_MS


class _Channel:
    """One channel's last watermark, whether it is idle, and whether it counts towards the minimum."""

    __slots__ = ("aligned", "idle", "watermark_ms")

    def __init__(self) -> None:
        self.watermark_ms = MIN_WATERMARK_MS
        self.idle = False
        self.aligned = True


class WatermarkValve:
    """Watermarks and statuses of the channels, by number, and what comes of them together."""

    def __init__(self, channels: Iterable[int]) -> None:
        self._channels = {channel: _Channel() for channel in channels}
        self.current_ms = MIN_WATERMARK_MS
        self.all_idle = False

    def watermark(self, channel: int, timestamp_ms: int) -> int | None:
        """The channel's event time advanced; returns the new minimum when that advanced too."""
        state = self._channels[channel]
        if state.idle or timestamp_ms <= state.watermark_ms:
            return None
        state.watermark_ms = timestamp_ms
        state.aligned = state.aligned or timestamp_ms >= self.current_ms
        return self._advance_to_minimum()

    def status(self, channel: int, *, idle: bool) -> int | None:
        """The channel became idle or active; returns the new event time when it advanced. See `all_idle` too."""
        state = self._channels[channel]
        if state.idle == idle:
            return None
        state.idle = idle
        if not idle:
            state.aligned = state.watermark_ms >= self.current_ms
            self.all_idle = False
            return None
        state.aligned = False
        held_back = state.watermark_ms == self.current_ms
        self.all_idle = all(each.idle for each in self._channels.values())
        if not held_back:
            return None
        return self._advance_to_maximum() if self.all_idle else self._advance_to_minimum()

    def _advance_to_minimum(self) -> int | None:
        return self._advance(min((c.watermark_ms for c in self._channels.values() if c.aligned), default=None))

    def _advance_to_maximum(self) -> int | None:
        return self._advance(max(channel.watermark_ms for channel in self._channels.values()))

    def _advance(self, timestamp_ms: int | None) -> int | None:
        if timestamp_ms is None or timestamp_ms <= self.current_ms:
            return None
        self.current_ms = timestamp_ms
        return timestamp_ms

    def __repr__(self) -> str:
        idle = sum(channel.idle for channel in self._channels.values())
        return f"WatermarkValve({self.current_ms} ms, {idle}/{len(self._channels)} idle)"
