"""Java's HashMap order against Java's."""

from __future__ import annotations

from kit.machines.restore.java_hashmap_order import capacity_for, compute_if_absent_order, put_order
from tests.flink_data import vectors


def test_every_vector() -> None:
    for row in vectors("java_hashmap_order"):
        assert put_order(row["inserted"]) == row["put_order"]
        assert compute_if_absent_order(row["inserted"]) == row["compute_if_absent_order"]


def test_the_two_ways_to_fill_a_map_differ() -> None:
    same_bucket = ["Aa", "BB"]
    assert put_order(same_bucket) == ["Aa", "BB"]
    assert compute_if_absent_order(same_bucket) == ["BB", "Aa"]


def test_capacity_for_expected_size() -> None:
    assert [capacity_for(size) for size in (0, 1, 2, 3, 4, 6, 7, 12, 13)] == [1, 2, 4, 4, 8, 8, 16, 16, 32]
