"""Fixtures shared with the tests of the Spark host, and a Spark session for jobs with many tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.hosts.spark.conftest import no_thread_left, nothing_left, spark_session

__all__ = ["no_thread_left", "nothing_left", "spark"]


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """A session with a slot for each subtask of the widest rescale in Flink's tests."""
    yield from spark_session(slots=42)
