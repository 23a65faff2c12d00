"""Interned keys: strings, bytes, decimals and structs, numbered.

A key that is not a number gets one: its *code*. Looking up the codes of a batch takes a few passes over its columns and
no loop over its rows. Every key is hashed to 64 bits, a slot index finds the hash, and the slot is the code. The key
stored under it is compared with the given one.

Two keys with the same hash are *twins*. The first is found by the hash. The others, which hardly ever occur, are found
in a dict, and take the place of some unused hash. A code is counted as long as states use it, and reused afterwards.
The bytes of removed keys are dropped once they exceed those of the remaining ones.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_kinds import KeyForm, kind_of
from kit.stream.backend.files.sorting import distinct
from kit.stream.backend.keys.key_columns import Codes, Column, checked, one
from kit.stream.backend.keys.key_hashing import as_numbers
from kit.stream.backend.keys.key_order import leaves
from kit.stream.backend.keys.key_store import KeyStore, Rows, TextStore, hash_of_text, hashes, key_store
from kit.stream.backend.keys.slot_index import ABSENT, FEW_ROWS, LookupCache, SlotIndex
from kit.stream.backend.picking import rows_at
from kit.stream.backend.types.repeated_text import as_dictionary

UNKNOWN = ABSENT
"""The code of a key that is not stored."""

_MIN_GARBAGE = 1 << 16
_BYTES_PER_CODE = 60
"""A hash, its place, a row and a count, in arrays that grow by doubling."""
_OF_REMOVED = 2
_DENSE = pc.RankOptions(sort_keys="ascending", tiebreaker="dense")


class FrozenKeys:
    """The keys by code at one moment."""

    interned = True

    def __init__(self, arrow_type: pa.DataType, store: KeyStore, rows: Rows) -> None:
        self._type = arrow_type
        self._store = store
        self._rows = rows

    def decode(self, codes: Codes) -> pa.Array:
        """Return the keys, in their Arrow type."""
        return self._store.take(self._rows.take(codes))

    def decode_one(self, code: int) -> Any:
        """Return the key of one code as a Python value."""
        if kind_of(self._type).key in (KeyForm.TEXT, KeyForm.BYTES):
            return cast(TextStore, self._store).one(self._rows.item(code))
        return self.decode(np.array([code]))[0].as_py()

    def ranks(self, codes: Codes, keys: pa.Array | None = None) -> Codes:
        """Return numbers that order the keys: strings by their UTF-8 bytes, structs field by field with nulls last."""
        if keys is not None and kind_of(self._type).key in (KeyForm.TEXT, KeyForm.BYTES):
            return cast(Codes, pc.rank(keys, options=_DENSE).to_numpy().view(np.int64))
        distinct, inverse = np.unique(codes, return_inverse=True)
        columns = leaves(self.decode(distinct))
        table = pa.table(columns, names=[str(number) for number in range(len(columns))])
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
        ranks = np.empty(len(distinct), np.int64)
        ranks[order.to_numpy()] = np.arange(len(distinct))
        return ranks.take(inverse)


class InternedCodec(FrozenKeys):
    """A codec that numbers the distinct keys it meets."""

    def __init__(self, arrow_type: pa.DataType, what: str) -> None:
        super().__init__(arrow_type, key_store(arrow_type), np.zeros(16, np.int64))
        self.type = arrow_type
        self._what = what
        form = kind_of(arrow_type).key
        self._text = str if form is KeyForm.TEXT else bytes if form is KeyForm.BYTES else None
        self._by_hash = SlotIndex(1)
        self._uses = np.zeros(16, np.int64)
        self._twins: dict[Hashable, int] = {}
        self._seen = LookupCache()  # the codes of single keys by their token, all in use
        self._frozen_size = 0  # a reader may still read the codes below

    def __repr__(self) -> str:
        return f"InternedCodec({len(self._by_hash)} {self._what}s of {self.type})"

    # ---- codes --------------------------------------------------------------------------------------------------

    def encode(self, keys: Column, create: bool) -> Codes:
        """Return the code of each key. Without `create`, a key that is not stored gets `UNKNOWN`.

        Raises StateTypeError for a column of another type or with nulls.
        """
        if isinstance(keys, np.ndarray):
            keys = pa.array(keys, self.type)
        column = checked(keys, self.type, self._what)
        if pa.types.is_dictionary(column.type):
            return self._encode_dictionary(column, create)
        if len(column) <= FEW_ROWS and self._text is not None:
            rows = column.to_pylist()
            codes = list(map(self._seen.get, rows))
            return np.array([self.encode_one(key, create) for key in rows] if None in codes else codes, np.int64)
        numbered = as_dictionary(column) if self._text is not None else None
        if numbered is not None:
            return self._encode(numbered.dictionary, create).take(as_numbers(numbered.indices))
        return self._encode(column, create)

    def encode_one(self, key: Any, create: bool) -> int:
        """Return the code of one Python key."""
        token = _token(key)
        known = self._seen.get(token)
        if known is not None:
            return known
        if type(key) is self._text:
            code = self._code_of_text(key, create)
        else:
            code = int(self._encode(one(key, self.type, self._what), create)[0])
        if code != UNKNOWN and token is not None:
            self._seen[token] = code
        return code

    def _code_of_text(self, key: str | bytes, create: bool) -> int:
        hashed = hash_of_text(key.encode() if isinstance(key, str) else key)
        hashed -= (hashed >> 63) << 64
        code = self._by_hash.find_one([hashed])
        if code != ABSENT and cast(TextStore, self._store).one(self._rows.item(code)) == key:
            return code
        if code != ABSENT or self._twins:
            return int(self._encode(one(key, self.type, self._what), create)[0])
        if create:
            code = self._by_hash.add_one([hashed])
            added = np.array([code])
            self._make_room(added)
            self._store_keys(added, self._store.parts(pa.array([key], self.type)), np.array([0]))
        return code

    def _encode_dictionary(self, column: pa.DictionaryArray, create: bool) -> Codes:
        indices, distinct = as_numbers(column.indices), len(column.dictionary)
        named = np.zeros(distinct, np.bool_)
        named[indices] = True
        if named.all():
            return self._encode(checked(column.dictionary, self.type, self._what), create).take(indices)
        used = np.flatnonzero(named)
        codes = np.empty(distinct, np.int64)
        codes[used] = self._encode(checked(rows_at(column.dictionary, used), self.type, self._what), create)
        return codes.take(indices)

    def _encode(self, keys: pa.Array, create: bool) -> Codes:
        parts = self._store.parts(keys)
        hashed = hashes(self._store, parts, len(keys)).view(np.int64)
        codes = self._by_hash.find([hashed])
        if self._twins:
            absent = np.flatnonzero(codes == ABSENT).tolist()
            codes[absent] = [self._twins.get(self._store.value(parts, row), UNKNOWN) for row in absent]
        if create:
            self._add(codes, hashed, parts)
        self._tell_twins_apart(codes, hashed, parts, create)
        return codes

    def _add(self, codes: Codes, hashed: Codes, parts: Any) -> None:
        """Give a code to each hash that has none, and to all its rows; store the key of one of them."""
        rows = np.flatnonzero(codes == ABSENT)
        if not len(rows):
            return
        new, added = self._by_hash.find_or_add([hashed.take(rows)])
        codes[rows] = new
        self._make_room(added)
        self._rows[new[::-1]] = rows[::-1]  # of equal ones the first is kept
        self._store_keys(added, parts, self._rows.take(added))

    def _store_keys(self, codes: Codes, parts: Any, rows: Rows) -> None:
        self._rows[codes] = np.arange(self._store.size, self._store.size + len(rows))
        self._store.append(parts, rows)

    def _tell_twins_apart(self, codes: Codes, hashed: Codes, parts: Any, create: bool) -> None:
        """Correct the codes where another key is stored under the hash."""
        if (codes == UNKNOWN).any():
            found = np.flatnonzero(codes != UNKNOWN)
            other = found[~self._store.equal(self._rows.take(codes[found]), parts, found)]
        else:
            other = np.flatnonzero(~self._store.equal(self._rows.take(codes), parts))
        for row in other.tolist():
            value = self._store.value(parts, row)
            code = self._twins.get(value, UNKNOWN)
            if code == UNKNOWN and create:
                code = self._twins[value] = self._code_of_twin(int(hashed[row]))
                self._store_keys(np.array([code]), parts, np.array([row]))
            codes[row] = code

    def _code_of_twin(self, hashed: int) -> int:
        """Return a new code, for the next unused hash."""
        while self._by_hash.find_one([hashed]) != ABSENT:
            hashed = hashed + 1 if hashed < np.iinfo(np.int64).max else 0
        code = self._by_hash.add_one([hashed])
        self._make_room(np.array([code]))
        return code

    def _make_room(self, added: Codes) -> None:
        """Make room for a row and a count for these new codes; what a reader reads does not change."""
        size = self._by_hash.size
        if size > len(self._rows):
            longer = np.zeros((2, 2 * size), np.int64)
            longer[0, : len(self._rows)], longer[1, : len(self._uses)] = self._rows, self._uses
            self._rows, self._uses = longer
            self._frozen_size = 0
        elif self._frozen_size and added.min() < self._frozen_size:
            self._rows = self._rows.copy()
            self._frozen_size = 0

    @property
    def bytes_per_key(self) -> float:
        """About how many bytes of memory a stored key takes, with the bytes of removed keys that are still there."""
        return _BYTES_PER_CODE + _OF_REMOVED * self._store.nbytes / max(1, self._store.size)

    # ---- use ----------------------------------------------------------------------------------------------------

    def retain(self, codes: Codes) -> None:
        """Count one more use of each code."""
        np.add.at(self._uses, codes, 1)

    def release(self, codes: Codes) -> None:
        """Count one use less of each code, and forget unused codes."""
        np.subtract.at(self._uses, codes, 1)
        gone = distinct(codes[self._uses.take(codes) == 0], self._by_hash.size)
        if not len(gone):
            return
        self._by_hash.remove(gone)
        self._seen.clear()
        if self._twins:
            unused = set(gone.tolist())
            self._twins = {value: code for value, code in self._twins.items() if code not in unused}
        if self._store.size > 2 * len(self._by_hash) + _MIN_GARBAGE:
            self._drop_garbage()

    def _drop_garbage(self) -> None:
        codes = self._by_hash.slots_in_use()
        kept = self.decode(codes)
        self._store, self._rows = key_store(self.type), np.zeros_like(self._rows)
        self._store_keys(codes, self._store.parts(kept), np.arange(len(codes)))
        self._frozen_size = 0

    def freeze(self) -> FrozenKeys:
        """Return a decoder of the codes in use now."""
        size = self._by_hash.size
        self._frozen_size = max(self._frozen_size, size)  # an earlier reader may read more, if keys were removed since
        return FrozenKeys(self.type, copy.copy(self._store), self._rows[:size])


def _token(key: Any) -> Hashable:
    """Return the identity of a single key, or None for one that Python compares differently."""
    if type(key) in (str, bytes):
        return key
    if isinstance(key, dict):
        items = tuple(key.items())
        if all(type(value) in (str, bytes, int, bool, type(None)) for _, value in items):
            return (items, tuple(type(value) for _, value in items))
    return None
