"""A driver that takes over and finds the newest checkpoint damaged: it fails, or passes over it where that is safe."""

from __future__ import annotations

import pytest

from kit import CheckpointConfig, FixedDelay, GeneratorSource, Lab, ParquetSink, StreamEnvironment, sum_
from kit.hosts.lab import LabError

KEYS, ROWS = 3, 60


def job(*, emit: str = "final", fall_back: bool = True, restart: FixedDelay | None = None) -> StreamEnvironment:
    """Sums by key, published at the end or with each checkpoint."""
    checkpoint = CheckpointConfig(
        store="filesystem",
        directory="/checkpoints",
        max_retained=3,
        fall_back_if_damaged=fall_back,
        memory_threshold_bytes=0,
    )
    env = StreamEnvironment("sums", checkpoint=checkpoint, restart=restart)
    rows = env.from_source(GeneratorSource(ROWS, KEYS, batch_rows=2), uid="rows")
    sums = rows.key_by("key").aggregate(total=sum_("value"), emit=emit).uid("sums")
    sums.sink_to(ParquetSink("/out"), uid="out")
    return env


def dead(env: StreamEnvironment, checkpoints: int = 3, until: str = "NotifyCheckpointComplete") -> Lab:
    """Return a lab whose driver dies after some checkpoints with rows in between, when this has come after the last."""
    lab = Lab(env)
    lab.run_until(record="AllTasksRunning")
    for _ in range(checkpoints):
        for _ in range(12):
            lab.step()
        lab.trigger_checkpoint(wait=True)
        lab.run_until(record=until)
    lab.faults.kill_driver()
    return lab


def metadata_of(lab: Lab, checkpoint_id: int) -> str:
    return next(path for path in lab.look.files.paths() if path.endswith(f"/chk-{checkpoint_id}/_metadata"))


def damage(lab: Lab, how: str, checkpoint_id: int) -> None:
    path = metadata_of(lab, checkpoint_id)
    if how == "cut off":
        lab.faults.truncate(path, len(lab.look.files.contents[path]) // 2)
    elif how == "gone":
        lab.faults.lose(path)
    else:
        state = path.removesuffix("_metadata")
        lab.faults.lose(next(each for each in lab.look.files.paths() if each.startswith(state) and each != path))


def restored(lab: Lab) -> list[int]:
    return [record.checkpoint_id for record in lab.trace if record.kind == "CheckpointRestored"]


@pytest.mark.parametrize("how", ["cut off", "gone", "state file gone"])
def test_it_starts_from_the_newest_intact_checkpoint(how: str) -> None:
    env = job()
    lab = dead(env)
    damage(lab, how, 3)
    damage(lab, how, 2)
    again = Lab(env, after=lab, recover=True)
    again.run()
    assert restored(again) == [1]
    expected = Lab(env)
    expected.run()
    order = ["key", "total"]
    assert again.output().sort_values(order)[order].values.tolist() == (
        expected.output().sort_values(order)[order].values.tolist()
    )


def test_the_entries_of_damaged_checkpoints_are_removed_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    """A later driver finds the intact ones, and no damaged one that it would have to skip again."""
    env = job()
    lab = dead(env, checkpoints=3)
    damage(lab, "gone", 2)
    damage(lab, "cut off", 3)
    again = Lab(env, after=lab, recover=True)
    again.run_until(record="CheckpointRestored")
    assert "starts from checkpoint 1, passing over damaged ones: checkpoint 3: " in caplog.text
    assert "; checkpoint 2: " in caplog.text
    caplog.clear()
    again.faults.kill_driver()
    last = Lab(env, after=again, recover=True)
    last.run()
    assert restored(last) == [1]
    assert "damaged" not in caplog.text, "checkpoints 2 and 3 are no longer in the store"
    assert sorted(last.output()["key"]) == list(range(KEYS))


@pytest.mark.parametrize("which", [0, 1])
def test_any_file_of_any_operator_counts(which: int) -> None:
    env = job()
    lab = dead(env, checkpoints=3)
    directory = metadata_of(lab, 3).removesuffix("_metadata")
    files = [path for path in lab.look.files.paths() if path.startswith(directory) and not path.endswith("_metadata")]
    assert len(files) == 2, "of the sums, and of the source"
    lab.faults.lose(files[which])
    again = Lab(env, after=lab, recover=True)
    again.run_until(record="CheckpointRestored")
    assert restored(again) == [2]


def test_it_never_falls_back_behind_published_rows() -> None:
    env = job(emit="updates")
    lab = dead(env, until="EffectsCommitted")
    damage(lab, "cut off", 3)
    before = lab.output()
    with pytest.raises(LabError) as caught:
        Lab(env, after=lab, recover=True).run()
    text = str(caught.value)
    assert "checkpoint 3: " in text
    assert "No older checkpoint may take its place" in text
    assert "published after checkpoint 2" in text
    assert lab.output().equals(before)


def test_rows_that_nobody_has_published_yet_do_not_keep_it() -> None:
    env = job(emit="updates")
    lab = dead(env)
    damage(lab, "cut off", 3)
    again = Lab(env, after=lab, recover=True)
    again.run()
    assert restored(again) == [2]
    expected = Lab(env)
    expected.run()
    order = ["key", "total"]
    assert again.output().sort_values(order)[order].values.tolist() == (
        expected.output().sort_values(order)[order].values.tolist()
    )


@pytest.mark.parametrize("how", ["cut off", "gone"])
def test_by_default_it_fails_as_in_flink(how: str) -> None:
    env = job(fall_back=False)
    lab = dead(env)
    damage(lab, how, 3)
    again = Lab(env, after=lab, recover=True)
    with pytest.raises(LabError, match="checkpoint 3"):
        again.run()
    assert restored(again) == []


def test_when_every_checkpoint_is_damaged_it_does_not_begin_from_scratch() -> None:
    env = job()
    lab = dead(env, checkpoints=2)
    damage(lab, "gone", 1)
    damage(lab, "cut off", 2)
    with pytest.raises(LabError, match=r"every checkpoint in the store is damaged: checkpoint 2: .*; checkpoint 1: .*"):
        Lab(env, after=lab, recover=True).run()


@pytest.mark.parametrize("how", ["gone", "cut off", "other bytes"])
def test_a_job_whose_latest_state_is_lost_ends_at_once_whatever_its_restarts(how: str) -> None:
    lab = Lab(job(restart=FixedDelay(attempts=50, delay_ms=1_000)))
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    directory = metadata_of(lab, 1).removesuffix("_metadata")
    for path in [path for path in lab.look.files.paths() if path.startswith(directory)]:
        size = len(lab.look.files.contents[path])
        if how == "gone":
            lab.faults.lose(path)
        elif how == "cut off":
            lab.faults.truncate(path, size // 2)
        else:
            lab.look.files.contents[path] = b"?" * size
    lab.faults.kill(0)
    with pytest.raises(LabError, match=r"checkpoint 1 cannot be read: .*intact: restore_path|Operator state|damaged"):
        lab.run()
    assert lab.look.master.epoch == 2
