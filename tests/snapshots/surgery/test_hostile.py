"""Damaged savepoints: a change raises CheckpointError, or works."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kit
from kit.snapshots.surgery.edit import Edit
from tests.snapshots.written import longs

CHANGES = {
    "canonical": lambda edit: edit.to_canonical(),
    "max parallelism": lambda edit: edit.set_max_parallelism(256),
    "delete keys": lambda edit: edit.delete_keys("sums", [3]),
    "map": lambda edit: edit.map("sums", "total", lambda table: pa.array([1] * table.num_rows, pa.int64())),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_byte_raises_one_clear_error_or_none(change: str, tmp_path: Path) -> None:
    folder = longs(tmp_path / "old", np.arange(6))
    whole = (folder / "keyed").read_bytes()
    failed = 0
    for place in range(0, len(whole), 7):
        for flip in (0x80, 0x01):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            (folder / "keyed").write_bytes(damaged)
            try:
                edit: Edit = kit.open_checkpoint(folder).edit()
                CHANGES[change](edit).rehearse()
            except (kit.CheckpointError, KeyError):
                failed += 1
    assert failed > 10
