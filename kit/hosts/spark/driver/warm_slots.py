"""The number of slots available to a job, with new ones warmed up.

The first Python worker of an executor takes seconds for its imports, and a job that was rescaled onto it would wait for
that. So when there are more slots than before, a small Spark job runs on them in the background, and they are counted
only when it is done. Nothing waits for that job, because it may never end on a frozen executor.

A job that is not reactive does not need more slots than it has, and when it has lost some it prefers cold ones to none.
For such a job all slots are counted, and spare ones are warmed up so that they can be used at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable

from pyspark import InheritableThread
from pyspark.sql import SparkSession


class WarmSlots:
    """A counter of warm slots, used on the driver's thread. A call returns the number, None if it is unknown."""

    def __init__(self, spark: SparkSession, count: Callable[[], int | None], known: int | None = None) -> None:
        """Count the slots that `count` reports. If `known` is given, that many are warm once the job runs, and cold
        ones count too.
        """
        self._spark = spark
        self._count = count
        self._counts_cold = known is not None
        self.warm = known
        """The number of warm slots at the last count."""
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
        with contextlib.suppress(Exception):  # the executor has left, or the session was stopped
            self._spark.sparkContext.parallelize(range(cold), cold).foreachPartition(_touch)
            self.warm = there

    def __repr__(self) -> str:
        return f"WarmSlots({self.warm})"


def _touch(numbers: Iterable[int]) -> None:
    """Import what a slot needs."""
    import kit.hosts.spark.driver.gang  # noqa: F401
