"""Copies of state: a copy is worth no failure, and one that is not whole is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.protocol.commands import LocalCopies
from kit.core.state.errors import StorageError
from kit.core.state.handles import KeyGroupRange, KeyGroupsStateHandle, RelativeFileStateHandle
from kit.core.state.operator_state import OperatorSubtaskState
from kit.files.local_state import LocalState
from kit.stream.backend.runs.manifest import RunEntry, encode_manifest

JOB = "0" * 32
NAME = "ab-0-7-keyed"


def keyed(name: str, size: int, groups: KeyGroupRange) -> KeyGroupsStateHandle:
    return KeyGroupsStateHandle(groups, (0,) * len(groups), RelativeFileStateHandle(name, size, f"/far/{name}"))


def local_state(tmp_path: Path) -> LocalState:
    local = LocalState(str(tmp_path / "local"), JOB)
    local.store(0, 7, NAME, b"seven")
    return local


def alternatives(local: LocalState, checkpoint_id: int) -> list[list[bytes | None]]:
    """Return the alternatives for two handles of which only the first has a copy: the bytes of the copies in each."""
    handles = (keyed(NAME, 5, KeyGroupRange(0, 1)), keyed("ab-1-7-keyed", 5, KeyGroupRange(2, 3)))
    choice = local.alternatives(OperatorSubtaskState(managed_keyed_state=handles), checkpoint_id)
    read = [[local.read(handle.delegate) for handle in handles] for handles in choice.managed_keyed_state]
    return [[None if data is None else data.to_pybytes() for data in each] for each in read]


def test_copies_come_first_and_the_truth_last(tmp_path: Path) -> None:
    local = local_state(tmp_path)
    for other in (5, 9):
        local.store(0, other, f"ab-0-{other}-keyed", b"other")
    assert alternatives(local, 7) == [[b"seven", None], [None, None]]
    assert alternatives(local, 8) == [[None, None]]


@pytest.mark.parametrize("damage", [b"seveN", b"sev", b"seventh", b""])
def test_a_copy_that_is_not_whole_is_refused(tmp_path: Path, damage: bytes) -> None:
    local = local_state(tmp_path)
    (path,) = tmp_path.rglob(f"{NAME}.*")
    path.write_bytes(damage)
    with pytest.raises(StorageError, match="is not the copy that was written"):
        alternatives(local, 7)


@pytest.mark.parametrize(
    ("copies", "left"), [(LocalCopies.OLDER, {7, 9}), (LocalCopies.SAME, {3, 9}), (LocalCopies.OTHER, {7})]
)
def test_a_slot_prunes_its_own_copies_only(tmp_path: Path, copies: LocalCopies, left: set[int]) -> None:
    local = LocalState(str(tmp_path / "local"), JOB)
    for checkpoint_id in (3, 7, 9):
        for subtask in (0, 10):
            local.store(subtask, checkpoint_id, "file", b"")
    local.prune(0, 7, copies)
    found = {(path.parent.parent.name, int(path.parent.name[4:])) for path in tmp_path.rglob("file.*")}
    assert found == {("slot-0", each) for each in left} | {("slot-10", each) for each in (3, 7, 9)}


def test_the_last_slot_to_go_takes_the_directory_with_it(tmp_path: Path) -> None:
    local = local_state(tmp_path)
    local.store(1, 7, "file", b"")
    local.drop(0)
    assert [path.name for path in (tmp_path / "local").iterdir()] == ["slot-1"]
    local.drop(1)
    assert list(tmp_path.iterdir()) == []
    local.drop(1)
    local.drop()


def test_a_disk_that_takes_nothing_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "local").write_text("a file where the directory should be")
    local = local_state(tmp_path)
    for other in (5, 9):
        local.store(0, other, f"ab-0-{other}-keyed", b"other")
    assert alternatives(local, 7) == [[None, None]]
    local.prune(0, 7, LocalCopies.SAME)
    local.drop(0)
    local.drop()


# --- runs of incremental state ----------------------------------------------------------------------------------------


def with_runs(tmp_path: Path) -> LocalState:
    """Return the copies of four checkpoints: the third one has merged two runs, the fourth builds on it."""
    local = LocalState(str(tmp_path / "local"), JOB)
    for checkpoint_id, runs in {1: [1], 2: [1, 2], 3: [1, 3], 4: [1, 3, 4]}.items():
        local.store(0, checkpoint_id, f"run-{checkpoint_id}", b"run %d" % checkpoint_id)
        manifest = encode_manifest(RunEntry(f"run-{run}", 1) for run in runs)
        local.store_list(0, checkpoint_id, f"run-{checkpoint_id}", manifest)
        local.store(0, checkpoint_id, f"operator-{checkpoint_id}", b"")
    return local


def copies_in(tmp_path: Path) -> list[str]:
    return sorted(f"{path.parent.name} {path.name.rpartition('.')[0]}" for path in tmp_path.rglob("*.*"))


def all_of(checkpoint_id: int) -> list[str]:
    return [f"chk-{checkpoint_id} {name}-{checkpoint_id}" for name in ("operator", "run")] + [
        f"chk-{checkpoint_id} run-{checkpoint_id}.runs"
    ]


@pytest.mark.parametrize(
    ("checkpoint_id", "copies", "left"),
    [
        (3, LocalCopies.OLDER, ["chk-1 run-1", *all_of(3), *all_of(4)]),
        (4, LocalCopies.OLDER, ["chk-1 run-1", "chk-3 run-3", *all_of(4)]),
        (4, LocalCopies.SAME, [*all_of(1), *all_of(2), *all_of(3)]),
        (3, LocalCopies.SAME, [*all_of(1), *all_of(2), "chk-3 run-3", *all_of(4)]),
        (2, LocalCopies.OTHER, ["chk-1 run-1", *all_of(2)]),
    ],
)
def test_a_run_is_kept_as_long_as_a_remaining_checkpoint_needs_it(
    tmp_path: Path, checkpoint_id: int, copies: LocalCopies, left: list[str]
) -> None:
    local = with_runs(tmp_path)
    for _ in range(2):
        local.prune(0, checkpoint_id, copies)
        assert copies_in(tmp_path) == left
    local.prune(0, 9, LocalCopies.OLDER)
    assert copies_in(tmp_path) == []


def test_a_damaged_list_of_runs_costs_copies_and_nothing_else(tmp_path: Path) -> None:
    local = with_runs(tmp_path)
    (path,) = tmp_path.rglob("run-4.runs.*")
    path.write_bytes(b"{")
    local.prune(0, 4, LocalCopies.OLDER)
    assert copies_in(tmp_path) == all_of(4)


def test_a_run_is_read_from_the_copy_of_any_checkpoint_and_slot_if_it_is_whole(tmp_path: Path) -> None:
    local = with_runs(tmp_path)
    local.store(1, 4, "other", b"other slot")
    read = local.run_reader()

    def run(name: str, size: int) -> bytes | None:
        found = read(RelativeFileStateHandle(name, size, f"/far/shared/{name}"))
        return None if found is None else found.to_pybytes()

    assert [run("run-1", 5), run("run-3", 5), run("other", 10)] == [b"run 1", b"run 3", b"other slot"]
    assert [run("run-1", 4), run("run-5", 5)] == [None, None]
    (path,) = tmp_path.rglob("chk-3/run-3.????????")
    path.write_bytes(b"run 4")
    assert run("run-3", 5) is None
