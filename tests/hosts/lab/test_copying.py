"""Copies of a world: mutable objects are copied, immutable ones are shared, and copies of others stay untouched."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter, OrderedDict, defaultdict
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kit.hosts.lab.world.copying import COLUMNS, copy_of

BATCH = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})


class Users:
    """An object of a user's function: it changes, and holds columns and itself."""

    def __init__(self) -> None:
        self.batches = [BATCH]
        self.seen = defaultdict(list, {"a": [BATCH.column(0)]})
        self.me = self


class Slotted:
    """One with slots, and what a subclass keeps in its dict."""

    __slots__ = ("__dict__", "batch", "rows")


class Stateful(Users):
    """One that says itself what it consists of."""

    def __getstate__(self) -> dict[str, Any]:
        return {"batches": self.batches}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.batches = state["batches"]
        self.was_set = True


def test_nothing_is_changed_in_the_copy_module() -> None:
    below = [each for kind in COLUMNS for each in (kind, *kind.__subclasses__())]
    assert not set(below) & set(copy._deepcopy_dispatch)  # type: ignore[attr-defined]
    assert copy.deepcopy(BATCH) is not BATCH


def test_columns_are_shared_wherever_a_users_object_holds_them() -> None:
    mine = Users()
    other = copy_of(mine, {})
    assert type(other) is Users
    assert other is not mine
    assert other.me is other
    assert other.batches is not mine.batches
    assert other.batches[0] is BATCH
    assert other.seen == mine.seen
    assert other.seen["a"][0] is mine.seen["a"][0]
    other.seen["b"].append(1)
    assert "b" not in mine.seen


def test_slots_and_states_of_their_own_are_copied() -> None:
    slotted = Slotted()
    slotted.batch, slotted.rows, slotted.more = BATCH, [1], [2]  # type: ignore[attr-defined]
    other: Any = copy_of(slotted, {})
    assert (other.batch, other.rows, other.more) == (BATCH, [1], [2])
    assert other.batch is BATCH
    assert other.rows is not slotted.rows  # type: ignore[attr-defined]
    stateful = copy_of(Stateful(), {})
    assert stateful.was_set
    assert stateful.batches[0] is BATCH


@pytest.mark.parametrize(
    "value",
    [
        Counter("abca"),
        OrderedDict(a=[1]),
        frozenset({(1, 2)}),
        Decimal("1.50"),
        bytearray(b"xy"),
        np.arange(3),
        np.float64(2.5),
        re.compile("a+"),
        {1: {2: [3]}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_copied_as_by_the_copy_module(value: Any) -> None:
    other = copy_of(value, {})
    assert type(other) is type(value)
    assert np.array_equal(other, value)
    assert (other is value) is (copy.deepcopy(value) is value)


def test_what_goes_on_goes_on_by_itself() -> None:
    numbers, dice, add = count(5), random.Random(7), partial(list.append, [])
    others = copy_of([numbers, dice, add], {})
    assert next(others[0]) == next(numbers) == 5
    assert others[1].random() == dice.random()
    add(1)
    assert others[2].args == ([],)


def test_many_objects_are_each_copied_to_their_own() -> None:
    mine = [Counter({n: n}) for n in range(2_000)]
    others = copy_of(mine, {})
    assert others == mine
    assert len({id(each) for each in others}) == len(mine)


def test_what_cannot_be_copied_says_so() -> None:
    with pytest.raises(TypeError, match="generator"):
        copy_of((n for n in range(3)), {})
