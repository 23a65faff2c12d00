"""Damaged, truncated or malicious checkpoints: one clear error each, and no memory is allocated for a false size."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit
from kit import CheckpointError
from kit.core.state.errors import SavepointNotFoundError
from tests.flink_data import value_cases, values
from tests.snapshots.flink_types import cases, savepoints
from tests.snapshots.written import BASE, LONG, header, longs, savepoint, snapshot, utf

REAL = pytest.mark.parametrize(("version", "case"), [value_cases()[0], value_cases()[-1]])


def looked_at(folder: Path, *, with_tables: bool = True) -> None:
    """Open a checkpoint and read everything in it; only errors of the kit may result."""
    checkpoint = kit.open_checkpoint(folder)
    if with_tables:
        for frame in (checkpoint.operators, checkpoint.subtasks, checkpoint.handles, checkpoint.files):
            assert len(frame) >= 0
    for row in checkpoint.states.itertuples():
        if row.error:
            raise CheckpointError(row.error)
        if row.name:
            checkpoint.state(row.operator, row.name)
    assert "Checkpoint(" in repr(checkpoint)


def outcomes(folder: Path, name: str, changed: Iterator[bytes]) -> tuple[int, set[str]]:
    """Return how often the changed file could be read, and the errors otherwise."""
    read, errors = 0, set()
    for data in changed:
        (folder / name).write_bytes(data)
        try:
            looked_at(folder, with_tables=name == "_metadata")
            read += 1
        except (CheckpointError, KeyError) as error:
            errors.add(str(error))
    return read, errors


@pytest.mark.parametrize("name", ["_metadata", "keyed"])
def test_any_byte_may_be_another(tmp_path: Path, name: str) -> None:
    folder = longs(tmp_path / "small", np.arange(5), 8)
    whole = (folder / name).read_bytes()
    flipped = (whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(len(whole)))
    read, errors = outcomes(folder, name, flipped)
    assert read > 0
    assert len(errors) > 10
    assert all("expected" in error or "there is no" in error or len(error) > 40 for error in errors)


@pytest.mark.parametrize("name", ["_metadata", "keyed"])
def test_it_may_end_anywhere(tmp_path: Path, name: str) -> None:
    folder = longs(tmp_path / "small", np.arange(5), 8)
    whole = (folder / name).read_bytes()
    read, errors = outcomes(folder, name, (whole[:at] for at in range(len(whole))))
    assert read == 0
    assert errors


@REAL
def test_real_files_may_have_any_bytes_changed(version: str, case: str, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(values(version) / case, folder)
    chance = Random(7)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".json"))
    for path in chance.sample(files, min(3, len(files))):
        whole = path.read_bytes()
        for _ in range(3):
            data = bytearray(whole)
            for at in chance.sample(range(len(data)), min(3, len(data))):
                data[at] = chance.randrange(256)
            path.write_bytes(bytes(data))
            try:
                looked_at(folder)
            except (CheckpointError, KeyError):
                continue
        path.write_bytes(whole)
    looked_at(folder)


@pytest.mark.parametrize("size", [1 << 33, (1 << 63) - 1])
def test_a_length_beyond_the_file_takes_no_memory(tmp_path: Path, size: int) -> None:
    head = header(snapshot(BASE + LONG))
    folder = savepoint(tmp_path, head + bytes(100), (len(head),), size=size)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="cut off"):
        kit.open_checkpoint(folder).state("sums", "total")
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def test_a_number_of_elements_beyond_the_file_is_refused(tmp_path: Path) -> None:
    pair = struct.pack(">HiBqBi", 0, 10, 0x80, 1, 0, 4) + struct.pack(">i", 1 << 30) + b"\xff\xff"
    listed = struct.pack(">iiiii", 911108, 1, 1333245, 1, 1) + snapshot(BASE + LONG)
    head = header(snapshot(BASE + "ListSerializerSnapshot", listed))
    folder = savepoint(tmp_path, head + pair, (len(head),))
    with pytest.raises(CheckpointError, match=r"the end of the data|elements"):
        kit.open_checkpoint(folder).state("sums", "total")


def test_serializers_may_not_be_nested_without_end(tmp_path: Path) -> None:
    inner = snapshot(BASE + LONG)
    for _ in range(2000):
        inner = snapshot(BASE + "ListSerializerSnapshot", struct.pack(">iiiii", 911108, 1, 1333245, 1, 1) + inner)
    head = header(inner)
    folder = savepoint(tmp_path, head + b"\xff\xff", (len(head),))
    with pytest.raises(CheckpointError, match="levels"):
        kit.open_checkpoint(folder).state("sums", "total")


def test_a_class_that_is_not_known_is_named_not_loaded(tmp_path: Path) -> None:
    head = header(utf("os.system$Snapshot") + struct.pack(">i", 1))
    pair = struct.pack(">HiBqBi", 0, 10, 0x80, 1, 0, 3) + b"abc\xff\xff"
    folder = savepoint(tmp_path, head + pair, (len(head),))
    table = kit.open_checkpoint(folder).state("sums", "total")
    assert table["value"].to_pylist() == [b"abc"]
    assert kit.open_checkpoint(folder).states["value"][0] == "bytes of os.system$Snapshot"


def test_files_outside_the_checkpoint_are_not_opened(tmp_path: Path) -> None:
    folder = longs(tmp_path / "job" / "chk-1", np.arange(5), 8)
    elsewhere = tmp_path / "elsewhere"
    (folder / "keyed").rename(elsewhere)
    (folder / "keyed").symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match=r"outside its directory.*follow=True"):
        kit.open_checkpoint(folder).state("sums", "total")
    assert kit.open_checkpoint(folder, follow=True).state("sums", "total").num_rows == 5


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = longs(tmp_path / "chk-1", np.arange(5), 8)
    os.remove(folder / "keyed")
    with pytest.raises(CheckpointError, match=r"sums, subtask 0.*keyed.*missing"):
        kit.open_checkpoint(folder).state("sums", "total")
    found = kit.open_checkpoints(tmp_path)
    assert found.to_pandas()[["complete", "restorable"]].to_numpy().tolist() == [[True, False]]


def test_garbage_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(Random(1).randbytes(1000))
    with pytest.raises(CheckpointError, match="_metadata"):
        kit.open_checkpoint(tmp_path)
    with pytest.raises(SavepointNotFoundError):
        kit.open_checkpoint(tmp_path / "nothing")


WITHOUT_RIGHTS = """
import os, sys
import kit

def looked_at():
    try:
        return str(kit.open_checkpoint(sys.argv[1]).state("sums", "total").num_rows)
    except (kit.CheckpointError, OSError) as error:
        return f"{type(error).__name__}: {error}"

looked_at()  # imports all that it needs
if os.getuid() == 0:
    os.setuid(65534)
print(looked_at())
"""


@pytest.mark.parametrize("name", ["keyed", "_metadata", "."])
def test_a_file_without_permission_is_named(name: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="rights-"))
    try:
        longs(folder, np.arange(5), 8)
        folder.chmod(0o755)
        (folder / name).chmod(0)
        command = [sys.executable, "-c", WITHOUT_RIGHTS, str(folder)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert "Error: " in ran.stdout
        assert str(folder) in ran.stdout
        assert "ermission" in ran.stdout or "this user may use it" in ran.stdout
        assert ran.stdout.count("\n") == 1
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.soak
@given(st.data())
@settings(deadline=None, max_examples=500)
def test_any_change_of_any_file_is_one_error_of_the_kit(data: st.DataObject) -> None:
    """Change bytes, cut, insert and repeat parts of the files of a real checkpoint."""
    case = data.draw(st.sampled_from([*value_cases(), *(("types", each) for each in cases())]), "case")
    original = values(case[0]) / case[1] if case[0] != "types" else savepoints() / case[1]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        folder = Path(place) / "copy"
        shutil.copytree(original, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".json")
        path = data.draw(st.sampled_from(files), "file")
        held = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4), "changes")):
            at = data.draw(st.integers(0, max(0, len(held) - 1)), "place")
            size = data.draw(st.integers(0, 16), "length")
            if data.draw(st.booleans(), "cut"):
                del held[at : at + size]
            else:
                held[at : at + size] = data.draw(st.binary(max_size=16), "bytes")
        path.write_bytes(bytes(held))
        said = str(folder)
        with contextlib.suppress(KeyError):  # a name may be another one now
            try:
                looked_at(folder)
            except CheckpointError as error:
                said = str(error)
        assert str(folder) in said
