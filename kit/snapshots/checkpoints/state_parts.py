"""The parts of a checkpoint's state: for each subtask of an operator, what its files hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kit.core.state.errors import StateError
from kit.core.state.operator_state import OperatorState
from kit.snapshots.checkpoints.keyed_parts import ArrowKeyedPart, KeyedPart, StateInfo, parts_of
from kit.snapshots.checkpoints.naming import errors_about
from kit.snapshots.checkpoints.operator_parts import OperatorPart, OwnOperatorPart, operator_parts_of
from kit.snapshots.checkpoints.state_bytes import StateBytes
from kit.snapshots.serializers.reading import Decoders


class StateParts:
    """The parts of all operators. Each is opened when it is first reached, and once.

    All methods raise CheckpointError, naming operator and subtask, for a file that cannot be read.
    """

    def __init__(self, source: StateBytes, decoders: Decoders) -> None:
        self._source, self._decoders = source, decoders
        self._keyed: dict[tuple[str, int], list[KeyedPart | ArrowKeyedPart]] = {}
        self._lists: dict[tuple[str, int], list[OperatorPart | OwnOperatorPart]] = {}

    def keyed(
        self, operator: OperatorState, subtasks: Collection[int] | None = None
    ) -> Iterator[tuple[int, KeyedPart | ArrowKeyedPart]]:
        """Yield the parts of keyed state, managed and raw, by subtask; of these subtasks only, if given."""
        for subtask in _wanted(operator, subtasks):
            key, state = (operator.operator_id, subtask), operator.subtask_states[subtask]
            if key not in self._keyed:
                how = self._source, operator.max_parallelism, self._decoders
                with errors_about(operator, f"subtask {subtask}"):
                    self._keyed[key] = list(parts_of(state.managed_keyed_state, state.raw_keyed_state, *how))
            yield from ((subtask, part) for part in self._keyed[key])

    def lists(
        self, operator: OperatorState, subtasks: Collection[int] | None = None
    ) -> Iterator[tuple[int, OperatorPart | OwnOperatorPart]]:
        """Yield the parts of managed operator state, by subtask; of these subtasks only, if given."""
        for subtask in _wanted(operator, subtasks):
            key, handles = (operator.operator_id, subtask), operator.subtask_states[subtask].managed_operator_state
            if key not in self._lists:
                with errors_about(operator, f"subtask {subtask}"):
                    streams = (self._source.stream(each.delegate) for each in handles)
                    self._lists[key] = list(operator_parts_of(iter(handles), streams, self._decoders))
            yield from ((subtask, part) for part in self._lists[key])

    def infos(self, operator: OperatorState, *, keyed: bool = False) -> Iterator[StateInfo]:
        """Yield the states of an operator, subtask after subtask; its keyed states only, if asked."""
        for subtask in sorted(operator.subtask_states):
            yield from (info for _, part in self.keyed(operator, (subtask,)) for info in part.infos())
            if not keyed:
                yield from (info for _, part in self.lists(operator, (subtask,)) for info in part.infos())

    def known_infos(self, operator: OperatorState) -> Iterator[tuple[str, list[StateInfo] | StateError]]:
        """Yield each kind, keyed and operator, with the states that any subtask has, each once.

        A subtask has those that it used so far. If a file cannot be read, the first error follows; it stands alone if
        no subtask before it has any state.
        """
        for kind, read in (("keyed", self.keyed), ("operator", self.lists)):
            known: dict[str, StateInfo] = {}
            first_error: StateError | None = None
            for subtask in sorted(operator.subtask_states):
                try:
                    parts: Iterable[tuple[int, Any]] = read(operator, (subtask,))
                    for info in (info for _, part in parts for info in part.infos()):
                        known.setdefault(info.name, info)
                except StateError as error:
                    first_error = first_error or error
                    if not known:
                        break
            if known:
                yield kind, list(known.values())
            if first_error is not None:
                yield kind, first_error


def _wanted(operator: OperatorState, subtasks: Collection[int] | None) -> list[int]:
    known = operator.subtask_states
    return sorted(known if subtasks is None else (each for each in subtasks if each in known))
