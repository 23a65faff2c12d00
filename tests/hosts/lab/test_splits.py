"""A source that leaves the number of its splits open has one for each subtask that reads it first."""

from __future__ import annotations

from collections import Counter

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, GeneratorSource, Lab, StreamEnvironment, sum_
from kit.core.protocol.properties import RetentionPolicy
from kit.stream.operators.sources.source import Source

ROWS = [{"letter": "abc"[n % 3], "n": n} for n in range(40)]


def letters(parallelism: int, source: Source | None = None) -> StreamEnvironment:
    settings = CheckpointConfig(interval_ms=20, retention=RetentionPolicy.RETAIN_ON_CANCELLATION)
    env = StreamEnvironment("letters", parallelism=parallelism, max_parallelism=8, checkpoint=settings)
    stream = env.from_source(source or CollectionSource(ROWS, batch_rows=1), uid="letters")
    stream.sink_to(CollectSink("rows"), uid="rows")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


def read_by(lab: Lab) -> dict[str, set[str]]:
    """The splits that each task was given."""
    given: dict[str, set[str]] = {}
    for record in lab.trace:
        if record.kind == "OperatorEventToTask" and record.data["payload"]["kind"] == "assign_split":
            given.setdefault(record.data["task"], set()).add(record.data["payload"]["split"]["id"])
    return given


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("source", [CollectionSource(ROWS, batch_rows=1), GeneratorSource(40, 3, batch_rows=1)])
def test_each_subtask_has_a_range_of_the_rows(parallelism: int, source: Source) -> None:
    splits = source.splits_for(parallelism)
    assert [split["start"] for split in splits] == [40 * n // parallelism for n in range(parallelism)]
    assert splits[-1]["end"] == 40
    assert source.enumerate_splits() == source.splits_for(1)


def test_the_first_job_of_a_learner_keeps_both_sources_at_work() -> None:
    lab = Lab(letters(2))
    lab.run_until(checkpoint=1)
    assert {task: len(splits) for task, splits in read_by(lab).items()} == {"letters/0": 1, "letters/1": 1}


def test_splits_that_are_asked_for_are_not_changed() -> None:
    lab = Lab(letters(2, CollectionSource(ROWS, batch_rows=1, splits=1)))
    lab.run()
    assert read_by(lab) == {"letters/0": {"rows-0"}} or read_by(lab) == {"letters/1": {"rows-0"}}
    assert lab.output("rows")["n"].tolist() == list(range(40))


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("then", [1, 2, 4])
def test_the_splits_of_a_checkpoint_are_read_on_at_any_parallelism(first: int, then: int) -> None:
    before = Lab(letters(first))
    before.run_until(checkpoint=1)
    latest = before.look.master.checkpoints.store.latest
    assert latest is not None
    before.cancel()
    while before.enabled():
        before.step()
    after = Lab(letters(then), restore_path=latest.path, after=before)
    after.run()
    assert Counter(after.output("rows")["n"]) == Counter(range(40))
