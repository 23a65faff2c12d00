"""Keyed state written again: in the canonical layout, without some of it, changed, or in other key groups.

Timers in raw keyed state are changed with it, and stay where they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kit.core.state.errors import CheckpointError
from kit.core.state.file_names import state_file_name
from kit.core.state.handles import (
    NO_OFFSET_SET,
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    StreamStateHandle,
)
from kit.core.state.key_groups import key_group_partitions
from kit.snapshots.checkpoints.keyed_parts import KeyGroupsPart, RawTimersPart, SstPart
from kit.snapshots.checkpoints.naming import label
from kit.snapshots.formats.canonical import CanonicalWriter, Pair
from kit.snapshots.formats.headers import KeyedState
from kit.snapshots.formats.raw_timers import RawTimersWriter
from kit.snapshots.surgery.bootstrap import declared, pairs_of
from kit.snapshots.surgery.drafts import Draft, Origin
from kit.snapshots.surgery.key_hashes import groups_of, hashes
from kit.snapshots.surgery.kit_format import KitWriter
from kit.snapshots.surgery.target import Target, Write
from kit.stream.backend.keys.key_hashing import key_groups_for_hashes

Part = KeyGroupsPart | SstPart | RawTimersPart
OfGroup = Mapping[str, Sequence[Pair]]
"""The pairs of one key group, by the name of their state."""
Groups = Iterable[tuple[int, OfGroup]]
Handles = dict[int, Any]
"""The handle of each subtask that has one."""
_Writer = CanonicalWriter | KitWriter | RawTimersWriter


def rewritten_keyed_state(draft: Draft, origin: Origin, target: Target) -> Handles:
    """Write an operator's managed keyed state in the canonical layout.

    Memory is that of a key group, or of the whole operator if keys get other key groups. Raises CheckpointError.
    """
    files = []
    for subtask in sorted(draft.old.subtask_states):
        parts = [_canonical(draft, each) for each in origin.keyed_parts(draft.old, subtask)]
        states = _states(parts, draft.dropped)
        if states:
            ranges = [each.key_group_range for each in draft.old.subtask_states[subtask].managed_keyed_state]
            files.append(_File(draft, subtask, _whole(ranges), parts, states, parts[0].header.raw_key))
    if draft.rows:
        files = _with_rows(draft, files)
    writer = _Files(draft, origin.metadata.checkpoint_id, target)
    write = writer.own if draft.to_kit else writer.canonical
    return {each.subtask: write(each) for each in _dealt(draft, files)}


def rewritten_raw_timers(draft: Draft, origin: Origin, target: Target) -> Handles:
    """Write an operator's timers in raw keyed state. Raises CheckpointError, also for raw state of another kind."""
    files = []
    for subtask in sorted(draft.old.subtask_states):
        handles = [each for each in draft.old.subtask_states[subtask].raw_keyed_state if not _is_empty(each)]
        parts = origin.raw_timers(draft.old, subtask)
        if len(parts) < len(handles):
            raise CheckpointError(
                f"{label(draft.new)}: its raw keyed state is not timers, and only the operator can read it: leave "
                "this operator as it is, or drop it"
            )
        states = _states(parts, draft.dropped)
        if states:
            whole = _whole([each.key_group_range for each in handles])
            files.append(_File(draft, subtask, whole, parts, states, b""))
    writer = _Files(draft, origin.metadata.checkpoint_id, target)
    return {each.subtask: writer.raw_timers(each) for each in _dealt(draft, files)}


@dataclass(frozen=True)
class _File:
    """The keyed state of one subtask: as it was, with the changes of the draft."""

    draft: Draft
    subtask: int
    key_groups: KeyGroupRange
    parts: Sequence[Part]
    states: Mapping[str, KeyedState]
    raw_key: bytes

    @property
    def heads(self) -> dict[str, bytes]:
        """The name and serializers of each timer service."""
        timers = (part for part in self.parts if isinstance(part, RawTimersPart))
        return {name: head for part in timers for name, head in part.heads.items()}

    def groups(self) -> Iterator[tuple[int, OfGroup]]:
        """Yield the key groups with their pairs."""
        by_part = [(part, set(part.groups())) for part in self.parts]
        for group in sorted(set[int]().union(*(groups for _, groups in by_part))):
            try:
                found = self._of_group(group, [part for part, groups in by_part if group in groups])
            except CheckpointError as error:
                raise CheckpointError(f"{label(self.draft.new)}, key group {group}: {error}") from error
            yield group, found

    def _of_group(self, group: int, parts: Sequence[Part]) -> OfGroup:
        found: dict[str, list[Pair]] = defaultdict(list)
        for part in parts:
            for state, pairs in part.pairs(group):
                if state.name in self.states and state.name not in self.draft.rows:
                    found[state.name] += self._changed(state, group, pairs)
        return found

    def _changed(self, state: KeyedState, group: int, pairs: Sequence[Pair]) -> Sequence[Pair]:
        for change in self.draft.change_pairs:
            try:
                pairs = change(state, group, pairs)
            except CheckpointError as error:
                raise CheckpointError(f"state {state.name!r}: {error}") from error
        return pairs


@dataclass(frozen=True)
class _Dealt(_File):
    """The keyed state that a subtask has after keys got other key groups."""

    own: Mapping[int, OfGroup]

    def groups(self) -> Iterator[tuple[int, OfGroup]]:
        """Yield the key groups with their pairs."""
        for group in self.key_groups:
            if group in self.own:
                yield group, self.own[group]


def _is_empty(handle: KeyedStateHandle) -> bool:
    return isinstance(handle, KeyGroupsStateHandle) and max(handle.offsets, default=NO_OFFSET_SET) == NO_OFFSET_SET


def _canonical(draft: Draft, part: Any) -> KeyGroupsPart | SstPart:
    if isinstance(part, KeyGroupsPart | SstPart):
        return part
    raise CheckpointError(
        f"{label(draft.new)}: its keyed state is in the kit's own format, which this change does not support: "
        "change it in the job that wrote it"
    )


def _states(parts: Iterable[Part], dropped: frozenset[str]) -> dict[str, KeyedState]:
    found: dict[str, KeyedState] = {}
    for part in parts:
        for name, state in part.states.items():
            if name not in dropped:
                found.setdefault(name, state)
    return found


def _whole(ranges: Sequence[KeyGroupRange]) -> KeyGroupRange:
    return KeyGroupRange.of(min(each.start for each in ranges), max(each.end for each in ranges))


def _with_rows(draft: Draft, files: Sequence[_File]) -> list[_File]:
    """Return the files with the states that get rows, so far without any. Raises CheckpointError."""
    raw_key = files[0].raw_key if files else b""
    states: dict[str, KeyedState] = {}
    for name, rows in draft.rows.items():
        known = next((file.states[name] for file in files if name in file.states), None)
        if known is None:
            own_key, known = declared(name, rows)
            raw_key = raw_key or own_key
            if own_key != raw_key:
                raise CheckpointError(
                    f"{label(draft.new)}: the rows of state {name!r} have keys of {known.key.name}, but the other "
                    "states have keys of another type: cast the column key"
                )
        states[name] = known
    if not files:
        whole = KeyGroupRange(0, draft.new.max_parallelism - 1)
        return [_File(draft, 0, whole, (), states, raw_key)]
    return [replace(file, states={**file.states, **states}) for file in files]


# --- other key groups -------------------------------------------------------------------------------------------------


def _dealt(draft: Draft, files: Sequence[_File]) -> Sequence[_File]:
    """Return the files as they are to be written: with the pairs of each subtask's new key groups."""
    if not (draft.is_rehashed or draft.rows) or not files:
        return files
    states = {name: state for file in files for name, state in file.states.items()}
    parts, maximum = [part for file in files for part in file.parts], draft.new.max_parallelism
    found: dict[int, dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        for group, pairs in file.groups():
            for name, held in pairs.items():
                groups = _new_groups(draft, states[name], group, held) if draft.is_rehashed else [group] * len(held)
                for new, pair in zip(groups, held, strict=True):
                    found[new][name].append(pair)
    for name, rows in draft.rows.items():
        held = pairs_of(states[name], rows)
        for new, pair in zip(groups_of(states[name], [key for key, _ in held], maximum), held, strict=True):
            found[new][name].append(pair)
    ranges = key_group_partitions(maximum, draft.new.parallelism)
    return [
        _Dealt(draft, subtask, key_groups, parts, states, files[0].raw_key, found)
        for subtask, key_groups in enumerate(ranges)
    ]


def _new_groups(draft: Draft, state: KeyedState, group: int, pairs: Sequence[Pair]) -> list[int]:
    """Return the new key group of each pair. Raises CheckpointError if the old one is not what the key's hash says."""
    try:
        codes = hashes(state, [key for key, _ in pairs])
    except CheckpointError as error:
        raise CheckpointError(
            f"{label(draft.new)}, state {state.name!r}: {error}: drop this operator, or leave its maximum parallelism"
        ) from error
    old = key_groups_for_hashes(codes, draft.old.max_parallelism)
    if (old != group).any():
        raise CheckpointError(
            f"{label(draft.new)}, state {state.name!r}: a key of key group {group} has a hash code of key group "
            f"{int(old[old != group][0])}: the job hashes its keys in a way that is not known here"
        )
    return key_groups_for_hashes(codes, draft.new.max_parallelism).tolist()


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Files:
    """Writes the files of an operator's keyed state."""

    draft: Draft
    checkpoint_id: int
    target: Target

    def canonical(self, file: _File) -> KeyGroupsSavepointStateHandle:
        """Write managed keyed state in the canonical layout. Key groups without pairs have offset 0."""
        states, maximum = list(file.states.values()), self.draft.new.max_parallelism
        writer = partial(CanonicalWriter, raw_key=file.raw_key, states=states, max_parallelism=maximum)
        _, offsets, held = self._write(file, "keyed", 0, writer)
        return KeyGroupsSavepointStateHandle(file.key_groups, offsets, held)

    def own(self, file: _File) -> KeyGroupsStateHandle:
        """Write managed keyed state in the kit's own format."""
        states, maximum = list(file.states.values()), self.draft.new.max_parallelism
        name, offsets, held = self._write(file, "keyed", NO_OFFSET_SET, lambda write: KitWriter(write, states, maximum))
        return KeyGroupsStateHandle(file.key_groups, offsets, held, name)

    def raw_timers(self, file: _File) -> KeyGroupsStateHandle:
        """Write timers in raw keyed state."""
        name, offsets, held = self._write(file, "timers", NO_OFFSET_SET, partial(RawTimersWriter, heads=file.heads))
        return KeyGroupsStateHandle(file.key_groups, offsets, held, name)

    def _write(
        self, file: _File, kind: str, empty: int, begin: Callable[[Write], _Writer]
    ) -> tuple[str, tuple[int, ...], StreamStateHandle]:
        """Write a file by key groups; return its name, the offset of each (`empty`: without pairs), and its stream."""
        offsets = dict.fromkeys(file.key_groups, empty)

        def produce(write: Write) -> None:
            writer = begin(write)
            for group, pairs in file.groups():
                offsets[group] = writer.write(group, pairs)

        name = state_file_name(self.draft.new.operator_id, file.subtask, self.checkpoint_id, kind)
        stream = self.target.write(name, produce)
        return name, tuple(offsets.values()), stream
