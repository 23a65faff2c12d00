"""Operators with state and without a uid: a savepoint warns of them, and a restore says that they had none."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CheckpointedFunction,
    CollectionSource,
    CollectSink,
    FunctionInitializationContext,
    Lab,
    ListStateDescriptor,
    ProcessFunction,
    StreamEnvironment,
    sum_,
)
from kit.hosts.lab.errors import LabJobFailedError
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import ThreadGang

ROWS = [{"k": "ab"[n % 2], "n": n} for n in range(400)]


def env(*, uids: bool, changed: bool = False) -> StreamEnvironment:
    made = StreamEnvironment("sums", parallelism=1)
    stream: Any = made.from_source(CollectionSource(ROWS, batch_rows=2, rows_per_second=400), uid="rows")
    if changed:
        stream = stream.rebalance().map(dict).uid("copied")
    stream = stream.key_by("k").aggregate(total=sum_("n")).name("totals")
    (stream.uid("totals") if uids else stream).sink_to(CollectSink("out"), uid="out")
    return made


def running(job: StreamEnvironment) -> Lab:
    lab = Lab(job)
    lab.run_until(lambda lab: sum(each.kind == "SplitRead" for each in lab.trace) == 5)
    return lab


@pytest.mark.parametrize("ask", ["savepoint", "stop"])
def test_a_savepoint_warns_of_operators_with_state_and_no_uid(ask: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="kit.hosts.lab"):
        getattr(running(env(uids=True)), ask)(wait=True)
        assert not caplog.messages
        getattr(running(env(uids=False)), ask)(wait=True)
    (told,) = caplog.messages
    assert told.startswith("job sums: 'totals' has state and no uid.")


class Listing(ProcessFunction, CheckpointedFunction):
    """Keeps a list of operator state."""

    SEEN = ListStateDescriptor("seen", pa.int64())

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        context.operator_state.list_state(self.SEEN)

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.emit(row)


def test_each_operator_with_state_and_no_uid_is_named_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    made = StreamEnvironment("sums", parallelism=1)
    stream: Any = made.from_source(CollectionSource(ROWS, batch_rows=2, rows_per_second=400), name="rows")
    stream = stream.map(dict).name("copied").process(Listing).name("listed").map(dict).uid("again").process(Listing)
    totals = stream.uid("known").key_by("k").aggregate(total=sum_("n")).name("totals")
    totals.map(dict).name("shown").rebalance().sink_to(CollectSink("out"), name="out")
    with caplog.at_level(logging.WARNING, logger="kit.hosts.lab"):
        running(made).savepoint(wait=True)
    (told,) = caplog.messages
    assert told.startswith("job sums: 'rows', 'listed', 'totals', 'out' have state and no uid.")


@pytest.mark.parametrize("uids", [True, False])
def test_a_savepoint_on_spark_warns_too(uids: bool, caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    with (
        caplog.at_level(logging.WARNING, logger="kit.hosts.spark"),
        SparkJob(env(uids=uids), launch=ThreadGang) as job,
    ):
        job.start()
        job.stop(str(tmp_path / "savepoints"))
    assert [told for told in caplog.messages if "state and no uid" in told] == caplog.messages
    assert len(caplog.messages) == (0 if uids else 1)


def test_a_restore_says_that_the_operator_had_no_uid() -> None:
    for uids in (True, False):
        lab = running(env(uids=uids))
        path = lab.stop(wait=True)
        restored = Lab(env(uids=False, changed=True), restore_path=path, after=lab)
        with pytest.raises(LabJobFailedError) as failed:
            restored.run()
        assert ("Give the operator the uid it had" in str(failed.value)) == uids
        assert ("'totals' had no uid" in str(failed.value)) != uids
