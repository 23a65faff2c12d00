"""Operator state written again: some states left out, or their entries changed."""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.state.file_names import state_file_name
from kit.core.state.handles import OperatorStreamStateHandle, StateMetaInfo
from kit.snapshots.checkpoints.operator_parts import OperatorPart, OwnOperatorPart, operator_parts_of
from kit.snapshots.formats.headers import operator_header
from kit.snapshots.surgery.copied_files import CopiedFiles
from kit.snapshots.surgery.drafts import Draft, Origin
from kit.snapshots.surgery.target import Target, Write


def rewritten_operator_state(
    draft: Draft, origin: Origin, subtask: int, copied: CopiedFiles, target: Target
) -> tuple[OperatorStreamStateHandle, ...]:
    """Write the operator state of one subtask, and return its handle, or none if nothing is left.

    Raises CheckpointError.
    """
    handles = draft.old.subtask_states[subtask].managed_operator_state
    kept: list[OperatorStreamStateHandle] = []
    for handle in handles:
        stream = origin.source.stream(handle.delegate)
        part = next(operator_parts_of(iter((handle,)), iter((stream,)), origin.decoders), None)
        if part is None:
            continue
        if isinstance(part, OwnOperatorPart):
            names = {
                name: info for name, info in handle.state_name_to_partition_offsets.items() if name not in draft.dropped
            }
            if names:
                kept.append(copied.lists(OperatorStreamStateHandle(names, handle.delegate)))
        elif set(part.header.states) - draft.dropped:
            name = state_file_name(draft.new.operator_id, subtask, origin.metadata.checkpoint_id, "operator")
            kept.append(_written(draft, part, handle, name, target))
    return tuple(kept)


def _written(
    draft: Draft, part: OperatorPart, handle: OperatorStreamStateHandle, name: str, target: Target
) -> OperatorStreamStateHandle:
    states = [state for state in part.header.states.values() if state.name not in draft.dropped]
    infos: dict[str, StateMetaInfo] = {}

    def produce(write: Write) -> None:
        """Write the head, then the entries of each state."""
        head = operator_header(states, part.header.version, is_compressed=False)
        write(head)
        at = len(head)
        for state in states:
            info = handle.state_name_to_partition_offsets.get(state.name)
            if info is None:
                continue
            entries: Sequence[bytes] = part.raw_entries(state.name)
            change = draft.change_entries.get(state.name)
            entries = entries if change is None else change(state, entries)
            offsets = []
            for entry in entries:
                write(entry)
                offsets.append(at)
                at += len(entry)
            infos[state.name] = StateMetaInfo(tuple(offsets), info.mode)

    delegate = target.write(name, produce)
    return OperatorStreamStateHandle(infos, delegate)
