"""Key codecs: keys and namespaces as int64 codes.

An index works on int64 codes whatever the type of the keys. Numbers, bools and times *are* their code (floats by their
bits, with one NaN). Strings, bytes, decimals and structs are *interned* (`kit.stream.backend.keys.interned_keys`): the
distinct ones are numbered, and unused numbers are reused.

A codec also defines the order of keys in a checkpoint, so that equal state produces equal bytes: numbers and times by
value, floats by their bits, strings by their UTF-8 bytes, structs field by field with nulls last.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arrow_kinds import can_be_key, kind_of, no_key
from kit.core.state.errors import StateTypeError
from kit.stream.backend.keys.interned_keys import UNKNOWN, InternedCodec
from kit.stream.backend.keys.key_columns import (
    Codes,
    Column,
    as_codes,
    checked,
    from_codes,
    numbers,
    one,
    storage_dtype,
)

__all__ = ["UNKNOWN", "Codes", "Column", "Decoder", "KeyCodec", "codec_for"]


class Decoder(Protocol):
    """A converter of codes to keys, unaffected by later changes of its codec."""

    interned: bool
    """True if codes are numbers given to keys. Else a key is its own code, and codes have the order of keys."""

    def decode(self, codes: Codes) -> pa.Array:
        """Return the keys, in their Arrow type."""

    def decode_one(self, code: int) -> Any:
        """Return the key of one code as a Python value."""

    def ranks(self, codes: Codes, keys: pa.Array | None = None) -> Codes:
        """Return numbers in the order of keys in a checkpoint; `keys` are the decoded codes, if available."""


class KeyCodec(Decoder, Protocol):
    """A converter between keys or namespaces of one Arrow type and codes."""

    type: pa.DataType

    def encode(self, keys: Column, create: bool) -> Codes:
        """Return the code of each key. Without `create`, an unknown interned key gets `UNKNOWN`.

        Raises StateTypeError for a column of another type or with nulls.
        """

    def encode_one(self, key: Any, create: bool) -> int:
        """Return the code of one Python key."""

    @property
    def bytes_per_key(self) -> float:
        """About how many bytes of memory a stored key takes."""

    def retain(self, codes: Codes) -> None:
        """Count one more use of each code."""

    def release(self, codes: Codes) -> None:
        """Count one use less of each code, and forget unused codes."""

    def freeze(self) -> Decoder:
        """Return a decoder of the codes in use now."""


def codec_for(arrow_type: pa.DataType, what: str = "key") -> KeyCodec:
    """Return the codec for keys of one type. Raises StateTypeError for a type that cannot be a key."""
    if kind_of(arrow_type).is_number_in_memory:
        return _DirectCodec(arrow_type, what)
    if can_be_key(arrow_type):
        return InternedCodec(arrow_type, what)
    raise StateTypeError(no_key(arrow_type, what))


class _DirectCodec:
    """Numbers, bools and times: the code is the stored value."""

    interned = False

    def __init__(self, arrow_type: pa.DataType, what: str) -> None:
        self.type = arrow_type
        self._what = what
        self._storage = storage_dtype(arrow_type)
        self._is_int64 = arrow_type.equals(pa.int64())

    def encode(self, keys: Column, create: bool) -> Codes:
        if isinstance(keys, np.ndarray):
            if keys.dtype != self._storage:
                keys = self._converted(keys)
            return as_codes(keys)
        return as_codes(numbers(checked(keys, self.type, self._what)))

    def encode_one(self, key: Any, create: bool) -> int:
        if type(key) is int and self._storage == np.int64 and -(1 << 63) <= key < 1 << 63:
            return key
        return int(as_codes(numbers(one(key, self.type, self._what)))[0])

    def decode(self, codes: Codes) -> pa.Array:
        return from_codes(codes, self.type, self._storage)

    def decode_one(self, code: int) -> Any:
        return code if self._is_int64 else self.decode(np.array([code]))[0].as_py()

    def ranks(self, codes: Codes, keys: pa.Array | None = None) -> Codes:
        return codes

    @property
    def bytes_per_key(self) -> float:
        """0: the code is the key."""
        return 0

    def retain(self, codes: Codes) -> None:
        """Do nothing: the code is the key."""

    def release(self, codes: Codes) -> None:
        """Do nothing: the code is the key."""

    def freeze(self) -> Decoder:
        return self

    def _converted(self, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if np.can_cast(keys.dtype, self._storage, "safe") or (keys.dtype.kind in "iu" and self._storage.kind in "iu"):
            converted = keys.astype(self._storage)
            if np.array_equal(converted, keys):
                return converted
        raise StateTypeError(f"A numpy array of {keys.dtype} does not fit {self._what}s of type {self.type}")
