"""The table of Arrow's kinds: what each module decides about a type is what it decided without the table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import lib

from kit.core.arrow_kinds import KEY_TYPES, KINDS, UNKNOWN, Family, can_be_key, kind_of
from kit.stream.backend.keys.key_codec import codec_for
from kit.stream.backend.keys.key_hashing import java_hash
from kit.stream.operators.spec import SchemaError, key_type_of
from tests.core.arrow_types import FLAT, NESTED, TYPES, answers

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "arrow_answers.json").read_text())
"""The answers of the predicates that each module had before, by type."""


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_every_module_decides_as_before(of: pa.DataType) -> None:
    assert answers(of) == RECORDED[str(of)]


@given(
    st.recursive(
        st.sampled_from(FLAT),
        lambda inner: st.one_of(
            st.builds(lambda make, of: make(of), st.sampled_from(NESTED[:7]), inner),
            st.lists(inner, max_size=3).map(lambda of: pa.struct([(f"f{n}", each) for n, each in enumerate(of)])),
        ),
        max_leaves=6,
    )
)
def test_a_type_is_a_key_if_all_its_parts_are(of: pa.DataType) -> None:
    assert can_be_key(of) == _can_be_key(of)
    family, types = kind_of(of).family, pa.types
    assert (family is Family.LIST) == any(is_list(of) for is_list in _LISTS)
    assert kind_of(of).is_time == (types.is_temporal(of) and not types.is_interval(of))
    assert (family is Family.DECIMAL) == types.is_decimal(of)
    assert (family is Family.INTEGER) == types.is_integer(of)
    assert (family is Family.FLOAT) == types.is_floating(of)


_LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)


def _can_be_key(of: pa.DataType) -> bool:
    """Ask Arrow's predicates, as the kit did before it had the table."""
    types = pa.types
    if types.is_struct(of):
        return of.num_fields > 0 and all(_can_be_key(field.type) for field in of)
    is_number = types.is_integer(of) or types.is_boolean(of) or types.is_float32(of) or types.is_float64(of)
    is_time = types.is_temporal(of) and not types.is_interval(of)
    is_text = types.is_string(of) or types.is_large_string(of) or types.is_binary(of) or types.is_large_binary(of)
    return is_number or is_time or is_text or types.is_decimal(of) or types.is_fixed_size_binary(of)


def test_every_kind_of_arrow_has_a_row() -> None:
    numbers = {number for name, number in vars(lib).items() if name.startswith("Type_")}
    assert numbers <= KINDS.keys()
    assert UNKNOWN not in KINDS.values()


def test_a_type_that_cannot_be_a_key_has_one_message() -> None:
    schema = pa.schema([("half", pa.float16())])
    message = f"Arrow type halffloat cannot be a key: use {KEY_TYPES}"
    for error, ask in (
        (TypeError, lambda: java_hash(pa.array([None], pa.float16()).drop_null())),
        (TypeError, lambda: codec_for(pa.float16())),
        (SchemaError, lambda: key_type_of(schema, ["half"], "key_by")),
    ):
        with pytest.raises(error) as caught:
            ask()
        assert str(caught.value).endswith(message)
