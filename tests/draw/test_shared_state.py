"""The files that each checkpoint holds, for incremental checkpoints from Flink and full ones from the lab."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.core.metadata import read_metadata
from kit.core.state.operator_state import TaskStateSnapshot
from kit.draw.views.checkpoints.shared_state import shared_state
from kit.files.storage import StateFiles
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.machines.coordinator.completed.shared_state_registry import SharedStateRegistry, register_shared_state
from tests.flink_data import checkpoint_cases, checkpoints

INCREMENTAL = pytest.mark.parametrize(
    "version", [version for version, case in checkpoint_cases() if case == "rocksdb-incremental"]
)


def _folder(version: str) -> Path:
    return checkpoints(version) / "rocksdb-incremental"


@INCREMENTAL
def test_what_discarding_frees_is_what_the_registry_lets_go(version: str) -> None:
    found = shared_state(_folder(version))
    registry = SharedStateRegistry()  # type: ignore[var-annotated]
    for snapshot in found.snapshots:
        assert snapshot.metadata is not None
        for state in snapshot.metadata.operator_states:
            for each in state.subtask_states.values():
                register_shared_state(registry, TaskStateSnapshot({state.operator_id: each}), snapshot.checkpoint_id)
    oldest, newest = found.checkpoints[0], found.checkpoints[-1]
    assert oldest < newest
    handles, _ = registry.unregister_unused(newest)
    let_go = {path.rpartition("/")[2] for handle in handles for path in handle.files()}
    freed = found.freed_by(oldest)
    frame = found.to_pandas()
    shared = set(frame[frame.shared].file)
    assert set(freed.file) & shared == let_go
    assert (frame.references == frame[[f"chk-{each}" for each in found.checkpoints]].sum(axis=1)).all()


@INCREMENTAL
def test_sizes_and_directories_are_those_on_disk(version: str) -> None:
    folder = _folder(version)
    for row in shared_state(folder).to_pandas().itertuples():
        on_disk = folder / str(row.directory) / str(row.file)
        assert on_disk.stat().st_size == row.bytes


@INCREMENTAL
def test_a_file_that_another_holds_stays(tmp_path: Path, version: str) -> None:
    found = shared_state(_folder(version))
    both = found.freed_by(*found.checkpoints)
    assert len(both) == len(found.files)
    alone = [found.freed_by(each) for each in found.checkpoints]
    assert sum(map(len, alone)) + sum(len(each.holders) > 1 for each in found.files) == len(both)
    assert found.is_shared
    html = found._repr_html_()
    assert "Sharing saves" in html
    assert f"Discarding checkpoint {found.checkpoints[0]} frees {len(alone[0])} files" in html
    with pytest.raises(
        ValueError, match=f"there is no checkpoint 99 here; there are {', '.join(map(str, found.checkpoints))}"
    ):
        found.freed_by(99)
    with pytest.raises(ValueError, match="no file there is called _metadata"):
        shared_state(tmp_path)


@INCREMENTAL
def test_one_checkpoint_alone_frees_all_of_it(tmp_path: Path, version: str) -> None:
    newest = shared_state(_folder(version)).checkpoints[-1]
    shutil.copytree(_folder(version) / f"chk-{newest}", tmp_path / f"chk-{newest}")
    found = shared_state(tmp_path)
    assert len(found.freed_by(newest)) == len(found.files)
    assert read_metadata((tmp_path / f"chk-{newest}" / "_metadata").read_bytes(), "")[0].checkpoint_id == newest


def test_a_run_without_incremental_state_says_so() -> None:
    lab = Lab(ready_job("keyed-sum", interval_ms=20, rows=80, max_retained=2, memory_threshold_bytes=0), seed=1)
    lab.run_until(checkpoint=3)
    lab.run_until(lambda lab: not any("/chk-1/" in path for path in lab.look.files.paths()))
    found = shared_state(lab)
    assert found.checkpoints == [2, 3]
    assert found.gone == (1,)
    assert not found.is_shared
    for number in found.checkpoints:
        mine = {path for path in lab.look.files.paths() if f"/chk-{number}/" in path}
        assert set(found.freed_by(number).file) == {path.rpartition("/")[2] for path in mine}
    assert "None of these is incremental" in found._repr_html_()
    assert "Gone already: checkpoint 1." in found.under


def test_the_runs_of_a_job_of_the_kit_stay_as_long_as_a_checkpoint_has_them() -> None:
    job = ready_job("counters", interval_ms=20, rows=90, incremental=True, max_retained=3)
    lab = Lab(job, seed=1)
    lab.run_until(checkpoint=2)
    found = shared_state(lab)
    frame = found.to_pandas()
    reused = frame[frame["chk-1"] & frame["chk-2"]]
    assert set(reused["directory"]) == {"shared"}
    assert list(reused["file"].str[-18:]) == ["-0-1-managed_keyed", "-1-1-managed_keyed"]
    assert reused["shared"].all()
    assert not set(reused["file"]) & set(found.freed_by(1)["file"])
    assert set(reused["file"]) <= set(found.freed_by(1, 2)["file"])
    disk = StateFiles(lab.look.files.filesystem)
    sizes = {path.rpartition("/")[2]: disk.read(path).size for path in lab.look.files.paths()}
    assert {row.file: row.bytes for row in frame[frame["shared"]].itertuples()}.items() <= sizes.items()


def test_before_the_first_checkpoint_nothing_is_stored() -> None:
    lab = Lab(ready_job("keyed-sum"), seed=1)
    assert "No complete checkpoint is stored" in shared_state(lab)._repr_html_()
