"""The appearance of each element that travels in a channel, in pictures and texts: one table, `ELEMENTS`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kit.core.protocol import elements


@dataclass(frozen=True, slots=True)
class ElementKind:
    """The appearance of one type of element.

    `name` is the kind of the drawn item and its class in the style sheet, and `caption` names it in a sentence. `sign`
    is drawn for elements that are neither records nor barriers. In the caption `{rows}` counts records and `{cp}` is
    the checkpoint.
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
        elements.CancelCheckpointMarker: ElementKind("cancel", "the cancel marker of checkpoint {cp}"),
        elements.Watermark: ElementKind("watermark", "a watermark", "w"),
        elements.WatermarkStatus: ElementKind("status", "its idle status", "z"),
        elements.EndOfData: ElementKind("end", "the end of data", "▪"),
        elements.EndOfPartition: ElementKind("last", "the end of the stream", "■"),
        elements.SubtaskConnectionDescriptor: ElementKind("from", "the origin of the next buffer", "↪"),
        elements.EndOfChannelState: ElementKind("recovered", "the end of recovered data", "◂"),
    }.items()
}
"""The kinds, by the name of the element's type."""

SIGNS = {kind.name: kind.sign for kind in ELEMENTS.values()}


def element_kind(element: Mapping[str, Any]) -> ElementKind:
    """Return the entry of an element that a trace describes."""
    return ELEMENTS[element["type"]]
