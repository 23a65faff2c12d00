"""The event time of a task with several inputs: the minimum over the inputs that take part.

An idle channel does not hold the others back, and its watermarks do not count. When it becomes active again, it takes
part once it has caught up with the current event time; until then it is *unaligned*. When the last active channel
becomes idle, event time advances to the highest watermark of all, because no channel promises less now. Watermarks
never go back.

A channel at the end of event time takes no part any more. While another one is idle, event time does not end: rows may
still come, and what they wait for would never be. In Flink the ended channel alone decides then, and what comes later
is lost (FLINK-38477); there an idle channel does not end either, unless it was active again before (FLINK-40499).

An operator with several inputs (a join) has a valve for each; its event time is the minimum over the inputs that are
neither idle nor ended, and stays where it is when there are none.

Follows Flink's `StatusWatermarkValve` and `IndexedCombinedWatermarkStatus`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS


class _Channel:
    """One channel's last watermark, and whether it is idle and counts towards the minimum."""

    __slots__ = ("aligned", "idle", "watermark_ms")

    def __init__(self) -> None:
        self.watermark_ms = MIN_WATERMARK_MS
        self.idle = False
        self.aligned = True

    @property
    def has_ended(self) -> bool:
        return self.watermark_ms == MAX_WATERMARK_MS


class WatermarkValve:
    """The watermarks and statuses of the channels, by number, and their combination."""

    def __init__(self, channels: Iterable[int]) -> None:
        self._channels = {channel: _Channel() for channel in channels}
        self.current_ms = MIN_WATERMARK_MS
        self.all_idle = False

    def watermark(self, channel: int, timestamp_ms: int) -> int | None:
        """Advance the channel's event time; return the new minimum if that advanced too."""
        state = self._channels[channel]
        ends = timestamp_ms == MAX_WATERMARK_MS
        if (state.idle and not ends) or timestamp_ms <= state.watermark_ms:
            return None
        state.watermark_ms = timestamp_ms
        if ends:
            return self._end(state)
        state.aligned = state.aligned or timestamp_ms >= self.current_ms
        return self._advance_to_minimum()

    @property
    def channels(self) -> dict[int, int]:
        """The watermarks of the channels that count."""
        return {number: each.watermark_ms for number, each in self._channels.items() if each.aligned}

    def status(self, channel: int, *, idle: bool) -> int | None:
        """Make the channel idle or active; return the new event time if it advanced. See `all_idle` too."""
        state = self._channels[channel]
        if state.idle == idle or state.has_ended:
            return None
        state.idle = idle
        if not idle:
            state.aligned = state.watermark_ms >= self.current_ms
            self.all_idle = False
            return None
        state.aligned = False
        held_back = state.watermark_ms == self.current_ms
        self.all_idle = all(each.idle for each in self._going_on)
        if not held_back:
            return None
        return self._advance_to_maximum() if self.all_idle else self._advance_to_minimum()

    def _end(self, state: _Channel) -> int | None:
        state.idle = False
        if not self._going_on:
            self.all_idle = False
            return self._advance(MAX_WATERMARK_MS)
        self.all_idle = all(each.idle for each in self._going_on)
        return self._advance_to_maximum() if self.all_idle else self._advance_to_minimum()

    @property
    def _going_on(self) -> list[_Channel]:
        """The channels that have not ended."""
        return [channel for channel in self._channels.values() if not channel.has_ended]

    def _advance_to_minimum(self) -> int | None:
        return self._advance(min((c.watermark_ms for c in self._going_on if c.aligned), default=None))

    def _advance_to_maximum(self) -> int | None:
        return self._advance(max(channel.watermark_ms for channel in self._going_on))

    def _advance(self, timestamp_ms: int | None) -> int | None:
        if timestamp_ms is None or timestamp_ms <= self.current_ms:
            return None
        self.current_ms = timestamp_ms
        return timestamp_ms

    def __repr__(self) -> str:
        idle = sum(channel.idle for channel in self._channels.values())
        return f"WatermarkValve({self.current_ms} ms, {idle}/{len(self._channels)} idle)"


class InputWatermarks:
    """The event time of a task: a valve for each input of its head; `input_of` maps channels to inputs."""

    def __init__(self, input_of: Mapping[int, int]) -> None:
        self._input_of = dict(input_of)
        self._valves = {
            number: WatermarkValve(channel for channel, other in input_of.items() if other == number)
            for number in sorted(set(input_of.values()))
        }
        self.current_ms = MIN_WATERMARK_MS
        self.all_idle = False

    @property
    def by_input(self) -> dict[int, int]:
        """The event time of each input, in ms."""
        return {number: valve.current_ms for number, valve in self._valves.items()}

    def watermark(self, channel: int, timestamp_ms: int) -> int | None:
        """Advance the channel's event time; return the task's event time if it advanced too."""
        valve = self._valve_of(channel)
        was_idle = valve.all_idle
        return self._combined(valve, valve.watermark(channel, timestamp_ms), was_idle=was_idle)

    def status(self, channel: int, *, idle: bool) -> int | None:
        """Make the channel idle or active; return the new event time if it advanced. See `all_idle` too."""
        valve = self._valve_of(channel)
        was_idle = valve.all_idle
        return self._combined(valve, valve.status(channel, idle=idle), was_idle=was_idle)

    @property
    def channels(self) -> dict[int, int]:
        """The watermarks of the channels that count."""
        return {number: at_ms for valve in self._valves.values() for number, at_ms in valve.channels.items()}

    def _valve_of(self, channel: int) -> WatermarkValve:
        return self._valves[self._input_of[channel]]

    def _combined(self, changed: WatermarkValve, advanced_to_ms: int | None, *, was_idle: bool) -> int | None:
        """Return the minimum over the active inputs; the last one's final watermark counts when it becomes idle."""
        if advanced_to_ms is None and changed.all_idle == was_idle:
            return None
        going_on = [valve for valve in self._valves.values() if valve.current_ms < MAX_WATERMARK_MS]
        active = [valve for valve in going_on if not valve.all_idle]
        self.all_idle = bool(going_on) and not active
        last = [changed] if changed in going_on or not going_on else []
        timestamp_ms = min((valve.current_ms for valve in active or last), default=self.current_ms)
        if timestamp_ms <= self.current_ms:
            return None
        self.current_ms = timestamp_ms
        return timestamp_ms

    def __repr__(self) -> str:
        return f"InputWatermarks({self.current_ms} ms, {len(self._valves)} inputs)"
