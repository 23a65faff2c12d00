"""The end of recovery: no input continues before every channel has delivered its recovered in-flight data.

Each sender ends its recovered data with `EndOfChannelState`, which closes the channel. After the last channel of an
input has delivered its own, all of them are opened.

Follows Flink's `UpstreamRecoveryTracker`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.protocol.words import ProtocolError
from kit.machines.channel.input_channel import InputChannel


class UpstreamRecoveryTracker:
    """The channels of one input that have not yet delivered their recovered data."""

    def __init__(self, channels: Sequence[InputChannel]) -> None:
        self.channels = tuple(channels)
        self._recovering = {channel.number for channel in channels}

    @property
    def all_channels_recovered(self) -> bool:
        """True if all recovered data has come."""
        return not self._recovering

    def handle_end_of_recovery(self, channel: InputChannel) -> None:
        """Record that the channel has delivered its recovered data. Raises ProtocolError if repeated."""
        if self.all_channels_recovered:
            return
        if channel.number not in self._recovering:
            raise ProtocolError(f"{channel.source_task} ended its recovered data twice on channel {channel.number}")
        self._recovering.remove(channel.number)
        if self.all_channels_recovered:
            for each in self.channels:
                each.resume()

    def __repr__(self) -> str:
        return f"UpstreamRecoveryTracker({len(self._recovering)} of {len(self.channels)} recovering)"
