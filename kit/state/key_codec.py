"""Key codecs: keys and namespaces as int64 codes.

An index works on int64 codes whatever the type of the keys. Numbers, bools and times *are* their code (floats by their
bits, with one NaN). Strings, bytes and structs are *interned*: the distinct values of a batch, found by Arrow's
dictionary encoding, are looked up in a dict that numbers them, and numbers no longer used are given out again.

A codec also says how keys are ordered in a checkpoint, so that equal state makes equal bytes: numbers and times by
value, floats by their bits, strings by their UTF-8 bytes, structs field by field with nulls last.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import repeat
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.state.errors import StateTypeError
from kit.state.key_groups import as_numbers

Codes = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array | pa.ChunkedArray | npt.NDArray[Any]"

UNKNOWN = -1  # the code of an interned value nobody has stored

_CANONICAL_NAN = {8: 0x7FF8000000000000, 4: 0x7FC00000}


class Decoder(Protocol):
    """Turns codes back into keys; unaffected by what its codec learns or forgets later."""

    def decode(self, codes: Codes) -> pa.Array:
        """The keys, in their Arrow type."""

    def ranks(self, codes: Codes) -> Codes:
        """Numbers that order the keys as a checkpoint does."""


class KeyCodec(Decoder, Protocol):
    """Turns keys or namespaces of one Arrow type into codes and back."""

    type: pa.DataType
    interned: bool

    def encode(self, keys: Column, create: bool) -> Codes:
        """The code of each key. Without `create` an interned key never seen gets `UNKNOWN`.

        Raises StateTypeError for a column of another type or with nulls.
        """

    def encode_one(self, key: Any, create: bool) -> int:
        """The code of one Python key."""

    def retain(self, codes: Codes) -> None:
        """Count one use more of each code."""

    def release(self, codes: Codes) -> None:
        """Count one use less of each code; what nobody uses is forgotten."""

    def freeze(self) -> Decoder:
        """A decoder of the codes in use now."""


def codec_for(arrow_type: pa.DataType, what: str = "key") -> KeyCodec:
    """The codec for keys of one type; StateTypeError for a type that cannot be a key."""
    if _is_direct(arrow_type):
        return _DirectCodec(arrow_type, what)
    if _is_text_or_bytes(arrow_type) or (
        pa.types.is_struct(arrow_type) and all(_can_be_key(field.type) for field in arrow_type)
    ):
        return _InternedCodec(arrow_type, what)
    raise StateTypeError(
        f"A {what} cannot have Arrow type {arrow_type}: use integers, floats, bool, string, binary, dates and times, "
        "or a struct of these"
    )


def order_of_rows(columns: list[Codes]) -> npt.NDArray[np.int64]:
    """The order that sorts distinct rows by the first column, then the second, and so on."""
    if len(columns) > 1:
        return np.lexsort(columns[::-1])
    (values,) = columns
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low >= 4 * len(values):
        return np.argsort(values)
    row_of = np.full(high - low + 1, -1, np.int64)  # close together and distinct: no need to compare
    row_of[values - low] = np.arange(len(values))
    return row_of[row_of >= 0]


class _DirectCodec:
    """Numbers, bools and times: the code is the stored value."""

    interned = False

    def __init__(self, arrow_type: pa.DataType, what: str) -> None:
        self.type = arrow_type
        self._what = what
        self._storage = np.dtype(_storage_type(arrow_type).to_pandas_dtype())

    def encode(self, keys: Column, create: bool) -> Codes:
        if isinstance(keys, np.ndarray):
            if keys.dtype != self._storage:
                keys = self._converted(keys)
            return _as_codes(keys)
        return _as_codes(_numbers(_checked(keys, self.type, self._what)))

    def encode_one(self, key: Any, create: bool) -> int:
        if type(key) is int and self._storage == np.int64 and -(1 << 63) <= key < 1 << 63:
            return key
        return int(_as_codes(_numbers(_one(key, self.type, self._what)))[0])

    def decode(self, codes: Codes) -> pa.Array:
        return _from_codes(codes, self.type, self._storage)

    def ranks(self, codes: Codes) -> Codes:
        return codes

    def retain(self, codes: Codes) -> None:
        """Nothing to count: the code is the key."""

    def release(self, codes: Codes) -> None:
        """Nothing to forget."""

    def freeze(self) -> Decoder:
        return self

    def _converted(self, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if np.can_cast(keys.dtype, self._storage, "safe") or (keys.dtype.kind in "iu" and self._storage.kind in "iu"):
            converted = keys.astype(self._storage)
            if np.array_equal(converted, keys):
                return converted
        raise StateTypeError(f"A numpy array of {keys.dtype} does not fit {self._what}s of type {self.type}")


class _InternedCodec:
    """Strings, bytes and structs: the code is a number given to each distinct value."""

    interned = True

    def __init__(self, arrow_type: pa.DataType, what: str) -> None:
        self.type = arrow_type
        self._what = what
        self._codes: dict[Hashable, int] = {}
        self._tokens: list[Hashable] = []
        self._uses = np.zeros(16, np.int64)
        self._free: list[int] = []
        self._frozen = False

    def encode(self, keys: Column, create: bool) -> Codes:
        if isinstance(keys, np.ndarray):
            keys = pa.array(keys, self.type)
        tokens, inverse = _distinct(_checked(keys, self.type, self._what))
        codes = np.fromiter(map(self._codes.get, tokens, repeat(UNKNOWN)), np.int64, len(tokens))
        if create:
            for new in np.flatnonzero(codes == UNKNOWN).tolist():
                codes[new] = self._code(tokens[new], create)
        return codes.take(inverse)

    def encode_one(self, key: Any, create: bool) -> int:
        if type(key) is str and pa.types.is_string(self.type):
            return self._code(key, create)
        return self._code(_distinct(_one(key, self.type, self._what))[0][0], create)

    def decode(self, codes: Codes) -> pa.Array:
        return _decoded(self.type, self._tokens, codes)

    def ranks(self, codes: Codes) -> Codes:
        return _ranks(self.type, self._tokens, codes)

    def retain(self, codes: Codes) -> None:
        np.add.at(self._uses, codes, 1)

    def release(self, codes: Codes) -> None:
        np.subtract.at(self._uses, codes, 1)
        distinct = np.unique(codes)
        for code in distinct[self._uses[distinct] == 0].tolist():
            del self._codes[self._tokens[code]]
            self._free.append(code)

    def freeze(self) -> Decoder:
        self._frozen = True
        return _FrozenTokens(self.type, self._tokens)

    def _code(self, token: Hashable, create: bool) -> int:
        code = self._codes.get(token, UNKNOWN)
        if code != UNKNOWN or not create:
            return code
        if self._free:
            if self._frozen:
                self._tokens, self._frozen = self._tokens.copy(), False
            code = self._free.pop()
            self._tokens[code] = token
        else:
            code = len(self._tokens)
            self._tokens.append(token)
            if code == len(self._uses):
                self._uses = np.concatenate((self._uses, np.zeros_like(self._uses)))
        self._codes[token] = code
        return code


class _FrozenTokens:
    """The interned values at one moment. The codec only appends to the list, or leaves it to us and takes a copy."""

    def __init__(self, arrow_type: pa.DataType, tokens: list[Hashable]) -> None:
        self._type, self._tokens = arrow_type, tokens

    def decode(self, codes: Codes) -> pa.Array:
        return _decoded(self._type, self._tokens, codes)

    def ranks(self, codes: Codes) -> Codes:
        return _ranks(self._type, self._tokens, codes)


# ---- columns to codes and back ----------------------------------------------------------------------------------


def _checked(keys: pa.Array | pa.ChunkedArray, arrow_type: pa.DataType, what: str) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    found = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
    if found != arrow_type:
        raise StateTypeError(f"The {what}s have Arrow type {found}, this state has {what}s of type {arrow_type}")
    if keys.null_count:
        raise StateTypeError(f"A {what} must not be null: {keys.null_count} of {len(keys)} rows have none")
    return keys


def _one(key: Any, arrow_type: pa.DataType, what: str) -> pa.Array:
    if key is None:
        raise StateTypeError(f"A {what} must not be null")
    try:
        if not (isinstance(key, bool) and pa.types.is_integer(arrow_type)):
            return pa.array([key], arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise StateTypeError(f"The {what} {key!r} ({type(key).__name__}) does not fit Arrow type {arrow_type}")


def _numbers(keys: pa.Array) -> npt.NDArray[Any]:
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    return keys.to_numpy(zero_copy_only=False) if pa.types.is_boolean(keys.type) else as_numbers(keys)


def _as_codes(values: npt.NDArray[Any]) -> Codes:
    dtype = values.dtype
    if dtype.kind != "f":
        return values.view(np.int64) if dtype == np.uint64 else values.astype(np.int64, copy=False)
    bits = np.ascontiguousarray(values).view(np.int64 if dtype.itemsize == 8 else np.int32)
    nan = np.isnan(values)
    return (np.where(nan, _CANONICAL_NAN[dtype.itemsize], bits) if nan.any() else bits).astype(np.int64, copy=False)


def _from_codes(codes: Codes, arrow_type: pa.DataType, storage: np.dtype[Any]) -> pa.Array:
    if storage.kind == "f":
        values: npt.NDArray[Any] = codes.astype(np.int64 if storage.itemsize == 8 else np.int32).view(storage)
    else:
        values = codes.view(np.uint64) if storage == np.uint64 else codes.astype(storage, copy=False)
    return pa.array(values).view(arrow_type) if pa.types.is_temporal(arrow_type) else pa.array(values, arrow_type)


def _distinct(column: pa.Array) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """The distinct values of a column as hashable tokens, and which of them each row is.

    A token is a string or bytes themselves, the code of a number, or a tuple of the tokens of a struct's fields.
    """
    if pa.types.is_struct(column.type):
        return _distinct_structs(column)
    if pa.types.is_dictionary(column.type):
        return _distinct_of_dictionary(column)
    plain = column if _is_text_or_bytes(column.type) else pa.array(_as_codes(_numbers(column)))
    encoded = plain.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64, copy=False)


def _distinct_of_dictionary(column: pa.DictionaryArray) -> tuple[list[Any], npt.NDArray[np.int64]]:
    indices = column.indices.to_numpy().astype(np.int64, copy=False)
    used = np.flatnonzero(np.bincount(indices, minlength=len(column.dictionary)))
    tokens, inverse = _distinct(column.dictionary.take(pa.array(used)))
    position = np.empty(len(column.dictionary), np.int64)
    position[used] = inverse
    return tokens, position.take(indices)


def _distinct_structs(column: pa.StructArray) -> tuple[list[Any], npt.NDArray[np.int64]]:
    rows = np.zeros(len(column), np.int64)
    field_tokens, field_rows = [], []
    for child in column.flatten():
        tokens, inverse = _distinct_with_null(child)
        field_tokens.append(tokens)
        field_rows.append(inverse)
        rows = pa.array(rows * len(tokens) + inverse).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.empty(int(rows.max(initial=-1)) + 1, np.int64)
    first[rows[::-1]] = np.arange(len(rows))[::-1]
    fields = [[tokens[i] for i in inverse[first].tolist()] for tokens, inverse in zip(field_tokens, field_rows)]
    return list(zip(*fields, strict=True)), rows


def _distinct_with_null(column: pa.Array) -> tuple[list[Any], npt.NDArray[np.int64]]:
    if not column.null_count:
        return _distinct(column)
    tokens, inverse = _distinct(column.drop_null())
    rows = np.full(len(column), len(tokens), np.int64)
    rows[column.is_valid().to_numpy(zero_copy_only=False)] = inverse
    return [*tokens, None], rows


def _decoded(arrow_type: pa.DataType, tokens: list[Any], codes: Codes) -> pa.Array:
    return _from_tokens(arrow_type, [tokens[code] for code in codes.tolist()])


def _from_tokens(arrow_type: pa.DataType, tokens: list[Any]) -> pa.Array:
    if pa.types.is_struct(arrow_type):
        fields = zip(*tokens, strict=True) if tokens else [()] * arrow_type.num_fields
        children = [_from_tokens(field.type, list(part)) for field, part in zip(arrow_type, fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type))
    if _is_direct(arrow_type):
        present = np.array([token is not None for token in tokens], np.bool_)
        codes = np.array([token or 0 for token in tokens], np.int64)
        values = _from_codes(codes, arrow_type, np.dtype(_storage_type(arrow_type).to_pandas_dtype()))
        return values if present.all() else pc.if_else(pa.array(present), values, pa.scalar(None, arrow_type))
    return pa.array(tokens, arrow_type)


def _ranks(arrow_type: pa.DataType, tokens: list[Any], codes: Codes) -> Codes:
    distinct, inverse = np.unique(codes, return_inverse=True)
    columns = _flat_columns(_decoded(arrow_type, tokens, distinct))
    table = pa.table(columns, names=[str(i) for i in range(len(columns))])
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    ranks = np.empty(len(distinct), np.int64)
    ranks[order.to_numpy()] = np.arange(len(distinct))
    return ranks.take(inverse)


def _flat_columns(column: pa.Array) -> list[pa.Array]:
    """The leaves of a struct, with floats as their codes, so that Arrow's order of them is total."""
    if pa.types.is_struct(column.type):
        present = [column.is_null()] if column.null_count else []
        return [*present, *(leaf for child in column.flatten() for leaf in _flat_columns(child))]
    if pa.types.is_floating(column.type):
        codes = pa.array(_as_codes(column.fill_null(0).to_numpy(zero_copy_only=False)))
        return [pc.if_else(column.is_valid(), codes, pa.scalar(None, pa.int64()))]
    return [column]


# ---- types ------------------------------------------------------------------------------------------------------


def _is_direct(arrow_type: pa.DataType) -> bool:
    return (
        pa.types.is_integer(arrow_type)
        or pa.types.is_boolean(arrow_type)
        or pa.types.is_float32(arrow_type)
        or pa.types.is_float64(arrow_type)
        or (pa.types.is_temporal(arrow_type) and not pa.types.is_interval(arrow_type))
    )


def _is_text_or_bytes(arrow_type: pa.DataType) -> bool:
    return (
        pa.types.is_string(arrow_type)
        or pa.types.is_large_string(arrow_type)
        or pa.types.is_binary(arrow_type)
        or pa.types.is_large_binary(arrow_type)
    )


def _can_be_key(arrow_type: pa.DataType) -> bool:
    if pa.types.is_struct(arrow_type):
        return all(_can_be_key(field.type) for field in arrow_type)
    return _is_direct(arrow_type) or _is_text_or_bytes(arrow_type)


def _storage_type(arrow_type: pa.DataType) -> pa.DataType:
    if not pa.types.is_temporal(arrow_type):
        return arrow_type
    return pa.int32() if arrow_type.bit_width == 32 else pa.int64()
