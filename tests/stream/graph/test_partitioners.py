"""Batches are split as single records would be: compared with the scalar answer, row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.stream.backend.keys.key_hashing import assign_key_to_parallel_operator
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import create_job_graph
from kit.stream.graph.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    HashPartitioner,
    PartitionerKind,
    RebalancePartitioner,
    Split,
)
from tests.stream.graph.graphs import pipeline

EMPTY = pa.record_batch({"carrier": pa.array([], pa.string()), "delay": pa.array([], pa.int64())})


def flights(rows: list[tuple[str, int]]) -> pa.RecordBatch:
    carriers, delays = zip(*rows) if rows else ((), ())
    return pa.record_batch({"carrier": pa.array(carriers, pa.string()), "delay": pa.array(delays, pa.int64())})


def rows_of(split: Split) -> dict[int, list[tuple[str, int]]]:
    assert [target for target, _ in split] == sorted({target for target, _ in split})
    return {target: list(zip(*batch.to_pydict().values())) for target, batch in split}


many_rows = st.lists(st.tuples(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1)), max_size=60)


@given(many_rows, st.integers(1, 12), st.sampled_from([1, 2, 128, 1000]))
def test_hash_of_one_column_agrees_with_the_scalar_answer(
    rows: list[tuple[str, int]], subpartitions: int, more: int
) -> None:
    max_parallelism = max(more, subpartitions)
    for column, arrow_type in (("carrier", pa.string()), ("delay", pa.int64())):
        expected: dict[int, list[tuple[str, int]]] = {}
        for row in rows:
            key = row[0 if column == "carrier" else 1]
            owner = assign_key_to_parallel_operator(key, max_parallelism, subpartitions, arrow_type)
            expected.setdefault(owner, []).append(row)
        assert rows_of(HashPartitioner((column,), max_parallelism, subpartitions).split(flights(rows))) == expected


@given(many_rows, st.integers(1, 12))
def test_hash_of_two_columns_is_that_of_a_tuple(rows: list[tuple[str, int]], subpartitions: int) -> None:
    key_type = pa.struct([("carrier", pa.string()), ("delay", pa.int64())])
    expected: dict[int, list[tuple[str, int]]] = {}
    for row in rows:
        owner = assign_key_to_parallel_operator(row, 128, subpartitions, key_type)
        expected.setdefault(owner, []).append(row)
    partitioner = HashPartitioner(("carrier", "delay"), 128, subpartitions)
    assert rows_of(partitioner.split(flights(rows))) == expected


def test_hash_refuses_a_missing_key() -> None:
    batch = pa.record_batch({"carrier": pa.array(["AA", None])})
    with pytest.raises(ValueError, match=r"key_by\('carrier'\): column 'carrier' is null in row {'carrier': None}"):
        HashPartitioner(("carrier",), 128, 2).split(batch)


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 5), st.integers(0, 7))
def test_rebalance_goes_round_whatever_the_batches(sizes: list[int], subpartitions: int, first: int) -> None:
    partitioner = RebalancePartitioner(subpartitions, first)
    received: dict[int, list[int]] = {}
    number = 0
    for size in sizes:
        batch = pa.record_batch({"n": pa.array(range(number, number + size), pa.int64())})
        number += size
        for target, part in partitioner.split(batch):
            received.setdefault(target, []).extend(part.column(0).to_pylist())
    expected: dict[int, list[int]] = {}
    for n in range(number):
        expected.setdefault((first + n) % subpartitions, []).append(n)
    assert received == expected


def test_forward_and_global_hand_on_the_batch_itself() -> None:
    batch = flights([("AA", 1)])
    assert ForwardPartitioner().split(batch)[0][1] is batch


def test_broadcast_gives_everyone_the_batch_itself() -> None:
    batch = flights([("AA", 1), ("UA", 2)])
    split = BroadcastPartitioner(3).split(batch)
    assert [target for target, _ in split] == [0, 1, 2]
    assert all(part is batch for _, part in split)


@pytest.mark.parametrize("kind", ["hash", "rebalance", "broadcast", "global", "rescale"])
def test_no_rows_no_batches(kind: str) -> None:
    task = ExecutionGraph(create_job_graph(pipeline(kind))).task("source/0")
    assert task.partitions[0].create_partitioner().split(EMPTY) == []


CREATED = [
    ("hash", HashPartitioner, {"key_columns": ("carrier",), "max_parallelism": 77, "subpartitions": 3}),
    ("rebalance", RebalancePartitioner, {"subpartitions": 3, "next": 1}),
    ("rescale", RebalancePartitioner, {"subpartitions": 1, "next": 0}),
    ("broadcast", BroadcastPartitioner, {"subpartitions": 3}),
    ("global", ForwardPartitioner, {}),
]


@pytest.mark.parametrize(("kind", "cls", "attributes"), CREATED, ids=[kind for kind, *_ in CREATED])
def test_each_subtask_has_the_partitioner_of_its_edge(kind: str, cls: type, attributes: dict) -> None:
    task = ExecutionGraph(create_job_graph(pipeline(kind, 2, 3, max_parallelism=77))).task("source/1")
    partitioner = task.partitions[0].create_partitioner()
    assert type(partitioner) is cls
    assert {name: getattr(partitioner, name) for name in attributes} == attributes


def test_pointwise_and_broadcast_edges_cannot_be_overtaken() -> None:
    assert {kind.value for kind in PartitionerKind if kind.supports_unaligned} == {"hash", "rebalance", "global"}


@given(many_rows, st.integers(1, 12))
def test_custom_asks_the_users_function_for_each_row(rows: list[tuple[str, int]], subpartitions: int) -> None:
    expected: dict[int, list[tuple[str, int]]] = {}
    for row in rows:
        expected.setdefault(len(row[0]) % subpartitions, []).append(row)
    partitioner = CustomPartitioner(lambda carrier, n: len(carrier) % n, "carrier", subpartitions)
    assert rows_of(partitioner.split(flights(rows))) == expected


def test_custom_names_the_value_whose_subtask_there_is_not() -> None:
    partitioner = CustomPartitioner(lambda carrier, n: n, "carrier", 3)
    with pytest.raises(ValueError, match="the function returned 3 for 'AA', expected 0 to 2"):
        partitioner.split(flights([("AA", 1)]))


@pytest.mark.parametrize("subpartitions", [2, 3, 5, 12])
@pytest.mark.parametrize("rows", [16_000, 24_576, 41_000, 65_536])
def test_large_batches_are_split_as_small_ones_are(rows: int, subpartitions: int) -> None:
    """Batches of this size are cut in one of two ways, by how many owners there are. Subtask 1 gets no row."""
    keys = np.random.default_rng(rows).integers(0, 2**40, rows)
    owners = {key: assign_key_to_parallel_operator(key, 128, subpartitions, pa.int64()) for key in set(keys.tolist())}
    kept = [(key, number) for number, key in enumerate(keys.tolist()) if owners[key] != 1]
    expected: dict[int, list[tuple[int, int]]] = {}
    for row in kept:
        expected.setdefault(owners[row[0]], []).append(row)
    batch = pa.record_batch(dict(zip(("key", "number"), map(pa.array, zip(*kept)), strict=True)))
    assert rows_of(HashPartitioner(("key",), 128, subpartitions).split(batch)) == expected
