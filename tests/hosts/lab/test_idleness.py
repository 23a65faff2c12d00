"""A source is idle while it has nothing, never while it is held back; and no reader waits for one that has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    CsvSource,
    Lab,
    StreamEnvironment,
    TumblingEventTimeWindows,
    count,
)
from kit.hosts.lab.world.actions import Action
from tests.hosts.lab.test_endless_sources import read_all
from tests.hosts.lab.test_split_alignment import Uneven, job
from tests.stream.operators.growing import Endless

MOST_STEPS = 40_000


def united(*times: range, idle_ms: int, chaining: bool = True, batch_rows: int = 5) -> Lab:
    """Rows of one source for each range, with these event times, counted in windows; a map is in between."""
    env = StreamEnvironment("united", parallelism=1, checkpoint=CheckpointConfig(interval_ms=200), chaining=chaining)
    streams = []
    for number, each in enumerate(times):
        rows = [{"source": number, "at": at} for at in each]
        source = CollectionSource(rows, batch_rows=batch_rows, splits=1)
        timed = env.from_source(source, uid=f"in{number}").assign_timestamps("at").with_idleness(idle_ms)
        streams.append(timed.rebalance().map(dict).uid(f"slow{number}"))
    windows = streams[0].union(*streams[1:]).key_by("source").window(TumblingEventTimeWindows(100))
    windows.aggregate(n=count()).uid("counts").sink_to(CollectSink("counts"), uid="out")
    return Lab(env)


def without(lab: Lab, held: Callable[[Action], bool], ms: int) -> None:
    """Run the lab for this time without the held actions."""
    until_ms = lab.look.at_ms + ms
    while lab.look.at_ms < until_ms:
        lab.step(next(each for each in lab.enabled() if not held(each)))


def counted(lab: Lab) -> int:
    output = lab.output("counts")
    return 0 if output.empty else int(output["n"].sum())


def was_idle(lab: Lab, task: str) -> bool:
    sent = lab.trace.story(kind="SendElement", machine=task)
    return any(record.data["element"].get("idle") for record in sent)


@pytest.mark.parametrize("chaining", [True, False])
def test_a_source_that_is_held_back_by_its_output_is_not_idle(chaining: bool) -> None:
    lab = united(range(0, 6_000, 10), range(0, 60_000, 100), idle_ms=50, chaining=chaining)
    lab.run_until(record="AllTasksRunning")
    without(lab, lambda action: action.subject == "slow0/0", 1_000)
    sent = lab.trace.story(kind="SendElement", machine="in0/0")
    assert 0 < len(sent) < 120, "it waits for room, with rows that it has not read"
    lab.run()
    assert counted(lab) == 1_200
    assert not lab.look.late_rows_dropped
    assert not was_idle(lab, "in0/0")


def test_a_source_that_gets_no_turn_is_not_idle() -> None:
    """A long call of a function in the same thread."""
    lab = united(range(0, 6_000, 10), range(0, 60_000, 100), idle_ms=50)
    lab.run_until(record="AllTasksRunning")
    without(lab, lambda action: action.key == "turn:in0/0", 1_000)
    lab.run()
    assert counted(lab) == 1_200
    assert not was_idle(lab, "in0/0")


def test_a_source_whose_process_was_suspended_is_not_idle() -> None:
    """All of the worker stops, and its timers fire late when it continues."""
    lab = united(range(0, 6_000, 10), range(0, 60_000, 100), idle_ms=400)
    lab.run_until(record="AllTasksRunning")
    for _ in range(5):
        lab.run_until(at_ms=lab.look.at_ms + 5)
        lab.faults.freeze(0)
        lab.run_until(at_ms=lab.look.at_ms + 2_000)
        lab.faults.thaw(0)
    assert any(not task.is_source and task.is_running for task in lab.look.tasks.values()), "it is in the middle"
    lab.run()
    assert counted(lab) == 1_200
    assert not lab.look.late_rows_dropped
    assert not was_idle(lab, "in0/0")


def test_a_source_that_has_nothing_is_idle_and_holds_nobody_back() -> None:
    source = Endless("ab", {"a": 20, "b": 200}, batch_rows=10)
    lab = job(source, 2, idle_ms=100)
    read_all(lab, source)
    lab.run_until(at_ms=lab.look.at_ms + 400)
    assert counted(lab) >= 180
    source.rows["a"] = 40
    read_all(lab, source)
    lab.run_until(at_ms=lab.look.at_ms + 400)
    assert sum(lab.look.late_rows_dropped.values()) == 20, "event time did not wait for it"


# --- alignment --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_split_that_alignment_pauses_is_not_idle(parallelism: int) -> None:
    source = Uneven("ab", {"a": 60, "b": 600}, batch_rows=5)
    lab = job(source, parallelism, drift_ms=300, idle_ms=150)
    lab.run_until(lambda _: paused(lab))
    read_all(lab, source)
    assert not lab.look.late_rows_dropped
    source.ended.update("ab")
    lab.run()
    assert counted(lab) == 660


def paused(lab: Lab) -> bool:
    return any(task.is_source and task.is_running and task.activity.is_paused for task in lab.look.tasks.values())


def files(folder: Path, *times: range) -> CsvSource:
    for number, each in enumerate(times):
        (folder / f"{number}.csv").write_text("at,n\n" + "".join(f"{at},{number}\n" for at in each))
    return CsvSource(str(folder / "*.csv"), batch_rows=4)


@pytest.mark.parametrize("parallelism", [2, 3])
def test_no_reader_waits_for_one_that_has_ended(tmp_path: Path, parallelism: int) -> None:
    """The first file is short and early: its reader ends while the others are too far ahead of it."""
    source = files(tmp_path, range(0, 40, 10), range(0, 90_000, 450), range(0, 90_000, 300))
    env = StreamEnvironment("files", parallelism=parallelism, checkpoint=CheckpointConfig(interval_ms=50))
    timed = env.from_source(source, uid="rows").assign_timestamps("at").with_alignment(1_000)
    timed.key_by("n").window(TumblingEventTimeWindows(100)).aggregate(rows=count()).uid("windows").sink_to(
        CollectSink("counts"), uid="out"
    )
    lab = Lab(env)
    lab.run_until(lambda _: paused(lab))
    while lab.status != "FINISHED" and lab.position < MOST_STEPS:
        lab.step()
    assert lab.status == "FINISHED"
    assert lab.output("counts")["rows"].sum() == 4 + 200 + 300
    assert not lab.look.late_rows_dropped


def test_a_reader_whose_split_was_removed_or_is_idle_holds_nobody_back() -> None:
    source = Uneven("abc", {"a": 80, "b": 20, "c": 600}, batch_rows=5)
    lab = job(source, 3, drift_ms=300)
    lab.run_until(lambda _: paused(lab))
    source.ended.add("b")
    source.rows["c"] = 700
    lab.run_until(lambda _: sum(rows for name, rows in source.reads if name == "c") == 700)
    source.ended.update("ac")
    lab.run()
    assert counted(lab) == 80 + 20 + 700
