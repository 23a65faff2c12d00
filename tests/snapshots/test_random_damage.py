"""Random changes to what Flink wrote: each is read as something else, or is one `CheckpointError`."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit
from kit import CheckpointError
from tests.flink_data import checkpoint_cases, checkpoints, value_cases, values
from tests.snapshots.written import BASE, LONG, header, longs, savepoint, snapshot, utf

MOST_BYTES = 150_000
TABLES = ("operators", "subtasks", "handles", "key_groups", "operator_state", "channel_state", "files", "properties")


def cases() -> list[Path]:
    """Return the folders of small checkpoints, of every version and kind."""
    folders = [values(version) / case for version, case in value_cases()]
    folders += [checkpoints(version) / case for version, case in checkpoint_cases()]
    sizes = {each: sum(file.stat().st_size for file in each.rglob("*") if file.suffix != ".json") for each in folders}
    return [each for each, size in sizes.items() if size < MOST_BYTES and list(each.rglob("_metadata"))]


def changed(data: bytes, random: Random) -> bytes:
    """Change some bytes: single ones, small and large numbers, a NUL in a path."""
    new = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(new))
        kind = random.randrange(5)
        if kind == 0:
            new[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            new[at] = random.choice((0, 1, 127, 128, 255))
        elif kind == 2:
            new[at : at + 4] = random.randrange(7).to_bytes(4, "big")[: len(new) - at]
        elif kind == 3:
            new[at : at + 8] = struct.pack(">q", random.choice((1 << 62, (1 << 63) - 1, -1, -(1 << 63))))[
                : len(new) - at
            ]
        elif (slash := new.find(b"/", at)) >= 0:
            new[slash] = 0
    return bytes(new)


def readers(folder: Path) -> Iterator[Callable[[], Any]]:
    """Yield everything that reads a checkpoint. Raises CheckpointError if it cannot be opened."""
    yield lambda: kit.open_checkpoints(folder).to_pandas()
    yield lambda: kit.open_checkpoints(folder).orphans
    checkpoint = kit.open_checkpoint(folder)
    for table in TABLES:
        yield lambda name=table: getattr(checkpoint, name)
    yield lambda: checkpoint.storage.states
    yield lambda: checkpoint.check(checkpoint, 3).to_pandas()
    for operator in checkpoint.metadata.operator_states:
        yield lambda each=operator: checkpoint.in_flight(each.operator_id)
        yield lambda each=operator: checkpoint.raw_state(each.operator_id)
    for row in checkpoint.states.itertuples():
        if not row.error:
            yield lambda each=row: checkpoint.state(each.operator, each.name)


def error_of(read: Callable[[], Any]) -> str:
    """Return the error of a reader, "" without any."""
    try:
        read()
    except CheckpointError as error:
        return str(error)
    return ""


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_damage_is_one_error(random: Random) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        shutil.copytree(random.choice(cases()), folder)
        metadata = min(folder.rglob("_metadata"))
        files = sorted(each for each in folder.rglob("*") if each.is_file() and each.suffix != ".json")
        file = random.choice([*files, metadata, metadata])
        if file.stat().st_size:
            file.write_bytes(changed(file.read_bytes(), random))
        found = readers(metadata.parent)
        while True:
            try:
                read = next(found)
            except (StopIteration, CheckpointError):
                return
            error = error_of(read)
            assert "damaged" not in error or str(folder) in error, error


def test_a_nul_in_a_path_is_one_error(tmp_path: Path) -> None:
    folder = longs(tmp_path / "chk-1", np.arange(5), 8)
    path = (folder / "_metadata").read_bytes()
    (folder / "_metadata").write_bytes(path.replace(b"keyed", b"ke\0ed"))
    checkpoint = kit.open_checkpoint(folder)
    with pytest.raises(
        CheckpointError, match=r"_metadata refers to the file .*ke\\x00ed.*, which cannot be looked for"
    ):
        checkpoint.state("sums", "total")
    assert "cannot be looked for" in checkpoint.files["problem"][0]
    assert not kit.open_checkpoints(tmp_path).to_pandas()["restorable"][0]


def test_a_state_that_became_a_timer_is_one_error(tmp_path: Path) -> None:
    folder = longs(tmp_path / "chk-1", np.arange(5), 8)
    data = (folder / "keyed").read_bytes()
    at = data.index(utf("total")) + len(utf("total"))
    (folder / "keyed").write_bytes(data[:at] + struct.pack(">i", 3) + data[at + 4 :])
    checkpoint = kit.open_checkpoint(folder)
    with pytest.raises(CheckpointError, match=r"keyed', byte \d+: found timers 'total' with serializer Long"):
        checkpoint.state("sums", "total")


def test_a_directory_instead_of_the_metadata_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "chk-1" / "_metadata").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="_metadata"):
        kit.open_checkpoint(tmp_path / "chk-1")


def test_bytes_that_make_no_value_have_a_place(tmp_path: Path) -> None:
    head = header(snapshot(BASE + LONG))
    pair = struct.pack(">HiBqBiq", 0, 10, 0x80, 1, 0, 8, 5) + b"\xff\xff"
    folder = savepoint(tmp_path / "one", head + pair, (len(head),))
    stream = kit.open_checkpoint(folder)._source.stream(
        kit.open_checkpoint(folder).metadata.operator_states[0].subtask_states[0].managed_keyed_state[0]
    )
    for error in (OverflowError("too large"), ValueError("too many values")):
        with (
            pytest.raises(CheckpointError, match=rf"keyed', byte 7: found bytes that make no value \({error}\)"),
            stream.damage_from(7),
        ):
            raise error
