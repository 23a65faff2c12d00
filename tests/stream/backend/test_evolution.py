"""Types of state that change between jobs: what the rules accept, and the values after the change."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state.type_changes import Compatibility
from kit.stream.backend.types.evolution import RULES, WIDER, evolved, evolves, newest_type, type_changes
from tests.house.files import ROOT

NAMES = "abcdef"
NUMBERS = [*WIDER, pa.decimal128(6, 2)]
PLAIN = {
    pa.string(): str,
    pa.binary(): lambda seed: bytes([seed]),
    pa.bool_(): lambda seed: seed % 2 == 0,
    pa.date32(): lambda seed: dt.date(2020, 1, 1 + seed % 28),
}
LEAVES = [*NUMBERS, *PLAIN]


def fields(of: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    field = st.builds(pa.field, st.sampled_from(NAMES), of, nullable=st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda each: each.name)


TYPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda of: st.one_of(
        fields(of).map(pa.struct),
        of.map(pa.list_),
        of.map(pa.large_list),
        of.map(lambda each: pa.list_(each, 2)),
        of.map(lambda each: pa.map_(pa.string(), each)),
    ),
    max_leaves=6,
)


@st.composite
def newer(draw: st.DrawFn, old: pa.DataType) -> pa.DataType:
    """A type that the old one evolves to, by several changes at once."""
    if pa.types.is_struct(old):
        kept = [each for each in old if draw(st.integers(0, 3))] or [old[0]]
        changed = [
            pa.field(each.name, draw(newer(each.type)), nullable=each.nullable or draw(st.booleans())) for each in kept
        ]
        taken = {each.name for each in old}
        added = [each.with_nullable(True) for each in draw(fields(TYPES)) if each.name not in taken]
        return pa.struct(draw(st.permutations([*changed, *added])))
    if pa.types.is_map(old):
        return pa.map_(old.key_type, draw(newer(old.item_type)))
    if pa.types.is_fixed_size_list(old):
        return pa.list_(draw(newer(old.value_type)), old.list_size)
    if pa.types.is_list(old):
        return pa.list_(draw(newer(old.value_type)))
    if pa.types.is_large_list(old):
        return pa.large_list(draw(newer(old.value_type)))
    if pa.types.is_decimal(old):
        return pa.decimal128(old.precision + draw(st.integers(2, 5)), old.scale + draw(st.integers(0, 2)))
    return draw(st.sampled_from(sorted({old, *WIDER.get(old, ())}, key=str)))


def value_of(kind: pa.DataType, seed: int) -> Any:
    """A value that depends on the seed; a null now and then, within a value."""
    if pa.types.is_struct(kind):
        return {
            each.name: None if each.nullable and (seed + place) % 5 == 0 else value_of(each.type, seed + place)
            for place, each in enumerate(kind)
        }
    if pa.types.is_map(kind):
        return [(f"k{number}", value_of(kind.item_type, seed + number)) for number in range(seed % 3)]
    if pa.types.is_fixed_size_list(kind):
        return [value_of(kind.value_type, seed + number) for number in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value_of(kind.value_type, seed + number) for number in range(seed % 4)]
    if pa.types.is_decimal(kind):
        return Decimal(seed).scaleb(-2)
    if kind in PLAIN:
        return PLAIN[kind](seed)
    return pa.scalar(seed % 100, pa.int64()).cast(kind).as_py()


def changed(value: Any, old: pa.DataType, new: pa.DataType) -> Any:
    """What a value becomes, found with Python's values one at a time."""
    if value is None or old == new:
        return value
    if pa.types.is_struct(new):
        parts = {each.name: each.type for each in old}
        return {
            each.name: changed(value[each.name], parts[each.name], each.type) if each.name in parts else None
            for each in new
        }
    if pa.types.is_map(new):
        return [(key, changed(each, old.item_type, new.item_type)) for key, each in value]
    if isinstance(value, list):
        return [changed(each, old.value_type, new.value_type) for each in value]
    return value


@given(st.data())
def test_values_are_those_of_the_old_type_with_nulls_for_what_is_new(data: st.DataObject) -> None:
    old = data.draw(TYPES)
    new = data.draw(newer(old))
    rows = [None if seed % 7 == 6 else value_of(old, seed) for seed in range(data.draw(st.integers(0, 5)), 16)]
    column = pa.array(rows, old).slice(data.draw(st.integers(0, 3)))
    assert evolves(old, new), type_changes(old, new)
    result = evolved(column, new)
    result.validate(full=True)
    assert result.type == new
    assert result.to_pylist() == [changed(value, old, new) for value in column.to_pylist()]


@given(TYPES, TYPES)
def test_what_is_accepted_can_be_converted_and_what_is_not_says_why(old: pa.DataType, new: pa.DataType) -> None:
    changes = type_changes(old, new)
    assert (old == new) == (not changes)
    assert evolves(old, new) == all(each.compatibility < Compatibility.INCOMPATIBLE for each in changes)
    if evolves(old, new):
        column = pa.array([value_of(old, seed) for seed in range(4)], old)
        assert evolved(column, new).to_pylist() == [changed(value, old, new) for value in column.to_pylist()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.change)
def test_the_guide_lists_each_rule(rule: Any) -> None:
    accepted = rule.compatibility is Compatibility.MIGRATES
    verdict = f"{'accepts' if accepted else 'rejects'} it{', and `check` warns' if rule.loses else ''}"
    page = (ROOT / "docs" / "site" / "guide" / "evolution.md").read_text("utf-8")
    assert f"\n| {rule.change} | {verdict} | {rule.values} |\n" in page
    assert page.count(" it | ") + page.count("warns | ") == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.change)
def test_each_rule_is_the_one_of_its_example(rule: Any) -> None:
    changes = type_changes(*rule.example)
    assert [(each.compatibility, each.loses) for each in changes] == [(rule.compatibility, rule.loses)]
    assert evolves(*rule.example) == (rule.compatibility is Compatibility.MIGRATES)


REFUSED = [
    (pa.int64(), pa.int32(), "int64 became int32"),
    (pa.int64(), pa.float64(), "int64 became double"),
    (pa.uint32(), pa.int32(), "uint32 became int32"),
    (pa.uint64(), pa.int64(), "uint64 became int64"),
    (pa.float64(), pa.float32(), "double became float"),
    (pa.string(), pa.binary(), "string became binary"),
    (pa.list_(pa.int32(), 2), pa.list_(pa.int32(), 3), r"fixed_size_list<item: int32>\[2\] became"),
    (pa.list_(pa.int32()), pa.large_list(pa.int32()), "became large_list"),
    (pa.decimal128(6, 2), pa.decimal128(6, 3), r"decimal128\(6, 2\) became decimal128\(6, 3\)"),
    (pa.decimal128(6, 2), pa.decimal128(9, 1), r"decimal128\(9, 1\)"),
    (pa.map_(pa.int32(), pa.int32()), pa.map_(pa.int64(), pa.int32()), "key: int32 became int64"),
    (pa.list_(pa.struct([("a", pa.int64())])), pa.list_(pa.struct([("a", pa.int8())])), "element.a: int64 became int8"),
]


@pytest.mark.parametrize(("old", "new", "told"), REFUSED, ids=str)
def test_other_changes_are_refused_with_their_place(old: pa.DataType, new: pa.DataType, told: str) -> None:
    assert not evolves(old, new)
    (change,) = type_changes(old, new)
    assert pa.compute.match_substring_regex(pa.array([str(change)]), told)[0].as_py(), change


def struct(**parts: pa.DataType) -> pa.DataType:
    return pa.struct(list(parts.items()))


N32, N64, TEXT = pa.int32(), pa.int64(), pa.string()


@pytest.mark.parametrize(
    ("types", "newest"),
    [
        ([N32, N64, N32], N64),
        ([struct(a=N32), struct(a=N32, b=TEXT)], struct(a=N32, b=TEXT)),
        ([struct(a=N32, b=TEXT), struct(a=N32)], struct(a=N32, b=TEXT)),
        ([struct(a=N32, b=TEXT), struct(a=N64)], struct(a=N64)),
        ([struct(a=N32, b=TEXT), struct(a=N32, c=TEXT)], None),
        ([N64, TEXT], None),
        ([TEXT], TEXT),
    ],
    ids=str,
)
def test_of_types_before_and_after_a_change_the_newer_is_found(types: list[pa.DataType], newest: Any) -> None:
    assert newest_type(types) == newest
    if newest is not None:
        assert all(evolves(each, newest) for each in types)
