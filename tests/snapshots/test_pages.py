"""A state page by page: all rows, in order, each once; a search finds what it should, and reads a bounded part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kit
from kit.snapshots.checkpoints import Checkpoint
from kit.snapshots.checkpoints.pages import START, StatePage
from tests.flink_data import value_cases, values
from tests.snapshots.truth import called
from tests.snapshots.written import longs

REAL = pytest.mark.parametrize(
    ("version", "case"),
    [each for each in value_cases() if each[1] in ("savepoint-canonical", "checkpoint-hashmap", "rocksdb-incremental")],
)
KEYED = (("scalars", "long"), ("collections", "map-long"), ("session", "window-contents"), ("rich", "local-date"))


def pages(checkpoint: Checkpoint, operator: str, name: str, **asked: object) -> list[StatePage]:
    """Walk all pages of a state."""
    found = [checkpoint.page(operator, name, **asked)]  # type: ignore[arg-type]
    while found[-1].next is not None:
        assert found[-1].next > (START if len(found) == 1 else found[-2].next)
        found.append(checkpoint.page(operator, name, at=found[-1].next, **asked))  # type: ignore[arg-type]
    return found


def texts(found: list[StatePage]) -> list[list[str]]:
    return [row for page in found for row in page.texts()]


@REAL
def test_the_pages_together_are_the_state(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    states = checkpoint.states
    lists = states[states["kind"].isin(["SPLIT_DISTRIBUTE", "UNION", "BROADCAST"])]
    known = set(zip(states["operator"], states["name"], strict=True))
    for operator, name in {*KEYED, *zip(lists["operator"], lists["name"], strict=True)} & known:
        whole = checkpoint.state(operator, name)
        found = pages(checkpoint, operator, name, rows=7)
        assert all(page.rows.num_rows <= 7 for page in found)
        assert sum(page.rows.num_rows for page in found) == whole.num_rows
        own = [page.rows for page in found if page.rows.num_rows]
        if all(page.schema == whole.schema for page in own):
            assert [row for page in own for row in page.to_pylist()] == whole.to_pylist()


@REAL
def test_a_search_finds_the_rows_with_the_text_and_no_others(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    everything = texts(pages(checkpoint, "collections", "list-long"))
    wanted = [row for row in everything if any("48" in cell for cell in row)]
    assert 0 < len(wanted) < len(everything)
    assert texts(pages(checkpoint, "collections", "list-long", query="48", rows=2)) == wanted
    upper = everything[0][1].upper()
    assert everything[0] in texts(pages(checkpoint, "collections", "list-long", query=upper))


def test_a_page_reads_a_bounded_number_of_key_groups(tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(longs(tmp_path, np.arange(2_000)))
    key = str(max(checkpoint.state("sums", "total", key_groups=[127])["key"].to_pylist()))
    first = checkpoint.page("sums", "total", query=key, key_groups=range(100, 128), most_read=5)
    assert (first.rows.num_rows, first.next) == (0, (4, 0))
    found = pages(checkpoint, "sums", "total", query=key, key_groups=range(100, 128), most_read=5)
    assert len(found) == 7
    assert [row[:2] for row in texts(found)] == [["127", key]]
    only = checkpoint.page("sums", "total", key_groups=[127], rows=10_000)
    assert only.rows.equals(checkpoint.state("sums", "total", key_groups=[127]))


def test_an_unknown_state_is_answered_with_those_there_are(tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(longs(tmp_path, np.arange(5), 8))
    with pytest.raises(KeyError, match="has no state 'totals'; it has total"):
        checkpoint.page("sums", "totals")


@REAL
def test_entries_by_key_group_are_those_of_the_storage_account(version: str, case: str) -> None:
    checkpoint = kit.open_checkpoint(values(version) / case)
    states = checkpoint.storage.states
    for name in ("scalars", "collections"):
        counted = [checkpoint.key_group_entries(name, subtask) for subtask in range(3)]
        own = states[(states["operator"] == called(checkpoint, name)) & states["entries"].notna()]
        if "rocksdb" not in case:  # the account of SST files counts versions of entries
            assert sum(sum(each.values()) for each in counted) == own["entries"].sum()
        groups = {group for each in counted for group in each}
        keyed = {group for state in own["state"] for group in checkpoint.state(name, state)["key_group"].to_pylist()}
        assert keyed <= groups
