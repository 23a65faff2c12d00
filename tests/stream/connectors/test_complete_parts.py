"""Up to which checkpoint all rows of a sink's directory are published, as the names of its files say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.stream.connectors.part_names import PublishedName, StagedName, complete_parts


def test_a_checkpoint_is_complete_when_no_file_of_it_is_only_staged() -> None:
    published = ["part-a-00000-000003.parquet", "part-a-00001-000003_00002.parquet", "part-a-00000-000004.parquet"]
    assert complete_parts(published, {}) == {"a": 4}
    assert complete_parts(published, {"a": ["part-1-4.parquet"]}) == {"a": 3}
    assert complete_parts(published, {"a": ["part-1-4.parquet", "part-0-3_1-in-4.parquet"]}) == {"a": 2}


def test_staged_files_of_later_checkpoints_other_jobs_and_published_rows_do_not_count() -> None:
    published = ["part-a-00000-000003.parquet", "part-a-00001-000003_00002.parquet", "part-b-c-00000-000009.parquet"]
    staged = ["part-0-5.parquet", "part-1-3_2-in-4.parquet", "part-0-2.parquet.published", "in-progress-0-1-1.parquet"]
    assert complete_parts(published, {"a": staged, "d": ["part-0-1.parquet"]}) == {"a": 3, "b-c": 9}
    assert complete_parts(["other.parquet"], {"a": ["part-0-1.parquet"]}) == {}


def test_a_name_says_writer_and_checkpoint() -> None:
    assert PublishedName.parse("part-b-c-00000-000009_00001.parquet") == PublishedName("b-c", 0, 9, 1)
    assert PublishedName.parse("year=2013/part-a.b-00003-000002.parquet") == PublishedName("a.b", 3, 2)
    assert PublishedName.parse("year=2013.parquet") is None
    assert complete_parts(["year=2013/part-a-00000-000002.parquet"], {"a": ["part-0-2.parquet"]}) == {"a": 2}


@given(st.sampled_from(["a", "b-c", "a.b-2"]), *[st.integers(0, 10**8)] * 4)
def test_names_are_read_as_they_are_written(writer: str, subtask: int, part: int, staged_by: int, number: int) -> None:
    staged = StagedName(subtask, part, staged_by, number)
    assert StagedName.parse(f"/out/.staging/x/{staged}") == StagedName.parse(f"{staged}.published") == staged
    published = staged.published_by(writer)
    assert PublishedName.parse(f"/out/{published}") == published == PublishedName(writer, subtask, part, number)
