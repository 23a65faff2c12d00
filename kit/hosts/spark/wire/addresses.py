"""The addresses at which the slots of a deployment reach each other.

Of two slots that share a channel, the lower dials the higher (`kit.hosts.spark.wire.channels`). So a slot receives only
the addresses of the higher slots with which it shares a channel. Slots with the same peers receive the same message,
which is packed once; in an all-to-all exchange that is every slot. Compressed, an address takes a few bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence

from kit.core.protocol.tasks import task_name
from kit.hosts.spark.wire.stream import Endpoint
from kit.hosts.spark.wire.wire import ControlMessage
from kit.stream.graph.execution_graph import ExecutionGraph

CONNECT = "connect"
Addresses = Mapping[int, Sequence[Endpoint]]


def addresses_by_receiver(graph: ExecutionGraph, endpoints: Addresses) -> Iterator[tuple[list[int], Addresses]]:
    """Yield groups of slots with the addresses that they receive; each slot is in one group."""
    alike: dict[frozenset[tuple[str, range]], list[int]] = {}
    for slot in sorted(endpoints):
        opposite = frozenset(each for task in graph.slots.tasks_in(slot) for each in graph.opposite(task))
        alike.setdefault(opposite, []).append(slot)
    for opposite, slots in alike.items():
        peers = graph.slots.of_all(task_name(vertex, subtask) for vertex, each in opposite for subtask in each)
        yield slots, {slot: endpoints[slot] for slot in sorted(peers) if slot > slots[0]}


def connect_message(addresses: Addresses) -> ControlMessage:
    """Return the message that tells a slot that all have joined, and which slots it may have to dial."""
    text = json.dumps({slot: [str(endpoint) for endpoint in of] for slot, of in addresses.items()})
    return ControlMessage(CONNECT, blobs=[zlib.compress(text.encode())])


def addresses_of(message: ControlMessage) -> dict[int, list[Endpoint]]:
    """Return the addresses in a message of `connect_message`."""
    (packed,) = message.blobs
    addresses = json.loads(zlib.decompress(packed))
    return {int(slot): [Endpoint.parse(text) for text in texts] for slot, texts in addresses.items()}
