"""The head of keyed and of operator state: the names of the states, and the serializers they were written with.

Flink: `KeyedBackendSerializationProxy`, `OperatorBackendSerializationProxy`, `StateMetaInfoSnapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kit.core.state.errors import CheckpointError, DamagedError
from kit.snapshots.serializers.composite import Timer, Ttl
from kit.snapshots.serializers.opaque import Opaque
from kit.snapshots.serializers.reading import NO_DECODERS, Decoders, Reader
from kit.snapshots.serializers.serializer_snapshots import read_versioned
from kit.snapshots.serializers.types import Mapping, Sequential, Type

KEYED_VERSION = 6
OPERATOR_VERSIONS = (5, 6)
OPERATOR_VERSION_WITH_COMPRESSION = 6
KEY_VALUE, OPERATOR, BROADCAST, TIMERS, ASYNC_KEY_VALUE = range(5)
MAP, LIST, TIMER = "MAP", "LIST", "TIMER"
KINDS = ("VALUE", LIST, "REDUCING", "FOLDING", "AGGREGATING", MAP)


@dataclass(frozen=True, eq=False)
class KeyedState:
    """One state of a keyed operator. `kind` is VALUE, LIST, MAP, REDUCING, AGGREGATING, or TIMER."""

    name: str
    kind: str
    key: Type
    namespace: Type
    value: Type
    raw: bytes = b""
    """What the head has of the state: its name, options and serializers."""

    @cached_property
    def has_namespace(self) -> bool:
        """True if the state has one value per key and namespace, not one per key."""
        return self.namespace.name != "VoidNamespace"

    @cached_property
    def map_key(self) -> Type | None:
        """The type of a map state's keys."""
        return self.value.parts[0] if self.kind == MAP else None

    @cached_property
    def stored(self) -> Type:
        """The type of what is stored: a map's value, a list's element, else the value; with TTL its wrapper."""
        if self.kind == MAP:
            return self.value.parts[1]
        return self.value.parts[0] if self.kind == LIST else self.value

    @cached_property
    def has_ttl(self) -> bool:
        """True if each value has the time of its last access."""
        return isinstance(self.stored, Ttl)

    @cached_property
    def item(self) -> Type:
        """The type of what is stored, without the wrapper of TTL."""
        found = self.stored.inner if isinstance(self.stored, Ttl) else self.stored
        return found if isinstance(found, Opaque) or not found.is_opaque else Opaque(found.name)

    @cached_property
    def lengths_in_key(self) -> bool:
        """True if the key's length follows it in the bytes: neither it nor the namespace has a fixed one."""
        return not (self.key.is_fixed or self.namespace.is_fixed)


@dataclass(frozen=True, eq=False)
class KeyedHeader:
    """The head of a file of keyed state. `end` is where it ends, in bytes; `raw_key` is the key's serializer."""

    is_compressed: bool
    key: Type
    states: tuple[KeyedState, ...]
    end: int
    raw_key: bytes = b""

    def state(self, name: str) -> KeyedState:
        """Return the state of this name. Raises KeyError."""
        for each in self.states:
            if each.name == name:
                return each
        raise KeyError(name)


def read_keyed_header(data: bytes, decoders: Decoders = NO_DECODERS) -> KeyedHeader:
    """Read the head of keyed state. Raises CheckpointError."""
    reader = Reader(data)
    reader.decoders = decoders
    version = reader.int32()
    if version != KEYED_VERSION:
        reader.at = 0
        raise reader.error(f"version {version} of keyed state", f"{KEYED_VERSION}, which Flink 1.8 and newer write")
    is_compressed = reader.boolean()
    start = reader.at
    key = read_versioned(reader)
    raw_key = data[start : reader.at]
    states = tuple(_keyed_state(reader, key) for _ in range(_many(reader)))
    return KeyedHeader(is_compressed, key, states, reader.at, raw_key)


def keyed_header(raw_key: bytes, states: Sequence[KeyedState]) -> bytes:
    """Return the head of uncompressed keyed state, from what `read_keyed_header` found of the key and the states."""
    head = KEYED_VERSION.to_bytes(4, "big") + b"\0" + raw_key + len(states).to_bytes(2, "big")
    return head + b"".join(state.raw for state in states)


def _many(reader: Reader) -> int:
    found = reader.int16()
    if found < 0:
        raise reader.error(f"{found} states", "0 or more")
    return found


@dataclass(frozen=True)
class _Entry:
    name: str
    kind: int
    options: MappingOf[str, str]
    serializers: MappingOf[str, Type]
    start: int

    def serializer(self, role: str) -> Type:
        """Return the serializer of a role. Raises CheckpointError."""
        if role not in self.serializers:
            there = ", ".join(self.serializers) or "nothing"
            raise DamagedError(f"found serializers {there}, expected {role}", self.start).about(f"state {self.name!r}")
        return self.serializers[role]


def _entry(reader: Reader) -> _Entry:
    start, name, kind = reader.at, reader.utf(), reader.int32()
    options = {reader.utf(): reader.utf() for _ in range(reader.count("options", 4))}
    found: dict[str, Type] = {}
    for _ in range(reader.count("serializers", 6)):
        role = reader.utf()
        try:
            found[role] = read_versioned(reader)
        except CheckpointError as error:
            raise error.about(f"state {name!r}, {role}") from error
    return _Entry(name, kind, options, found, start)


def _keyed_state(reader: Reader, key: Type) -> KeyedState:
    start = reader.at
    entry = _entry(reader)
    raw = reader.data[start : reader.at]
    if entry.kind == TIMERS:
        timer = entry.serializer("VALUE_SERIALIZER")
        if not isinstance(timer, Timer):
            found = f"timers {entry.name!r} with serializer {timer.name}"
            raise DamagedError(f"found {found}, expected that of timers", start)
        return KeyedState(entry.name, TIMER, key, timer.parts[1], timer, raw)
    if entry.kind not in (KEY_VALUE, ASYNC_KEY_VALUE):
        raise DamagedError(f"found state {entry.name!r} of kind {entry.kind}, expected that of keyed state", start)
    kind = entry.options.get("KEYED_STATE_TYPE", "VALUE")
    value = entry.serializer("VALUE_SERIALIZER")
    if kind not in KINDS or (kind == MAP and not isinstance(value, Mapping)):
        kind = _kind_of(value)
    if kind == LIST and not value.parts:
        kind = "VALUE"
    return KeyedState(entry.name, kind, key, entry.serializer("NAMESPACE_SERIALIZER"), value, raw)


def _kind_of(value: Type) -> str:
    """Guess the kind of a state that does not say it."""
    if isinstance(value, Mapping):
        return MAP
    return LIST if isinstance(value, Sequential) else "VALUE"


@dataclass(frozen=True, eq=False)
class OperatorState:
    """One list or broadcast state of an operator. `key` is a broadcast state's."""

    name: str
    mode: str
    value: Type
    key: Type | None = None
    raw: bytes = b""
    """What the head has of the state: its name, options and serializers."""


@dataclass(frozen=True, eq=False)
class OperatorHeader:
    """The head of a file of operator state, by the names of the states. `version` is that of its layout."""

    is_compressed: bool
    states: MappingOf[str, OperatorState]
    end: int
    version: int = OPERATOR_VERSION_WITH_COMPRESSION


def read_operator_header(data: bytes, decoders: Decoders = NO_DECODERS) -> OperatorHeader:
    """Read the head of operator state. Raises CheckpointError."""
    reader = Reader(data)
    reader.decoders = decoders
    version = reader.int32()
    if version not in OPERATOR_VERSIONS:
        reader.at = 0
        raise reader.error(f"version {version} of operator state", "5 or 6, which Flink 1.8 and newer write")
    is_compressed = version >= OPERATOR_VERSION_WITH_COMPRESSION and reader.boolean()
    states: dict[str, OperatorState] = {}
    for _ in range(_many(reader)):
        start = reader.at
        entry = _entry(reader)
        mode = entry.options.get("OPERATOR_STATE_DISTRIBUTION_MODE", "SPLIT_DISTRIBUTE")
        value, raw = entry.serializer("VALUE_SERIALIZER"), data[start : reader.at]
        states[entry.name] = OperatorState(entry.name, mode, value, raw=raw)
    for _ in range(_many(reader)):
        start = reader.at
        entry = _entry(reader)
        key, value = entry.serializer("KEY_SERIALIZER"), entry.serializer("VALUE_SERIALIZER")
        states[entry.name] = OperatorState(entry.name, "BROADCAST", value, key, data[start : reader.at])
    return OperatorHeader(is_compressed, states, reader.at, version)


def operator_header(states: Sequence[OperatorState], version: int, *, is_compressed: bool) -> bytes:
    """Return the head of operator state, from what `read_operator_header` found of the states."""
    flag = is_compressed.to_bytes(1, "big") if version >= OPERATOR_VERSION_WITH_COMPRESSION else b""
    lists, maps = ([state for state in states if (state.key is None) is is_list] for is_list in (True, False))
    parts = [len(some).to_bytes(2, "big") + b"".join(state.raw for state in some) for some in (lists, maps)]
    return version.to_bytes(4, "big") + flag + b"".join(parts)
