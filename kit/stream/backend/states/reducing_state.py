"""Reducing state: one value per key, into which each added one is folded.

Reductions by word ("sum", "min", "max", "count") are computed by column: with numpy if it has a ufunc, else by
`kit.stream.backend.states.folding`. A function of two values is called row by row. Follows `ReducingState`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.errors import StateDescriptorError, StateError, StateOverflowError, StateTypeError
from kit.stream.backend.keys.slot_index import FEW_ROWS
from kit.stream.backend.states.descriptors import ReducingStateDescriptor, Reduction, StateDescriptor, StateKind
from kit.stream.backend.states.folding import FoldOverflowError, fold, may_overflow
from kit.stream.backend.states.tables import KeyedState, Slots, StateTable, Values, one_array
from kit.stream.backend.types.arrow_types import as_type
from kit.stream.backend.types.decimals import EXACT
from kit.stream.backend.types.value_columns import FieldColumn, NumberColumn, StructColumn, numbers_of

_UFUNCS: dict[str, np.ufunc] = {"sum": np.add, "count": np.add, "min": np.fmin, "max": np.maximum}
"""The reductions that numpy computes; a NaN is larger than any number, as in Spark SQL."""


class ReducingState(KeyedState):
    """The folded value of the current key."""

    __slots__ = ()
    _table: ReducingTable

    def get(self) -> Any:
        """Return the folded value, or None if nothing was added."""
        return self._read()

    def add(self, value: Any) -> None:
        """Fold one value in."""
        self._write(_folded(self._table.reduction, self._read(), value))


class ReducingTable(StateTable):
    """The folded values of all keys."""

    kind = StateKind.REDUCING
    view = ReducingState

    @property
    def reduction(self) -> Reduction:
        """The descriptor's reduction."""
        return cast(ReducingStateDescriptor, self.descriptor).reduce

    def adopt(self, descriptor: StateDescriptor) -> None:
        """Let entries start from the neutral value. Raises StateDescriptorError for another reduction than before."""
        reduction = cast(ReducingStateDescriptor, descriptor).reduce
        before = None if self.descriptor is None else self.reduction
        if callable(reduction) or before == reduction:
            return
        if before is not None and not callable(before):
            raise StateDescriptorError(
                f"State {self.name!r} was registered to reduce by {before!r}, and is requested with {reduction!r}"
            )
        for field, column in self._columns().items():
            if not isinstance(column, NumberColumn):
                continue
            start = _start_of(_word(reduction, field), column.values.dtype)
            if start != column.initial:
                unused = np.ones(len(column.values), np.bool_)
                unused[self.entries()] = False
                column.start_from(start, np.flatnonzero(unused))

    def add(self, slots: Slots, values: Values = None) -> None:
        """Fold a value into each row's entry, in row order."""
        self.reduce(slots, values)

    def reduce(self, slots: Slots, values: Values = None, validity: Values = None) -> None:
        """Fold a value into each row's entry, in row order, except for rows that are not valid."""
        self.check_slots(slots)
        reduction = self.reduction
        if callable(reduction):
            self._reduce_rows(reduction, slots, values)
            return
        if not isinstance(self.column, StructColumn) and reduction != "count":
            slots, values, validity = _with_values(slots, one_array(values), validity)
        fresh = self.mark_set(slots)
        for field, column in self._columns().items():
            part, valid = (_part(values, field), _part(validity, field)) if field else (values, validity)
            self._reduce_numbers(column, _word(reduction, field), slots, part, valid, fresh)

    def merge(self, into: Slots, slots: Slots) -> None:
        """Fold the entry of each of `slots` into that of `into`, in row order, and remove it."""
        self.combine(into, self.get(slots))
        self.clear(slots)

    def combine(self, slots: Slots, values: Values) -> None:
        """Fold already reduced values into the entries, in row order: counts add up."""
        self.check_slots(slots)
        reduction = self.reduction
        if callable(reduction):
            self._reduce_rows(reduction, slots, values)
            return
        fresh = self.mark_set(slots)
        for field, column in self._columns().items():
            word, part = _word(reduction, field), _part(values, field) if field else values
            self._reduce_numbers(column, "sum" if word == "count" else word, slots, part, None, fresh)

    def _columns(self) -> dict[str, FieldColumn]:
        """Return the columns that are reduced by words: by struct field, "" if the value is not a struct."""
        return self.column.fields if isinstance(self.column, StructColumn) else {"": cast(FieldColumn, self.column)}

    def _reduce_numbers(
        self, column: FieldColumn, word: str, slots: Slots, values: Values, validity: Values, fresh: Slots
    ) -> None:
        values = one_array(values)
        if validity is None and len(slots) <= FEW_ROWS and isinstance(column, NumberColumn) and column.folds(word):
            few = _few_numbers(values, word, column.type, len(slots))
            if few is not None:
                column.reduce_few(word, slots.tolist(), few, fresh)
                return
        if values is not None:
            if len(values) != len(slots):
                raise StateError(f"State {self.name!r}: {len(slots)} slots and {len(values)} values")
        elif word != "count":
            raise StateError(f"State {self.name!r}: no values to {word}")
        valid = _valid(values, validity)
        if not isinstance(column, NumberColumn):
            self._fold(column, word, slots, values, valid, fresh)
            return
        if word == "count":
            column.reduce(np.add, slots if valid is None else slots[valid], 1, None, fresh)
            return
        numbers, dtype = numbers_of(values)[0], column.values.dtype
        if not np.can_cast(numbers.dtype, dtype, "safe"):
            raise StateTypeError(f"State {self.name!r} of {self.stored_type} cannot take numbers of {numbers.dtype}")
        numbers = numbers.astype(dtype, copy=False)
        if word == "sum" and numbers.dtype == np.uint64 and may_overflow(column, slots, numbers):
            self._fold(column, word, slots, pa.array(numbers), valid, fresh)
        else:
            column.reduce(_UFUNCS[word], slots, numbers, valid, fresh)

    def _fold(self, column: FieldColumn, word: str, slots: Slots, values: Values, valid: Any, fresh: Slots) -> None:
        """Fold what numpy cannot fold."""
        values = as_type(values if isinstance(values, pa.Array) else pa.array(values), column.type)
        if valid is not None:
            rows = np.flatnonzero(valid)
            slots, values = slots[rows], values.take(pa.array(rows))
        try:
            fold(column, word, slots, values, fresh)
        except FoldOverflowError as error:
            key = self.keys(np.array([error.slot]))[0].as_py()
            field = next(name for name, each in self._columns().items() if each is column)
            what = f"State {self.name!r}" + (f", {field!r}" if field else "")
            raise StateOverflowError(
                f"{what}: the sum for key {key!r} is {error.total}, which {column.type} cannot hold: sum a column of "
                "fewer digits, or floats"
            ) from None

    def _reduce_rows(self, reduce: Any, slots: Slots, values: Values) -> None:
        rows = self.as_column(values, len(slots)).to_pylist()
        for slot, value in zip(slots.tolist(), rows, strict=True):
            if value is not None:
                before = self.read(slot)
                after = value if before is None else reduce(before, value)
                self.write(slot, self.converted(after, self.convert))


def _with_values(slots: Slots, values: Values, validity: Values) -> tuple[Slots, Values, Values]:
    """Return the rows that have a value: a key that has met only nulls has no entry, which would be null itself."""
    if values is None or len(values) != len(slots):  # an error, which `_reduce_numbers` reports
        return slots, values, validity
    valid = _valid(values, validity)
    if valid is None:
        return slots, values, None
    return slots[valid], values.filter(pa.array(valid)) if isinstance(values, pa.Array) else values[valid], None


def _valid(values: Values, validity: Values) -> npt.NDArray[np.bool_] | None:
    """Return which rows are valid and not null; None if all are."""
    valid = None if validity is None else np.asarray(validity, np.bool_)
    if isinstance(values, pa.Array) and values.null_count:
        not_null = values.is_valid().to_numpy(zero_copy_only=False)
        valid = not_null if valid is None else valid & not_null
    return valid


def _word(reduce: Any, field: str) -> str:
    """Return the word by which a field of a struct, or a bare number, is reduced."""
    return reduce if isinstance(reduce, str) else str(reduce[field])


def _few_numbers(values: Values, word: str, wanted: pa.DataType, rows: int) -> list[Any] | None:
    """Return the values as Python numbers, None for a null, or None if they need the general path."""
    if values is None:
        return [1] * rows if word == "count" else None
    if word == "count" or not isinstance(values, pa.Array) or values.type != wanted or len(values) != rows:
        return None
    return cast(list[Any], values.to_pylist())


def _start_of(word: str, dtype: np.dtype[Any]) -> Any:
    """Return the neutral number of a reduction."""
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
    if isinstance(values, dict | Mapping):
        return values.get(field)
    if isinstance(values, pa.StructArray):
        part = values.field(field)
        return part if not values.null_count else values.flatten()[values.type.get_field_index(field)]
    return values.column(field)


def _sum(one: Any, other: Any) -> Any:
    return EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def _least(one: Any, other: Any) -> Any:
    """Return the smaller number; a NaN, the only number that differs from itself, is larger than any other."""
    return other if one != one else one if other != other else min(one, other)  # noqa: PLR0124


def _greatest(one: Any, other: Any) -> Any:
    return one if one != one else other if other != other else max(one, other)  # noqa: PLR0124


_FOLDS: dict[str, Callable[[Any, Any], Any]] = {"sum": _sum, "min": _least, "max": _greatest}


def _folded(reduce: Any, before: Any, value: Any) -> Any:
    """Return `value` folded into the previous one (None: no value)."""
    if isinstance(reduce, Mapping):
        fields = value if isinstance(value, Mapping) else dict(zip(reduce, value, strict=True))
        old = before or {}
        # A field that is only counted may be missing.
        return {
            name: _folded(word, old.get(name), fields.get(name, 1 if word == "count" else None))
            for name, word in reduce.items()
        }
    if reduce == "count":
        return (before or 0) + (value is not None)
    if before is None or value is None:
        return value if before is None else before
    return _FOLDS[reduce](before, value) if isinstance(reduce, str) else reduce(before, value)
