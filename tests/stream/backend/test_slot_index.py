"""Slot indexes against a dict, through growth, removal, reuse and the change between direct and hashed places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.stream.backend.keys.slot_index import ABSENT, SlotIndex

NEAR = st.integers(-30, 30)
FAR = st.sampled_from([k * 0x123456789ABCDEF - (1 << 61) for k in range(40)])
EXTREME = st.sampled_from([-(1 << 63), -(1 << 63) + 1, -1, 0, 1, (1 << 63) - 2, (1 << 63) - 1])


def batch(codes: list[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return [np.array([code[i] for code in codes], np.int64) for i in range(width)]


@pytest.mark.parametrize("width", [1, 2, 3])
@given(data=st.data())
def test_an_index_behaves_like_a_dict(width: int, data: st.DataObject) -> None:
    index, model = SlotIndex(width), {}
    code = st.tuples(*[st.one_of(NEAR, FAR, EXTREME)] * width)
    steps = st.tuples(st.sampled_from(["add", "add", "find", "remove", "one"]), st.lists(code, max_size=40))
    for step, codes in data.draw(st.lists(steps, max_size=12)):
        columns = batch(codes, width)
        if step == "add":
            slots, added = index.find_or_add(columns)
            assert set(added.tolist()) == {slot for c, slot in zip(codes, slots.tolist()) if c not in model}
            model.update(zip(codes, slots.tolist(), strict=True))
        elif step == "remove":
            known = sorted({model.pop(c) for c in codes if c in model})
            index.remove(np.array(known, np.int64))
        elif step == "one":
            for c in codes:
                assert index.find_one(c) == model.get(c, ABSENT)
                if c not in model:
                    model[c] = index.add_one(c)
        assert index.find(columns).tolist() == [model.get(c, ABSENT) for c in codes]
        assert len(index) == len(model) == len(set(model.values()))
        index.validate()


@pytest.mark.parametrize("spread", [1, 5, 1 << 40])
def test_an_index_grows_and_shrinks(spread: int) -> None:
    index = SlotIndex(1)
    keys = np.random.default_rng(7).permutation(50_000) * spread
    slots = np.concatenate([index.find_or_add([part])[0] for part in np.array_split(keys, 40)])
    assert np.array_equal(np.sort(slots), np.arange(50_000))
    assert np.array_equal(index.find([keys]), slots)
    index.remove(slots[::2])
    index.validate()
    assert (index.find([keys[::2]]) == ABSENT).all()
    again, added = index.find_or_add([keys])
    assert set(added.tolist()) == set(slots[::2].tolist())  # freed slots come back before new ones
    index.remove(again)
    assert len(index) == index.capacity == 0


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("spread", [1, 0x9E3779B97F4A7C1])
def test_what_is_loaded_at_once_is_found_and_grows(spread: int, width: int) -> None:
    index, columns = SlotIndex(width), [np.arange(100_000) * spread] * width
    index.load(columns)
    index.validate()
    assert index.find(columns).tolist() == list(range(100_000))
    more = [np.arange(50_000, 300_000) * spread] * width
    slots, added = index.find_or_add(more)
    assert slots[:50_000].tolist() == list(range(50_000, 100_000))
    assert len(added) == 200_000
    index.remove(np.arange(1000))
    index.validate()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_loaded_at_once_is_found_in_all_blocks(seed: int) -> None:
    codes = np.unique(np.random.default_rng(seed).integers(-(1 << 63), 1 << 63, 225_000))
    index = SlotIndex(1)
    index.load([codes])
    index.validate()
    assert index.find([codes]).tolist() == list(range(len(codes)))
    assert (index.find([codes + 1]) == ABSENT).sum() > 224_000
    assert repr(index) == f"SlotIndex({len(codes)} slots, hashed, 524288 places, {len(codes)} used)"


@pytest.mark.parametrize("end", [0, -1])
def test_what_is_loaded_at_once_is_found_where_many_want_one_place(end: int) -> None:
    """Two thousand codes whose homes are the first places of a small index, or its last, behind which is the first."""
    mixed = (np.arange(2_000, dtype=np.uint64) << np.uint64(8)) + (
        np.uint64(0) if end == 0 else ~np.uint64(0) << np.uint64(20)
    )
    codes = _unmixed(mixed)
    index = SlotIndex(1)
    index.load([codes])
    index.validate()
    assert index.find([codes]).tolist() == list(range(2_000))
    assert (index.find([codes + 1]) == ABSENT).all()
    index.remove(np.arange(1_000, 2_000))
    assert index.find([codes]).tolist() == [*range(1_000), *[ABSENT] * 1_000]
    assert index.find([codes[:20]]).tolist() == [*range(20)]
    for size in (500, 20):
        index.find_or_add([_unmixed(mixed[:size] + np.uint64(size))])
    assert repr(index) == "SlotIndex(1520 slots, hashed, 8192 places, 2520 used)"
    index.validate()


def _unmixed(mixed: np.ndarray) -> np.ndarray:
    """The codes of which this is made on the way to their homes."""
    product = mixed * np.uint64(pow(0x9E3779B97F4A7C15, -1, 1 << 64))
    return (product ^ (product >> np.uint64(32))).view(np.int64)


@pytest.mark.parametrize("spread", [1, 1 << 40])
def test_what_was_frozen_stays(spread: int) -> None:
    index = SlotIndex(1)
    first = np.arange(100) * spread
    slots, _ = index.find_or_add([first])
    frozen = index.freeze()
    index.remove(slots[:50])
    index.find_or_add([np.arange(1000, 3000) * spread])
    assert frozen.slots.tolist() == list(range(100))
    assert frozen.columns[0].take(slots).tolist() == first.tolist()


@pytest.mark.parametrize("width", [1, 2])
def test_a_freed_slot_is_not_found_again_by_few_rows(width: int) -> None:
    index = SlotIndex(width)
    (gone, stays), _ = index.find_or_add(batch([(1,) * width, (2,) * width], width))
    index.remove(np.array([gone]))
    (reused,), _ = index.find_or_add(batch([(3,) * width], width))
    assert reused == gone
    slots, added = index.find_or_add(batch([(3,) * width, (1,) * width, (2,) * width], width))
    assert slots.tolist() == [gone, *added.tolist(), stays]
    index.remove(slots)  # all of them: the index starts from scratch
    slots, added = index.find_or_add(batch([(2,) * width], width))
    assert slots.tolist() == added.tolist() == [0]
    index.validate()
