"""Values of every type that Flink serializes itself, written to other keys, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.value_types import differences
from tests.interop.written_types import exchanged
from tests.snapshots.flink_types import cases, savepoints

QUICK = ("canonical-rocksdb", "avro-canonical-heap")
CASES = [pytest.param(each, marks=[] if each in QUICK else pytest.mark.soak) for each in cases()]


@pytest.mark.parametrize("case", CASES)
def test_values_of_every_type_are_written(case: str, tmp_path: Path) -> None:
    wanted = exchanged(savepoints() / case, tmp_path / "new")
    assert len(wanted) > 8
    assert list(differences(tmp_path / "new", wanted)) == []
