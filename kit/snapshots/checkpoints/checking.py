"""The check of state files before a restore: types that changed since the checkpoint was taken.

`kit.restore_check` needs only the metadata. Types are in the state files: they are compared with those of a newer
checkpoint of the job, and with what a job of the kit declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from kit.core.state.errors import StateDescriptorError, StateRestoreError
from kit.core.state.type_changes import Compatibility, TypeChange
from kit.files.state_types import check_state_types
from kit.files.storage import StateFiles
from kit.restore_check import Effect, Finding, RestoreCheck, Severity
from kit.restore_check.findings import in_order
from kit.restore_check.job_shape import operator_id_of
from kit.snapshots.checkpoints.keyed_parts import StateInfo
from kit.snapshots.formats.headers import TIMER
from kit.snapshots.serializers.compatibility import opaque_classes, type_changes
from kit.snapshots.serializers.type_names import type_named
from kit.snapshots.serializers.types import Type
from kit.stream.backend.states.last_access import COLUMN
from kit.stream.backend.types.evolution import ttl_changes
from kit.stream.backend.types.evolution import type_changes as arrow_type_changes
from kit.stream.graph.job_graph import JobGraph

_ANOTHER = "Give the changed state another name, or the operator another uid."
_KNOWN_BY = "the serializers in the state files"
Declared = Mapping[str, Mapping[str, Mapping[str, StateInfo]]]
"""The states of a checkpoint by operator id, by kind (keyed, operator), and by name."""


def types_changed(before: Declared, after: Declared, labels: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each state that a newer checkpoint of the job declares in another way, or no longer.

    `labels` are the names of the operators, by id.
    """
    for operator_id, kinds in before.items():
        if operator_id not in after:
            continue
        for kind, states in kinds.items():
            now = after[operator_id].get(kind, {})
            if kind == "keyed" and now:
                yield from _key_changed(labels[operator_id], states, now)
            for name, info in states.items():
                if name in now:
                    yield from _state_changed(labels[operator_id], info, now[name])
                else:
                    yield _unused(labels[operator_id], name, kind, is_kind_gone=not now)


def _key_changed(operator: str, before: Mapping[str, StateInfo], after: Mapping[str, StateInfo]) -> Iterator[Finding]:
    """Yield a finding if the type of the key changed: it is one for all keyed state of an operator."""
    old, new = next(iter(before.values())), next(iter(after.values()))
    if _changes_of(old, new, "key"):
        message = f"The key was {old.key}; in the newer job it is {new.key}."
        flink = "The new key serializer must be compatible with the previous key serializer"
        yield Finding(
            Severity.FAILS, operator, message, "Give the operator another uid.", known_by=_KNOWN_BY, flink=flink
        )


def _changes_of(old: StateInfo, new: StateInfo, part: str) -> list[TypeChange]:
    """Return the changes of a part of a state, by the rules of who wrote it."""
    before, after = old.types.get(part), new.types.get(part)
    if part == "value" and isinstance(before, pa.DataType) and isinstance(after, pa.DataType):
        return [*ttl_changes(COLUMN in old.types, COLUMN in new.types), *arrow_type_changes(before, after)]
    if isinstance(before, Type) and isinstance(after, Type):
        return type_changes(before, after)
    was, now = getattr(old, part), getattr(new, part)
    return [] if was == now else [TypeChange("", f"{was} became {now}", Compatibility.INCOMPATIBLE)]


def _state_changed(operator: str, old: StateInfo, new: StateInfo) -> Iterator[Finding]:
    if old.kind != new.kind:
        yield Finding(
            Severity.FAILS,
            operator,
            f"State {old.name!r} was {old.kind}; in the newer job it is {new.kind}.",
            _ANOTHER,
            known_by=_KNOWN_BY,
            flink=_OF_KIND.format(
                kind="state assignment modes" if old.kind in _MODES else "key/value state types",
                old=old.kind,
                new=new.kind,
            ),
        )
        return
    if _changes_of(old, new, "namespace"):
        message = f"The namespace of state {old.name!r} was {old.namespace}; in the newer job it is {new.namespace}."
        yield Finding(Severity.FAILS, operator, message, _ANOTHER, known_by=_KNOWN_BY, flink=_NAMESPACE)
    if old.kind == "BROADCAST":
        yield from _values_changed(operator, old, _changes_of(old, new, "key"), "keys")
    if old.kind != TIMER:
        yield from _values_changed(operator, old, _changes_of(old, new, "value"), "values")
        yield from _unseen(operator, old, new)


_MODES = ("SPLIT_DISTRIBUTE", "UNION", "BROADCAST")
_OF_KIND = "Incompatible {kind}. Was [{old}], registered with [{new}]."
_NAMESPACE = "The new namespace serializer must be compatible with the previous namespace serializer."
_INCOMPATIBLE = "the new state serializer must not be incompatible with the old state serializer"


def _values_changed(operator: str, state: StateInfo, changes: Sequence[TypeChange], what: str) -> Iterator[Finding]:
    """Yield what fails, in one finding, and what Flink migrates, in another."""
    for result in (Compatibility.INCOMPATIBLE, Compatibility.MIGRATES, Compatibility.AS_IS):
        found = [each for each in changes if each.compatibility is result]
        if not found:
            continue
        changed = f"The {what} of state {state.name!r} changed"
        if result is Compatibility.INCOMPATIBLE:
            message = f"{changed}: {'; '.join(map(str, found))}."
            yield Finding(Severity.FAILS, operator, message, _ANOTHER, known_by=_KNOWN_BY, flink=_INCOMPATIBLE)
        else:
            is_own = any(isinstance(each, pa.DataType) for each in state.types.values())
            then = _CONVERTED if is_own else _MIGRATED if result is Compatibility.MIGRATES else _READ
            yield _migrated(operator, changed, found, then)


def _migrated(operator: str, changed: str, changes: Sequence[TypeChange], then: str) -> Finding:
    """Return the finding about changes of a type that a restore accepts: a warning if they lose values."""
    lost = any(each.loses for each in changes)
    return Finding(
        Severity.WARNS if lost else Severity.TELLS,
        operator,
        f"{changed}: {'; '.join(map(str, changes))}. {then}",
        "Keep the field if its values are needed." if lost else "",
        Effect.LOST if lost else Effect.NONE,
        _KNOWN_BY,
    )


_MIGRATED = "Flink migrates the values when the state is opened."
_CONVERTED = "The restore converts the values."
_READ = "Flink reads the values as they are."


def _unseen(operator: str, old: StateInfo, new: StateInfo) -> Iterator[Finding]:
    """Yield a finding if values are in a format of which the snapshot names only the class."""
    values = (each.types.get("value") for each in (old, new))
    both = [opaque_classes(each) if isinstance(each, Type) else [] for each in values]
    classes = [each for each in both[0] if each in both[1]]
    if classes:
        yield Finding(
            Severity.TELLS,
            operator,
            f"State {old.name!r} has values of {', '.join(classes)}, whose fields no snapshot lists. If they changed, "
            "the restore fails or reads wrong values.",
            "Compare the class with that of the older job; a POJO or Avro record can evolve.",
            known_by=_KNOWN_BY,
        )


def _unused(operator: str, name: str, kind: str, *, is_kind_gone: bool) -> Finding:
    why = f"the operator has no {kind} state there" if is_kind_gone else "the operator has others there"
    return Finding(
        Severity.WARNS,
        operator,
        f"State {name!r} is not in the newer checkpoint ({why}). Flink restores it without an error, and no function "
        "reads it, unless the job first uses it later.",
        "Keep the state's name if it was renamed.",
        Effect.LOST,
        _KNOWN_BY,
    )


def declared_in(job: Mapping[str, object], before: Declared) -> Declared:
    """Return the states that a mapping of uids gives types for, as a checkpoint of that job would have them.

    A state keeps its kind, because a type does not say it, and a state that is not named keeps its type. Raises
    CheckpointError for an unknown type, TypeError for states that are not a mapping of names to types.
    """
    found: dict[str, dict[str, dict[str, StateInfo]]] = {}
    for uid, declared in job.items():
        states = declared.get("states") if isinstance(declared, Mapping) else None
        operator_id = operator_id_of(uid)
        if states is None or operator_id not in before:
            continue
        if not isinstance(states, Mapping) or not all(isinstance(each, str) for each in (*states, *states.values())):
            raise TypeError(f"the states of {uid!r} are {states!r}, but must be types by name, {{'total': 'Long'}}")
        old, new = before[operator_id], found.setdefault(operator_id, {})
        for kind, infos in old.items():
            new[kind] = {name: _retyped(info, states[name]) if name in states else info for name, info in infos.items()}
    return found


def _retyped(info: StateInfo, name: str) -> StateInfo:
    if info.value == name:
        return info
    value = type_named(name)
    return replace(info, value=value.name, types={**info.types, "value": value} if info.types else {})


def not_as_declared(job: JobGraph, files: StateFiles, metadata: bytes, directory: str) -> Iterator[Finding]:
    """Yield a finding for each state that a job of the kit declares in another type than the checkpoint has it."""
    try:
        for owner, state, changes in check_state_types(job, files, metadata, directory):
            yield _migrated(owner, f"The values of state {state!r} changed", changes, _CONVERTED)
    except (StateDescriptorError, StateRestoreError) as error:
        yield Finding(
            Severity.FAILS, "the job", str(error), _ANOTHER, known_by="what the job declares, and the state files"
        )


def with_types(answer: RestoreCheck, found: Sequence[Finding]) -> RestoreCheck:
    """Return the answer with the findings about types, and no longer with the one that nothing is lost."""
    if not found:
        return answer
    is_as_before = all(each.severity is Severity.TELLS for each in found)
    rest = (each for each in answer.findings if is_as_before or each.effect is not Effect.EXACTLY_ONCE)
    return replace(answer, findings=in_order((*found, *rest)))
