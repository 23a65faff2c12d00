"""The evolution of state: which changes of a type a restore accepts, and what becomes of the values.

`RULES` is the table of all rules. `type_changes` compares two types and names the rule of each difference, and
`evolved` converts a column of stored values. They go through structs, lists and the values of maps, so that a struct in
a list may gain a column as well. Keys, namespaces and the keys of maps never change: their hashes decide where an entry
is.

The rules are those by which Avro reads data with a newer schema, without its promotions that may lose digits. Flink
lets POJOs gain and lose fields in the same way, but not widen numbers (`PojoSerializerSnapshot`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kit.core.state.type_changes import Compatibility, TypeChange, place_within
from kit.stream.backend.types.arrow_types import convert_parts


@dataclass(frozen=True, slots=True)
class EvolutionRule:
    """A kind of change, whether state survives it, and what happens to stored values; with an old and a new type."""

    change: str
    compatibility: Compatibility
    values: str
    example: tuple[pa.DataType, pa.DataType]
    loses: bool = False

    def at(self, place: str, what: str) -> TypeChange:
        """Return a change by this rule."""
        return TypeChange(place, what, self.compatibility, self.loses)


def _struct(**fields: pa.DataType | pa.Field) -> pa.DataType:
    return pa.struct([part.with_name(n) if isinstance(part, pa.Field) else (n, part) for n, part in fields.items()])


_N, _TEXT = pa.int32(), pa.string()
_REQUIRED = pa.field("", _TEXT, nullable=False)

ADDED = EvolutionRule(
    "a column is added that may be null",
    Compatibility.MIGRATES,
    "are null in that column",
    (_struct(n=_N), _struct(n=_N, text=_TEXT)),
)
ADDED_REQUIRED = EvolutionRule(
    "a column is added that must not be null",
    Compatibility.INCOMPATIBLE,
    "have nothing to put there",
    (_struct(n=_N), _struct(n=_N, text=_REQUIRED)),
)
REMOVED = EvolutionRule(
    "a column is removed",
    Compatibility.MIGRATES,
    "lose that column",
    (_struct(n=_N, text=_TEXT), _struct(n=_N)),
    loses=True,
)
REORDERED = EvolutionRule(
    "columns stand in another order",
    Compatibility.MIGRATES,
    "keep their columns, which are found by name",
    (_struct(n=_N, text=_TEXT), _struct(text=_TEXT, n=_N)),
)
WIDENED = EvolutionRule(
    "a number gets a wider type",
    Compatibility.MIGRATES,
    "are the same numbers",
    (_N, pa.int64()),
)
MAY_BE_NULL = EvolutionRule(
    "a column may be null from now on",
    Compatibility.MIGRATES,
    "stay as they are",
    (_struct(text=_REQUIRED), _struct(text=_TEXT)),
)
MUST_NOT_BE_NULL = EvolutionRule(
    "a column must not be null from now on",
    Compatibility.INCOMPATIBLE,
    "may be null",
    (_struct(text=_TEXT), _struct(text=_REQUIRED)),
)
ALL_REMOVED = EvolutionRule(
    "no column of a struct is left",
    Compatibility.INCOMPATIBLE,
    "would all be lost",
    (_struct(n=_N), _struct(text=_TEXT)),
)
OTHER = EvolutionRule(
    "any other change: a narrower number, another kind of type, the keys of a map",
    Compatibility.INCOMPATIBLE,
    "cannot be converted without a decision that only you can make",
    (pa.int64(), _N),
)

RULES = (
    ADDED, REMOVED, REORDERED, WIDENED, MAY_BE_NULL, ADDED_REQUIRED, MUST_NOT_BE_NULL, ALL_REMOVED, OTHER,
)  # fmt: skip
"""All rules, in the order of the guide: what a restore accepts, then what it rejects."""

_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_FLOATS = (pa.float16(), pa.float32(), pa.float64())

WIDER = {
    narrow: frozenset({*same[place + 1 :], *(_SIGNED[place + 1 :] if same is _UNSIGNED else ())})
    for same in (_SIGNED, _UNSIGNED, _FLOATS)
    for place, narrow in enumerate(same)
}
"""The types that hold every number of a type: int64 for a uint32, but no float for an integer."""


def type_changes(old: pa.DataType, new: pa.DataType) -> list[TypeChange]:
    """Return all differences between the type of stored values and the type that a job declares."""
    return list(_changes(old, new, ""))


def ttl_changes(was_on: bool, is_on: bool) -> list[TypeChange]:
    """Return the change of a state whose TTL was switched on or off: its entries are accessed now, or live on.

    In 1.11 such a restore fails (`StateMigrationException`); Flink migrates the values since 2.2.
    """
    if was_on == is_on:
        return []
    what = "TTL was switched on: entries expire from now on" if is_on else "TTL was switched off: entries live on"
    return [TypeChange("", what, Compatibility.MIGRATES)]


def evolves(old: pa.DataType, new: pa.DataType) -> bool:
    """Return True if values of the old type can be restored as the new one; also if the types are equal."""
    return old == new or all(each.compatibility < Compatibility.INCOMPATIBLE for each in _changes(old, new, ""))


def evolved(column: pa.Array, new: pa.DataType) -> pa.Array:
    """Return stored values in a type that their own evolves to (`evolves`)."""
    if column.type == new:
        return column
    if not pa.types.is_struct(new):
        return convert_parts(column, new, evolved) if pa.types.is_nested(new) else column.cast(new)
    stored = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    parts = [
        evolved(stored[field.name], field.type) if field.name in stored else pa.nulls(len(column), field.type)
        for field in new
    ]
    return pa.StructArray.from_arrays(parts, fields=list(new), mask=column.is_null() if column.null_count else None)


def newest_type(types: list[pa.DataType]) -> pa.DataType | None:
    """Return the type to which all of these evolve, if they leave no doubt which that is.

    A subtask that has not used a state since a restore stores it in the type that it was restored in, so the files of
    one checkpoint may have the types of jobs before and after a change. A type that loses nothing comes first.
    """
    distinct = list(dict.fromkeys(types))
    reached = [each for each in distinct if all(evolves(other, each) for other in distinct)]
    complete = [each for each in reached if not any(_loses(other, each) for other in distinct)]
    if complete:
        return complete[0]
    return reached[0] if len(reached) == 1 else None


def refusal(old: pa.DataType, new: pa.DataType) -> str:
    """Return what is wrong with a change of type that no restore accepts, and the ways out."""
    changes = _changes(old, new, "")
    wrong = "; ".join(str(each) for each in changes if each.compatibility is Compatibility.INCOMPATIBLE)
    accepted = ", ".join(each.change for each in RULES if each.compatibility is Compatibility.MIGRATES)
    return (
        f"{wrong}. A restore accepts: {accepted}. Otherwise give the changed state another name and fill it from the "
        "old one, or give the operator another uid and start without this state"
    )


def _changes(old: pa.DataType, new: pa.DataType, place: str) -> Iterator[TypeChange]:
    if old == new:
        return
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        yield from _columns(old, new, place)
    elif _is_container(old) and type(old) is type(new) and _length(old) == _length(new):
        if pa.types.is_map(old) and old.key_type != new.key_type:
            yield OTHER.at(place_within(place, "key"), f"{old.key_type} became {new.key_type}")
        one, other = (each.item_field if pa.types.is_map(each) else each.value_field for each in (old, new))
        yield from _nullable(one, other, place_within(place, "value" if pa.types.is_map(old) else "element"))
    elif new in WIDER.get(old, ()) or _is_wider_decimal(old, new):
        yield WIDENED.at(place, f"{old} became {new}")
    else:
        yield OTHER.at(place, f"{old} became {new}")


def _loses(old: pa.DataType, new: pa.DataType) -> bool:
    return any(each.loses for each in _changes(old, new, ""))


def _columns(old: pa.StructType, new: pa.StructType, place: str) -> Iterator[TypeChange]:
    before, after = ({field.name: field for field in each} for each in (old, new))
    kept = [name for name in before if name in after]
    if before and not kept:
        yield ALL_REMOVED.at(place, f"columns {', '.join(before)} became {', '.join(after) or 'none'}")
        return
    for name, field in before.items():
        if name in after:
            yield from _nullable(field, after[name], place_within(place, name))
        else:
            yield REMOVED.at(place, f"column {name} ({field.type}) was removed")
    for name, field in after.items():
        if name not in before:
            rule = ADDED if field.nullable else ADDED_REQUIRED
            not_null = "" if field.nullable else " and must not be null"
            yield rule.at(place, f"column {name} ({field.type}) was added{not_null}")
    if kept != [name for name in after if name in before]:
        yield REORDERED.at(place, f"columns {', '.join(before)} became {', '.join(after)}")


def _nullable(old: pa.Field, new: pa.Field, place: str) -> Iterator[TypeChange]:
    if old.nullable and not new.nullable:
        yield MUST_NOT_BE_NULL.at(place, "it might be null, and must not be any more")
    elif new.nullable and not old.nullable:
        yield MAY_BE_NULL.at(place, "it may be null from now on")
    yield from _changes(old.type, new.type, place)


def _is_container(arrow_type: pa.DataType) -> bool:
    return any(
        is_kind(arrow_type)
        for is_kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map)
    )


def _length(arrow_type: pa.DataType) -> int | None:
    return arrow_type.list_size if pa.types.is_fixed_size_list(arrow_type) else None


def _is_wider_decimal(old: pa.DataType, new: pa.DataType) -> bool:
    """Return True if a decimal type has at least the old one's digits on both sides of the point."""
    if not (pa.types.is_decimal(old) and pa.types.is_decimal(new)):
        return False
    return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
