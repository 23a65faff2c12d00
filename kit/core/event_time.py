"""Event time in ms: its two ends, and how a time is written."""

from __future__ import annotations

MIN_WATERMARK_MS = -(2**63)
MAX_WATERMARK_MS = 2**63 - 1
"""The end of event time: every timer fires (Flink's `Watermark.MAX_WATERMARK`)."""


def event_time_text(timestamp_ms: int) -> str:
    """Return an event time as readable text; its two extremes become words."""
    if timestamp_ms == MAX_WATERMARK_MS:
        return "end of event time"
    return "no event time yet" if timestamp_ms == MIN_WATERMARK_MS else f"{timestamp_ms} ms"
