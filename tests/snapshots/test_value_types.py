"""Values of every type that Flink serializes itself, in every layout, against what Flink reads back of them."""

from __future__ import annotations

import pytest

from tests.interop.value_types import differences
from tests.snapshots.flink_types import cases, savepoints


@pytest.mark.parametrize("case", cases())
def test_every_value_is_what_flink_reads(case: str) -> None:
    assert list(differences(savepoints() / case)) == []
