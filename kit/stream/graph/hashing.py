"""Operator ids: the identity of an operator in a checkpoint, computed exactly as in Flink.

An operator's id is 16 bytes, written as 32 hex digits. With a uid it is the uid's hash and does not change when the job
around it does. Without one it depends on the operator's place: its number in a walk over the graph, the number of
operators chained to it, and the ids of its inputs. Then almost any change of the job gives another id, and the state is
not found again. That is why operators with state need a uid.

Follows `StreamGraphHasherV2` (unchanged between Flink 1.2 and 2.x) and Guava's `Hashing.murmur3_128(0)`.
"""

from __future__ import annotations

import struct
from collections import deque

from kit.stream.graph.chaining import is_chainable
from kit.stream.graph.stream_graph import StreamGraph, StreamNode

_MASK = 0xFFFFFFFFFFFFFFFF
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def murmur3_128(data: bytes) -> bytes:
    """Return the MurmurHash3 for x64, 128 bits, seed 0, as bytes in the order of Guava's `HashCode.asBytes`."""
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 ^= _mix_k1(k1)
        h1 = (_rotate_left(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mix_k2(k2)
        h2 = (_rotate_left(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    h1 ^= _mix_k1(k1) ^ len(data)
    h2 ^= _mix_k2(k2) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _final_mix(h1), _final_mix(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return struct.pack("<QQ", h1, h2)


def _mix_k1(k: int) -> int:
    return _rotate_left(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_k2(k: int) -> int:
    return _rotate_left(k * _C2 & _MASK, 33) * _C1 & _MASK


def _final_mix(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def operator_id_of_uid(uid: str) -> str:
    """Return the id of the operator with this uid (`generateUserSpecifiedHash`)."""
    return murmur3_128(uid.encode()).hex()


def operator_ids(graph: StreamGraph) -> dict[int, str]:
    """Return the id of each node's operator, by node number (`traverseStreamGraphAndGenerateHashes`).

    The walk is breadth first from the sources. A node that is met before all its inputs is postponed until it is met
    again.
    """
    ids: dict[int, bytes] = {}
    remaining = deque(graph.sources)
    visited = {node.node_id for node in remaining}
    while remaining:
        node = remaining.popleft()
        if node.uid is not None:
            ids[node.node_id] = murmur3_128(node.uid.encode())
        elif all(edge.source in ids for edge in graph.inputs(node)):
            ids[node.node_id] = _topological_id(node, graph, ids)
        else:
            visited.discard(node.node_id)
            continue
        for edge in graph.outputs(node):
            if edge.target not in visited:
                visited.add(edge.target)
                remaining.append(graph.node(edge.target))
    return {node_id: operator_id.hex() for node_id, operator_id in ids.items()}


def _topological_id(node: StreamNode, graph: StreamGraph, ids: dict[int, bytes]) -> bytes:
    """Return the id made from place, chained outputs and inputs (`generateDeterministicHash`)."""
    place = struct.pack("<i", len(ids))
    chained = sum(is_chainable(edge, graph) for edge in graph.outputs(node))
    digest = murmur3_128(place * (1 + chained))
    for edge in graph.inputs(node):
        digest = bytes((byte * 37 ^ other) & 0xFF for byte, other in zip(digest, ids[edge.source]))
    return digest
