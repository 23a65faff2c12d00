"""Dealing out operator list state: entries one by one (split), all to all (union), one copy to each (broadcast).

The states of all subtasks are grouped by mode and name. *Split*: the entries of one name, in the order of the old
subtasks, are cut into equal runs; where one name leaves off the next begins, so nobody is always first. *Union*: every
subtask gets every handle; they share one list. *Broadcast*: new subtask i gets the copy number i modulo the copies.
Pieces in the same stream become one handle.

At unchanged parallelism handles pass through. Only union is dealt out then, and broadcast that some subtasks did not
report, since they had finished (not in 1.11).

Three habits of Flink's decide who gets what and are kept. Split names are walked in the order of a Java HashMap. Where
one stream holds the same name twice, the last piece replaces the others: that state is lost. An entry list of length
zero that is met while filling survives as an empty list. Follows `RoundRobinOperatorStateRepartitioner`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kit.restore.errors import ILLEGAL_ARGUMENT, RepartitionError
from kit.restore.java_hashmap_order import compute_if_absent_order
from kit.restore.shared_handles import SharedHandles
from kit.state.handles import OperatorStateMode, OperatorStreamStateHandle, StateMetaInfo, StreamStateHandle

Handles = Sequence[OperatorStreamStateHandle]
_Names = dict[str, StateMetaInfo]
_Pieces = dict[int, _Names]
"""By the number of a stream: what one subtask gets of it."""

_BITSET_WORD = 64


@dataclass(slots=True)
class _Streams:
    """Numbers the streams, so that each is hashed once."""

    streams: list[StreamStateHandle] = field(default_factory=list)
    numbers: dict[StreamStateHandle, int] = field(default_factory=dict)

    def number(self, stream: StreamStateHandle) -> int:
        number = self.numbers.setdefault(stream, len(self.streams))
        if number == len(self.streams):
            self.streams.append(stream)
        return number

    def handles(self, pieces: _Pieces) -> tuple[OperatorStreamStateHandle, ...]:
        streams = self.streams
        return tuple([OperatorStreamStateHandle(names, streams[number]) for number, names in pieces.items()])


@dataclass(slots=True)
class _NamedState:
    """One state of one mode: in which streams it lies, in the order of the subtasks, and how many reported it."""

    entries: list[tuple[int, StateMetaInfo]] = field(default_factory=list)
    reporters: set[int] = field(default_factory=set)


class _Grouped:
    """All states by mode and name."""

    def __init__(self, previous: Sequence[Handles]) -> None:
        self.streams = _Streams()
        self.by_mode: dict[OperatorStateMode, dict[str, _NamedState]] = {mode: {} for mode in OperatorStateMode}
        for subtask, handles in enumerate(previous):
            for handle in handles:
                number = self.streams.number(handle.delegate)
                for name, info in handle.state_name_to_partition_offsets.items():
                    states = self.by_mode[info.mode]
                    state = states.get(name)
                    if state is None:
                        state = states[name] = _NamedState()
                    state.entries.append((number, info))
                    state.reporters.add(subtask)

    @property
    def split(self) -> list[tuple[str, list[tuple[int, StateMetaInfo]]]]:
        """The split states, in Java's order."""
        states = self.by_mode[OperatorStateMode.SPLIT_DISTRIBUTE]
        return [(name, states[name].entries) for name in compute_if_absent_order(states)]

    @property
    def union(self) -> _Pieces:
        """By stream, what every subtask gets."""
        union: _Pieces = {}
        for name, state in self.by_mode[OperatorStateMode.UNION].items():
            for number, info in state.entries:
                union.setdefault(number, {})[name] = info
        return union

    @property
    def broadcast(self) -> dict[str, _NamedState]:
        """The broadcast states."""
        return self.by_mode[OperatorStateMode.BROADCAST]


def repartition(previous: Sequence[Handles], old_parallelism: int, new_parallelism: int) -> Sequence[Handles]:
    """Deal the handles of each old subtask out to the new subtasks: one sequence of handles for each of them.

    A handle's names are walked in the order of its mapping. Raises RepartitionError where `previous` has not
    `old_parallelism` members, the new parallelism is not positive, or, at unchanged parallelism, one subtask has two
    handles of one stream.
    """
    _check(previous, old_parallelism, new_parallelism)
    if new_parallelism == old_parallelism:
        return _at_same_parallelism(previous)
    grouped = _Grouped(previous)
    pieces: list[_Pieces] = [{} for _ in range(new_parallelism)]
    _deal_split(grouped.split, pieces)
    union = grouped.union
    for mine in pieces:
        for number in mine.keys() & union.keys():
            mine[number].update(union[number])
    _deal_broadcast({name: state.entries for name, state in grouped.broadcast.items()}, union, pieces)
    own = [grouped.streams.handles(mine) for mine in pieces]
    return _share(own, pieces, union, grouped.streams)


def _check(previous: Sequence[Handles], old_parallelism: int, new_parallelism: int) -> None:
    if new_parallelism <= 0:
        advice = f"Found a new parallelism of {new_parallelism}, expected at least 1."
        raise RepartitionError(None, advice, ILLEGAL_ARGUMENT)
    if len(previous) != old_parallelism:
        raise RepartitionError(
            "This method still depends on the order of the new and old operators",
            f"Found the state of {len(previous)} subtasks, expected that of {old_parallelism}, one entry for each old "
            "subtask; pass an empty list for a subtask without state.",
            ILLEGAL_ARGUMENT,
        )


def _at_same_parallelism(previous: Sequence[Handles]) -> Sequence[Handles]:
    grouped = _Grouped(previous)
    union = grouped.union
    broadcast = _partly_reported(grouped.broadcast, len(previous))
    if not union and not broadcast:
        return previous
    kept: list[dict[int, OperatorStreamStateHandle]] = []
    pieces: list[_Pieces] = []
    for subtask, handles in enumerate(previous):
        by_stream = {grouped.streams.number(handle.delegate): handle for handle in handles}
        if len(by_stream) != len(handles):
            raise _two_handles_of_one_stream(subtask, handles)
        kept.append(by_stream)
        pieces.append({number: dict(h.state_name_to_partition_offsets) for number, h in by_stream.items()})
    for mine in pieces:
        for number in mine.keys() & union.keys():
            mine[number].update(union[number])
    _deal_broadcast(broadcast, union, pieces)
    own = [
        tuple(
            replace(by_stream[number], state_name_to_partition_offsets=names)
            if number in by_stream
            else OperatorStreamStateHandle(names, grouped.streams.streams[number])
            for number, names in mine.items()
        )
        for by_stream, mine in zip(kept, pieces, strict=True)
    ]
    return _share(own, pieces, union, grouped.streams)


def _partly_reported(
    broadcast: Mapping[str, _NamedState], parallelism: int
) -> dict[str, list[tuple[int, StateMetaInfo]]]:
    """The broadcast states that not every subtask reported.

    Flink compares the reporters with the size of a bit set, which is rounded up to whole words: a state that all
    reported counts as partly reported too, unless the parallelism is a multiple of 64.
    """
    rounded_up = -(-parallelism // _BITSET_WORD) * _BITSET_WORD
    return {name: state.entries for name, state in broadcast.items() if len(state.reporters) < rounded_up}


def _deal_split(states: Iterable[tuple[str, list[tuple[int, StateMetaInfo]]]], pieces: list[_Pieces]) -> None:
    parallelism = len(pieces)
    start = 0
    for name, entries in states:
        base, remainder = divmod(sum(len(info.offsets) for _, info in entries), parallelism)
        order = [*range(start, parallelism), *range(start)]
        start = (start + remainder) % parallelism
        _deal_one(name, entries, [pieces[subtask] for subtask in order], base, remainder)


def _deal_one(
    name: str, entries: list[tuple[int, StateMetaInfo]], takers: list[_Pieces], base: int, remainder: int
) -> None:
    """Deal the entries of one split state: `base` to each taker in turn, and one more to the first `remainder`."""
    split = OperatorStateMode.SPLIT_DISTRIBUTE
    at = 0  # the entry list being cut, and how far it is
    done = 0
    for turn, taker in enumerate(takers):
        wanted = base + 1 if turn < remainder else base
        while wanted > 0:
            number, info = entries[at]
            offsets = info.offsets
            left = len(offsets) - done
            if left > wanted:
                info = StateMetaInfo(offsets[done : done + wanted], split)
                done += wanted
            else:
                if done:
                    info = StateMetaInfo(offsets[done:], split)
                    done = 0
                at += 1
            wanted -= left
            names = taker.get(number)
            if names is None:
                taker[number] = {name: info}
            else:
                names[name] = info


def _deal_broadcast(
    broadcast: Mapping[str, list[tuple[int, StateMetaInfo]]], union: _Pieces, pieces: list[_Pieces]
) -> None:
    for name, copies in broadcast.items():
        for subtask, mine in enumerate(pieces):
            number, info = copies[subtask % len(copies)]
            names = mine.get(number)
            if names is None:
                names = mine[number] = dict(union.get(number, ()))
            names[name] = info


def _share(
    own: list[tuple[OperatorStreamStateHandle, ...]], pieces: list[_Pieces], union: _Pieces, streams: _Streams
) -> list[Handles]:
    """Add to each subtask's own handles those of the union states, which all of them share."""
    if not union:
        return list(own)
    shared = {number: OperatorStreamStateHandle(names, streams.streams[number]) for number, names in union.items()}
    nothing: frozenset[int] = frozenset()
    return [
        SharedHandles(handles, shared, frozenset(mine.keys() & union.keys()) if mine else nothing)
        for handles, mine in zip(own, pieces, strict=True)
    ]


def _two_handles_of_one_stream(subtask: int, handles: Handles) -> RepartitionError:
    seen: set[StreamStateHandle] = set()
    twice = next(h.delegate for h in handles if h.delegate in seen or seen.add(h.delegate))  # type: ignore[func-returns-value]
    return RepartitionError(
        None,
        f"Found two operator state handles of subtask {subtask} in one stream, {twice!r}, expected one a stream; "
        "the checkpoint can be restored at another parallelism.",
    )
