"""An opened checkpoint: its tables compared with Flink's own reader, its errors, and directories of several."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import kit
from kit.core.state.errors import SavepointNotFoundError
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from tests.cli.test_commands import ran
from tests.flink_data import checkpoint_cases, checkpoints, value_cases, values, values_truth
from tests.snapshots.written import longs

CASES = pytest.mark.parametrize(("version", "case"), value_cases())
INCREMENTAL = pytest.mark.parametrize(
    "version", [version for version, case in checkpoint_cases() if case == "rocksdb-incremental"]
)


@CASES
def test_its_tables_are_what_is_in_it(version: str, case: str) -> None:
    checkpoint, truth = kit.open_checkpoint(values(version) / case), values_truth(version, case)
    operators = checkpoint.operators.set_index("operator_id")
    assert operators["bytes"].sum() == checkpoint.size == checkpoint.subtasks["bytes"].sum()
    states = checkpoint.states
    assert (states["error"] == "").all()
    for operator in truth["operators"].values():
        row = operators.loc[operator["operatorId"]]
        assert (row.parallelism, row.max_parallelism) == (operator["parallelism"], operator["maxParallelism"])
        own = states[states.operator == row.operator].set_index("name")
        for name, state in operator.get("states", {}).items():
            assert own.loc[name, "kind"] == state["kind"]
        for name, state in operator.get("operatorStates", {}).items():
            assert own.loc[name, "kind"] == state["mode"]
    assert (checkpoint.files.problem == "").all()
    assert checkpoint.properties["checkpoint_id"] == checkpoint.checkpoint_id
    groups = checkpoint.key_groups
    assert (groups["bytes"] > 0).all()
    html = checkpoint._repr_html_()
    assert checkpoint.title in html
    assert "window-contents" in html


@pytest.mark.parametrize(("version", "case"), [each for each in value_cases() if each[1] == "savepoint-canonical"])
def test_uids_name_operators_of_which_only_the_ids_are_stored(version: str, case: str, tmp_path: Path) -> None:
    folder, uids = values(version) / case, list(values_truth(version, case)["operators"])
    plain, named = kit.open_checkpoint(folder), kit.open_checkpoint(folder, uids=[*uids, "nobody"])
    assert set(uids) <= set(named.operators["operator"])
    assert set(named.states["operator"]) <= set(uids)
    assert named.operators.drop(columns=["operator", "uid"]).equals(plain.operators.drop(columns=["operator", "uid"]))
    with pytest.raises(KeyError, match="operator 'scalars' has no state 'nothing'"):
        named.state("scalars", "nothing")
    assert {each.operator for each in named.check({"scalars": 2}).findings} >= set(uids) - {"scalars"}
    again = named.open_other(named.edit().drop("scalars", "long").write(tmp_path / "new").directory)
    (change,) = named.diff(again).states.query("removed > 0").to_dict("records")
    assert (change["operator"], change["name"]) == ("scalars", "long")
    renamed, same = (each.edit().rename("scalars", "sums").rehearse().operator_states for each in (plain, named))
    assert [each.operator_id for each in renamed] == [each.operator_id for each in same]
    with pytest.raises(TypeError, match="must be a list of the uids"):
        kit.open_checkpoint(folder, uids="scalars")
    code, out, _ = ran("show", folder, "--uids", ", ".join(uids), "--table", "operators", "--json")
    assert code == 0
    assert set(uids) <= {json.loads(line)["operator"] for line in out.splitlines()}


@pytest.mark.parametrize(("version", "case"), checkpoint_cases())
def test_every_real_checkpoint_opens(version: str, case: str) -> None:
    for metadata in (checkpoints(version) / case).rglob("_metadata"):
        checkpoint = kit.open_checkpoint(metadata.parent)
        assert checkpoint.operators["bytes"].sum() == checkpoint.size
        assert len(checkpoint.channel_state) >= 0
        assert len(checkpoint.master_state) >= 0
        assert repr(checkpoint).startswith("Checkpoint(")
        for row in checkpoint.states.itertuples():
            assert row.error == "" or "changelog" in row.error
            if row.name:
                assert checkpoint.state(row.operator, row.name).num_rows >= 0


@pytest.mark.parametrize("version", [version for version, case in checkpoint_cases() if case == "coordinator-master"])
def test_splits_of_a_real_source_have_names(version: str) -> None:
    checkpoint = kit.open_checkpoint(checkpoints(version) / "coordinator-master")
    lists = checkpoint.operator_state
    own = lists[lists["name"] == "SourceReaderState"]
    has_coordinators = bool((checkpoint.master_state["kind"] == "coordinator").any())
    assert bool(len(own)) == has_coordinators, "older sources have neither"
    for operator in set(own["operator"]):
        table = checkpoint.state(operator, "SourceReaderState")
        assert table.column_names == ["subtask", "entry", "split", "next", "last"]
        assert all(row["next"] <= row["last"] for row in table.to_pylist())
        assert table.num_rows == own["entries"].sum()


def test_what_is_not_there_is_answered_with_what_is(tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(longs(tmp_path, np.arange(5), 8))
    with pytest.raises(KeyError, match="there is no operator 'sum'; there are sums"):
        checkpoint.state("sum", "total")
    with pytest.raises(KeyError, match="has no state 'totals'; it has total"):
        checkpoint.state("sums", "totals")
    with pytest.raises(KeyError, match="has no state 'totals'"):
        list(checkpoint.stream("sums", "totals"))
    with pytest.raises(SavepointNotFoundError, match="no directory"):
        kit.open_checkpoints(tmp_path / "none")


@CASES
def test_operator_state_is_not_streamed_by_key_group(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    operator = values_truth(version, case)["operators"]["operator-state"]["operatorId"]
    with pytest.raises(KeyError, match="has no key groups"):
        list(checkpoint.stream(operator, "union-list"))


def test_an_operator_goes_by_uid_name_or_id(tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(longs(tmp_path, np.arange(5), 8))
    (hexadecimal,) = checkpoint.operators["operator_id"]
    for name in ("sums", hexadecimal):
        assert sorted(checkpoint.state(name, "total")["key"].to_pylist()) == list(range(5))


def test_many_values_are_read_at_once_as_one_by_one(tmp_path: Path) -> None:
    keys = np.unique(np.random.default_rng(1).integers(-(1 << 62), 1 << 62, 20_000))
    table = kit.open_checkpoint(longs(tmp_path, keys)).state("sums", "total")
    assert sorted(table["key"].to_pylist()) == keys.tolist()
    assert table["value"].to_pylist() == [-each for each in table["key"].to_pylist()]


@INCREMENTAL
def test_a_directory_says_what_is_complete_and_what_nobody_needs(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    shutil.copytree(checkpoints(version) / "rocksdb-incremental", folder)
    for truth in folder.glob("truth*.json"):
        truth.unlink()
    (folder / "shared" / "left-over").write_bytes(bytes(123))
    (folder / "chk-99").mkdir()
    (folder / "chk-99" / "part").write_bytes(bytes(7))
    found = kit.open_checkpoints(folder)
    frame = found.to_pandas().set_index("directory")
    assert frame.loc["chk-99", ["complete", "restorable"]].tolist() == [False, False]
    assert frame.drop("chk-99")["restorable"].all()
    assert [each.checkpoint_id for each in found] == sorted(each.checkpoint_id for each in found)
    orphans = found.orphans.set_index("file")["bytes"].to_dict()
    assert orphans["shared/left-over"] == 123
    assert orphans["chk-99/part"] == 7
    shared = found.shared_files
    assert max(map(len, shared["checkpoints"])) > 1
    newest = max(each.checkpoint_id for each in found)
    assert found[newest].checkpoint_id == newest
    assert "shared/left-over" in found._repr_html_()


def test_what_the_kit_wrote_opens_as_well() -> None:
    lab = Lab(ready_job("keyed-sum", interval_ms=20, rows=60, memory_threshold_bytes=0, unaligned=True), seed=1)
    lab.run_until(checkpoint=2)
    files = lab.look.files
    (path,) = {each for each in files.paths() if each.endswith("/chk-2/_metadata")}
    checkpoint = kit.open_checkpoint(path, file_system=files.filesystem)
    states = checkpoint.states
    assert (states["error"] == "").all()
    row = states[states.name == "totals"].iloc[0]
    table = checkpoint.state(row.operator, "totals")
    shown = lab.state()["totals"]
    assert set(table["key"].to_pylist()) <= set(shown["key"])
    assert sum(part.num_rows for part in checkpoint.stream(row.operator, "totals")) == table.num_rows
