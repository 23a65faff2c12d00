"""The account of a checkpoint's bytes: by state, by file, over several checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kit
from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment
from kit.core.metadata import NEWEST, CheckpointMetadata, write_metadata
from kit.core.state.handles import FileStateHandle, OperatorStateMode, OperatorStreamStateHandle, StateMetaInfo
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.snapshots.checkpoints.storage import MIB, REST, Storage
from tests.cli.test_commands import ran
from tests.flink_data import value_cases, values
from tests.snapshots.written import longs


@pytest.mark.parametrize(("version", "case"), value_cases())
def test_every_byte_has_an_owner_and_every_entry_is_counted(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    states = checkpoint.storage.states
    assert abs(int(states["bytes"].sum()) - checkpoint.size) <= len(states), "each row is rounded"
    assert states["share"].sum() == pytest.approx(1)
    assert not states["state"].str.startswith("(not read").any()
    truth = json.loads((values(version) / case / "truth-values.json").read_text())["operators"]
    keyed = states[states["kind"] == "keyed"].set_index(["operator", "state"])
    for uid, operator in truth.items():
        for name, state in operator.get("states", {}).items():
            if (uid, name) not in keyed.index or state["kind"] in ("MAP", "LIST"):
                continue  # a map has an entry per key in some layouts, and one for the whole map in others
            entries, rows = int(keyed.loc[(uid, name), "entries"]), len(state["rows"])
            assert entries == rows if "rocksdb" not in case or "canonical" in case else entries >= rows, (uid, name)


def job(rows: int) -> StreamEnvironment:
    env = StreamEnvironment("grows", parallelism=2, max_parallelism=16, checkpoint=CheckpointConfig(max_retained=5))
    held = [{"key": n % 300, "value": n} for n in range(rows)]
    keyed = env.from_source(CollectionSource(held, batch_rows=10), uid="rows").key_by("key")
    keyed.aggregate(total=kit.sum_("value")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lab = Lab(job(4_000))
    lab.run_until(record="AllTasksRunning")
    folder = tmp_path_factory.mktemp("checkpoints")
    for number in range(2):
        for _ in range(150):
            lab.step()
        lab.look.files.export(folder / f"savepoint-{number}", lab.savepoint(wait=True))
    return folder


def test_a_checkpoint_of_the_kit_is_accounted_for_as_well(written: Path) -> None:
    storage = kit.open_checkpoint(written / "savepoint-0").storage
    largest = storage.states.iloc[0]
    assert (largest["operator"], largest["kind"]) == ("totals", "keyed")
    assert largest["entries"] > 0
    assert "totals" in storage._repr_html_()


def test_growth_over_several_checkpoints(written: Path) -> None:
    growth = kit.open_checkpoints(written).growth
    assert growth["grown_bytes"].tolist()[0] == 0
    assert growth["grown_bytes"].tolist()[1] == growth["bytes"].tolist()[1] - growth["bytes"].tolist()[0]
    assert (growth["new_files"] == growth["files"]).all(), "savepoints share no file"
    assert (growth["fair_bytes"] - growth["bytes"]).abs().max() <= 1


def test_a_file_of_several_checkpoints_is_split_among_them(tmp_path: Path) -> None:
    folder = next(values(version) / case for version, case in value_cases() if case == "rocksdb-incremental")
    (tmp_path / "shared").mkdir()
    for path in (folder / "shared").iterdir():
        (tmp_path / "shared" / path.name).write_bytes(path.read_bytes())
    for name in ("chk-1", "chk-2"):
        (tmp_path / name).mkdir()
        for path in folder.iterdir():
            if path.is_file():
                (tmp_path / name / path.name).write_bytes(path.read_bytes())
    growth = kit.open_checkpoints(tmp_path).growth
    first, second = growth.to_dict("records")
    shared = sum(path.stat().st_size for path in (tmp_path / "shared").iterdir())
    assert first["new_bytes"] - second["new_bytes"] == shared, "the second writes its private files only"
    assert first["freed_bytes"] == second["new_bytes"], "the other one needs all shared files"
    assert first["fair_bytes"] < first["bytes"]


def test_what_incremental_checkpoints_would_save_is_known_from_the_values(tmp_path: Path) -> None:
    for number, first in enumerate((0, 20, 20)):
        longs(tmp_path / f"chk-{number}", np.arange(first, first + 80))
    second, third = kit.open_checkpoints(tmp_path).incremental.to_dict("records")
    states = kit.open_checkpoint(tmp_path / "chk-1").storage.states.set_index("state")
    assert second["written_bytes"] == states["bytes"].sum()
    assert second["changed_bytes"] == round(states.loc["total", "bytes"] * 20 / 80)
    assert second["saved_bytes"] == second["written_bytes"] - second["changed_bytes"]
    assert (third["changed_bytes"], third["saved_bytes"]) == (0, third["written_bytes"])
    code, out, _ = ran("size", tmp_path, "--incremental", "--json")
    assert (code, [json.loads(line)["saved_bytes"] for line in out.splitlines()]) == (
        0,
        [second["saved_bytes"], third["saved_bytes"]],
    )
    code, _, error = ran("size", tmp_path / "chk-1", "--incremental")
    assert code == 2
    assert "give its parent" in error


def test_many_small_files_are_told_with_the_setting_that_merges_them() -> None:
    folder = next(values(version) / case for version, case in value_cases() if case == "rocksdb-incremental")
    storage = kit.open_checkpoint(folder).storage
    files = storage.files.set_index("where")
    small = int(files.loc[["up to 20 KiB", "up to 1 MiB"], "files"].sum())
    assert small > 1
    assert storage.requests["reads"] == int(files["files"].sum() - files.loc["in _metadata", "files"]) + 1
    merging = storage.savings.iloc[0]
    assert "file-merging" in merging["setting"]
    assert merging["files_after"] < merging["files_before"]


def test_a_file_that_two_subtasks_refer_to_counts_once(tmp_path: Path) -> None:
    folder = longs(tmp_path / "savepoint", np.arange(1_000))
    whole = kit.open_checkpoint(folder)
    (operator,) = whole.metadata.operator_states
    twice = replace(operator, parallelism=2, subtask_states=dict.fromkeys(range(2), operator.subtask_states[0]))
    (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(1, (twice,)), NEWEST))
    states = kit.open_checkpoint(folder).storage.states
    assert states["bytes"].sum() == pytest.approx(whole.size, abs=2)


def test_lists_that_take_turns_in_a_file_have_each_their_own_bytes_and_large_files_several_requests() -> None:
    split, union = OperatorStateMode.SPLIT_DISTRIBUTE, OperatorStateMode.UNION
    states = {}
    for subtask, (at, size) in enumerate(((10, 70 * MIB), (20, 33 * MIB), (30, 100))):
        layout = {
            "one": StateMetaInfo((at, at + 40), split),
            "two": StateMetaInfo((at + 15, at + 60), union),
            "three": StateMetaInfo((at + 35,), split),
        }
        handle = OperatorStreamStateHandle(layout, FileStateHandle(f"/there/{subtask}", size))
        states[subtask] = OperatorSubtaskState(managed_operator_state=(handle,))
    metadata = CheckpointMetadata(1, (OperatorState("ab" * 16, 3, 8, states),))
    storage = Storage(SimpleNamespace(metadata=metadata, measure=lambda operator: {}))
    found = storage.states.set_index("state")
    assert found["entries"].dropna().to_dict() == {"one": 6, "two": 6, "three": 3}
    ends = 70 * MIB + 33 * MIB + 100 - sum(at + 60 for at in (10, 20, 30))
    assert found.loc[["one", "two", "three"], "bytes"].tolist() == [3 * (15 + 20), 3 * 20 + ends, 3 * 5]
    assert found.loc[REST, "bytes"] == 10 + 20 + 30
    assert storage.requests == {"writes": 3 + 2 + 1 + 1, "reads": 4, "deletes": 4}
