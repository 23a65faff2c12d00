"""Objects that cannot be sent to Spark's workers are found at start(), and named as the user named them."""

from __future__ import annotations

import functools
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kit import CollectSink, GeneratorSource, ProcessFunction, StreamEnvironment
from kit.hosts.spark import JobFailedError, SparkJob
from tests.hosts.spark.jobs import ThreadGang

Row = dict[str, Any]
LOCK = threading.Lock()


def never(*_: object) -> ThreadGang:
    raise AssertionError("the job was submitted")


def refusal(attach: Callable[[Any], Any]) -> str:
    env = StreamEnvironment("orders", parallelism=2)
    rows = env.from_source(GeneratorSource(100, 10), uid="rows")
    attach(rows).uid("enrich").sink_to(CollectSink("out"), uid="out")
    job = SparkJob(env, launch=never)
    with pytest.raises(JobFailedError) as caught:
        job.start()
    said = str(caught.value)
    assert len(said.splitlines()) <= 6
    assert "job orders cannot be sent to Spark's workers" in said
    assert "inside the function, or in open()" in said or "exist in the driver only" in said
    assert job.status == "CREATED"
    return said


def closure() -> Callable[[Row], Row]:
    connection = sqlite3.connect(":memory:")

    def look_up(row: Row) -> Row:
        connection.execute("select 1")
        return row

    return look_up


def uses_a_global(row: Row) -> Row:
    with LOCK:
        return row


uses_a_global.__module__ = "__main__"  # as in a script: it is sent by value


def with_default(row: Row, lock: Any = LOCK) -> Row:
    return row


with_default.__module__ = "__main__"


class Client:
    def __init__(self) -> None:
        self.pool = {"reader": threading.Lock()}

    def ask(self, row: Row) -> Row:
        return row

    def __call__(self, row: Row) -> Row:
        return row


def with_client(client: Client, row: Row) -> Row:
    return row


def test_a_variable_of_the_function_around_it() -> None:
    said = refusal(lambda rows: rows.map(closure()))
    assert "operator 'enrich' (map)" in said
    assert "function look_up (test_portable.py, line" in said
    assert "captures `connection`, a sqlite3.Connection" in said


@pytest.mark.spark
def test_a_session_of_spark_is_named_by_its_type(spark: SparkSession) -> None:
    frame = spark.range(3)
    for used, name in ((spark, "used"), (frame, "used")):
        said = refusal(lambda rows, used=used: rows.map(lambda row: {"n": used.count(), **row}))
        assert f"captures `{name}`, a pyspark.sql." in said
        assert type(used).__name__ in said
        assert "env.from_spark(df" in said
        assert "lock" not in said


def test_a_global() -> None:
    said = refusal(lambda rows: rows.filter(uses_a_global))
    assert "operator 'enrich' (filter)" in said
    assert "function uses_a_global (test_portable.py, line" in said
    assert "captures `LOCK`, a _thread.lock" in said


def test_a_default() -> None:
    assert "captures `lock (a default)`, a _thread.lock" in refusal(lambda rows: rows.map(with_default))


def test_an_attribute_of_the_object_whose_method_it_is() -> None:
    said = refusal(lambda rows: rows.flat_map(Client().ask, {"key": "int64", "value": "int64"}))
    assert "operator 'enrich' (flat_map)" in said
    assert "function Client.ask (test_portable.py" in said
    assert "captures `self.pool['reader']`, a _thread.lock" in said


def test_an_object_that_is_called() -> None:
    said = refusal(lambda rows: rows.map(Client()))
    assert "captures `pool['reader']`, a _thread.lock" in said
    assert "function Client (test_portable.py" in said


def test_an_argument_of_a_partial() -> None:
    said = refusal(lambda rows: rows.map(functools.partial(with_client, Client())))
    assert "function with_client (test_portable.py" in said
    assert "captures `argument 0.pool['reader']`" in said


def test_a_helper_of_a_helper() -> None:
    inner = closure()

    def outer(row: Row) -> Row:
        return inner(row)

    said = refusal(lambda rows: rows.map(outer))
    assert "function look_up" in said
    assert "`inner -> connection`, a sqlite3.Connection" in said


def test_a_process_functions_class() -> None:
    lock = threading.Lock()

    class Locked(ProcessFunction):
        def process_element(self, row: Row, ctx: Any) -> None:
            with lock:
                ctx.emit(row)

    said = refusal(lambda rows: rows.process(Locked))
    assert "operator 'enrich' (process)" in said
    assert "process_element (test_portable.py" in said
    assert "captures `lock`, a _thread.lock" in said


def test_the_job_can_be_started_once_it_is_mended(tmp_path: Path) -> None:
    class Late:
        """Cannot be sent while it has a lock."""

        handle: Any = threading.Lock()

        def __init__(self) -> None:
            self.lock: Any = threading.Lock()

        def __call__(self, row: Row) -> Row:
            return row

    function = Late()
    Late.handle = None
    env = StreamEnvironment("mended", parallelism=1)
    env.from_source(GeneratorSource(100, 10), uid="rows").map(function).sink_to(CollectSink("out"), uid="out")
    with SparkJob(env, launch=ThreadGang) as job:
        with pytest.raises(JobFailedError, match="captures `lock`"):
            job.start()
        function.lock = None
        assert job.start().wait() == "FINISHED"
        assert len(job.output()) == 100
