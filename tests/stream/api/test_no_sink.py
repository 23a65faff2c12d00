"""Operators that reach no sink are left out of the job, with a warning; the others are as if they had never been."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CollectionSource,
    CollectSink,
    CoProcessFunction,
    Lab,
    OutputTag,
    ProcessFunction,
    SparkJob,
    StreamEnvironment,
    count,
    sum_,
)
from kit.stream.graph.stream_graph import GraphError
from tests.hosts.spark.jobs import ThreadGang

ROWS = [{"letter": "abc"[i % 3], "n": i} for i in range(12)]
ODD = OutputTag("odd", {"n": pa.int64()})
SEEN: list[int] = []


class SetsAside(ProcessFunction):
    def process_element(self, row, ctx):
        yield ODD, {"n": row["n"]}


class Remembers(ProcessFunction):
    def process_element(self, row, ctx):
        SEEN.append(row["n"])


def fails(row: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("from a cell that was deleted")


def environment(**forgotten: bool) -> StreamEnvironment:
    """Only the totals have a uid, so the ids of the others depend on what is in the graph."""
    env = StreamEnvironment("letters", parallelism=2)
    if forgotten.get("source"):
        env.from_source(CollectionSource([{"other": 1}])).key_by("other").aggregate(n=count())
    stream = env.from_source(CollectionSource(ROWS))
    if forgotten.get("before"):
        stream.map(fails).filter(lambda row: True)
    doubled = stream.map(dict)
    if forgotten.get("between"):
        doubled.map(fails)
        doubled.rebalance().map(fails).key_by("letter").aggregate(n=count())
    totals = doubled.key_by("letter").aggregate(total=sum_("n"), emit="final").uid("totals")
    totals.sink_to(CollectSink("out"))
    if forgotten.get("behind"):
        totals.union(totals).select("total")
    return env


def described(env: StreamEnvironment) -> list[Any]:
    return [(vertex.name, vertex.chain, vertex.operator_ids, vertex.inputs) for vertex in env.job_graph().vertices]


@pytest.mark.parametrize("where", ["source", "before", "between", "behind"])
def test_the_job_is_what_it_would_be_without_them(where: str) -> None:
    forgotten = environment(**{where: True})
    with pytest.warns(UserWarning, match=r"(?s)reach no sink, so they are left out of the job.*\.sink_to\(") as caught:
        described_now = described(forgotten)
    assert caught[0].filename == __file__
    assert described_now == described(environment())
    assert len(forgotten.operators) > len(environment().operators)
    assert len(forgotten.stream_graph().nodes) == len(forgotten.operators)
    with pytest.warns(UserWarning, match="reach no sink"):
        lab = Lab(forgotten)
    lab.run()
    assert sorted(lab.output("out")["total"]) == [18, 22, 26]


def test_a_job_on_spark_leaves_them_out_too() -> None:
    with pytest.warns(UserWarning, match="'map'"):
        job = SparkJob(environment(before=True), launch=ThreadGang)
    with job:
        assert job.start().wait() == "FINISHED"
        assert sorted(job.output("out")["total"]) == [18, 22, 26]


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environment().job_graph()
        env = StreamEnvironment("twice")
        stream = env.from_source(CollectionSource(ROWS))
        stream.connect(stream.rebalance()).process(CoProcessFunction)
        env.job_graph()
        environment(before=True)._repr_html_()


def test_a_function_may_act_by_itself() -> None:
    env = StreamEnvironment("acts", parallelism=1)
    stream = env.from_source(CollectionSource(ROWS))
    stream.map(dict).process(Remembers)
    SEEN.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Lab(env).run()
    assert sorted(SEEN) == list(range(12))


def test_an_operator_whose_side_output_reaches_a_sink_stays() -> None:
    env = StreamEnvironment("aside", parallelism=1)
    split = env.from_source(CollectionSource(ROWS)).process(SetsAside, returns={"n": pa.int64()})
    split.side_output(ODD).sink_to(CollectSink("odd"))
    split.map(dict)
    with pytest.warns(UserWarning, match="\n  'map'\n"):
        lab = Lab(env)
    lab.run()
    assert sorted(lab.output("odd")["n"]) == list(range(12))


@pytest.mark.parametrize("host", [Lab, lambda job: SparkJob(job, launch=ThreadGang)], ids=["lab", "Spark"])
def test_a_job_in_which_nothing_reaches_a_sink_is_an_error(host: Any) -> None:
    env = StreamEnvironment("nothing")
    env.from_source(CollectionSource(ROWS)).map(dict)
    for job in (env, env.job_graph()):
        with pytest.raises(GraphError, match=r"'nothing' would have no effect: no stream reaches a sink; .*sink_to"):
            host(job)
