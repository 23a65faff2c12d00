"""W5 for Spark: a `transformWithState` processor, called for each key of a batch with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType


class RunningTotal(StatefulProcessor):
    """Reads the state once for the rows that a batch has of a key, then goes from row to row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", StructType([StructField("total", LongType())]))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        found = self._total.get()
        total = found[0] if found else 0
        for row in rows:
            total += row.value
            yield Row(key=key[0], total=total)
        self._total.update((total,))

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
