"""Redistribution of operator list state: single entries (split), everything to all (union), one copy each (broadcast).

The states of all subtasks are grouped by mode and name. *Split*: the entries of one name, in the order of the old
subtasks, are cut into equal ranges. The next name continues where the previous one ended, so that no subtask is always
first. *Union*: every subtask gets every handle; they share one list. *Broadcast*: new subtask i gets copy number i
modulo the number of copies. Pieces in the same stream become one handle.

At unchanged parallelism handles are passed through. Only union state is redistributed then, and broadcast state that
some subtasks did not report because they had finished (not in 1.11).

Three details of Flink decide the distribution and are kept. Split names are iterated in the order of a Java HashMap.
If one stream holds the same name twice, the last piece replaces the others, whose state is lost. An entry list of
length zero that is met while filling survives as an empty list. Follows `RoundRobinOperatorStateRepartitioner`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kit.core.state.handles import OperatorStateMode, OperatorStreamStateHandle, StateMetaInfo, StreamStateHandle
from kit.machines.restore.errors import ILLEGAL_ARGUMENT, RepartitionError
from kit.machines.restore.java_hashmap_order import compute_if_absent_order
from kit.machines.restore.per_subtask import PerSubtask
from kit.machines.restore.shared_handles import SharedHandles

Handles = Sequence[OperatorStreamStateHandle]
_Pieces = dict[int, dict[str, StateMetaInfo]]
"""The parts of each stream that a subtask gets, by the number of the stream."""

_BITSET_WORD = 64


@dataclass(slots=True)
class _Entries:
    """One named state, in the order of the old subtasks: the numbers of its streams, and its offsets in them."""

    streams: list[int] = field(default_factory=list)
    infos: list[StateMetaInfo] = field(default_factory=list)


class _Grouped:
    """All states by mode and name. Streams are numbered, so that each is hashed once."""

    def __init__(self, previous: Sequence[Handles]) -> None:
        numbers: dict[StreamStateHandle, int] = {}
        by_mode: list[dict[str, _Entries]] = [{} for _ in OperatorStateMode]
        last_met = [""] * len(by_mode)
        for handles in previous:
            for handle in handles:
                number = numbers.setdefault(handle.delegate, len(numbers))
                for name, info in handle.state_name_to_partition_offsets.items():
                    states = by_mode[info.mode]
                    entries = states.get(name)
                    if entries is None:
                        entries = states[name] = _Entries()
                    entries.streams.append(number)
                    entries.infos.append(info)
                    last_met[info.mode] = name
        self.numbers = numbers
        self.streams = list(numbers)
        self.split = by_mode[OperatorStateMode.SPLIT_DISTRIBUTE]
        self.last_split = last_met[OperatorStateMode.SPLIT_DISTRIBUTE]
        self.broadcast = by_mode[OperatorStateMode.BROADCAST]
        self.union: _Pieces = {}
        for name, entries in by_mode[OperatorStateMode.UNION].items():
            for number, info in zip(entries.streams, entries.infos, strict=True):
                self.union.setdefault(number, {})[name] = info

    def shared_handles(self) -> dict[int, OperatorStreamStateHandle]:
        """Return the handles of the union states, which every new subtask gets."""
        return {number: OperatorStreamStateHandle(names, self.streams[number]) for number, names in self.union.items()}

    def deal_split(self, parallelism: int) -> list[_Runs]:
        """Cut each split state into a range of entries for each new subtask.

        States are processed in Java's order, and each begins with the subtask where the previous one ended.
        """
        dealt: list[_Runs] = []
        first_taker = 0
        for name in self._split_names_in_javas_order():
            runs = _cut(name, self.split[name], first_taker, parallelism)
            first_taker += runs.entry_count
            dealt.append(runs)
        return dealt

    def _split_names_in_javas_order(self) -> list[str]:
        """Return the iteration order of a map that was asked for each name once per entry.

        A repeated name matters only because the map may double before it finds it, so one such call represents all.
        """
        is_met_again = bool(self.split) and (
            self.last_split != next(reversed(self.split)) or len(self.split[self.last_split].infos) > 1
        )
        return compute_if_absent_order([*self.split, self.last_split] if is_met_again else self.split)


@dataclass(frozen=True, slots=True)
class _Runs:
    """One split state, cut into ranges of its `entry_count` entries.

    For each new subtask it holds where its range begins (the entry list, and the number of entries before it there) and
    how long it is.
    """

    name: str
    entries: _Entries
    entry_count: int
    lists: list[int]
    skips: list[int]
    lengths: list[int]

    def add_to(self, mine: _Pieces, subtask: int) -> None:
        """Add the range of one new subtask to its assignment."""
        at, skipped, wanted = self.lists[subtask], self.skips[subtask], self.lengths[subtask]
        while wanted > 0:
            number, info = self.entries.streams[at], self.entries.infos[at]
            offsets = info.offsets
            left = len(offsets) - skipped
            if skipped or wanted < left:
                info = StateMetaInfo(offsets[skipped : skipped + wanted], OperatorStateMode.SPLIT_DISTRIBUTE)
            states = mine.get(number)
            if states is None:
                mine[number] = {self.name: info}
            else:
                states[self.name] = info
            wanted -= left
            skipped = 0
            at += 1


def _cut(name: str, entries: _Entries, first_taker: int, parallelism: int) -> _Runs:
    """Cut one state into equal ranges; those of the first takers are longer by one."""
    starts = np.cumsum([0, *[len(info.offsets) for info in entries.infos]])
    base, remainder = divmod(int(starts[-1]), parallelism)
    turns = (np.arange(parallelism) - first_taker) % parallelism
    begins = turns * base + np.minimum(turns, remainder)
    # A range that begins between two entry lists begins with the empty ones there.
    lists = np.searchsorted(starts, begins, "left")
    lists -= starts[lists] > begins
    skips = begins - starts[lists]
    lengths = base + (turns < remainder)
    return _Runs(name, entries, int(starts[-1]), lists.tolist(), skips.tolist(), lengths.tolist())


def repartition_state(previous: Sequence[Handles], old_parallelism: int, new_parallelism: int) -> Sequence[Handles]:
    """Redistribute the handles of each old subtask: return one sequence of handles for each new subtask.

    A handle's names are iterated in the order of its mapping. Raises RepartitionError if `previous` does not have
    `old_parallelism` members, if the new parallelism is not positive, or, at unchanged parallelism, if one subtask has
    two handles of one stream.
    """
    _check(previous, old_parallelism, new_parallelism)
    grouped = _Grouped(previous)
    if new_parallelism == old_parallelism:
        return _at_same_parallelism(previous, grouped)
    shared = grouped.shared_handles()
    split = grouped.deal_split(new_parallelism)

    def handles(subtask: int) -> Handles:
        mine: _Pieces = {}
        for runs in split:
            runs.add_to(mine, subtask)
        _add_union_and_broadcast(mine, subtask, grouped.union, grouped.broadcast)
        own = tuple([OperatorStreamStateHandle(names, grouped.streams[number]) for number, names in mine.items()])
        return _with_shared(own, mine, shared)

    return PerSubtask(new_parallelism, handles)


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


def _at_same_parallelism(previous: Sequence[Handles], grouped: _Grouped) -> Sequence[Handles]:
    broadcast = {name: grouped.broadcast[name] for name in _partly_reported_broadcast(previous)}
    if not grouped.union and not broadcast:
        return previous
    for subtask, handles in enumerate(previous):
        if len(handles) > 1 and len({grouped.numbers[handle.delegate] for handle in handles}) != len(handles):
            raise _two_handles_of_one_stream(subtask, handles)
    shared = grouped.shared_handles()

    def with_copies(subtask: int) -> Handles:
        kept = {grouped.numbers[handle.delegate]: handle for handle in previous[subtask]}
        mine = {number: dict(handle.state_name_to_partition_offsets) for number, handle in kept.items()}
        _add_union_and_broadcast(mine, subtask, grouped.union, broadcast)
        own = tuple(
            replace(kept[number], state_name_to_partition_offsets=names)
            if number in kept
            else OperatorStreamStateHandle(names, grouped.streams[number])
            for number, names in mine.items()
        )
        return _with_shared(own, mine, shared)

    return PerSubtask(len(previous), with_copies)


def _partly_reported_broadcast(previous: Sequence[Handles]) -> set[str]:
    """Return the broadcast states that not every subtask reported.

    Flink compares the number of reporters with the size of a bit set, which is rounded up to whole words. A state that
    all reported therefore counts as partly reported too, unless the parallelism is a multiple of 64.
    """
    reporters: Counter[str] = Counter()
    for handles in previous:
        states = [item for handle in handles for item in handle.state_name_to_partition_offsets.items()]
        reporters.update({name for name, info in states if info.mode is OperatorStateMode.BROADCAST})
    rounded_up = -(-len(previous) // _BITSET_WORD) * _BITSET_WORD
    return {name for name, subtasks in reporters.items() if subtasks < rounded_up}


def _add_union_and_broadcast(mine: _Pieces, subtask: int, union: _Pieces, broadcast: Mapping[str, _Entries]) -> None:
    """Add the subtask's copies, and the union states in the streams of which it gets a part."""
    if union:
        for number in mine.keys() & union.keys():
            mine[number].update(union[number])
    for name, copies in broadcast.items():
        copy = subtask % len(copies.infos)
        number, info = copies.streams[copy], copies.infos[copy]
        names = mine.get(number)
        if names is None:
            names = mine[number] = dict(union.get(number, ()))
        names[name] = info


def _with_shared(
    own: tuple[OperatorStreamStateHandle, ...], mine: _Pieces, shared: Mapping[int, OperatorStreamStateHandle]
) -> Handles:
    return SharedHandles(own, shared, tuple([number for number in mine if number in shared])) if shared else own


def _two_handles_of_one_stream(subtask: int, handles: Handles) -> RepartitionError:
    streams = [handle.delegate for handle in handles]
    twice = next(stream for stream in streams if streams.count(stream) > 1)
    return RepartitionError(
        None,
        f"Found two operator state handles of subtask {subtask} in one stream, {twice!r}, expected one per stream; "
        "the checkpoint can be restored at another parallelism.",
    )
