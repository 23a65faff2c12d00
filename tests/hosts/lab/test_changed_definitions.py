"""State that was made from something else than a job declares is rejected at its restore, though the types agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CollectionSource,
    CollectSink,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    Lab,
    ReducingStateDescriptor,
    SlidingEventTimeWindows,
    StreamEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    avg,
    count,
    max_,
    sum_,
)
from kit.hosts.spark import SparkJob
from kit.machines.job.errors import JobFailedError
from kit.stream.api.datastream import DataStream
from kit.stream.backend.files import snapshot
from kit.stream.operators.windows.window_assigners import WindowAssigner
from tests.hosts.lab.jobs import failure
from tests.hosts.spark.jobs import ThreadGang

ROWS = [{"at": n * 10, "seen": n * 7, "one": "abc"[n % 3], "two": "abcd"[n % 4], "n": n, "m": 2 * n} for n in range(60)]
TUMBLING = TumblingEventTimeWindows(200)
Change = Callable[[DataStream], DataStream]


def job(change: Change, *, parallelism: int = 2, rename: dict[str, str] | None = None) -> StreamEnvironment:
    env = StreamEnvironment("changed", parallelism=parallelism, max_parallelism=8)
    rows = env.from_source(CollectionSource(ROWS, splits=2, batch_rows=1, rows_per_second=50), uid="rows")
    if rename:
        rows = rows.rename(**rename)
    change(rows).sink_to(CollectSink("out"), uid="out")
    return env


def totals(rows: DataStream, *keys: str, emit: Any = "updates", **aggregates: Any) -> DataStream:
    aggregates = aggregates or {"total": sum_("n")}
    return rows.key_by(*(keys or ("one",))).aggregate(**aggregates, emit=emit).uid("state")


def windows(
    rows: DataStream,
    assigner: WindowAssigner = TUMBLING,
    time: str = "at",
    key: str = "one",
    lateness_ms: int = 0,
    **aggregates: Any,
) -> DataStream:
    keyed = rows.assign_timestamps(time, 50).key_by(key)
    window = keyed.window(assigner).allowed_lateness(lateness_ms)
    return window.aggregate(**(aggregates or {"total": sum_("n")})).uid("state")


def later(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return other


def reduced(rows: DataStream, key: str = "one", function: Any = later) -> DataStream:
    return rows.key_by(key).reduce(function).uid("state")


def kept(reduce: Any) -> type[KeyedProcessFunction]:
    class Kept(KeyedProcessFunction):
        state = ReducingStateDescriptor("kept", pa.int64(), reduce)

        def process_element(self, row: dict[str, Any], ctx: Any) -> None:
            state = ctx.state(self.state)
            state.add(row["n"])
            ctx.emit({"n": state.get()})

    return Kept


def rarely_kept(rows: DataStream, letter: str, kind: pa.DataType) -> DataStream:
    """A value of this type, which only the rows with one of the letters have."""

    class Rarely(KeyedProcessFunction):
        state = ReducingStateDescriptor("kept", pa.int64(), "sum")
        rare = ValueStateDescriptor("rare", kind)

        def process_element(self, row: dict[str, Any], ctx: Any) -> None:
            ctx.state(self.state).add(row["n"])
            if row["one"] == letter:
                ctx.state(self.rare).update(pa.scalar(row["n"]).cast(kind).as_py())

    return rows.key_by("one").process(Rarely, returns={"n": pa.int64()}).uid("state")


def processed(rows: DataStream, reduce: Any = "sum", key: str = "one") -> DataStream:
    return rows.key_by(key).process(kept(reduce), returns={"n": pa.int64()}).uid("state")


def both_sides(rows: DataStream) -> tuple[DataStream, DataStream]:
    right = rows.select("at", "one", "two").rename(at="at2", one="one2", two="two2")
    return rows.assign_timestamps("at", 50), right.assign_timestamps("at2", 50)


def window_joined(rows: DataStream, assigner: WindowAssigner = TUMBLING) -> DataStream:
    left, right = both_sides(rows)
    return left.join(right).where("one").equal_to("one2").window(assigner).join().uid("state")


def interval_joined(rows: DataStream, lower_ms: int = 0, key: str = "one") -> DataStream:
    left, right = both_sides(rows)
    return left.key_by(key).interval_join(right.key_by(f"{key}2")).between(lower_ms, 100).join().uid("state")


def of(build: Callable[..., DataStream], *arguments: Any, **settings: Any) -> Change:
    return lambda rows: build(rows, *arguments, **settings)


REJECTED: dict[str, tuple[Change, Change, str]] = {
    "another aggregate": (of(totals), of(totals, total=max_("n")), r"total=sum\(n\).* total=max\(n\)"),
    "an aggregate of another column": (of(totals), of(totals, total=sum_("m")), r"total=sum\(n\).* total=sum\(m\)"),
    "a mean for a mean": (of(totals, x=avg("n")), of(totals, x=avg("m")), r"x=avg\(n\).* x=avg\(m\)"),
    "a count of rows": (of(totals, x=count("n")), of(totals, x=count()), r"x=count\(n\).* x=count\(\)"),
    "another key": (of(totals), of(totals, "two"), r"key_by\('one'\).* key_by\('two'\)"),
    "another of two keys": (
        of(totals, "one", "two"),
        of(totals, "one", "m"),
        r"key_by\('one', 'two'\).* key_by\('one', 'm'\)",
    ),
    "another key of a reduction": (of(reduced), of(reduced, "two"), r"key_by\('one'\).* key_by\('two'\)"),
    "another key of a function": (of(processed), of(processed, key="two"), r"key_by\('one'\).* key_by\('two'\)"),
    "another word": (of(processed), of(processed, "max"), r"reduce sum.* reduce max"),
    "another size of windows": (
        of(windows),
        of(windows, TumblingEventTimeWindows(400)),
        r"window TumblingEventTimeWindows\(size_ms=200, offset_ms=0\).* TumblingEventTimeWindows\(size_ms=400",
    ),
    "another kind of windows": (
        of(windows),
        of(windows, SlidingEventTimeWindows(200, 100)),
        "Tumbling.*Sliding",
    ),
    "another gap": (
        of(windows, EventTimeSessionWindows(25)),
        of(windows, EventTimeSessionWindows(35)),
        "gap_ms=25.*gap_ms=35",
    ),
    "another time": (of(windows), of(windows, time="seen"), "time at.* time seen"),
    "another key of windows": (of(windows), of(windows, key="two"), r"key_by\('one'\).* key_by\('two'\)"),
    "another aggregate of windows": (of(windows), of(windows, total=max_("n")), r"sum\(n\).*max\(n\)"),
    "another window of a join": (
        of(window_joined),
        of(window_joined, TumblingEventTimeWindows(400)),
        "size_ms=200.*size_ms=400",
    ),
    "other keys of a join": (
        of(interval_joined),
        of(interval_joined, key="two"),
        r"key_by\('one'\) and key_by\('one2'\).* key_by\('two'\) and key_by\('two2'\)",
    ),
}
ACCEPTED: dict[str, tuple[Change, Change]] = {
    "when results come out": (of(totals), of(totals, emit="final")),
    "another function": (of(reduced), of(reduced, function=lambda one, other: one)),
    "a function for a word": (of(processed), of(processed, lambda one, other: one + other)),
    "a word for a function": (of(processed, lambda one, other: one + other), of(processed)),
    "other bounds of a join": (of(interval_joined), of(interval_joined, -50)),
    "another lateness": (of(windows), of(windows, lateness_ms=100)),
}


class LabHost:
    def savepoint(self, env: StreamEnvironment) -> str:
        self.last = Lab(env)
        self.last.run_until(at_ms=300)
        return self.last.stop(wait=True)

    def refused(self, env: StreamEnvironment, savepoint: str) -> str:
        lab = Lab(env, restore_path=savepoint, after=self.last)
        error = failure(lab)
        assert lab.look.master.epoch == 0, "no task was deployed"
        return error

    def run(self, env: StreamEnvironment, savepoint: str, **start: Any) -> int:
        lab = Lab(env, restore_path=savepoint, after=self.last, **start)
        lab.run()
        assert lab.status == "FINISHED", lab.error
        return len(lab.output("out"))


class SlotsHost:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def savepoint(self, env: StreamEnvironment) -> str:
        with SparkJob(env, launch=ThreadGang) as running:
            running.start().wait_until_running(timeout_s=60)
            running.trigger_checkpoint()
            return running.stop(self.directory)

    def refused(self, env: StreamEnvironment, savepoint: str) -> str:
        with SparkJob(env, launch=ThreadGang, restore_path=savepoint) as restored:
            with pytest.raises(JobFailedError) as failed:
                restored.start()
            assert restored.status == "FAILED"
            assert len(restored.look.stages) == 0, "no task was deployed"
            return str(failed.value)


def check_refused(host: LabHost | SlotsHost, before: Change, after: Change, told: str) -> None:
    savepoint = host.savepoint(job(before))
    error = host.refused(job(after, parallelism=3), savepoint)
    assert "(uid 'state')" in error
    assert "allow_non_restored_state=True" in error
    assert pa.compute.match_substring_regex(pa.array([error]), told)[0].as_py(), error


@pytest.mark.parametrize("what", REJECTED)
def test_state_of_another_meaning_is_rejected(what: str) -> None:
    check_refused(LabHost(), *REJECTED[what])


@pytest.mark.parametrize("letter", list("abc"))
def test_a_type_that_only_one_subtask_has_stored_is_checked(letter: str) -> None:
    """The keys are of different subtasks, and the file of a subtask names only the states that it has."""
    host = LabHost()
    savepoint = host.savepoint(job(of(rarely_kept, letter, pa.int64())))
    error = host.refused(job(of(rarely_kept, letter, pa.string()), parallelism=3), savepoint)
    assert "State 'rare' was registered as value of string, and is stored as value of int64" in error
    assert "no task was deployed" in error


@pytest.mark.parametrize("what", ["another aggregate", "another key", "another word"])
def test_state_of_another_meaning_is_rejected_on_slots(what: str, tmp_path: Path) -> None:
    check_refused(SlotsHost(tmp_path), *REJECTED[what])


@pytest.mark.parametrize("what", ACCEPTED)
def test_state_of_the_same_meaning_is_restored(what: str) -> None:
    before, after = ACCEPTED[what]
    host = LabHost()
    savepoint = host.savepoint(job(before))
    assert host.run(job(after, parallelism=3), savepoint)


@pytest.mark.parametrize("what", REJECTED)
def test_the_same_definition_is_restored(what: str) -> None:
    before, _, _ = REJECTED[what]
    host = LabHost()
    assert host.run(job(before, parallelism=3), host.savepoint(job(before)))


def test_a_column_that_was_only_renamed_is_renamed_back_before_key_by() -> None:
    host = LabHost()
    savepoint = host.savepoint(job(of(totals)))
    renamed = job(lambda rows: totals(rows, "letter"), rename={"one": "letter"})
    error = host.refused(renamed, savepoint)
    assert "rename it back before key_by: rename(new='old')" in error
    back = job(lambda rows: totals(rows.rename(letter="one")), rename={"one": "letter"})
    assert host.run(back, savepoint)


def test_another_uid_begins_without_the_state() -> None:
    host = LabHost()
    savepoint = host.savepoint(job(of(totals)))
    other = job(lambda rows: rows.key_by("one").aggregate(total=max_("n")).uid("another"))
    assert host.run(other, savepoint, allow_non_restored_state=True)


def test_a_snapshot_without_definitions_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As snapshots were written before definitions were."""
    host = LabHost()
    with monkeypatch.context() as old:
        old.setattr(snapshot, "to_metadata", lambda aspects: {})
        savepoint = host.savepoint(job(of(totals)))
    assert host.run(job(of(totals, total=max_("n"))), savepoint)


def test_state_whose_words_some_subtasks_do_not_know_is_restored() -> None:
    """A function asks for its state when its first row comes: until then a restored word is all that is known."""
    host = LabHost()
    savepoint = host.savepoint(job(of(processed)))
    lab = Lab(job(of(processed)), restore_path=savepoint, after=host.last)
    lab.run_until(record="AllTasksRunning")
    host.last = lab
    again = lab.stop(wait=True)
    assert host.run(job(of(processed), parallelism=3), again)
    assert "reduce sum" in host.refused(job(of(processed, "max")), again)
