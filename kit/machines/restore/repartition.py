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
"""By the number of a stream, what somebody gets of it."""

_BITSET_WORD = 64


@dataclass(slots=True)
class _Entries:
    """One named state, in the order of the old subtasks: the numbers of the streams it is in, and where in them."""

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
        """The handles of the union states, which every new subtask gets."""
        return {number: OperatorStreamStateHandle(names, self.streams[number]) for number, names in self.union.items()}

    def deal_split(self, parallelism: int) -> list[_Runs]:
        """The split states, each cut into a run of entries for each new subtask.

        States are dealt in Java's order, and each begins with the subtask where the one before left off.
        """
        dealt: list[_Runs] = []
        first_taker = 0
        for name in self._split_names_in_javas_order():
            runs = _cut(name, self.split[name], first_taker, parallelism)
            first_taker += runs.entry_count
            dealt.append(runs)
        return dealt

    def _split_names_in_javas_order(self) -> list[str]:
        """The walk order of a map that was asked for each name once an entry.

        Names met again matter only in that the map may double before it finds them, so one such call stands for all.
        """
        is_met_again = bool(self.split) and (
            self.last_split != next(reversed(self.split)) or len(self.split[self.last_split].infos) > 1
        )
        return compute_if_absent_order([*self.split, self.last_split] if is_met_again else self.split)


@dataclass(frozen=True, slots=True)
class _Runs:
    """One split state as a run of `entry_count` entries in all; by new subtask, where its part of it begins (in which
    of the entry lists, after how many of its entries) and how long it is.
    """

    name: str
    entries: _Entries
    entry_count: int
    lists: list[int]
    skips: list[int]
    lengths: list[int]

    def add_to(self, mine: _Pieces, subtask: int) -> None:
        """Add the run of one new subtask to what it gets."""
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
    """Cut one state into equal runs, those of the first takers longer by one."""
    starts = np.cumsum([0, *[len(info.offsets) for info in entries.infos]])
    base, remainder = divmod(int(starts[-1]), parallelism)
    turns = (np.arange(parallelism) - first_taker) % parallelism
    begins = turns * base + np.minimum(turns, remainder)
    # Where a run begins between two entry lists, it begins with the empty ones that may be there.
    lists = np.searchsorted(starts, begins, "left")
    lists -= starts[lists] > begins
    skips = begins - starts[lists]
    lengths = base + (turns < remainder)
    return _Runs(name, entries, int(starts[-1]), lists.tolist(), skips.tolist(), lengths.tolist())


def repartition_state(previous: Sequence[Handles], old_parallelism: int, new_parallelism: int) -> Sequence[Handles]:
    """Deal the handles of each old subtask out to the new subtasks: one sequence of handles for each of them.

    A handle's names are walked in the order of its mapping. Raises RepartitionError where `previous` has not
    `old_parallelism` members, the new parallelism is not positive, or, at unchanged parallelism, one subtask has two
    handles of one stream.
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
    """The broadcast states that not every subtask reported.

    Flink compares the reporters with the size of a bit set, which is rounded up to whole words: a state that all
    reported counts as partly reported too, unless the parallelism is a multiple of 64.
    """
    reporters: Counter[str] = Counter()
    for handles in previous:
        states = [item for handle in handles for item in handle.state_name_to_partition_offsets.items()]
        reporters.update({name for name, info in states if info.mode is OperatorStateMode.BROADCAST})
    rounded_up = -(-len(previous) // _BITSET_WORD) * _BITSET_WORD
    return {name for name, subtasks in reporters.items() if subtasks < rounded_up}


def _add_union_and_broadcast(mine: _Pieces, subtask: int, union: _Pieces, broadcast: Mapping[str, _Entries]) -> None:
    """Add to what a subtask gets: its copies, and the union states in the streams that it gets something of."""
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
