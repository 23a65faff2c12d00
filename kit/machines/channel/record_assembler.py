"""Where the fragments of a record come together again.

A record that is too large for one buffer arrives in several elements, and a checkpoint may begin between two of them.
What has been put together so far is then in flight like what still waits in the channel's queue, and goes before it.

Follows Flink's `SpillingAdaptiveSpanningRecordDeserializer` (`getUnconsumedBuffer`) and `SpanningWrapper`.
"""

from __future__ import annotations

from kit.core.protocol.elements import Buffer, Element, RecordFragment
from kit.core.protocol.words import ProtocolError
from kit.machines.channel.channel_state.channel_state_serializer import decode_elements


class RecordAssembler:
    """The `fragments` of the unfinished record of one channel, in order; none between records."""

    __slots__ = ("fragments",)

    def __init__(self) -> None:
        self.fragments: list[RecordFragment] = []

    def add(self, fragment: RecordFragment) -> Buffer | None:
        """Take the next fragment; gives the record, one row, when it was the last.

        Raises StateRestoreError when the fragments are those of no record: some are lost, or damaged.
        """
        self.fragments.append(fragment)
        if not fragment.last:
            return None
        data = b"".join(each.data for each in self.fragments)
        self.fragments = []
        (record,) = decode_elements(data)
        assert isinstance(record, Buffer)
        return record

    def expect_none(self, element: Element) -> None:
        """Raise ProtocolError when `element`, which does not belong to it, comes in the middle of a record."""
        if self.fragments:
            raise ProtocolError(f"{element!r} came after {len(self.fragments)} fragments of a record, without its end")

    def __repr__(self) -> str:
        size_bytes = sum(fragment.size_bytes for fragment in self.fragments)
        return f"RecordAssembler({len(self.fragments)} fragments, {size_bytes} bytes)"
