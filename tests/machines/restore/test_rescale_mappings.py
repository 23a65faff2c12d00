"""Mappers, mappings and partitioners against what Flink answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state.rescale_mappings import (
    NO_RESCALE,
    SYMMETRIC_IDENTITY,
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.machines.restore.errors import PointwiseRescaleError
from kit.machines.restore.subtask_state_mapper import PARTITIONERS, SubtaskStateMapper
from tests.flink_data import vectors

MAPPERS = list(SubtaskStateMapper)
REDISTRIBUTING = [mapper for mapper in MAPPERS if mapper is not SubtaskStateMapper.UNSUPPORTED]
PARTITIONER_CLASSES = {
    "RebalancePartitioner": "rebalance",
    "RescalePartitioner": "rescale",
    "ForwardPartitioner": "forward",
    "ShufflePartitioner": "shuffle",
    "GlobalPartitioner": "global",
    "BroadcastPartitioner": "broadcast",
    "KeyGroupStreamPartitioner": "hash",
    "CustomPartitionerWrapper": "custom",
}


def dump(mappings: RescaleMappings) -> dict[str, Any]:
    return {
        "sources": mappings.sources,
        "targets": mappings.targets,
        "identity": mappings.is_identity,
        "mappings": [list(row) for row in mappings.mappings],
    }


def rows(kind: str) -> list[dict[str, Any]]:
    found = [row for row in vectors("mappers") if row["kind"] == kind]
    assert found
    return found


def test_which_mappers_are_ambiguous() -> None:
    for row in rows("mapper"):
        assert SubtaskStateMapper[row["mapper"]].is_ambiguous == row["is_ambiguous"]


@pytest.mark.flink(
    "SubtaskStateMapperTest.testFirstTaskMappingOnScaleDown",
    "SubtaskStateMapperTest.testFirstTaskMappingOnNoScale",
    "SubtaskStateMapperTest.testFirstTaskMappingOnScaleUp",
    "SubtaskStateMapperTest.testFullTaskMappingOnScaleDown",
    "SubtaskStateMapperTest.testFullTaskMappingOnNoScale",
    "SubtaskStateMapperTest.testFullTaskMappingOnScaleUp",
    "SubtaskStateMapperTest.testRangeSelectorTaskMappingOnScaleDown",
    "SubtaskStateMapperTest.testRangeSelectorTaskMappingOnNoScale",
    "SubtaskStateMapperTest.testRangeSelectorTaskMappingOnScaleUp",
    "SubtaskStateMapperTest.testRoundRobinTaskMappingOnScaleDown",
    "SubtaskStateMapperTest.testRoundRobinTaskMappingOnNoScale",
    "SubtaskStateMapperTest.testRoundRobinTaskMappingOnScaleUp",
)
@pytest.mark.parametrize("mapper", MAPPERS)
def test_old_subtasks_of_every_vector(mapper: SubtaskStateMapper) -> None:
    for row in rows("old_subtasks"):
        if row["mapper"] != mapper.name:
            continue
        old, new = row["old_parallelism"], row["new_parallelism"]
        if row["error"]:
            with pytest.raises(PointwiseRescaleError) as caught:
                mapper.get_old_subtasks(0, old, new)
            assert (caught.value.flink_class, caught.value.flink_message) == (
                row["error"]["class"],
                row["error"]["message"],
            )
            with pytest.raises(PointwiseRescaleError):
                mapper.get_new_to_old_subtasks_mapping(old, new)
        else:
            found = [list(mapper.get_old_subtasks(index, old, new)) for index in range(new)]
            assert found == row["old_subtasks"]
            mapping = mapper.get_new_to_old_subtasks_mapping(old, new)
            assert dump(mapping) == row["new_to_old_mapping"]["value"]


@given(st.sampled_from(REDISTRIBUTING), st.integers(1, 60), st.integers(1, 60))
def test_every_old_subtask_is_recovered_and_only_ambiguous_mappers_repeat(
    mapper: SubtaskStateMapper, old: int, new: int
) -> None:
    table = mapper.get_new_to_old_subtasks_mapping(old, new)
    reached = [target for index in range(new) for target in table.mapped_indexes(index)]
    assert set(reached) == set(range(old))
    if not mapper.is_ambiguous:
        assert len(reached) == old
    assert table.ambiguous_targets() == {target for target in reached if reached.count(target) > 1}


@pytest.mark.parametrize("row", rows("partitioner"), ids=lambda row: row["class"])
def test_partitioners(row: dict[str, Any]) -> None:
    if row["class"] not in PARTITIONER_CLASSES:  # the planner's placeholders, which no running job has
        assert "error" in row["downstream"]
        return
    rules = PARTITIONERS[PARTITIONER_CLASSES[row["class"]]]
    assert rules.upstream.name == row["upstream"]["value"]
    assert rules.downstream.name == row["downstream"]["value"]
    assert rules.pointwise == row["pointwise"]
    assert rules.broadcast == row["broadcast"]
    assert rules.supports_unaligned == row["supports_unaligned"]


@pytest.mark.flink(
    "RescaleMappingsTest.testInvert",
    "RescaleMappingsTest.testNormalization",
    "RescaleMappingsTest.testAmbiguousTargets",
)
def test_rescale_mappings_of_every_vector() -> None:
    for row in rows("rescale_mappings"):
        of = RescaleMappings.of(row["mapped"], row["targets"])
        expected = row["of"]["value"]
        assert dump(of) == expected["dump"]
        assert of.flink_repr == expected["string"]
        asked = [*range(len(row["mapped"])), len(row["mapped"]) + 2]
        assert [list(of.mapped_indexes(source)) for source in asked] == expected["mapped_indexes"]
        assert dump(of.invert()) == row["invert"]["value"]
        assert dump(of.invert().invert()) == row["invert_invert"]["value"]
        assert sorted(of.ambiguous_targets()) == sorted(row["ambiguous_targets"]["value"])


def test_identity_of_every_vector() -> None:
    for row in rows("identity"):
        identity = RescaleMappings.identity(row["sources"], row["targets"])
        expected = row["result"]["value"]
        assert dump(identity) == expected["dump"]
        assert [list(identity.mapped_indexes(source)) for source in range(5)] == expected["mapped_indexes_0_to_4"]
        assert dump(identity.invert()) == row["invert"]["value"]
        assert identity.ambiguous_targets() == set(row["ambiguous_targets"]["value"])


@given(
    st.lists(st.lists(st.integers(0, 6), unique=True).map(sorted).map(tuple), min_size=1, max_size=3).flatmap(
        lambda rows: st.lists(st.sampled_from(rows), max_size=8)
    )
)
def test_inverting_a_table_that_uses_one_row_for_many_sources(table: list[tuple[int, ...]]) -> None:
    inverted = RescaleMappings.of(table, 7).invert()
    for target in range(7):
        assert list(inverted.mapped_indexes(target)) == [source for source, row in enumerate(table) if target in row]


def test_tables_that_map_alike_are_equal() -> None:
    short, long = RescaleMappings.of([(0,), (0,)], 3), RescaleMappings.of([(0,), (0,), ()], 4)
    assert short == long
    assert hash(short) == hash(long)
    assert short != RescaleMappings.of([(0,), (1,)], 3)
    assert RescaleMappings.identity(2, 2) != RescaleMappings.of([], 1)


def test_descriptor_answers_by_gate() -> None:
    table = RescaleMappings.of([(0, 1), (1,)], 2)
    gate = GateOrPartitionRescalingDescriptor((0, 1), table, frozenset({1}), MappingType.RESCALING)
    descriptor = InflightDataRescalingDescriptor((gate,))
    assert descriptor.is_rescaling
    assert descriptor.old_subtasks(0) == (0, 1)
    assert descriptor.channel_mapping(0) is table
    assert [descriptor.is_ambiguous(0, old) for old in (0, 1)] == [False, True]


def test_no_rescale_leaves_every_channel_alone() -> None:
    assert not NO_RESCALE.is_rescaling
    assert NO_RESCALE.old_subtasks(3) == ()
    assert NO_RESCALE.channel_mapping(3) is SYMMETRIC_IDENTITY
    assert SYMMETRIC_IDENTITY.mapped_indexes(12345) == (12345,)
    assert not NO_RESCALE.is_ambiguous(3, 0)
