"""Bytes with a checksum that were changed: an error, and never another value."""

from __future__ import annotations

import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kit
from kit import CheckpointError
from kit.core.state.errors import DamagedError
from kit.core.state.handles import NO_OFFSET_SET
from kit.snapshots.formats.checksums import BLOCK_SUMS, masked_crc32c
from kit.snapshots.formats.compression import decompressed
from kit.snapshots.formats.sst import FOOTER_BYTES, MAGIC
from tests.flink_data import value_cases, values

CASES = [each for each in value_cases() if "rocksdb-" in each[1] or "compressed" in each[1]]


def states(folder: Path) -> list[tuple[str, str, Any]]:
    """The values of every state, as text: a NaN equals itself."""
    checkpoint = kit.open_checkpoint(folder)
    found = []
    for row in checkpoint.states.itertuples():
        if row.error:
            raise CheckpointError(row.error)
        found.append((row.operator, row.name, repr(checkpoint.state(row.operator, row.name).to_pylist())))
    return found


@cache
def whole(version: str, case: str) -> list[tuple[str, str, Any]] | None:
    """The values of a case; None if it has states that only Java code reads."""
    try:
        return states(values(version) / case)
    except CheckpointError:
        return None


def summed(folder: Path) -> list[tuple[Path, int, int]]:
    """The ranges of bytes with a checksum: RocksDB's files without footer, compressed key groups behind the header.

    The compressed state of these cases is small, and stands in `_metadata`.
    """
    files = [each for each in folder.rglob("*") if each.is_file()]
    tables = [each for each in files if each.read_bytes()[-8:] == MAGIC.to_bytes(8, "little")]
    found = [(each, 0, each.stat().st_size - FOOTER_BYTES) for each in tables]
    if "compressed" not in folder.name:
        return found
    metadata = folder / "_metadata"
    for operator in kit.open_checkpoint(folder).metadata.operator_states:
        for subtask in operator.subtask_states.values():
            for handle in subtask.managed_keyed_state:
                at = metadata.read_bytes().index(handle.delegate.data)
                behind_header = [each for each in handle.offsets if each not in (NO_OFFSET_SET, 0)]  # 0: no rows
                if behind_header:
                    found.append((metadata, at + min(behind_header), at + len(handle.delegate.data)))
    return found


@pytest.mark.parametrize(("version", "case"), CASES)
@settings(max_examples=12, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_a_changed_bit_is_an_error_or_changes_nothing(version: str, case: str, random: Random) -> None:
    folder = values(version) / case
    before = whole(version, case)
    ranges = summed(folder)
    if before is None or not ranges:
        return
    chosen, begin, end = random.choice(ranges)
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        shutil.copytree(folder, copy)
        file = copy / chosen.relative_to(folder)
        data = bytearray(file.read_bytes())
        data[random.randrange(begin, end)] ^= 1 << random.randrange(8)
        file.write_bytes(data)
        with suppress(CheckpointError):
            assert states(copy) == before


def test_there_are_cases_of_both_kinds() -> None:
    kinds = {("rocksdb" in case, bool(summed(values(version) / case))) for version, case in CASES}
    assert kinds >= {(True, True), (False, True)}


def test_the_sums_are_those_of_the_formats() -> None:
    """The published check values; the last kind is that of the fixtures' files."""
    crc = 0xE3069283
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert BLOCK_SUMS[1] is masked_crc32c
    assert (BLOCK_SUMS[2](b""), BLOCK_SUMS[3](b"")) == (0x02CC5D05, 0x51D8E999)
    assert len({each(b"a block of RocksDB\x01") for each in BLOCK_SUMS.values()}) == len(BLOCK_SUMS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\6\0\0sNaPpX", "start of a stream with b'sNaPpX'"),
        (b"\x80\1\0\0a", "a chunk of kind 0x80"),
        (b"\xfe\1\0\0a", "a chunk of kind 0xfe"),
        (b"\2\1\0\0a", "a chunk of kind 0x2"),
    ],
)
def test_chunks_that_flink_never_writes_are_damage(data: bytes, message: str) -> None:
    """One changed bit makes such a chunk of one with state, which would be skipped."""
    with pytest.raises(DamagedError, match=message):
        decompressed(data)
