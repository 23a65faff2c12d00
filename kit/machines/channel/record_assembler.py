"""The assembly of records from their fragments.

A record that is too large for one buffer arrives in several elements, and a checkpoint may begin between two of them.
The fragments received so far are then in flight, like the channel's queue, and come before it.

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
        """Add the next fragment; return the record, as one row, if this was the last.

        Raises StateRestoreError if the fragments do not form a record because some are missing or damaged.
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
        """Raise ProtocolError if `element`, which is not a fragment, comes in the middle of a record."""
        if self.fragments:
            raise ProtocolError(f"{element!r} came after {len(self.fragments)} fragments of a record, without its end")

    def __repr__(self) -> str:
        size_bytes = sum(fragment.size_bytes for fragment in self.fragments)
        return f"RecordAssembler({len(self.fragments)} fragments, {size_bytes} bytes)"
