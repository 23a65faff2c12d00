"""One module of the Spark host calls Spark's Java and Scala API, and it names every method that it calls.

`tests/hosts/spark/test_scheduler.py` asks Spark which of them are public.
"""

from __future__ import annotations

import ast

from kit.hosts.spark import scheduler
from tests.house.files import read, shipped

OF_PYSPARK = {"_jvm", "_jsc", "_jdf", "_jrdd", "_jsparkSession", "_jconf", "_to_java_object_rdd"}
"""PySpark's attributes and methods that lead to objects of Java."""
MODULE = "kit/hosts/spark/scheduler.py"


def calls_java(path: str) -> bool:
    names = {node.attr for node in ast.walk(ast.parse(read(path))) if isinstance(node, ast.Attribute)}
    return bool(names & OF_PYSPARK)


def test_one_module_of_the_spark_host_calls_java() -> None:
    assert [path for path in shipped() if path.startswith("kit/hosts/spark/") and calls_java(path)] == [MODULE]


def test_the_module_names_the_methods_that_it_calls() -> None:
    called = [node.func for node in ast.walk(ast.parse(read(MODULE))) if isinstance(node, ast.Call)]
    on_context = {
        function.attr
        for function in called
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) in ("_context(spark)", "context")
    }
    assert on_context == scheduler.PUBLIC | scheduler.INTERNAL
