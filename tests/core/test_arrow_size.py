"""The size of Arrow data of every type, also of unions without rows that were read from a stream."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.arrow_size import size_of
from tests.arrow_values import LEAVES, NESTED, column

UNION = pa.UnionArray.from_dense(
    pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1], pa.int64()), pa.array(["x"])], ["i", "s"]
)
SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1], pa.int8()), [pa.array([1, 2], pa.int64()), pa.array(["x", "y"])], ["i", "s"]
)


def through_a_stream(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


@pytest.mark.parametrize("union", [UNION, SPARSE], ids=["dense", "sparse"])
def test_a_union_without_rows_that_was_read_from_a_stream_has_a_size(union: pa.Array) -> None:
    offsets = pa.array([0, 2, 2], pa.int64())
    columns = {
        "union": union,
        "struct": pa.StructArray.from_arrays([union], ["a"]),
        "list": pa.LargeListArray.from_arrays(offsets, union),
        "fixed": pa.FixedSizeListArray.from_arrays(union, 1),
        "map": pa.MapArray.from_arrays(offsets.cast(pa.int32()), pa.array([1, 2]), union),
        "view": pa.ListViewArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array([2, 0], pa.int32()), union),
    }
    for name, values in columns.items():
        whole = pa.record_batch({name: values})
        empty = through_a_stream(whole.slice(whole.num_rows))
        assert size_of(empty) < size_of(through_a_stream(whole)), name
        assert size_of(whole.slice(0, 1)) <= size_of(whole) == size_of(pa.Table.from_batches([whole])), name
    last = through_a_stream(pa.record_batch({"v": columns["list"]}).slice(1))
    assert size_of(last) == 16, "two offsets"


@pytest.mark.parametrize("name", [*LEAVES, *NESTED])
@settings(max_examples=3, deadline=None)
@given(st.data())
def test_the_size_of_other_types_is_arrows(name: str, data: st.DataObject) -> None:
    batch = pa.record_batch({"v": column(data.draw, 4, name)})
    for start in range(5):
        part = through_a_stream(batch.slice(start))
        assert size_of(part) >= 0
        if "union" not in str(batch.schema):
            assert size_of(part) == part.nbytes
