"""Where the slots of an epoch find each other.

Of two slots that share a channel the lower dials the higher (`kit.hosts.spark.wire.channels`), so a slot is told the
addresses of the higher ones opposite it, and no others. Slots that are opposite the same ones are told the same, packed
once: in an exchange from each to each that is everybody. Compressed, an address takes a few bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence

from kit.hosts.spark.wire.stream import Endpoint
from kit.hosts.spark.wire.wire import ControlMessage
from kit.stream.graph.execution_graph import ExecutionGraph

CONNECT = "connect"
Addresses = Mapping[int, Sequence[Endpoint]]


def told_addresses(graph: ExecutionGraph, endpoints: Addresses) -> Iterator[tuple[list[int], Addresses]]:
    """The slots that are told the same, and what: all slots are among them, each once."""
    alike: dict[tuple[range, ...], list[int]] = {}
    for slot in sorted(endpoints):
        alike.setdefault(graph.opposite(slot), []).append(slot)
    for opposite, slots in alike.items():
        dialled = sorted({slot for each in opposite for slot in each if slot > slots[0]})
        yield slots, {slot: endpoints[slot] for slot in dialled}


def connect_message(addresses: Addresses) -> ControlMessage:
    """Tells a slot whom it may have to dial, and that all have joined."""
    text = json.dumps({slot: [str(endpoint) for endpoint in of] for slot, of in addresses.items()})
    return ControlMessage(CONNECT, blobs=[zlib.compress(text.encode())])


def addresses_of(message: ControlMessage) -> dict[int, list[Endpoint]]:
    """What `connect_message` has put into a message."""
    (packed,) = message.blobs
    told = json.loads(zlib.decompress(packed))
    return {int(slot): [Endpoint.parse(text) for text in texts] for slot, texts in told.items()}
