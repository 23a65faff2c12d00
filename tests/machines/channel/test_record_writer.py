"""Batches cut to the size of a buffer, and records larger than one put together again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit.core.protocol.elements import Buffer, CreditedElement, RecordFragment, Watermark
from kit.core.protocol.words import ProtocolError
from kit.core.state.errors import StateRestoreError
from kit.machines.channel.record_assembler import RecordAssembler
from kit.machines.channel.record_writer import RecordWriter

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.string()))])
TEXTS = st.one_of(st.none(), st.text(max_size=8), st.integers(0, 300).map("x".__mul__))
ROWS = st.lists(st.tuples(st.integers(0, 9), TEXTS, st.lists(TEXTS, max_size=3)), min_size=1, max_size=30)


def batch_of(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], schema=SCHEMA)


def record(size: int = 1_000) -> pa.RecordBatch:
    """One row with a text of this length."""
    return batch_of([(1, "x" * size, [])])


def put_together(elements: Sequence[CreditedElement]) -> list[pa.RecordBatch]:
    assembler, found = RecordAssembler(), []
    for element in elements:
        whole = assembler.add(element) if isinstance(element, RecordFragment) else element
        if whole is not None:
            found.append(whole.batch)
    assert assembler.fragments == []
    return found


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_batch_that_fits_goes_as_it_is() -> None:
    batch = batch_of([(n, "text", []) for n in range(10)])
    (element,) = RecordWriter(batch.nbytes).elements(batch)
    assert isinstance(element, Buffer)
    assert element.batch is batch


def test_a_small_part_of_a_large_batch_fits() -> None:
    part = pa.RecordBatch.from_pydict({"n": list(range(10_000))}).slice(7_000, 3)
    (element,) = RecordWriter(24).elements(part)
    assert isinstance(element, Buffer)
    assert element.batch is part


def test_a_larger_batch_is_cut_without_copying() -> None:
    batch = pa.RecordBatch.from_pydict({"n": list(range(10))})
    elements = RecordWriter(32).elements(batch)
    assert [element.batch["n"].to_pylist() for element in elements] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert {element.batch["n"].buffers()[1].address for element in elements} == {batch["n"].buffers()[1].address}


def test_only_a_record_that_is_larger_than_a_buffer_goes_in_fragments() -> None:
    rows = [(1, "a", []), (2, "b", []), (3, "x" * 500, []), (4, "c", [])]
    elements = RecordWriter(100).elements(batch_of(rows))
    assert [element.rows if isinstance(element, Buffer) else "fragment" for element in elements] == [
        2,
        *["fragment"] * (len(elements) - 2),
        1,
    ]
    assert [element.last for element in elements[1:-1]] == [*[False] * (len(elements) - 3), True]
    assert {element.size_bytes for element in elements[1:-2]} == {100}
    assert 0 < elements[-2].size_bytes <= 100


@given(ROWS, st.integers(1, 700), st.integers(0, 29))
def test_nothing_is_lost_nothing_is_too_large_and_as_little_is_cut_as_can_be(
    rows: list[tuple[object, ...]], buffer_bytes: int, start: int
) -> None:
    batch = batch_of(rows).slice(min(start, len(rows) - 1))
    elements = RecordWriter(buffer_bytes).elements(batch)
    assert all(element.size_bytes <= buffer_bytes for element in elements)
    whole = put_together(elements)
    assert pa.Table.from_batches(whole).equals(pa.Table.from_batches([batch]))
    ends = [0]
    for each in whole:
        ends.append(ends[-1] + each.num_rows)
    for (begin, end), (_, then) in zip(pairwise(ends), pairwise(ends[1:])):
        assert then > end
        assert batch.slice(begin, end + 1 - begin).nbytes > buffer_bytes, "one more row would have fitted"
    for is_fragment, group in groupby(elements, key=lambda element: isinstance(element, RecordFragment)):
        if is_fragment:
            assert list(group)[-1].last


# --- putting together -------------------------------------------------------------------------------------------------


INDEX_TYPES = st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()])


@given(st.lists(TEXTS, min_size=1, max_size=40), st.integers(0, 5), INDEX_TYPES, st.integers(40, 400))
@example(["x" * 295], 0, pa.int32(), 311)  # it fits to the byte: a bitmap of its dictionary would make it larger
def test_a_part_of_a_dictionary_column_takes_along_what_it_names(
    texts: list[str | None], skipped: int, index_type: pa.DataType, buffer_bytes: int
) -> None:
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    never = [f"never named {n}" for n in range(49)]
    kept = pa.array([None, *never])  # the dictionary is larger than any buffer
    values = pa.concat_arrays([kept, encoded.dictionary])
    indices = pa.array([0 if i is None else i + len(kept) for i in encoded.indices.to_pylist()], index_type)
    column = pa.DictionaryArray.from_arrays(indices, values)
    batch = pa.RecordBatch.from_arrays([column, pa.array(range(len(texts)))], ["text", "n"]).slice(skipped)
    elements = RecordWriter(buffer_bytes).elements(batch)
    parts = put_together(elements)
    assert [row for part in parts for row in part.to_pylist()] == batch.to_pylist()
    assert {part.schema for part in parts} <= {batch.schema}
    assert all(element.batch.nbytes <= buffer_bytes for element in elements if isinstance(element, Buffer))
    assert all(part.num_rows == 1 for part in parts if part.nbytes > buffer_bytes)
    in_fragments = [element for element in elements if isinstance(element, RecordFragment) and element.last]
    assert len(in_fragments) == sum(part.nbytes > buffer_bytes for part in parts)
    carried = {text for part in parts for text in part.column(0).dictionary.to_pylist()}
    assert batch.nbytes <= buffer_bytes or carried == {text for text in texts[skipped:] if text is not None}


def test_fragments_are_kept_until_the_record_is_whole() -> None:
    fragments = RecordWriter(300).elements(record())
    assembler = RecordAssembler()
    for count, fragment in enumerate(fragments[:-1], start=1):
        assert assembler.add(fragment) is None
        assert assembler.fragments == list(fragments[:count])
    whole = assembler.add(fragments[-1])
    assert whole is not None
    assert whole.batch.equals(record())
    assert assembler.fragments == []


def test_a_record_ends_before_the_next_element() -> None:
    assembler = RecordAssembler()
    assembler.expect_none(Watermark(1))
    assembler.add(RecordFragment(b"abc", last=False))
    with pytest.raises(ProtocolError, match=r"Buffer\(1 rows\) came after 1 fragments of a record, without its end"):
        assembler.expect_none(Buffer(record()))


@pytest.mark.parametrize("lost", [0, 1, -2])
def test_a_record_that_misses_a_fragment_is_an_error(lost: int) -> None:
    fragments = list(RecordWriter(300).elements(record()))
    del fragments[lost]
    with pytest.raises(StateRestoreError, match="hold no element"):
        put_together(fragments)
