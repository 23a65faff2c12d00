"""W5 for Spark: a `transformWithState` processor, called for each key of a batch with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType


class RunningTotal(StatefulProcessor):
    """Reads the state once for the rows that a batch has of a key, then goes from row to row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", StructType([StructField("total", LongType())]))

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        found = self._total.get() if self._total.exists() else None
        total = found[0] if found else 0
        totals = []
        for frame in rows:
            for value in frame["value"].tolist():
                total += value
                totals.append(total)
        self._total.update((total,))
        yield pd.DataFrame({"key": [key[0]] * len(totals), "total": totals})

    def close(self) -> None:
        """Nothing to let go of."""
