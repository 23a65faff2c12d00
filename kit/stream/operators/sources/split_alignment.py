"""Alignment of splits: a split is paused while it is too far ahead of the slowest split of all readers.

Every `UPDATE_MS`, each reader reports the least watermark of its splits to its coordinator. The coordinator takes the
minimum over all readers, adds the allowed drift, and sends the result to the readers, which do not read splits beyond
it. So operators buffer few rows until event time reaches them. A reader does not take part while it has no splits,
while all of them are idle, while one of them has not had its first row, or after it has finished or failed.

Payloads (JSON): `{"kind": "report_watermark", "watermark": ms or None, "max_drift": ms}` to the coordinator, and
`{"kind": "align", "max_watermark": ms or None}` back. Neither is part of a checkpoint.

Follows Flink's watermark alignment: `ReportedWatermarkEvent`, `WatermarkAlignmentEvent` and `pauseOrResumeSplits`.
"""

from __future__ import annotations

from typing import Any

from kit.core.event_time import MIN_WATERMARK_MS
from kit.stream.operators.sources.split_watermarks import SplitWatermarks

REPORT_WATERMARK = "report_watermark"
ALIGN = "align"
UPDATE_MS = 100
"""The time between two reports of a reader."""


class ReaderAlignment:
    """The reader's part: its reports, and the limit up to which it may read."""

    def __init__(self, watermarks: SplitWatermarks, max_drift_ms: int) -> None:
        self.max_watermark_ms: int | None = None
        """Splits whose watermark is beyond this are not read; None: all are."""
        self.due_ms = 0
        self._watermarks = watermarks
        self._max_drift_ms = max_drift_ms
        self._reported: tuple[int | None] | None = None

    def begin(self, now_ms: int) -> None:
        """Start when the reader is opened."""
        self.due_ms = now_ms + UPDATE_MS

    def report(self, now_ms: int) -> dict[str, Any] | None:
        """Return the report for the coordinator; None if it is not due yet, or has not changed."""
        if now_ms < self.due_ms:
            return None
        self.due_ms = now_ms + UPDATE_MS
        least = self._watermarks.least
        if least == MIN_WATERMARK_MS:  # a split has had no row yet, so its start is unknown
            least = None
        if self._reported == (least,):
            return None
        self._reported = (least,)
        return {"kind": REPORT_WATERMARK, "watermark": least, "max_drift": self._max_drift_ms}

    def last_report(self) -> dict[str, Any]:
        """Return the report of a reader whose splits have all been read: it no longer takes part."""
        return {"kind": REPORT_WATERMARK, "watermark": None, "max_drift": self._max_drift_ms}

    def take(self, payload: dict[str, Any]) -> None:
        """Take the limit from the coordinator."""
        self.max_watermark_ms = payload["max_watermark"]

    def __repr__(self) -> str:
        return f"ReaderAlignment(up to {self.max_watermark_ms})"


class CoordinatorAlignment:
    """The coordinator's part: the least watermark of all readers."""

    def __init__(self) -> None:
        self._watermarks: dict[int, int] = {}
        self._max_drift_ms = 0
        self._said: int | None = None

    def take(self, subtask: int, payload: dict[str, Any]) -> dict[str, Any] | None:
        """Take a report; return the limit for all readers, or None if it has not changed."""
        self._max_drift_ms = payload["max_drift"]
        if payload["watermark"] is None:
            self._watermarks.pop(subtask, None)
        else:
            self._watermarks[subtask] = payload["watermark"]
        return self._changed()

    def reader_left(self, subtask: int) -> dict[str, Any] | None:
        """Forget a reader that has failed; return the limit for the others, or None if it has not changed."""
        self._watermarks.pop(subtask, None)
        return self._changed()

    @property
    def limit(self) -> dict[str, Any] | None:
        """The limit that was sent to the readers; None if there is none."""
        return None if self._said is None else {"kind": ALIGN, "max_watermark": self._said}

    def _changed(self) -> dict[str, Any] | None:
        least = min(self._watermarks.values(), default=None)
        limit = None if least is None else least + self._max_drift_ms
        if limit == self._said:
            return None
        self._said = limit
        return {"kind": ALIGN, "max_watermark": limit}

    def __repr__(self) -> str:
        return f"CoordinatorAlignment({len(self._watermarks)} readers, up to {self._said})"
