"""What these tests share with those of the Spark host."""

from __future__ import annotations

from tests.spark.conftest import no_thread_left, nothing_left, spark

__all__ = ["no_thread_left", "nothing_left", "spark"]
