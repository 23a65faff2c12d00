"""The methods of Spark's that have no function in PySpark: which of them are public."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kit.hosts.spark.scheduler import INTERNAL, PUBLIC

pytestmark = pytest.mark.spark


def test_methods_are_public_in_spark_where_the_kit_says_so(spark: SparkSession) -> None:
    """Scala compiles private members as public ones, so the test reads Scala's own signatures."""
    jvm: Any = spark.sparkContext._jvm
    universe = getattr(getattr(jvm.scala.reflect.runtime, "package$"), "MODULE$").universe()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    context = universe.runtimeMirror(loader).staticClass("org.apache.spark.SparkContext").toType()

    def is_public(name: str) -> bool:
        found = context.member(universe.TermName().apply(name)).alternatives()
        assert found.size() > 0
        return all(found.apply(each).isPublic() for each in range(found.size()))

    assert {name for name in PUBLIC | INTERNAL if is_public(name)} == PUBLIC
