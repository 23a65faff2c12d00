"""Entries of several SST files, merged as RocksDB does: cases that no real checkpoint here has are written by hand."""

from __future__ import annotations

import pytest

from kit import CheckpointError
from kit.snapshots.formats.rocksdb import merged
from kit.snapshots.formats.sst import DELETION, MERGE, VALUE, Entry, RangeDeletion


def entries(*told: tuple[str, int, int, str]) -> list[Entry]:
    return [Entry(key.encode(), sequence, kind, value.encode()) for key, sequence, kind, value in told]


def found(*files: list[Entry], deletions: tuple[RangeDeletion, ...] = ()) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in merged([iter(each) for each in files], deletions)}


def test_the_newest_entry_of_a_key_counts_whichever_file_has_it() -> None:
    old, new = (
        entries(("a", 1, VALUE, "1"), ("b", 2, VALUE, "2")),
        entries(("a", 5, VALUE, "5"), ("b", 6, DELETION, "")),
    )
    assert found(old, new) == found(new, old) == {"a": "5"}


def test_operands_are_joined_oldest_first_up_to_a_value_or_a_deletion() -> None:
    first = entries(("a", 1, VALUE, "0"), ("b", 1, VALUE, "0"), ("c", 2, MERGE, "1"))
    second = entries(("a", 3, MERGE, "1"), ("b", 4, DELETION, ""))
    third = entries(("a", 7, MERGE, "2"), ("b", 8, MERGE, "3"))
    assert found(first, second, third) == {"a": "0,1,2", "b": "3", "c": "1"}


def test_a_range_deletion_hides_what_is_older_and_not_its_end() -> None:
    held = entries(("a", 3, VALUE, "1"), ("b", 3, VALUE, "2"), ("c", 9, VALUE, "3"), ("d", 3, VALUE, "4"))
    assert found(held, deletions=(RangeDeletion(b"b", b"d", 5),)) == {"a": "1", "c": "3", "d": "4"}
    lists = entries(("b", 9, MERGE, "new"), ("b", 3, MERGE, "old"))
    assert found(lists, deletions=(RangeDeletion(b"b", b"d", 5),)) == {"b": "new"}


def test_an_entry_of_another_kind_is_refused() -> None:
    with pytest.raises(CheckpointError, match="of kind 0x11"):
        found(entries(("a", 1, 0x11, "")))
