"""Value columns: the values of a state, one entry per slot.

Numbers, bools and times are kept in a numpy array, decimals in one per limb; a struct has one column per field;
everything else is a Python list of values, lists or dicts. `freeze` gives a snapshot its own view. Arrays keep what is
overwritten from then on (`kit.stream.backend.files.frozen_array`), and Python lists are copied without their elements.
The elements of a list or map state are copied when they are next changed (copy on write).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from operator import add
from sys import getsizeof
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_kinds import Family, kind_of
from kit.core.state.errors import StateTypeError
from kit.stream.backend.files.frozen_array import FrozenArray, Readers
from kit.stream.backend.keys.changed_rows import ChangedRows
from kit.stream.backend.keys.key_columns import storage_dtype
from kit.stream.backend.keys.key_hashing import as_numbers
from kit.stream.backend.keys.slot_index import extended
from kit.stream.backend.picking import column_of, rows_at
from kit.stream.backend.types.arrow_types import has_nanosecond_times
from kit.stream.backend.types.decimals import from_limbs, limb_count, limb_type, limbs

Slots = npt.NDArray[np.int64]
SomeSlots = npt.NDArray[np.int64] | npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Fold = Callable[[Any, Any], Any]
_REFERENCE_BYTES = 8
Joined = Callable[[Any, list[pa.Array]], pa.Array]


class Entries(Protocol):
    """Entries that can be read."""

    def get(self, slots: SomeSlots) -> pa.Array:
        """Return the entries of slots, in order."""


class FrozenColumn(Entries, Protocol):
    """The entries at one moment. Any thread may read them."""

    def settle(self) -> None:
        """Copy what the live column would otherwise have to keep; `get` does so if it was not done before."""


class ValueColumn(Entries, Protocol):
    """Entries that can be changed."""

    type: pa.DataType

    def track(self, changes: ChangedRows) -> None:
        """Note all later writes there."""

    def ensure(self, capacity: int) -> None:
        """Make room for slots below `capacity`."""

    def put(self, slots: Slots, values: pa.Array) -> None:
        """Set entries; of equal slots the last wins."""

    def get_one(self, slot: int) -> Any:
        """Return one entry as a Python value."""

    def put_one(self, slot: int, value: Any) -> None:
        """Set one entry from a value that went through its converter."""

    def clear(self, slots: Slots) -> None:
        """Reset entries to the state of never having been set."""

    def freeze(self, size: int) -> FrozenColumn:
        """Return the entries of slots below `size`, safe from later changes."""

    def bytes_per_row(self, sample: Slots) -> float:
        """Return about how many bytes an entry takes, judged by those in some slots."""


def column_for(arrow_type: pa.DataType) -> ValueColumn:
    """Return the column for values of a type that are set as a whole."""
    if pa.types.is_struct(arrow_type) and arrow_type.num_fields:
        return StructColumn(arrow_type)
    return _field_column(arrow_type)


class NumberColumn:
    """Numbers, bools or times in a numpy array, with a null mask once there was a null."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.type = arrow_type
        self.initial: Any = 0
        self.values = np.empty(0, storage_dtype(arrow_type))
        self.nulls: Mask | None = None
        self._temporal = kind_of(arrow_type).is_time
        self._readers, self._null_readers = Readers(), Readers()
        self._changes: ChangedRows | None = None

    def track(self, changes: ChangedRows) -> None:
        """Note all later writes there."""
        self._changes = changes

    def ensure(self, capacity: int) -> None:
        """Make room for slots below `capacity`."""
        if capacity > len(self.values):
            self.values = extended(self.values, capacity, self.initial)
            self._readers.clear()  # they refer to the old array, which no longer changes
            if self.nulls is not None:
                self.nulls = extended(self.nulls, capacity)
                self._null_readers.clear()

    def get(self, slots: SomeSlots) -> pa.Array:
        """Return the entries of slots, as Arrow."""
        return as_arrow(self.type, self.values.take(slots), None if self.nulls is None else self.nulls.take(slots))

    def put(self, slots: Slots, values: pa.Array) -> None:
        """Set entries from Arrow."""
        numbers, valid = numbers_of(values)
        self._before_write(slots)
        self.values[slots] = numbers
        if valid is not None or self.nulls is not None:
            self._null_mask()[slots] = False if valid is None else ~valid

    def get_one(self, slot: int) -> Any:
        """Return one entry as a Python value."""
        if self.nulls is not None and self.nulls[slot]:
            return None
        if self._temporal:
            return self._time(slot)
        return self.values.item(slot)

    def put_one(self, slot: int, value: Any) -> None:
        """Set one entry from a converted Python value."""
        if self._readers or self._null_readers or self._changes is not None:
            self._before_write(slot)
        if value is None or self.nulls is not None:
            self._null_mask()[slot] = value is None
        if value is None:
            self.values[slot] = 0
        elif self._temporal:
            self.values[slot] = as_numbers(pa.array([value], self.type))[0]
        else:
            self.values[slot] = value

    def clear(self, slots: Slots) -> None:
        """Reset entries to the initial value."""
        self._before_write(slots)
        self.values[slots] = self.initial
        if self.nulls is not None:
            self.nulls[slots] = False

    def start_from(self, initial: Any, unused: Slots) -> None:
        """Change the initial value of entries that are not set yet."""
        self.initial = initial
        self.values[unused] = initial

    def reduce(
        self, fold: np.ufunc, slots: Slots, numbers: npt.NDArray[Any] | int, valid: Mask | None, fresh: Slots
    ) -> None:
        """Fold numbers into entries, in row order; `fresh` are the slots among them that were never set.

        Rows where `valid` is False have no number; an entry that never met a number is null.
        """
        self._before_write(slots)
        if valid is not None:
            self._null_mask()[fresh] = True
            slots = slots[valid]
            numbers = numbers if isinstance(numbers, int) else numbers[valid]
        if self.nulls is not None:
            emptied = slots[self.nulls[slots]]
            self.values[emptied] = self.initial
            self.nulls[slots] = False
        if self.values.dtype.kind != "f":
            fold.at(self.values, slots, numbers)
            return
        with np.errstate(invalid="ignore"):  # for a NaN, or infinities of both signs
            fold.at(self.values, slots, numbers)

    def folds(self, word: str) -> bool:
        """Return True if `reduce_few` supports this reduction."""
        return word in _FOLDS.get(self.type, ())

    def reduce_few(self, word: str, slots: list[int], numbers: Sequence[Any], fresh: Slots) -> None:
        """Do what `reduce` does for a few rows of Python numbers, None without a number: faster than the passes."""
        if self._readers or self._null_readers or self._changes is not None:
            self._before_write(np.array(slots, np.int64))
        if None in numbers:
            self._null_mask()[fresh] = True
        fold, values, nulls = _FOLDS[self.type][word], self.values, self.nulls
        for slot, number in zip(slots, numbers):
            if number is None:
                continue
            if nulls is not None and nulls.item(slot):
                nulls[slot] = False
                values[slot] = self.initial
            values[slot] = fold(values.item(slot), number)

    def freeze(self, size: int) -> FrozenNumbers:
        """Return a snapshot's view."""
        nulls = None if self.nulls is None else self._null_readers.freeze(self.nulls, size)
        return FrozenNumbers(self.type, self._readers.freeze(self.values, size), nulls)

    def bytes_per_row(self, sample: Slots) -> float:
        """Return the bytes of a number, and of its mark if some are null."""
        return self.values.itemsize + (self.nulls is not None)

    def _time(self, slot: int) -> Any:
        time = self.get(np.array([slot]))
        if has_nanosecond_times(self.type) and time.view(pa.int64())[0].as_py() % 1_000:
            raise StateTypeError(
                f"{time[0]} has nanoseconds, which Python's time does not support: read the state in columns"
            )
        return time[0].as_py()

    def _before_write(self, slots: Slots | int) -> None:
        if self._changes is not None:
            self._changes.change(slots)
        if self._readers:
            self._readers.before_write(slots)
        if self._null_readers:
            self._null_readers.before_write(slots)

    def _null_mask(self) -> Mask:
        if self.nulls is None:
            self.nulls = np.zeros(len(self.values), np.bool_)
        return self.nulls


def _wrapping_sum(one: int, other: int) -> int:
    """Return the sum of two Java longs."""
    return (one + other + (1 << 63)) % (1 << 64) - (1 << 63)


_FOLDS: Mapping[pa.DataType, Mapping[str, Fold]] = {
    pa.int64(): {"sum": _wrapping_sum, "count": add, "min": min, "max": max},
    pa.float64(): {"sum": add},
}
"""The folds of Python numbers that equal numpy's, by type and word; everything else is left to numpy."""


class FrozenNumbers:
    """The entries of a number column at one moment."""

    def __init__(self, arrow_type: pa.DataType, values: FrozenArray, nulls: FrozenArray | None) -> None:
        self.type = arrow_type
        self._values = values
        self._nulls = nulls

    def get(self, slots: SomeSlots) -> pa.Array:
        """Return the entries of slots, as Arrow."""
        values = self._values.array()
        if self._nulls is None and values.dtype != np.bool_:
            return rows_at(column_of(values, self.type), slots, are_there=True)
        nulls = None if self._nulls is None else self._nulls.array().take(slots)
        return as_arrow(self.type, values.take(slots), nulls)

    def settle(self) -> None:
        """Copy what may still change."""
        self._values.array()
        if self._nulls is not None:
            self._nulls.array()


class FrozenParts:
    """The entries at one moment of a column that consists of several, of whose arrays `joined` makes one."""

    def __init__(self, arrow_type: pa.DataType, parts: Sequence[FrozenColumn], joined: Joined) -> None:
        self.type = arrow_type
        self._parts = parts
        self._joined = joined

    def get(self, slots: SomeSlots) -> pa.Array:
        return self._joined(self.type, [part.get(slots) for part in self._parts])

    def settle(self) -> None:
        for part in self._parts:
            part.settle()


class CopiedColumn:
    """Entries that were copied when they were frozen: those of slots 0, 1, 2, ..."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def get(self, slots: SomeSlots) -> pa.Array:
        return self._values.take(pa.array(slots))

    def settle(self) -> None:
        """Do nothing: they were copied."""


class _PartsColumn:
    """A column that consists of several, of whose arrays `joined` makes one."""

    def __init__(self, arrow_type: pa.DataType, parts: Sequence[FieldColumn], joined: Joined) -> None:
        self.type = arrow_type
        self._parts = parts
        self._joined = joined

    def track(self, changes: ChangedRows) -> None:
        for part in self._parts:
            part.track(changes)

    def ensure(self, capacity: int) -> None:
        for part in self._parts:
            part.ensure(capacity)

    def get(self, slots: SomeSlots) -> pa.Array:
        return self._joined(self.type, [part.get(slots) for part in self._parts])

    def clear(self, slots: Slots) -> None:
        for part in self._parts:
            part.clear(slots)

    def bytes_per_row(self, sample: Slots) -> float:
        return sum(part.bytes_per_row(sample) for part in self._parts)

    def freeze(self, size: int) -> FrozenParts:
        return FrozenParts(self.type, [part.freeze(size) for part in self._parts], self._joined)


class DecimalColumn(_PartsColumn):
    """Decimals: a number column for each limb; the first knows which are null."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        parts = [NumberColumn(limb_type(arrow_type)) for _ in range(limb_count(arrow_type))]
        super().__init__(arrow_type, parts, _as_decimals)

    def put(self, slots: Slots, values: pa.Array) -> None:
        valid = pa.array(values.is_valid()) if values.null_count else None
        for column, limb in zip(self._parts, limbs(values), strict=True):
            part = pa.array(limb)
            column.put(slots, part if valid is None else pc.if_else(valid, part, pa.scalar(None, part.type)))

    def get_one(self, slot: int) -> Any:
        return self.get(np.array([slot]))[0].as_py()

    def put_one(self, slot: int, value: Any) -> None:
        self.put(np.array([slot]), pa.array([value], self.type))


class StructColumn(_PartsColumn):
    """Structs: one column per field, of numbers, decimals or, for other types, objects."""

    def __init__(self, arrow_type: pa.StructType) -> None:
        self.fields: dict[str, FieldColumn] = {f.name: _field_column(f.type) for f in arrow_type}
        super().__init__(arrow_type, list(self.fields.values()), _as_struct)

    def put(self, slots: Slots, values: pa.StructArray) -> None:
        for column, part in zip(self._parts, values.flatten(), strict=True):
            column.put(slots, part)

    def get_one(self, slot: int) -> Any:
        return {name: column.get_one(slot) for name, column in self.fields.items()}

    def put_one(self, slot: int, value: Any) -> None:
        for name, column in self.fields.items():
            column.put_one(slot, value[name])


class ObjectColumn:
    """Other values: a Python list of values, none of which is ever changed."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.type = arrow_type
        self._values: list[Any] = []
        self._changes: ChangedRows | None = None

    def track(self, changes: ChangedRows) -> None:
        self._changes = changes

    def ensure(self, capacity: int) -> None:
        self._values.extend([None] * (capacity - len(self._values)))

    def get(self, slots: SomeSlots) -> pa.Array:
        return pa.array([self._values[slot] for slot in slots.tolist()], self.type)

    def put(self, slots: Slots, values: pa.Array) -> None:
        for slot, value in zip(slots.tolist(), values.to_pylist(), strict=True):
            self.put_one(slot, value)

    def get_one(self, slot: int) -> Any:
        return self._values[slot]

    def put_one(self, slot: int, value: Any) -> None:
        if self._changes is not None:
            self._changes.change(slot)
        self._values[slot] = value

    def clear(self, slots: Slots) -> None:
        if self._changes is not None:
            self._changes.change(slots)
        for slot in slots.tolist():
            self._values[slot] = None

    def bytes_per_row(self, sample: Slots) -> float:
        """Return the average size of the values in the sample, and of a reference."""
        sizes = [_size_of(self._values[slot]) for slot in sample.tolist()]
        return _REFERENCE_BYTES + sum(sizes) / max(1, len(sizes))

    def freeze(self, size: int) -> ObjectColumn:
        """Return a copy for a snapshot."""
        frozen = copy(self)
        frozen._values, frozen._changes = self._values[:size], None
        return frozen

    def settle(self) -> None:
        """Do nothing: `freeze` has copied."""


class ContainerColumn(ObjectColumn):
    """Lists or dicts, which are changed in place, and only through `owned`: after a freeze the first change copies.

    `container` makes one from Arrow's values; `stored` brings one into the order of a checkpoint.
    """

    def __init__(
        self, arrow_type: pa.DataType, container: Callable[[Any], Any], stored: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(arrow_type)
        self._container = container
        self._stored = stored
        self._owned: bytearray | None = None  # after a freeze: 1 where the element is no longer shared with it

    def ensure(self, capacity: int) -> None:
        """Make room for slots below `capacity`."""
        super().ensure(capacity)
        if self._owned is not None:
            self._owned.extend(bytes(len(self._values) - len(self._owned)))

    def get(self, slots: SomeSlots) -> pa.Array:
        """Return the entries of slots, as Arrow."""
        if self._stored is None:
            return super().get(slots)
        values = [self._values[slot] for slot in slots.tolist()]
        return pa.array([None if value is None else self._stored(value) for value in values], self.type)

    def put(self, slots: Slots, values: pa.Array) -> None:
        """Set entries from Arrow."""
        for slot, value in zip(slots.tolist(), values.to_pylist(), strict=True):
            self.put_one(slot, self._container(value))

    def put_one(self, slot: int, value: Any) -> None:
        """Set one entry to a container of converted values."""
        super().put_one(slot, value)
        if self._owned is not None:
            self._owned[slot] = 1

    def owned(self, slot: int) -> Any:
        """Return the container of a slot, safe to change in place, which the caller does at once."""
        if self._owned is not None and not self._owned[slot]:
            self.put_one(slot, self._values[slot].copy())
        elif self._changes is not None:
            self._changes.change(slot)
        return self._values[slot]

    def freeze(self, size: int) -> ObjectColumn:
        """Return a snapshot's copy, which shares the containers until they are changed."""
        self._owned = bytearray(len(self._values))
        return super().freeze(size)


def _size_of(value: Any) -> int:
    """Return about how many bytes a Python value takes."""
    size = getsizeof(value)
    if isinstance(value, dict):
        return size + sum(_size_of(key) + _size_of(item) for key, item in value.items())
    return size + sum(map(_size_of, value)) if isinstance(value, list | tuple) else size


FieldColumn = NumberColumn | DecimalColumn | ObjectColumn


def _field_column(arrow_type: pa.DataType) -> FieldColumn:
    """Return the column of a field of a struct: structs within it are objects."""
    kind = kind_of(arrow_type)
    if kind.is_number_in_memory:
        return NumberColumn(arrow_type)
    return DecimalColumn(arrow_type) if kind.family is Family.DECIMAL else ObjectColumn(arrow_type)


def sorted_items(entries: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Return the entries of a map in the order of a checkpoint: by key."""
    return sorted(entries.items(), key=lambda entry: entry[0])


def numbers_of(values: pa.Array | npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Mask | None]:
    """Return a column as numpy numbers (0 where null), and where it is valid (None: everywhere)."""
    if isinstance(values, np.ndarray):
        return values, None
    kind = kind_of(values.type)
    if kind.is_time:
        values = values.view(pa.int32() if kind.width == 32 else pa.int64())
    valid = None
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        values = values.fill_null(False if kind.family is Family.BOOL else 0)
    return values.to_numpy(zero_copy_only=False), valid


def as_arrow(arrow_type: pa.DataType, values: npt.NDArray[Any], nulls: Mask | None) -> pa.Array:
    """Return new arrays as a column of numbers, bools or times, null where `nulls` is True."""
    if nulls is not None:
        values[nulls] = 0  # equal state makes equal bytes, also under nulls
    elif values.dtype != np.bool_:  # numpy and Arrow have the same layout
        return column_of(values, arrow_type)
    if kind_of(arrow_type).is_time:
        return pa.array(values, mask=nulls).view(arrow_type)
    return pa.array(values, arrow_type, mask=nulls)


def _as_decimals(arrow_type: pa.DataType, parts: list[pa.Array]) -> pa.Array:
    nulls = parts[0].is_null().to_numpy(zero_copy_only=False) if parts[0].null_count else None
    return from_limbs(arrow_type, [numbers_of(part)[0] for part in parts], nulls)


def _as_struct(arrow_type: pa.StructType, columns: list[pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type))
