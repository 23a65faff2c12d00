"""Operator ids are Flink's: of uids, and of places in the graph."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.stream.graph.hashing import murmur3_128, operator_id_of_uid, operator_ids
from tests.flink_data import checkpoint_cases, checkpoints
from tests.stream.graph.graphs import edge, node, stream_graph, unchained


def operators_in(version: str, case: str) -> list[dict[str, Any]]:
    """List the operators of one checkpoint as its truth files have them; only Flink 2's give uids."""
    return [
        operator
        for truth in sorted((checkpoints(version) / case).glob("truth*.json"))
        for operator in json.loads(truth.read_text())["operatorStates"]
    ]


VERSIONS = [version for version, case in checkpoint_cases() if case == "coordinator-master"]


@pytest.mark.parametrize("version", VERSIONS)
def test_ids_of_uids_are_those_in_flinks_checkpoints(version: str) -> None:
    operators = [each for known, case in checkpoint_cases() if known == version for each in operators_in(version, case)]
    assert {operator_id_of_uid(uid) for uid in ("ops", "keyed", "hook-src")} <= {
        each["operatorId"] for each in operators
    }
    named = {each["uid"]: each["operatorId"] for each in operators if each.get("uid")}
    assert {uid: operator_id_of_uid(uid) for uid in named} == named


@pytest.mark.parametrize(
    ("uid", "operator_id"),
    [("42", "6c4f323f22da8fb6e34f80c61be7a689"), ("44", "3e129e83691e7737fbf876b47452acbc")],
)
def test_ids_of_uids_are_those_in_flinks_test(uid: str, operator_id: str) -> None:
    assert operator_id_of_uid(uid) == operator_id


def with_hook_source(numbers: int, hook: int) -> dict[str, str]:
    """Return the ids of the job behind `coordinator-master`: two sources, one through a map without uid, into `ops`."""
    from_long, ops, keyed = 3, 4, 5
    graph = stream_graph(
        sorted(
            [
                node(numbers, "number-sequence"),
                node(hook, "hook-src", 1),
                node(from_long, "from-long", uid=None),
                node(ops, "ops"),
                node(keyed, "keyed", 3),
            ],
            key=lambda n: n.node_id,
        ),
        [edge(numbers, from_long), edge(from_long, ops), edge(hook, ops, "rebalance"), edge(ops, keyed, "hash", "f0")],
    )
    return {graph.node(number).name: operator_id for number, operator_id in operator_ids(graph).items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_id_of_an_operator_without_uid_is_that_in_flinks_checkpoint(version: str) -> None:
    """It depends on the order in which the job added its two sources; Flink 1.10's job has only one of them."""
    written = {operator["operatorId"] for operator in operators_in(version, "coordinator-master")}
    orders = (with_hook_source(numbers=1, hook=2), with_hook_source(numbers=2, hook=1))
    has_both = operator_id_of_uid("number-sequence") in written
    assert [set(ids.values()) <= written for ids in orders].count(True) == has_both


def test_id_of_an_operator_without_uid_depends_on_the_order_of_the_sources() -> None:
    assert with_hook_source(numbers=1, hook=2)["from-long"] == "ec56e456636e4981bed8e116cc71518e"  # Flink 2's job
    assert with_hook_source(numbers=2, hook=1)["from-long"] == "8b3417653bd59d6bff3f97f5c9aecb5d"  # Flink 1.11's


def test_first_source_has_the_id_it_has_in_every_flink_log() -> None:
    alone = stream_graph([node(1, "source", uid=None)], [])
    chained = stream_graph([node(1, "source", uid=None), node(2, "map", uid=None)], [edge(1, 2)])
    assert operator_ids(alone)[1] == "bc764cd8ddf7a0cff126f51c16239658"
    assert operator_ids(chained)[1] == "cbc357ccb763df2852fee8c4fc7d55f2"


# What Flink's StreamingJobGraphGeneratorNodeHashTest pins.


def test_names_do_not_matter() -> None:
    ids = [operator_ids(stream_graph([node(1, name, uid=None)], []))[1] for name in ("A", "B")]
    assert ids[0] == ids[1]


def test_unchaining_changes_the_ids_of_operators_without_uid() -> None:
    graph = stream_graph([node(1, "source", uid=None), node(2, "map", uid="m")], [edge(1, 2)])
    chained, alone = operator_ids(graph), operator_ids(unchained(graph))
    assert chained[1] != alone[1]
    assert chained[2] == alone[2]


def test_twins_have_different_ids() -> None:
    graph = stream_graph([node(n, "same", uid=None) for n in (1, 2, 3, 4)], [edge(1, 3), edge(1, 4), edge(2, 4)])
    assert len(set(operator_ids(graph).values())) == 4


def test_a_node_met_before_its_inputs_waits_for_them() -> None:
    # 1 -> 4 and 1 -> 2 -> 3 -> 4: the walk meets 4 first.
    nodes = [node(n, f"n{n}", uid=None) for n in (1, 2, 3, 4)]
    graph = stream_graph(nodes, [edge(1, 4), edge(1, 2), edge(2, 3), edge(3, 4)])
    assert sorted(operator_ids(graph)) == [1, 2, 3, 4]


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True), st.booleans())
def test_uids_keep_their_ids_whatever_stands_before_them(before: list[str], chaining: bool) -> None:
    nodes = [node(1, "source", uid=None)]
    nodes += [node(2 + i, name, uid=None) for i, name in enumerate(before)]
    nodes.append(node(2 + len(before), "totals"))
    graph = stream_graph(nodes, [edge(n, n + 1) for n in range(1, len(nodes))], chaining=chaining)
    assert operator_ids(graph)[len(nodes)] == operator_id_of_uid("totals")


@given(st.binary(max_size=70))
def test_murmur_of_zeros_and_others_differ(data: bytes) -> None:
    assert len(murmur3_128(data)) == 16
    assert murmur3_128(data) != murmur3_128(data + b"\0")


def test_murmur_of_more_than_a_block() -> None:
    # the published test vector of MurmurHash3_x64_128, seed 0
    text = b"The quick brown fox jumps over the lazy dog"
    assert murmur3_128(text).hex() == "6c1b07bc7bbc4be347939ac4a93c437a"
