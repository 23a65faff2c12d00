"""Errors of damaged bytes: each names the file and the byte, and says what to do, in every layout."""

from __future__ import annotations

import pickle
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import kit
from kit import CheckpointError
from kit.core.state.handles import ByteStreamStateHandle
from kit.snapshots.leaf_streams import leaf_streams
from tests.flink_data import value_cases, values
from tests.snapshots.written import BASE, LONG, header, longs, savepoint, snapshot

CASES = sorted({case: (version, case) for version, case in value_cases()}.values())
"""One checkpoint of each kind: heap, canonical, RocksDB, timers in raw state, plain and compressed."""
PLACE = re.compile(r"'(?P<file>/[^']+)'(?:, byte| ends at byte) (?P<byte>\d+)[:,] ")
ADVICE = "fetch it again or open another checkpoint"


def errors(folder: Path) -> Iterator[str]:
    """Yield the error of every state that cannot be read."""
    checkpoint = kit.open_checkpoint(folder)
    for row in checkpoint.states.itertuples():
        if row.error:
            yield row.error
            continue
        try:
            checkpoint.state(row.operator, row.name)
        except CheckpointError as error:
            yield str(error)


def headless(data: bytes) -> bytes:
    """Change the first bytes."""
    return bytes(8) + data[8:]


def half(data: bytes) -> bytes:
    """Cut off the second half, and fill it with bytes that no layout has."""
    middle = len(data) // 2
    return data[:middle] + b"\xfe" * (len(data) - middle)


def cut(data: bytes) -> bytes:
    """Cut off the second half."""
    return data[: len(data) // 2]


def damaged(case: tuple[str, str], folder: Path, change: Callable[[bytes], bytes]) -> Path:
    """Copy a checkpoint, and change all state in it, in files and in its metadata."""
    shutil.copytree(values(case[0]) / case[1], folder)
    path = folder / "_metadata"
    data = path.read_bytes()
    for operator in kit.open_checkpoint(folder).metadata.operator_states:
        for handle in operator.handles():
            for leaf in leaf_streams(handle):
                if isinstance(leaf, ByteStreamStateHandle) and change is not cut:
                    data = data.replace(leaf.data, change(leaf.data))
    path.write_bytes(data)
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".json" and file != path:
            file.write_bytes(change(file.read_bytes()))
    return folder


@pytest.mark.parametrize("change", [headless, half, cut])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_an_error_names_the_file_and_the_byte_in_it(
    case: tuple[str, str], change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    folder = damaged(case, tmp_path / "copy", change)
    found = list(errors(folder))
    assert found or change is cut
    for error in found:
        place = PLACE.search(error)
        assert place is not None, error
        assert int(place["byte"]) < Path(place["file"]).stat().st_size or change is cut, error
        assert folder in Path(place["file"]).parents, error
        assert ADVICE in error, error


def test_the_byte_is_that_of_the_file(tmp_path: Path) -> None:
    folder = longs(tmp_path / "small", np.arange(5), 8)
    data = (folder / "keyed").read_bytes()
    at = data.index(b"\0\0" + struct.pack(">i", 10), 200)
    (folder / "keyed").write_bytes(data[:at] + b"\0\7" + data[at + 2 :])
    (error,) = errors(folder)
    assert f"'{folder}/keyed', byte {at + 2}: found state 7, expected one of the 1 of the file" in error


def test_a_value_has_the_place_that_it_has_in_the_file(tmp_path: Path) -> None:
    listed = struct.pack(">iiiii", 911108, 1, 1333245, 1, 1) + snapshot(BASE + LONG)
    head = header(snapshot(BASE + "ListSerializerSnapshot", listed))
    pair = struct.pack(">HiBqBi", 0, 10, 0x80, 1, 0, 4) + struct.pack(">i", 1 << 30) + b"\xff\xff"
    (error,) = errors(savepoint(tmp_path / "one", head + pair, (len(head),)))
    assert f"keyed', byte {len(head) + len(pair) - 2}: found the end of the data" in error


def test_an_error_of_another_process_is_the_same(tmp_path: Path) -> None:
    folder = damaged(CASES[0], tmp_path / "copy", headless)
    checkpoint = kit.open_checkpoint(folder)
    uid = checkpoint.states["operator"][0]
    with pytest.raises(CheckpointError) as raised:
        checkpoint.state(uid, "any")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
