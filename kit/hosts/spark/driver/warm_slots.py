"""How many slots there are for a job, those that are new warmed up.

The first Python worker of an executor takes seconds for its imports. A job that was rescaled onto it would stand still
so long; so when there are more slots than before, a small Spark job goes through them, beside everything else, and only
when it is done are they counted. One that never ends, on an executor that is frozen, is never waited for.

A job that is not reactive needs no more slots than it has, and when it has lost some it takes cold ones rather than
none: for it all are counted, and spare ones are warmed up so that they are of use at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable

from pyspark import InheritableThread
from pyspark.sql import SparkSession


class WarmSlots:
    """Counts what `count` counts, on the driver's thread; a call gives the number, None when that is not known."""

    def __init__(self, spark: SparkSession, count: Callable[[], int | None], known: int | None = None) -> None:
        """`known`: so many slots are warm as soon as the job works, and cold ones count."""
        self._spark = spark
        self._count = count
        self._counts_cold = known is not None
        self.warm = known
        """So many were warm when they were last counted."""
        self._thread: threading.Thread | None = None

    def __call__(self) -> int | None:
        there = self._count()
        if there is None or self.warm is None or there <= self.warm:
            self.warm = there if there is not None else self.warm
        elif self._thread is None or not self._thread.is_alive():
            self._thread = InheritableThread(target=self._warm_up, args=(there,), name="spark-warm-slots", daemon=True)
            self._thread.start()
        return there if self._counts_cold else self.warm

    def _warm_up(self, there: int) -> None:
        cold = there - (self.warm or 0)
        with contextlib.suppress(Exception):  # the executor is gone again, or the session was stopped
            self._spark.sparkContext.parallelize(range(cold), cold).foreachPartition(_touch)
            self.warm = there

    def __repr__(self) -> str:
        return f"WarmSlots({self.warm})"


def _touch(numbers: Iterable[int]) -> None:
    """Import what a slot needs."""
    import kit.hosts.spark.driver.gang  # noqa: F401
