"""The size of Arrow data: the bytes that its columns refer to.

Arrow's own `nbytes` reads the buffers of a union even if they are missing, as they are in a union without rows that was
read from a stream, and ends the process (seen with Arrow 26). So columns with a union in their type are taken apart.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

_UNION_BYTES = 5
"""A row of a dense union: the number of its type, and its place among the values of that type."""


def size_of(data: pa.RecordBatch | pa.Table) -> int:
    """Return the bytes that the columns of a batch or a table refer to."""
    if not any(_has_union(each) for each in data.schema.types):
        return int(data.nbytes)
    columns = (data.column(number) for number in range(data.num_columns))
    chunks = (each.chunks if isinstance(each, pa.ChunkedArray) else [each] for each in columns)
    return sum(_size(part) for parts in chunks for part in parts)


@cache
def _has_union(of: pa.DataType) -> bool:
    if isinstance(of, pa.BaseExtensionType):
        return _has_union(of.storage_type)
    if pa.types.is_dictionary(of):
        return _has_union(of.value_type)
    inner = (of.field(number).type for number in range(of.num_fields))
    return pa.types.is_union(of) or any(map(_has_union, inner))


def _size(array: pa.Array) -> int:
    if not _has_union(array.type):
        return int(array.nbytes)
    if isinstance(array, pa.ExtensionArray):
        return _size(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return int(array.indices.nbytes) + _size(array.dictionary)
    if isinstance(array, pa.UnionArray):
        children = (array.field(number) for number in range(array.type.num_fields))
        return _UNION_BYTES * len(array) + sum(map(_size, children))
    validity = 0 if array.buffers()[0] is None else (len(array) + 7) // 8
    if isinstance(array, pa.StructArray):
        return validity + sum(map(_size, array.flatten()))
    if isinstance(array, pa.MapArray):
        return (
            validity
            + int(array.offsets.nbytes)
            + _size(_values(array, array.keys))
            + _size(_values(array, array.items))
        )
    own = 0 if isinstance(array, pa.FixedSizeListArray) else int(array.offsets.nbytes)
    return validity + own + _size(array.flatten())


def _values(array: pa.MapArray, values: pa.Array) -> pa.Array:
    """Return the keys or items that the rows of a map refer to."""
    offsets = array.offsets
    if not len(array):
        return values.slice(0, 0)
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return values.slice(start, end - start)
