"""One channel while it recovers connections of the old job: the records that it accepts, and its event time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.event_time import MIN_WATERMARK_MS
from kit.core.protocol.elements import SubtaskConnectionDescriptor
from kit.core.protocol.words import ProtocolError
from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import InputChannelInfo
from kit.core.state.rescale_mappings import GateOrPartitionRescalingDescriptor, MappingType, RescaleMappings
from kit.machines.channel.demultiplexer import Demultiplexer, PartitionFilter, accept_all
from kit.stream.graph.partitioners import PartitionerKind, create_partitioner

FIRST, SECOND = SubtaskConnectionDescriptor(0, 0), SubtaskConnectionDescriptor(1, 0)
KINDS = [PartitionerKind.HASH, PartitionerKind.REBALANCE, PartitionerKind.GLOBAL]


def a_filter(kind: PartitionerKind, subtask: int, parallelism: int) -> PartitionFilter:
    """Return a filter that keeps what a sender would send to one of `parallelism` subtasks."""
    partitioner = create_partitioner(
        kind, subpartitions=parallelism, subtask=0, key_columns=("k",), max_parallelism=128
    )
    return PartitionFilter(partitioner, subtask)


def demultiplexer(
    *old_subtasks: int,
    senders: tuple[int, ...] = (0,),
    ambiguous: tuple[int, ...] = (),
    keep: Any = accept_all,
) -> Demultiplexer:
    """The channel 0 of gate 0, which recovers these old subtasks' connections from these old senders."""
    gate = GateOrPartitionRescalingDescriptor(
        old_subtasks,
        RescaleMappings.of([senders], max(senders, default=-1) + 2),
        frozenset(ambiguous),
        MappingType.RESCALING,
    )
    return Demultiplexer(InputChannelInfo(0, 0), gate, lambda: keep)


def batch(*keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int64())})


def keys(batch: pa.RecordBatch) -> list[int]:
    return batch.column(0).to_pylist()


# --- connections ------------------------------------------------------------------------------------------------------


def test_there_is_a_connection_for_each_old_receiver_and_each_old_sender() -> None:
    both = demultiplexer(1, 3, senders=(0, 2))
    for subtask in (1, 3):
        for sender in (0, 2):
            both.select(SubtaskConnectionDescriptor(subtask, sender))
            assert keys(both.records(batch(7))) == [7]
    assert repr(both).endswith("4 connections)")
    with pytest.raises(ProtocolError, match=r"was sent data of .* but recovers"):
        both.select(SubtaskConnectionDescriptor(2, 0))


def test_a_channel_that_recovers_nothing_refuses_every_connection() -> None:
    with pytest.raises(StateRestoreError, match="takes over no old subtask there"):
        demultiplexer().select(FIRST)


@pytest.mark.parametrize(
    "give",
    [
        lambda channel: channel.records(batch(1)),
        lambda channel: channel.watermark(1),
        lambda channel: channel.status(idle=True),
    ],
    ids=["records", "watermark", "status"],
)
def test_what_comes_before_its_connection_is_a_mistake_of_the_sender(give: Callable[[Demultiplexer], None]) -> None:
    with pytest.raises(ProtocolError, match="before the connection it belongs to"):
        give(demultiplexer(0))


def test_only_ambiguous_connections_are_filtered() -> None:
    channel = demultiplexer(0, 1, ambiguous=(1,), keep=lambda records: records.slice(0, 1))
    channel.select(FIRST)
    assert keys(channel.records(batch(1, 2, 3))) == [1, 2, 3]
    channel.select(SECOND)
    assert keys(channel.records(batch(1, 2, 3))) == [1]


# --- records ----------------------------------------------------------------------------------------------------------


@given(
    kind=st.sampled_from(KINDS),
    parallelism=st.integers(1, 5),
    batches=st.lists(st.lists(st.integers(0, 1000), max_size=12), max_size=6),
)
def test_each_record_of_an_ambiguous_connection_is_kept_by_exactly_one_subtask(
    kind: PartitionerKind, parallelism: int, batches: list[list[int]]
) -> None:
    channels = [
        demultiplexer(0, ambiguous=(0,), keep=a_filter(kind, subtask, parallelism)) for subtask in range(parallelism)
    ]
    for channel in channels:
        channel.select(FIRST)
    number = 0
    for values in batches:
        rows = pa.RecordBatch.from_pydict(
            {"k": pa.array(values, pa.int64()), "row": pa.array(range(number, number + len(values)), pa.int64())}
        )
        number += len(values)
        kept = [channel.records(rows)["row"].to_pylist() for channel in channels]
        assert sorted(row for each in kept for row in each) == rows["row"].to_pylist()
        assert all(each == sorted(each) for each in kept)
        assert all(channel.records(rows.slice(0, 0)).schema == rows.schema for channel in channels)


@given(st.lists(st.integers(0, 1000), max_size=20), st.integers(2, 5))
def test_what_a_filter_keeps_is_what_the_sender_would_send_there(values: list[int], parallelism: int) -> None:
    sent = dict(
        create_partitioner(
            PartitionerKind.HASH, subpartitions=parallelism, subtask=0, key_columns=("k",), max_parallelism=128
        ).split(batch(*values))
    )
    for subtask in range(parallelism):
        kept = a_filter(PartitionerKind.HASH, subtask, parallelism)(batch(*values))
        assert keys(kept) == (keys(sent[subtask]) if subtask in sent else [])


def test_connections_of_a_round_robin_are_counted_each_for_itself() -> None:
    gate = GateOrPartitionRescalingDescriptor(
        (0, 1), RescaleMappings.of([(0,)], 2), frozenset({0, 1}), MappingType.RESCALING
    )
    channels = [
        Demultiplexer(
            InputChannelInfo(0, 0), gate, lambda subtask=subtask: a_filter(PartitionerKind.REBALANCE, subtask, 2)
        )
        for subtask in range(2)
    ]
    orders = [
        [(FIRST, 1), (SECOND, 2), (FIRST, 3), (SECOND, 4)],
        [(FIRST, 1), (FIRST, 3), (SECOND, 2), (SECOND, 4)],
    ]
    kept: list[int] = []
    for channel, order in zip(channels, orders, strict=True):
        for connection, key in order:
            channel.select(connection)
            kept += keys(channel.records(batch(key)))
    assert sorted(kept) == [1, 2, 3, 4]


# --- event time -------------------------------------------------------------------------------------------------------


def test_a_watermark_counts_when_all_connections_have_one() -> None:
    channel = demultiplexer(0, 1)
    channel.select(FIRST)
    assert channel.watermark(10) is None
    channel.select(SECOND)
    assert channel.watermark(4) == 4
    assert channel.watermark(12) == 10
    channel.select(FIRST)
    assert channel.watermark(30) == 12


def test_a_channel_is_idle_when_all_its_connections_are() -> None:
    channel = demultiplexer(0, 1)
    channel.select(FIRST)
    assert channel.status(idle=True) is False
    channel.select(SECOND)
    assert channel.status(idle=True) is True
    channel.select(FIRST)
    assert channel.status(idle=False) is False


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.one_of(st.integers(-50, 50), st.booleans())), max_size=30
    )
)
def test_event_time_and_idleness_are_those_of_all_connections_together(
    steps: list[tuple[int, int, int | bool]],
) -> None:
    channel = demultiplexer(0, 1, 2, senders=(0, 1))
    watermarks = {(subtask, sender): MIN_WATERMARK_MS for subtask in range(3) for sender in range(2)}
    idle = dict.fromkeys(watermarks, False)
    for subtask, sender, mark in steps:
        channel.select(SubtaskConnectionDescriptor(subtask, sender))
        if isinstance(mark, bool):
            idle[subtask, sender] = mark
            assert channel.status(idle=mark) == all(idle.values())
        else:
            watermarks[subtask, sender] = mark
            lowest = min(watermarks.values())
            assert channel.watermark(mark) == (None if lowest == MIN_WATERMARK_MS else lowest)
