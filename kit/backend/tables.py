"""State tables: all entries of one named state, in columns.

A table is a `SlotIndex` from (key, namespace) to slots, and a value column by slot.
Operators that work on batches ask it for the slots of a batch once and then read, write or reduce whole columns:

    slots = table.slots(keys)                       # int64, one a row
    table.reduce(slots, {"flights": ones, "delay": delays})
    totals = table.get(slots)                       # Arrow, one a row

The states that work on one key at a time (`kit.backend.keyed_states`) sit on the same tables.
Follows `StateTable`; a namespace (a window, say) is part of the entry's key as it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.backend.arrow_types import as_type, stored_type
from kit.backend.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor, StateKind
from kit.backend.folding import FoldOverflowError, fold, may_overflow
from kit.backend.key_codec import Column, codec_for
from kit.backend.key_context import KeyContext
from kit.backend.slot_index import ABSENT, FrozenIndex, SlotIndex
from kit.backend.sorting import distinct
from kit.backend.value_columns import FieldColumn, FrozenColumn, NumberColumn, StructColumn, column_for, numbers_of
from kit.backend.value_types import MisfitError, converter
from kit.state.errors import StateDescriptorError, StateError, StateOverflowError, StateTypeError

Slots = npt.NDArray[np.int64]
Values = Any  # an Arrow or numpy column; for a struct also a mapping of these, or a record batch

_CONTAINERS: dict[StateKind, type] = {StateKind.LIST: list, StateKind.MAP: dict}
_FOLDS: dict[str, np.ufunc] = {"sum": np.add, "count": np.add, "min": np.fmin, "max": np.maximum}
"""A NaN is larger than any number, as in Spark SQL."""


class StateTable:
    """The entries of one state: a value for each (key, namespace) that has one."""

    def __init__(
        self,
        context: KeyContext,
        name: str,
        kind: StateKind,
        stored_type: pa.DataType,
        namespace_type: pa.DataType | None,
    ) -> None:
        self.context = context
        self.name = name
        self.kind = kind
        self.stored_type = stored_type
        self.namespace_type = namespace_type
        self.namespace_codec = None if namespace_type is None else codec_for(namespace_type, "namespace")
        self.descriptor: StateDescriptor | None = None
        self.index = SlotIndex(1 if namespace_type is None else 2)
        self.column = column_for(stored_type, _CONTAINERS.get(kind))
        self.convert = converter(stored_type)
        self._unset = np.zeros(0, np.bool_)  # slots handed out whose entry was not written yet
        self._unset_slots = np.empty(0, np.int64)
        self._looked_up = -1  # the turn of the key context at which `_current_slot` was right
        self._current_slot = ABSENT

    def __len__(self) -> int:
        return len(self.index) - len(self._unset_slots)

    def __repr__(self) -> str:
        by = "" if self.namespace_type is None else f" by {self.namespace_type}"
        return f"StateTable({self.name!r}, {self.kind} of {self.stored_type}{by}, {len(self)} entries)"

    def attach(self, descriptor: StateDescriptor, namespace_type: pa.DataType | None) -> None:
        """Let `descriptor` say how entries are reduced and what is read where there is none.

        Raises StateDescriptorError when the table was registered or restored with another kind or type.
        """
        self._check_same(descriptor, namespace_type)
        if self.descriptor is None:
            self._start_from(descriptor)
        self.descriptor = descriptor

    def check_restored(self, kind: StateKind, stored_type: pa.DataType, namespace_type: pa.DataType | None) -> None:
        """Raise StateDescriptorError when what a checkpoint holds under this name is something else."""
        stored, registered = (kind, stored_type, namespace_type), (self.kind, self.stored_type, self.namespace_type)
        if stored != registered:
            raise StateDescriptorError(
                f"State {self.name!r} was registered as {_described(*registered)}, and is stored as "
                f"{_described(*stored)}: use another name, or the descriptor it was stored with"
            )

    def freeze(self) -> tuple[FrozenIndex, FrozenColumn]:
        """The entries at this moment, safe from later changes: the synchronous part of a snapshot."""
        index = self.index.freeze(self._unset_slots)
        return index, self.column.freeze(self.index.size)

    # ---- slots --------------------------------------------------------------------------------------------------

    def slots(self, keys: Column, namespaces: Column | None = None, create: bool = True) -> Slots:
        """The slot of each (key, namespace): int64, -1 where there is none and `create` is off.

        A created slot becomes an entry with its first `put` or `reduce`. Slots are good until they are cleared.
        """
        codes = [self.context.codes(keys, create)]
        if self.namespace_codec is None:
            if namespaces is not None:
                raise StateTypeError(f"State {self.name!r} has no namespaces: register it with a namespace_type")
        else:
            if namespaces is None:
                raise StateTypeError(f"State {self.name!r} needs a namespace ({self.namespace_type}) for each key")
            codes.append(self.namespace_codec.encode(namespaces, create))
            if len(codes[0]) != len(codes[1]):
                raise StateError(f"State {self.name!r}: {len(codes[0])} keys and {len(codes[1])} namespaces")
        if not create:
            return self.index.find(codes)
        slots, added = self.index.find_or_add(codes)
        if len(added):
            self._take_in(added)
        return slots

    def keys(self, slots: Slots) -> pa.Array:
        """The key of each slot."""
        return self.context.codec.decode(self.index.columns[0].take(slots))

    def namespaces(self, slots: Slots) -> pa.Array | None:
        """The namespace of each slot; None when the state has no namespaces."""
        if self.namespace_codec is None:
            return None
        return self.namespace_codec.decode(self.index.columns[1].take(slots))

    def entries(self) -> Slots:
        """The slots of all entries, ascending."""
        slots = self.index.slots_in_use()
        return slots[~self._unset[slots]] if len(self._unset_slots) else slots

    def clear(self, slots: Slots) -> None:
        """Remove entries; their slots will be given to others. Slots without an entry and -1 are passed over."""
        slots = distinct(slots[slots >= 0], self.index.size)
        slots = slots[self.index.live[slots]]
        if not len(slots):
            return
        self._looked_up = -1
        codes = [column.take(slots) for column in self.index.columns]
        self.column.clear(slots)
        if len(self._unset_slots):
            self._mark_set(slots)
        self.index.remove(slots)
        self.context.release(codes[0])
        if self.namespace_codec is not None:
            self.namespace_codec.release(codes[1])

    # ---- columns ------------------------------------------------------------------------------------------------

    def get(self, slots: Slots) -> pa.Array:
        """The entry of each slot, null where there is none."""
        absent = slots < 0
        if len(self._unset_slots):
            absent |= self._unset[slots]
        if not absent.any():
            return self.column.get(slots)
        present = self.column.get(slots[~absent])
        return present.take(pa.array(np.cumsum(~absent) - 1, mask=absent))

    def put(self, slots: Slots, values: Values) -> None:
        """Set entries; of equal slots the last wins. A null clears the entry, as `update(None)` does."""
        self._check_slots(slots)
        column = self._as_arrow(values, len(slots))
        if column.null_count:
            reversed_slots, last = np.unique(slots[::-1], return_index=True)
            rows = len(slots) - 1 - last
            valid = column.is_valid().to_numpy(zero_copy_only=False)[rows]
            self._put(reversed_slots[valid], column.take(pa.array(rows[valid])))
            self.clear(reversed_slots[~valid])
        else:
            self._put(slots, column)

    def reduce(self, slots: Slots, values: Values = None, validity: Values = None) -> None:
        """Fold a value into each row's entry, rows in order; an integer sum wraps around as in Java.

        `values` is a column; for a struct a mapping from field to column, a struct column or a record batch. A field
        that is only counted needs none. Nulls, and rows where `validity` (bool; or a mapping by field) is False, are
        passed over: an entry that met nothing else is null in that field (a count is 0). A sum of decimals or of
        uint64 that its type cannot hold raises StateOverflowError.
        """
        self._check_slots(slots)
        descriptor = self.descriptor
        if not isinstance(descriptor, ReducingStateDescriptor):
            raise StateDescriptorError(f"State {self.name!r} is of kind {self.kind}: only a reducing state reduces")
        if callable(descriptor.reduce):
            self._reduce_rows(descriptor.reduce, slots, values)
            return
        fresh = self._mark_set(slots)
        if isinstance(self.column, StructColumn):
            for field, column in self._reducing_columns().items():
                word = _word(descriptor.reduce, field)
                self._reduce_numbers(column, word, slots, _part(values, field), _part(validity, field), fresh)
        else:
            column = self._reducing_columns()[""]
            self._reduce_numbers(column, str(descriptor.reduce), slots, values, validity, fresh)

    def merge(self, into: Slots, slots: Slots) -> None:
        """Fold the entry of each of `slots` into that of `into`, rows in order, and remove it (`mergeNamespaces`).

        For reducing states and lists. No slot may be in both.
        """
        self._check_slots(into)
        descriptor, values = self.descriptor, self.get(slots)
        if self.kind is StateKind.LIST:
            for slot, elements in zip(into.tolist(), values.to_pylist(), strict=True):
                self.container(slot).extend(elements)
        elif not isinstance(descriptor, ReducingStateDescriptor):
            raise StateDescriptorError(f"State {self.name!r} is of kind {self.kind}: its entries do not merge")
        elif callable(descriptor.reduce):
            self._reduce_rows(descriptor.reduce, into, values)
        else:
            fresh = self._mark_set(into)
            for field, column in self._reducing_columns().items():
                word = _word(descriptor.reduce, field)
                part = _part(values, field) if isinstance(self.column, StructColumn) else values
                self._reduce_numbers(column, "sum" if word == "count" else word, into, part, None, fresh)
        self.clear(slots)

    def add(self, slots: Slots, values: Values) -> None:
        """Add a value to each row's accumulator (aggregating state) or list (list state), rows in order."""
        self._check_slots(slots)
        rows = values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else list(values)
        if isinstance(self.descriptor, AggregatingStateDescriptor):
            aggregate = self.descriptor.aggregate
            for slot, value in zip(slots.tolist(), rows, strict=True):
                before = self.read(slot)
                after = aggregate.add(value, aggregate.create_accumulator() if before is None else before)
                self.write(slot, self.converted(after, self.convert))
        elif self.kind is StateKind.LIST:
            convert = converter(self.stored_type.value_type)
            for slot, value in zip(slots.tolist(), rows, strict=True):
                self.container(slot).append(self.converted(value, convert))
        else:
            raise StateDescriptorError(f"State {self.name!r} is of kind {self.kind}: nothing can be added to it")

    # ---- one entry ----------------------------------------------------------------------------------------------

    def current_slot(self, namespace: Any, create: bool) -> int:
        """The slot of the current key, or -1."""
        plain = self.namespace_codec is None
        if plain and self._looked_up == self.context.turn and (self._current_slot >= 0 or not create):
            return self._current_slot
        codes = [self.context.current_code(create)]
        if self.namespace_codec is not None:
            codes.append(self.namespace_codec.encode_one(namespace, create))
        slot = self.index.find_one(codes)
        if slot == ABSENT and create:
            slot = self.index.add_one(codes)
            self._take_in(np.array([slot]))
        if plain:
            self._looked_up, self._current_slot = self.context.turn, slot
        return slot

    def read(self, slot: int) -> Any:
        """The entry of a slot as a Python value; None where there is none."""
        if slot < 0 or self._unset.item(slot):
            return None
        return self.column.get_one(slot)

    def write(self, slot: int, value: Any) -> None:
        """Set the entry of a slot to a converted value."""
        self.column.put_one(slot, value)
        if len(self._unset_slots):
            self._mark_set(np.array([slot]))

    def container(self, slot: int) -> Any:
        """The list or dict of a slot, empty at first, to be changed in place."""
        column = self.column
        if self._unset[slot]:
            column.put_one(slot, _CONTAINERS[self.kind]())
            self._mark_set(np.array([slot]))
        return column.owned(slot)  # type: ignore[attr-defined]

    def converted(self, value: Any, convert: Any) -> Any:
        """The value as its type holds it; StateTypeError when it does not fit."""
        try:
            if value is None:
                raise MisfitError("None is no value")
            return convert(value)
        except MisfitError as error:
            raise StateTypeError(
                f"State {self.name!r} ({self.kind} of {self.stored_type}) refuses {value!r}: {error}"
            ) from None

    # ---- within -------------------------------------------------------------------------------------------------

    def _take_in(self, added: Slots) -> None:
        """Make new slots ready: room for their entries, their codes counted, their keys ours."""
        self._looked_up = -1
        codes = [column.take(added) for column in self.index.columns]
        misplaced = self.context.misplaced(codes[0])
        self.context.codec.retain(codes[0])
        if self.namespace_codec is not None:
            self.namespace_codec.retain(codes[1])
        capacity = self.index.capacity
        self.column.ensure(capacity)
        if len(self._unset) < capacity:
            self._unset = np.concatenate((self._unset, np.zeros(capacity - len(self._unset), np.bool_)))
        self._unset[added] = True
        self._unset_slots = np.concatenate((self._unset_slots, added))
        if misplaced:
            self.clear(added)
            raise StateError(f"State {self.name!r}: {misplaced}")

    def _mark_set(self, slots: Slots) -> Slots:
        """Note that entries are written; the slots that were not before."""
        if not len(self._unset_slots):
            return slots[:0]
        self._unset[slots] = False
        still = self._unset[self._unset_slots]
        fresh = self._unset_slots[~still]
        self._unset_slots = self._unset_slots[still]
        return fresh

    def _put(self, slots: Slots, column: pa.Array) -> None:
        self.column.put(slots, column)
        self._mark_set(slots)

    def _reduce_numbers(
        self, column: FieldColumn, word: str, slots: Slots, values: Values, validity: Values, fresh: Slots
    ) -> None:
        valid = None if validity is None else np.asarray(validity, np.bool_)
        values = _one_array(values)
        if values is not None:
            if len(values) != len(slots):
                raise StateError(f"State {self.name!r}: {len(slots)} slots and {len(values)} values")
            if isinstance(values, pa.Array) and values.null_count:
                not_null = values.is_valid().to_numpy(zero_copy_only=False)
                valid = not_null if valid is None else valid & not_null
        elif word != "count":
            raise StateError(f"State {self.name!r}: no values to {word}")
        if not isinstance(column, NumberColumn):
            self._fold(column, word, slots, values, valid, fresh)
            return
        if word == "count":
            column.reduce(np.add, slots if valid is None else slots[valid], 1, None, fresh)
            return
        numbers = self._as_stored(numbers_of(values)[0], column.values.dtype)
        if word == "sum" and numbers.dtype == np.uint64 and may_overflow(column, slots, numbers):
            self._fold(column, word, slots, pa.array(numbers), valid, fresh)
        else:
            column.reduce(_FOLDS[word], slots, numbers, valid, fresh)

    def _fold(self, column: FieldColumn, word: str, slots: Slots, values: Values, valid: Any, fresh: Slots) -> None:
        """What numpy cannot fold."""
        values = as_type(values if isinstance(values, pa.Array) else pa.array(values), column.type)
        if valid is not None:
            rows = np.flatnonzero(valid)
            slots, values = slots[rows], values.take(pa.array(rows))
        try:
            fold(column, word, slots, values, fresh)
        except FoldOverflowError as error:
            key = self.keys(np.array([error.slot]))[0].as_py()
            field = next(name for name, each in self._reducing_columns().items() if each is column)
            what = f"State {self.name!r}" + (f", {field!r}" if field else "")
            raise StateOverflowError(
                f"{what}: the sum for key {key!r} is {error.total}, which {column.type} cannot hold: sum a column of "
                "fewer digits, or floats"
            ) from None

    def _as_stored(self, numbers: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        if not np.can_cast(numbers.dtype, dtype, "safe"):
            raise StateTypeError(f"State {self.name!r} of {self.stored_type} cannot take numbers of {numbers.dtype}")
        return numbers.astype(dtype, copy=False)

    def _reduce_rows(self, reduce: Any, slots: Slots, values: Values) -> None:
        rows = self._as_arrow(values, len(slots)).to_pylist()
        for slot, value in zip(slots.tolist(), rows, strict=True):
            if value is not None:
                before = self.read(slot)
                after = value if before is None else reduce(before, value)
                self.write(slot, self.converted(after, self.convert))

    def _as_arrow(self, values: Values, rows: int) -> pa.Array:
        if isinstance(values, np.ndarray):
            values = pa.array(values)
        column = _one_array(values)
        if len(column) != rows:
            raise StateError(f"State {self.name!r}: {rows} slots and {len(column)} values")
        if column.type != self.stored_type:
            try:
                if stored_type(column.type) == self.stored_type:
                    return as_type(column, self.stored_type)
                if pa.types.is_nested(column.type):
                    raise pa.ArrowInvalid("another structure")
                column = column.cast(self.stored_type)
            except pa.ArrowException as error:
                raise StateTypeError(
                    f"State {self.name!r} ({self.kind} of {self.stored_type}) cannot take {column.type}: {error}"
                ) from None
        return column

    def _check_slots(self, slots: Slots) -> None:
        if len(slots) and slots.min() < 0:
            raise StateError(
                f"State {self.name!r}: a slot is -1, which has no entry to write; look slots up with create"
            )

    def _check_same(self, descriptor: StateDescriptor, namespace_type: pa.DataType | None) -> None:
        found = (self.kind, self.stored_type, self.namespace_type)
        wanted = (descriptor.kind, descriptor.stored_type, namespace_type)
        if found != wanted:
            origin = "restored" if self.descriptor is None else "registered"
            raise StateDescriptorError(
                f"State {self.name!r} was {origin} as {_described(*found)}, and is asked for as {_described(*wanted)}: "
                "use another name, or the same descriptor"
            )
        before = self.descriptor
        if isinstance(before, ReducingStateDescriptor) and isinstance(descriptor, ReducingStateDescriptor):
            words = (before.reduce, descriptor.reduce)
            if not any(callable(word) for word in words) and words[0] != words[1]:
                raise StateDescriptorError(
                    f"State {self.name!r} was registered to reduce by {words[0]!r}, and is asked for with {words[1]!r}"
                )

    def _start_from(self, descriptor: StateDescriptor) -> None:
        if not isinstance(descriptor, ReducingStateDescriptor) or callable(descriptor.reduce):
            return
        for field, column in self._reducing_columns().items():
            if not isinstance(column, NumberColumn):
                continue
            word = _word(descriptor.reduce, field)
            unused = np.ones(len(column.values), np.bool_)
            unused[self.entries()] = False
            column.start_from(_start_of(word, column.values.dtype), np.flatnonzero(unused))

    def _reducing_columns(self) -> dict[str, FieldColumn]:
        """The columns that are reduced by words: by struct field, "" where the value is no struct."""
        return self.column.fields if isinstance(self.column, StructColumn) else {"": cast(FieldColumn, self.column)}


def _described(kind: StateKind, stored_type: pa.DataType, namespace_type: pa.DataType | None) -> str:
    return f"{kind} of {stored_type}" + ("" if namespace_type is None else f" by namespace {namespace_type}")


def _word(reduce: Any, field: str) -> str:
    """The word by which a field of a struct, or a bare number, is reduced."""
    return str(reduce[field] if isinstance(reduce, Mapping) else reduce)


def _start_of(word: str, dtype: np.dtype[Any]) -> Any:
    """The number that changes nothing when another is folded into it."""
    if word in {"sum", "count"}:
        return 0
    if dtype.kind == "f":
        return np.nan if word == "min" else -np.inf
    if dtype.kind == "b":
        return word == "min"
    return np.iinfo(dtype).max if word == "min" else np.iinfo(dtype).min


def _part(values: Values, field: str) -> Values:
    if values is None or isinstance(values, np.ndarray):
        return values
    if isinstance(values, Mapping):
        return values.get(field)
    if isinstance(values, pa.StructArray):
        part = values.field(field)
        return part if not values.null_count else values.flatten()[values.type.get_field_index(field)]
    return values.column(field)


def _one_array(values: Values) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
