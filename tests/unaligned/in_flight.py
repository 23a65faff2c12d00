"""The number of records in a checkpoint's in-flight data, by kind of edge, and by end of the edge."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from kit.core.metadata import CheckpointMetadata
from kit.core.protocol.elements import Buffer
from kit.core.state.channel_handles import InputChannelStateHandle, ResultSubpartitionStateHandle
from kit.machines.channel.channel_state.channel_state_serializer import ChannelStateSerializer
from kit.stream.graph.job_graph import JobEdge, JobGraph
from kit.stream.graph.partitioners import PartitionerKind

INPUT, OUTPUT = "input", "output"

RecordsInFlight = Counter[tuple[str, PartitionerKind]]
"""Records by the end at which they lay (INPUT: had arrived, OUTPUT: had not left), and the kind of the edge."""


def _from_disk(path: str) -> bytes:
    return Path(path).read_bytes()


def records_in_flight(
    metadata: CheckpointMetadata, job: JobGraph, read: Callable[[str], bytes] = _from_disk
) -> RecordsInFlight:
    """Count the records of a checkpoint of `job`; marks and fragments are none. `read` gives the bytes of a file."""
    found: RecordsInFlight = Counter()
    vertices = {operator.operator_id: vertex for vertex in job.vertices for operator in vertex.operators}
    for operator in metadata.operator_states:
        vertex = vertices[operator.operator_id]
        for subtask in operator.subtask_states.values():
            for arrived in subtask.input_channel_state:
                found[INPUT, _kind(vertex.inputs[arrived.info.gate_idx])] += sum(_records(arrived, read))
            for unsent in subtask.result_subpartition_state:
                found[OUTPUT, _kind(vertex.outputs[unsent.info.partition_idx])] += sum(_records(unsent, read))
    return +found


def _kind(edge: JobEdge) -> PartitionerKind:
    return edge.partitioner


def _records(
    handle: InputChannelStateHandle | ResultSubpartitionStateHandle, read: Callable[[str], bytes]
) -> Iterator[int]:
    serializer = ChannelStateSerializer()
    (path,) = handle.files()
    source = io.BytesIO(read(path))
    for offset in handle.offsets:
        source.seek(offset)
        for element in serializer.read_data(source, serializer.read_length(source)):
            yield element.batch.num_rows if isinstance(element, Buffer) else 0
