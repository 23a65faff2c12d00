"""Recovery of in-flight data: the channels that get it, and its order, also after a rescale."""

from __future__ import annotations

import io
import random
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.elements import Buffer, DataElement, Element, EndOfChannelState, SubtaskConnectionDescriptor
from kit.core.protocol.snapshots import RestoredPart
from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    ChannelStateContent,
    InputChannelInfo,
    InputChannelStateHandle,
    MergedInputChannelStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
)
from kit.core.state.rescale_mappings import (
    NO_RESCALE,
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.machines.channel.channel_state.channel_state_reader import (
    ChannelStateChunkReader,
    SequentialChannelStateReader,
)
from kit.machines.channel.channel_state.channel_state_serializer import HEADER_LENGTH, ChannelStateSerializer
from kit.machines.channel.recovered_channel import RecoveredInputChannel
from kit.machines.channel.recovered_state_handlers import (
    InputChannelRecoveredStateHandler,
    ResultSubpartitionRecoveredStateHandler,
)
from tests.machines.channel.channel_state import IN, OPTIONS, OUT, Slot, buffer, values, watched

SERIALIZER = ChannelStateSerializer()
ONE_TO_ONE = InflightDataRescalingDescriptor(
    (GateOrPartitionRescalingDescriptor((1,), RescaleMappings.identity(1, 1), frozenset(), MappingType.IDENTITY),)
)


class Handler:
    """Notes what is recovered."""

    def __init__(self) -> None:
        self.recovered: list[tuple[Any, int, Sequence[DataElement]]] = []

    def recover(self, info: Any, old_subtask: int, elements: Sequence[DataElement]) -> None:
        self.recovered.append((info, old_subtask, elements))

    def close(self) -> None:
        """Do nothing."""


class Partition:
    """A result partition that takes recovered elements."""

    def __init__(self, subpartitions: int) -> None:
        self.queues: list[list[Element]] = [[] for _ in range(subpartitions)]

    def add_recovered(self, subpartition: int, element: Element) -> None:
        self.queues[subpartition].append(element)

    def finish_read_recovered_state(self, notify_and_block_on_completion: bool) -> None:
        for queue in self.queues:
            if notify_and_block_on_completion:
                queue.append(EndOfChannelState())


def gate(channels: int, number: int = 0) -> list[RecoveredInputChannel]:
    return [RecoveredInputChannel(InputChannelInfo(number, index)) for index in range(channels)]


def taken(channel: RecoveredInputChannel) -> list[Element]:
    """Take all elements."""
    elements = []
    while channel.queued:
        element = channel.next_element()
        if element is not None:
            elements.append(element)
    return elements


def data_of(elements: Sequence[Element]) -> list[Any]:
    return values(element for element in elements if isinstance(element, Buffer))


# --- chunks -----------------------------------------------------------------------------------------------------------


@pytest.mark.flink("ChannelStateChunkReaderTest.testBufferRecycledOnFailure")
def test_of_a_chunk_that_cannot_be_read_nothing_is_handed_on() -> None:
    data, _ = SERIALIZER.encode([buffer(1)])
    damaged = bytearray(data.to_pybytes())
    damaged[40:60] = bytes(20)
    handler = Handler()
    with pytest.raises(StateRestoreError):
        ChannelStateChunkReader(SERIALIZER).read_chunk(pa.BufferReader(damaged), HEADER_LENGTH, handler, "channel", 0)
    assert handler.recovered == []


@pytest.mark.flink("ChannelStateChunkReaderTest.testBufferRecycledOnSuccess")
def test_what_was_read_is_the_handlers_alone() -> None:
    data, _ = SERIALIZER.encode([buffer(1)])
    handler = Handler()
    reader = ChannelStateChunkReader[str](SERIALIZER)
    reader.read_chunk(pa.BufferReader(data), HEADER_LENGTH, handler, "channel", 3)
    ((info, old_subtask, elements),) = handler.recovered
    assert (info, old_subtask, values(elements)) == ("channel", 3, [[1]])
    held = weakref.ref(elements[0].batch)  # type: ignore[union-attr]
    assert held() is not None
    del elements
    handler.recovered.clear()
    assert held() is None, "the reader keeps none of it"


@pytest.mark.flink("ChannelStateChunkReaderTest.testBuffersNotRequestedForEmptyStream")
def test_an_empty_chunk_is_not_handed_on() -> None:
    handler = Handler()
    ChannelStateChunkReader(SERIALIZER).read_chunk(pa.BufferReader(bytes(8)), HEADER_LENGTH, handler, "channel", 0)
    assert handler.recovered == []


@pytest.mark.flink("ChannelStateChunkReaderTest.testNoSeekUnnecessarily")
def test_a_source_that_is_in_place_is_not_moved() -> None:
    class Watched(io.BytesIO):
        moves: ClassVar[list[int]] = []

        def seek(self, position: int, whence: int = 0) -> int:
            self.moves.append(position)
            return super().seek(position, whence)

    data, offsets = SERIALIZER.encode([buffer(1), buffer(2)])
    source, handler = Watched(data.to_pybytes()), Handler()
    reader = ChannelStateChunkReader[str](SERIALIZER)
    SERIALIZER.read_header(source)
    for offset in (offsets[0], offsets[1], offsets[0]):
        reader.read_chunk(source, offset, handler, "channel", 0)
    assert [values(elements) for _, _, elements in handler.recovered] == [[[1]], [[2]], [[1]]]
    assert Watched.moves == [offsets[0]], "only to go back"


# --- handlers ---------------------------------------------------------------------------------------------------------


def input_handler(channel: RecoveredInputChannel) -> InputChannelRecoveredStateHandler:
    return InputChannelRecoveredStateHandler([[channel]], ONE_TO_ONE)


def output_handler(partition: Partition, block: bool = False) -> ResultSubpartitionRecoveredStateHandler:
    return ResultSubpartitionRecoveredStateHandler([partition], ONE_TO_ONE, notify_and_block_on_completion=block)


@pytest.mark.flink(
    "RecoveredChannelStateHandlerTest.testRecycleBufferBeforeRecoverWasCalled",
    "InputChannelRecoveredStateHandlerTest.testRecycleBufferBeforeRecoverWasCalled",
    "ResultSubpartitionRecoveredStateHandlerTest.testRecycleBufferBeforeRecoverWasCalled",
)
@pytest.mark.parametrize("side", ["input", "output"])
def test_a_handler_holds_nothing_that_it_was_not_given(side: str) -> None:
    channel, partition = gate(1)[0], Partition(1)
    handler: Any = input_handler(channel) if side == "input" else output_handler(partition)
    handler.recover(IN if side == "input" else OUT, 0, [])
    assert not channel.queued
    assert partition.queues == [[]]
    with pytest.raises(StateRestoreError, match="of old channel 1 of"):
        handler.recover(InputChannelInfo(0, 1) if side == "input" else ResultSubpartitionInfo(0, 1), 0, [buffer(1)])
    assert not channel.queued
    assert partition.queues == [[]]


@pytest.mark.flink(
    "RecoveredChannelStateHandlerTest.testRecycleBufferAfterRecoverWasCalled",
    "InputChannelRecoveredStateHandlerTest.testRecycleBufferAfterRecoverWasCalled",
    "ResultSubpartitionRecoveredStateHandlerTest.testRecycleBufferAfterRecoverWasCalled",
)
@pytest.mark.parametrize("side", ["input", "output"])
def test_a_handler_holds_nothing_that_it_has_handed_on(side: str) -> None:
    channel, partition = gate(1)[0], Partition(1)
    handler: Any = input_handler(channel) if side == "input" else output_handler(partition)
    data, is_held = watched(1)
    handler.recover(IN if side == "input" else OUT, 2, [data.pop()])
    handler.close()
    assert is_held()
    if side == "input":
        taken(channel)
    else:
        partition.queues[0].clear()
    assert not is_held()


def test_each_buffer_follows_the_connection_it_was_on() -> None:
    channel, partition = gate(1)[0], Partition(1)
    input_handler(channel).recover(IN, 5, [buffer(1), buffer(2)])
    first, one, second, two = taken(channel)
    assert (first, second) == (SubtaskConnectionDescriptor(5, 0),) * 2
    assert values([one, two]) == [[1], [2]]
    handler = output_handler(partition, block=True)
    handler.recover(OUT, 5, [buffer(3)])
    handler.close()
    descriptor, three, end = partition.queues[0]
    assert descriptor == SubtaskConnectionDescriptor(0, 5)
    assert values([three, end]) == [[3], EndOfChannelState()]


# --- a whole task -----------------------------------------------------------------------------------------------------


def a_permuted_file(
    level: int, parts: int, seed: int
) -> tuple[list[RestoredPart], dict[InputChannelInfo, list[Any]], dict[ResultSubpartitionInfo, list[Any]]]:
    """Write all channels' buffers into one file, the channels in any order, their buffers in theirs."""
    channels: list[Any] = [
        kind(a, b) for kind in (InputChannelInfo, ResultSubpartitionInfo) for a in range(level) for b in range(level)
    ]
    random.Random(seed).shuffle(channels)
    numbers = iter(range(10**6))
    given_ = {info: [[next(numbers)] for _ in range(parts)] for info in channels}
    turns = [info for info in channels for _ in range(parts)]
    random.Random(seed + 1).shuffle(turns)
    left = {info: iter(of) for info, of in given_.items()}
    data, offsets = SERIALIZER.encode([buffer(*next(left[info])) for info in turns])
    stream = ByteStreamStateHandle("", data.to_pybytes())
    restored = []
    for info in channels:
        mine = tuple(offset for offset, of in zip(offsets, turns, strict=False) if of == info)
        is_input = isinstance(info, InputChannelInfo)
        kind = InputChannelStateHandle if is_input else ResultSubpartitionStateHandle
        handle: Any = kind(0, info, mine, 0, stream)
        restored.append(
            RestoredPart(
                "op", SubtaskStateKind.INPUT_CHANNEL if is_input else SubtaskStateKind.RESULT_SUBPARTITION, handle, data
            )
        )
    inputs = {info: of for info, of in given_.items() if isinstance(info, InputChannelInfo)}
    outputs = {info: of for info, of in given_.items() if isinstance(info, ResultSubpartitionInfo)}
    return restored, inputs, outputs


@pytest.mark.flink("SequentialChannelStateReaderImplTest.testReadPermutedState")
@pytest.mark.parametrize(("level", "parts", "channels"), [(0, 0, 0), (0, 4, 4), (4, 5, 4), (4, 5, 8), (6, 3, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_state_written_in_any_order_is_read_into_its_channels(level: int, parts: int, channels: int, seed: int) -> None:
    restored, inputs, outputs = a_permuted_file(level, parts, seed)
    reader = SequentialChannelStateReader(restored)
    partitions = [Partition(channels) for _ in range(channels)]
    reader.read_output_data(partitions)
    for number, partition in enumerate(partitions):
        for index, queue in enumerate(partition.queues):
            assert data_of(queue) == outputs.get(ResultSubpartitionInfo(number, index), [])
    gates = [gate(channels, number) for number in range(channels)]
    reader.read_input_data(gates)
    for each in gates:
        for channel in each:
            assert not channel.state_consumed
            assert data_of(taken(channel)) == inputs.get(channel.info, [])
            assert channel.state_consumed


def test_a_channel_is_described_once() -> None:
    (part, *_), _, _ = a_permuted_file(1, 2, 0)
    reader = SequentialChannelStateReader([part, part])
    with pytest.raises(StateRestoreError, match="second of its channel"):
        reader.read_input_data([gate(1)]) if part.kind == SubtaskStateKind.INPUT_CHANNEL else reader.read_output_data(
            [Partition(1)]
        )


def test_handles_that_were_merged_are_read_like_others() -> None:
    data, offsets = SERIALIZER.encode([buffer(1), buffer(2), buffer(3)])
    contents = (
        ChannelStateContent(InputChannelInfo(0, 0), (offsets[0], offsets[2]), 0),
        ChannelStateContent(InputChannelInfo(0, 1), (offsets[1],), 0),
    )
    handle = MergedInputChannelStateHandle(3, contents, 0, ByteStreamStateHandle("s", data.to_pybytes()))
    channels = gate(2)
    SequentialChannelStateReader([RestoredPart("op", SubtaskStateKind.INPUT_CHANNEL, handle, data)]).read_input_data(
        [channels]
    )
    assert [data_of(taken(channel)) for channel in channels] == [[[1], [3]], [[2]]]


def test_output_that_is_recovered_downstream_comes_after_the_input() -> None:
    parts = []
    for kind, number in ((SubtaskStateKind.UPSTREAM_OUTPUT_BUFFER, 2), (SubtaskStateKind.INPUT_CHANNEL, 1)):
        data, offsets = SERIALIZER.encode([buffer(number)])
        stream = ByteStreamStateHandle(kind, data.to_pybytes())
        parts.append(RestoredPart("op", kind, InputChannelStateHandle(0, IN, offsets[:1], 0, stream), data))
    (channel,) = channels = gate(1)
    SequentialChannelStateReader(parts).read_input_data([channels])
    assert data_of(taken(channel)) == [[1], [2]]


def test_after_a_rescale_every_channel_that_took_over_gets_the_buffers() -> None:
    """Old channels 0, 1, 2; new channel 0 takes over 0 and 1, new channel 1 takes over 1 and 2."""
    mapping = RescaleMappings.of([(0, 1), (1, 2)], 3)
    descriptor = GateOrPartitionRescalingDescriptor((0, 1), mapping, frozenset({1}), MappingType.RESCALING)
    rescaling = InflightDataRescalingDescriptor((descriptor,))
    data, offsets = SERIALIZER.encode([buffer(number) for number in range(3)])
    stream = ByteStreamStateHandle("s", data.to_pybytes())
    inputs = [
        RestoredPart(
            "op",
            SubtaskStateKind.INPUT_CHANNEL,
            InputChannelStateHandle(1, InputChannelInfo(0, n), (offsets[n],), 0, stream),
            data,
        )
        for n in range(3)
    ]
    channels = gate(2)
    SequentialChannelStateReader(inputs, rescaling).read_input_data([channels])
    found = [taken(channel) for channel in channels]
    assert [data_of(elements) for elements in found] == [[[0], [1]], [[1], [2]]]
    assert found[0][2] == found[1][0] == SubtaskConnectionDescriptor(1, 1)
    outputs = [
        RestoredPart(
            "op",
            SubtaskStateKind.RESULT_SUBPARTITION,
            ResultSubpartitionStateHandle(1, ResultSubpartitionInfo(0, n), (offsets[n],), 0, stream),
            data,
        )
        for n in range(3)
    ]
    partition = Partition(2)
    SequentialChannelStateReader(outputs, NO_RESCALE, rescaling).read_output_data([partition])
    assert [data_of(queue) for queue in partition.queues] == [[[0], [1]], [[1], [2]]]
    assert partition.queues[0][2] == SubtaskConnectionDescriptor(1, 1)


# --- there and back ---------------------------------------------------------------------------------------------------

WRITES = st.lists(
    st.tuples(
        st.sampled_from(["a/0", "b/0", "c/0"]),
        st.booleans(),
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=30,
)


@given(WRITES, st.sampled_from([0, 1_000, 100_000]), st.integers(1, 3))
def test_whatever_was_in_flight_comes_back_in_order(writes: list[Any], threshold: int, most: int) -> None:
    slot = Slot("a/0", "b/0", "c/0", threshold_bytes=threshold, max_subtasks_per_file=most)
    for writer in slot.writers.values():
        writer.start(1, OPTIONS)
    numbers = iter(range(10**6))
    given_: dict[tuple[str, Any], list[Any]] = {}
    for task, is_input, one, two, count, run in writes:
        info: Any = InputChannelInfo(one, two) if is_input else ResultSubpartitionInfo(one, two)
        new = [[next(numbers)] for _ in range(count)]
        given_.setdefault((task, info), []).extend(new)
        writer = slot.writers[task]
        (writer.add_input_data if is_input else writer.add_output_data)(1, info, 0, [buffer(*each) for each in new])
        if run:
            slot.run()
    slot.finish(1).do()
    for task, writer in slot.writers.items():
        result = writer.take_result(1)
        assert result.error is None
        parts = slot.parts(SubtaskStateKind.INPUT_CHANNEL, result.input_handles) + slot.parts(
            SubtaskStateKind.RESULT_SUBPARTITION, result.output_handles
        )
        reader = SequentialChannelStateReader(parts)
        gates, partitions = [gate(2, 0), gate(2, 1)], [Partition(2), Partition(2)]
        reader.read_input_data(gates)
        reader.read_output_data(partitions)
        for one in range(2):
            for two in range(2):
                found = data_of(taken(gates[one][two]))
                assert found == given_.get((task, InputChannelInfo(one, two)), [])
                assert data_of(partitions[one].queues[two]) == given_.get((task, ResultSubpartitionInfo(one, two)), [])
    assert {event.checkpoint_id for event in slot.answers} == {1}
