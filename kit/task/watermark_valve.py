"""Event time of a task with several inputs: the minimum over the inputs that take part.

A channel that says it is idle no longer holds the others back; one that becomes active again counts once it has
caught up. Watermarks never go back. A channel that ended counts as having reached the end of time.

Follows Flink's `StatusWatermarkValve`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kit.protocol.elements import MAX_WATERMARK_MS, MIN_WATERMARK_MS


class WatermarkValve:
    """Per-channel watermarks and their minimum."""

    def __init__(self, channels: Iterable[int]) -> None:
        self._watermarks = dict.fromkeys(channels, MIN_WATERMARK_MS)
        self._idle: set[int] = set()
        self.current_ms = MIN_WATERMARK_MS

    def watermark(self, channel: int, timestamp_ms: int) -> int | None:
        """The channel's event time advanced; returns the new minimum when that advanced too."""
        self._idle.discard(channel)
        self._watermarks[channel] = max(self._watermarks[channel], timestamp_ms)
        return self._advance()

    def status(self, channel: int, *, idle: bool) -> int | None:
        """The channel became idle or active; returns the new minimum when it advanced."""
        if idle:
            self._idle.add(channel)
        else:
            self._idle.discard(channel)
        return self._advance()

    def ended(self, channel: int) -> int | None:
        """The channel has ended; returns the new minimum when it advanced."""
        return self.watermark(channel, MAX_WATERMARK_MS)

    @property
    def all_idle(self) -> bool:
        """Whether no channel takes part in event time."""
        return bool(self._watermarks) and len(self._idle) == len(self._watermarks)

    def _advance(self) -> int | None:
        active = [mark for channel, mark in self._watermarks.items() if channel not in self._idle]
        lowest = min(active, default=MIN_WATERMARK_MS)
        if lowest <= self.current_ms:
            return None
        self.current_ms = lowest
        return lowest

    def __repr__(self) -> str:
        return f"WatermarkValve({self.current_ms} ms, {len(self._idle)}/{len(self._watermarks)} idle)"
