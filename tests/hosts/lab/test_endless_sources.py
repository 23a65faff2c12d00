"""Sources whose splits never end: a reader holds many and reads them all, through kills, rescales and stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random as Chance
from typing import Any

import pytest

from kit import CheckpointConfig, CollectSink, Lab, StreamEnvironment, TumblingEventTimeWindows, count
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.world.schedulers import Random
from kit.stream.settings.job_settings import FixedDelay
from kit.verify.explore.exploration import explorable
from tests.stream.operators.growing import Endless, Growing

TWELVE = "abcdefghijkl"
MOST_STEPS = 20_000


def job(source: Growing, parallelism: int = 2, **checkpoint: Any) -> StreamEnvironment:
    env = StreamEnvironment(
        "endless",
        parallelism=parallelism,
        max_parallelism=8,
        checkpoint=CheckpointConfig(**{"interval_ms": 50, "tolerable_failures": 1_000} | checkpoint),
        restart=FixedDelay(1_000, 5),
    )
    rows = env.from_source(source, uid="rows")
    rows.sink_to(CollectSink("rows"), uid="out")
    rows.key_by("split").aggregate(n=count(), emit="final").uid("counts").sink_to(CollectSink("counts"), uid="counted")
    return env


def found(lab: Lab) -> Counter[tuple[str, int]]:
    output = lab.output("rows")
    return Counter() if output.empty else Counter(output[["split", "n"]].itertuples(index=False, name=None))


def read_all(lab: Lab, source: Growing, names: Sequence[str] = ()) -> None:
    """Step until the tasks hold all splits, each at its last row, and all of them run."""
    wanted = {name: source.rows.get(name, 0) for name in names or source.names}

    def positions() -> dict[str, int]:
        heads = (task.chain.head for task in lab.look.tasks.values() if task.is_source and task.is_running)
        return {split["id"]: position for head in heads for split, position in head.splits}

    end = lab.position + MOST_STEPS
    lab.run_until(lambda _: (positions() == wanted and lab.look.master.tasks.all_running) or lab.position > end)
    assert positions() == wanted


def steps(lab: Lab, number: int) -> None:
    for _ in range(number):
        lab.step()


@pytest.mark.parametrize("kind", [Growing, Endless])
@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_all_splits_that_grow_are_read_to_where_they_have_grown(kind: type[Growing], parallelism: int) -> None:
    source = kind("abcd", dict.fromkeys("abcd", 3), batch_rows=2)
    lab = Lab(job(source, parallelism))
    lab.run_until(lambda _: {name for name, _ in source.reads} == set("abcd"))
    source.rows.update(a=9, d=4)
    read_all(lab, source)
    lab.stop(wait=True)
    assert found(lab) == source.all_rows()


def test_a_split_that_always_has_rows_leaves_the_others_their_turns() -> None:
    source = Endless("abc", {"a": 10_000, "b": 4, "c": 4}, batch_rows=1)
    lab = Lab(job(source, 1))
    lab.run_until(lambda _: len(source.reads) == 12)
    assert [name for name, _ in source.reads] == [*"abc"] * 4


def test_splits_without_rows_are_left_alone_until_they_have_some() -> None:
    source = Endless(TWELVE, {"b": 1})
    lab = Lab(job(source, 1, interval_ms=None))
    with pytest.raises(LabError):  # nothing can happen any more
        lab.run_until(lambda _: len(source.reads) > 100)
    assert sorted(name for name, _ in source.reads) == sorted(TWELVE + "b")
    source.reads.clear()
    source.rows["k"] = 2
    with pytest.raises(LabError):
        lab.run_until(lambda _: len(source.reads) > 100)
    assert source.reads == [("k", 2), ("k", 0)]


def test_splits_of_which_nobody_knows_whether_they_have_rows_are_asked_once_an_interval() -> None:
    source = Growing("abcd")
    lab = Lab(job(source, 1, interval_ms=None))
    lab.run_until(at_ms=100 * source.poll_every_ms)
    assert 50 * len("abcd") < len(source.reads) <= 100 * len("abcd")


def test_a_checkpoint_does_not_wait_for_a_read() -> None:
    """The answer to a read may be late: the checkpoint has the position before it."""
    source = Endless("a", {"a": 5}, batch_rows=5)
    lab = Lab(job(source, 1, interval_ms=None))
    lab.run_until(record="ReadSplit")
    lab.trigger_checkpoint()
    while lab.checkpoints().empty or "COMPLETED" not in set(lab.checkpoints()["status"]):
        others = [action for action in lab.enabled() if "ReadSplit" not in repr(action)]
        lab.step(others[0])
    assert source.reads == []
    lab.faults.kill(0)
    read_all(lab, source)
    lab.stop(wait=True)
    assert found(lab) == source.all_rows()


def test_a_rescale_leaves_no_split_unread() -> None:
    source = Growing("abcd", dict.fromkeys("abcd", 4), batch_rows=2)
    lab = Lab(job(source, 4))
    read_all(lab, source)
    lab.rescale(2, wait=True)
    source.rows.update(dict.fromkeys("abcd", 8))
    lab.run_until(lambda _: all((name, 2) in source.reads[8:] for name in "abcd"))
    lab.rescale(3, wait=True)
    source.rows.update(dict.fromkeys("abcd", 10))
    source.reads.clear()
    lab.run_until(lambda _: all((name, 2) in source.reads for name in "abcd"))
    lab.stop(wait=True)
    assert found(lab) == source.all_rows()


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_without_an_end_is_stopped_and_resumed(drain: bool) -> None:
    source = Endless("abc", dict.fromkeys("abc", 7), batch_rows=2)
    lab = Lab(job(source))
    read_all(lab, source)
    path = lab.stop(drain=drain, wait=True)
    assert lab.status == "FINISHED"
    assert bool(len(lab.output("counts"))) is drain
    source.rows.update(b=9)
    again = Lab(job(source, 3), restore_path=path, after=lab)
    read_all(again, source)
    again.stop(wait=True)
    assert found(again) == source.all_rows()


def test_a_job_whose_endless_splits_all_end_has_an_end() -> None:
    source = Endless("abc", dict.fromkeys("abc", 3), set("abc"))
    lab = Lab(job(source))
    lab.run()
    assert found(lab) == source.all_rows()


def test_a_job_without_an_end_is_cancelled() -> None:
    source = Endless("abc", {"a": 3})
    lab = Lab(job(source))
    steps(lab, 60)
    lab.cancel()
    lab.run()
    assert lab.status == "CANCELED"


def test_windows_wait_for_the_split_that_is_furthest_behind() -> None:
    source = Endless("abc", {"a": 100, "b": 100, "c": 30}, batch_rows=10)
    env = StreamEnvironment("timed", parallelism=1, checkpoint=CheckpointConfig(interval_ms=50))
    windows = env.from_source(source, uid="rows").assign_timestamps("t").key_by("split")
    windows.window(TumblingEventTimeWindows(100)).aggregate(n=count()).sink_to(CollectSink("counts"), uid="out")
    lab = Lab(env)
    read_all(lab, source)
    steps(lab, 300)
    assert lab.output("counts")["window_start"].max() == 100  # rows of c from 300 on may still come
    source.rows["c"] = 100
    read_all(lab, source)
    steps(lab, 300)
    assert lab.output("counts")["window_start"].max() == 800
    assert not lab.look.late_rows_dropped


@pytest.mark.parametrize("kind", [Growing, Endless])
@pytest.mark.parametrize("seed", range(12))
def test_twelve_splits_through_kills_and_rescales_give_each_row_once(seed: int, kind: type[Growing]) -> None:
    chance = Chance(seed)
    source = kind(TWELVE, batch_rows=3)
    lab = Lab(job(source, 1 + seed % 4), seed=seed, scheduler=Random())
    for _ in range(12):
        for name in chance.sample(TWELVE, 4):
            source.rows[name] = source.rows.get(name, 0) + chance.randrange(9)
        steps(lab, chance.randrange(250))
        what = chance.randrange(3)
        if what == 0 and lab.look.tasks:
            lab.faults.kill(chance.randrange(max(task.subtask for task in lab.look.tasks.values()) + 1))
        elif what == 1:
            lab.rescale(chance.randint(1, 4))
    read_all(lab, source)
    lab.stop(wait=True)
    lab.look.validate()
    assert found(lab) == source.all_rows()


def test_a_job_without_an_end_cannot_be_explored() -> None:
    with pytest.raises(LabError, match="cannot be explored: it has no end"):
        explorable(job(Endless("a"), interval_ms=None))


def test_a_recorded_run_is_followed_with_the_rows_that_became_available(tmp_path: Path) -> None:
    source = Growing("ab", {"a": 3, "b": 5}, batch_rows=2)
    lab = Lab(job(source))
    read_all(lab, source)
    lab.run_until(at_ms=500)
    lab.stop(wait=True)
    assert [record for record in lab.trace if record.kind == "RowsAvailable"]
    lab.trace.save_recording(tmp_path / "endless.scenario")
    again = Lab.follow(job(Growing("ab", source.rows, batch_rows=2)), tmp_path / "endless.scenario")
    again.run()
    assert found(again) == source.all_rows()
    assert again.past.agreement is not None
