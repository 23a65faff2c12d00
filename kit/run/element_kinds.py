"""What pictures and texts make of each element that travels in a channel: one table, `ELEMENTS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kit.core.protocol import elements


@dataclass(frozen=True, slots=True)
class ElementKind:
    """`name` is what a drawn item is (and its class in the style sheet), `caption` what a sentence calls it.

    `sign` is drawn for what is neither records nor a barrier. In the caption `{rows}` counts records, `{cp}` is the
    checkpoint.
    """

    name: str
    caption: str
    sign: str = ""


ELEMENTS: dict[str, ElementKind] = {
    element.__name__: kind
    for element, kind in {
        elements.Buffer: ElementKind("buffer", "{rows}"),
        elements.RecordFragment: ElementKind("buffer", "part of a record"),
        elements.CheckpointBarrier: ElementKind("barrier", "barrier {cp}"),
        elements.CancelCheckpointMarker: ElementKind("cancel", "word that checkpoint {cp} was cancelled"),
        elements.Watermark: ElementKind("watermark", "a watermark", "w"),
        elements.WatermarkStatus: ElementKind("status", "its idleness", "z"),
        elements.EndOfData: ElementKind("end", "the end of data", "▪"),
        elements.EndOfPartition: ElementKind("last", "the end of the stream", "■"),
        elements.SubtaskConnectionDescriptor: ElementKind("from", "word where the next buffer was in flight", "↪"),
        elements.EndOfChannelState: ElementKind("recovered", "the end of what was in flight", "◂"),
    }.items()
}
"""By the name of the element's type."""

SIGNS = {kind.name: kind.sign for kind in ELEMENTS.values()}


def element_kind(element: Mapping[str, Any]) -> ElementKind:
    """The entry of an element as a trace describes it."""
    return ELEMENTS[element["type"]]
