"""Arrow types: the form of each in a stream and in a state, and the types that are rejected.

Arrow can send every type, but cannot select rows of every one, and a checkpoint holds no dictionaries beside its rows.
So a column of views or of runs becomes one of plain values when it enters a job (`stream_type`), and a state keeps the
values of a dictionary (`stored_type`); `as_type` converts a column between such forms. A type that no form can restore
is rejected where it is declared (`why_not_in_stream`, `why_not_in_state`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kit.stream.backend.types.decimals import sortable

_LISTS: dict[str, Callable[..., pa.DataType]] = {
    "ListType": pa.list_,
    "LargeListType": pa.large_list,
    "ListViewType": pa.list_view,
    "LargeListViewType": pa.large_list_view,
}


Conversion = Callable[[pa.Array, pa.DataType], pa.Array]
"""Returns the values of a column in another type."""


# ---- the forms of a type ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def stream_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the form in which a column of this type is sent: strings for string views, values for runs of values."""
    if pa.types.is_string_view(arrow_type):
        return pa.string()
    if pa.types.is_binary_view(arrow_type):
        return pa.binary()
    if pa.types.is_run_end_encoded(arrow_type):
        return stream_type(arrow_type.value_type)
    if pa.types.is_dictionary(arrow_type) and _has_extensions(arrow_type.value_type):
        return stream_type(arrow_type.value_type)  # Arrow cannot read what it writes of these
    return _with_parts(arrow_type, stream_type)


@lru_cache(maxsize=1024)
def stored_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the form in which a state keeps a column of this type.

    It is the form in which the column is sent, with values for dictionaries and the storage for extension types.
    """
    plain = stream_type(arrow_type)
    if pa.types.is_dictionary(plain):
        return stored_type(plain.value_type)
    if isinstance(plain, pa.BaseExtensionType):
        return stored_type(plain.storage_type)
    return _with_parts(plain, stored_type)


def stream_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns in the form in which they are sent."""
    fields = [field.with_type(stream_type(field.type)) for field in schema]
    return schema if fields == list(schema) else pa.schema(fields, schema.metadata)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of these columns without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def as_type(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the same values in another form of their type."""
    if column.type == wanted:
        return column
    if pa.types.is_dictionary(column.type):
        values = as_type(column.dictionary, wanted.value_type if pa.types.is_dictionary(wanted) else wanted)
        return as_type(values.take(column.indices), wanted)
    if pa.types.is_run_end_encoded(column.type):
        return as_type(pc.run_end_decode(column), wanted)
    if isinstance(column.type, pa.BaseExtensionType):
        return as_type(column.storage, wanted)
    if isinstance(wanted, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(wanted, as_type(column, wanted.storage_type))
    if pa.types.is_dictionary(wanted):
        return _as_dictionary(as_type(column, wanted.value_type), wanted)
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        return column.cast(wanted)
    return convert_parts(column, wanted, as_type)


def _as_dictionary(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Encode a column as a dictionary. Raises ArrowInvalid if the indices cannot count its distinct values."""
    try:
        encoded = sortable(column).dictionary_encode()
        indices, values = encoded.indices, encoded.dictionary.cast(column.type)
    except pa.ArrowNotImplementedError:  # Arrow cannot compare structs and lists
        numbers = pa.array(range(len(column)), pa.int64())
        indices, values = pc.if_else(column.is_valid(), numbers, pa.scalar(None, pa.int64())), column
    return pa.DictionaryArray.from_arrays(indices.cast(wanted.index_type), values, ordered=wanted.ordered)


def convert_parts(column: pa.Array, wanted: pa.DataType, convert: Conversion) -> pa.Array:
    """Convert the parts of nested values, each with `convert`, and keep the lengths and the nulls.

    Arrow's own casts do not support all of these types, nor does Python all of their values.
    """
    nulls = column.is_null() if column.null_count else None
    if pa.types.is_struct(wanted):
        parts = [convert(part, field.type) for part, field in zip(column.flatten(), wanted, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=nulls)
    if type(column.type) is type(wanted) and (pa.types.is_list(wanted) or pa.types.is_large_list(wanted)):
        values = convert(column.values, wanted.value_type)
        return type(column).from_arrays(_whole(column.offsets), values, wanted, mask=nulls)
    if type(column.type) is type(wanted) and isinstance(column, pa.ListViewArray | pa.LargeListViewArray):
        values, sizes = convert(column.values, wanted.value_type), _whole(column.sizes)
        return type(column).from_arrays(_whole(column.offsets), sizes, values, type=wanted, mask=nulls)
    if pa.types.is_fixed_size_list(column.type) and pa.types.is_fixed_size_list(wanted):
        begin, rows = column.offset * wanted.list_size, len(column) * wanted.list_size
        values = convert(column.values.slice(begin, rows), wanted.value_type)
        return pa.FixedSizeListArray.from_arrays(values, type=wanted, mask=nulls)
    if pa.types.is_map(column.type) and pa.types.is_map(wanted):
        keys, items = convert(column.keys, wanted.key_type), convert(column.items, wanted.item_type)
        return pa.MapArray.from_arrays(_whole(column.offsets), keys, items, wanted, mask=nulls)
    return pa.array(column.to_pylist(), wanted)


def _whole(offsets: pa.Array) -> pa.Array:
    """Return a list's or map's offsets in memory of their own; Arrow accepts no mask beside the offsets of a slice."""
    return pa.array(offsets.to_numpy(), offsets.type)


def _with_parts(arrow_type: pa.DataType, form: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return the type with its parts in another form."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(form(field.type))

    if not pa.types.is_nested(arrow_type) and not pa.types.is_dictionary(arrow_type):
        return arrow_type
    if pa.types.is_dictionary(arrow_type):
        made = pa.dictionary(arrow_type.index_type, form(arrow_type.value_type), arrow_type.ordered)
    elif pa.types.is_struct(arrow_type):
        made = pa.struct([changed(field) for field in arrow_type])
    elif pa.types.is_map(arrow_type):
        made = pa.map_(changed(arrow_type.key_field), changed(arrow_type.item_field), arrow_type.keys_sorted)
    elif pa.types.is_fixed_size_list(arrow_type):
        made = pa.list_(changed(arrow_type.value_field), arrow_type.list_size)
    elif pa.types.is_union(arrow_type):
        make = pa.sparse_union if arrow_type.mode == "sparse" else pa.dense_union
        made = make([changed(field) for field in arrow_type], arrow_type.type_codes)
    elif type(arrow_type).__name__ in _LISTS:
        made = _LISTS[type(arrow_type).__name__](changed(arrow_type.value_field))
    else:
        return arrow_type
    return arrow_type if made == arrow_type else made


NO_NANOSECONDS = "Python's time has no nanoseconds; use time64('us')"


# ---- rejected types ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def why_not_in_stream(arrow_type: pa.DataType) -> str | None:
    """Return why no column of a stream can have this type, or None if it can."""
    if stream_type(arrow_type) != arrow_type:
        return f"Arrow cannot pick rows of it, or not read it back; use {stream_type(arrow_type)}"
    return _twice_named(arrow_type) or _not_given_back(arrow_type)


@lru_cache(maxsize=1024)
def type_in_rows(arrow_type: pa.DataType) -> pa.DataType | None:
    """Return the type in which a function of rows makes a column (for a dictionary its values), or None."""
    if _comes_from_python(arrow_type):
        return arrow_type
    stored = stored_type(arrow_type)
    return stored if not _has_extensions(arrow_type) and _comes_from_python(stored) else None


def why_not_in_rows(arrow_type: pa.DataType) -> str | None:
    """Return why a function of rows cannot make values of this type, or None if it can."""
    if has_nanosecond_times(arrow_type):
        return NO_NANOSECONDS
    if type_in_rows(arrow_type) is not None:
        return None
    return f"Arrow cannot make it of Python values; use {_nearest(arrow_type)}"


_PLAIN = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_struct)
"""Types of which every version of Arrow makes columns from Python values."""


def _comes_from_python(arrow_type: pa.DataType) -> bool:
    if all(any(is_plain(each) for is_plain in _PLAIN) for each in _parts(arrow_type)):
        return True  # asking Arrow imports pandas the first time, which takes long
    try:
        pa.array([], arrow_type)
    except (pa.ArrowException, NotImplementedError):
        return False
    return all(_comes_back_from_python(each) for each in _parts(arrow_type) if isinstance(each, pa.BaseExtensionType))


@lru_cache(maxsize=1024)
def why_not_in_state(arrow_type: pa.DataType) -> str | None:
    """Return why no state can hold values of this type, or None if it can."""
    if pa.types.is_null(arrow_type):
        return "it has no values; use the type of what is to be kept"
    for each in _parts(arrow_type):
        if isinstance(each, pa.BaseExtensionType):
            return f"Arrow cannot make every extension type of Python values; use {stored_type(each)} for {each}"
    stored = stored_type(arrow_type)
    if any(pa.types.is_union(each) for each in _parts(stored)):
        return "Arrow cannot make it of Python values; use a struct with a field for each of its types"
    if any(each.equals(pa.time64("ns")) for each in _within_lists(stored)):
        return NO_NANOSECONDS
    if type_in_rows(stored) is None:
        return why_not_in_rows(stored)
    return _twice_named(stored) or _not_given_back(stored)


def has_nanosecond_times(arrow_type: pa.DataType) -> bool:
    """Return True if some part is a time of day in ns, which Python's `time` cannot hold."""
    return any(each.equals(pa.time64("ns")) for each in _parts(arrow_type))


def _parts(arrow_type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the type and all its parts."""
    yield arrow_type
    if isinstance(arrow_type, pa.BaseExtensionType):
        yield from _parts(arrow_type.storage_type)
    elif pa.types.is_dictionary(arrow_type):
        yield from _parts(arrow_type.value_type)
    else:
        for number in range(arrow_type.num_fields):
            yield from _parts(arrow_type.field(number).type)


def _has_extensions(arrow_type: pa.DataType) -> bool:
    return any(isinstance(each, pa.BaseExtensionType) for each in _parts(arrow_type))


def _within_lists(arrow_type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the parts that are kept as Python objects: all but the value itself and the fields of a struct."""
    fields = [field.type for field in arrow_type] if pa.types.is_struct(arrow_type) else [arrow_type]
    for each in fields:
        yield from (part for part in _parts(each) if part is not each)


def _twice_named(arrow_type: pa.DataType) -> str | None:
    for each in _parts(arrow_type):
        names = [field.name for field in each] if pa.types.is_struct(each) else []
        for name in names:
            if names.count(name) > 1:
                return f"two fields of the struct are named {name!r}; give one of them another name"
    return None


def _not_given_back(arrow_type: pa.DataType) -> str | None:
    """Return why a written schema is not read back as the same type: its extension type is not registered."""
    written = pa.schema([pa.field("value", arrow_type)])
    if pa.ipc.read_schema(pa.py_buffer(written.serialize())).field("value").type == arrow_type:
        return None
    return "it is not read back as what was written; call pyarrow.register_extension_type, or use its storage type"


def _comes_back_from_python(extension: Any) -> bool:
    """Return True if an extension type accepts its own Python values."""
    storage = extension.storage_type
    width = storage.byte_width if pa.types.is_fixed_size_binary(storage) else 0
    samples: tuple[Any, ...] = (0, "", bytes(width), [])
    for sample in samples:
        try:
            stored = pa.array([sample], storage)
        except (pa.ArrowException, TypeError):
            continue
        try:
            values = pa.ExtensionArray.from_storage(extension, stored).to_pylist()
            return pa.array(values, extension).storage.equals(stored)
        except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
            return False
    return True


def _nearest(arrow_type: pa.DataType) -> Any:
    if pa.types.is_union(arrow_type):
        return "a struct with a field for each of its types"
    plain = stored_type(arrow_type)
    return plain if plain != arrow_type else "a struct"
