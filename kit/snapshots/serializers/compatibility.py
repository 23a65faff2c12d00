"""The compatibility of a newer serializer with the bytes of an older one: unchanged, after a migration, or none.

The rules are those of the serializers in Flink itself, followed part by part through both types. What a serializer of
Kryo, of Java or of a user does with changed bytes is not in its snapshot: such a value counts as unchanged if its class
is the same.

Flink: `TypeSerializerSnapshot.resolveSchemaCompatibility`, `CompositeTypeSerializerUtil`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kit.core.state.type_changes import Compatibility, TypeChange, place_within
from kit.snapshots.serializers.avro import AvroRecord
from kit.snapshots.serializers.basic import Enumeration
from kit.snapshots.serializers.composite import Either, MaskedList, Optional, Timer, Ttl
from kit.snapshots.serializers.kryo import KryoValue
from kit.snapshots.serializers.opaque import Opaque
from kit.snapshots.serializers.pojo import Pojo
from kit.snapshots.serializers.types import Mapping, Sequential, Struct, Type


def type_changes(old: Type, new: Type) -> list[TypeChange]:
    """Return all differences between the type of stored values and the type that a newer job declares."""
    return list(_changes(old, new, ""))


def opaque_classes(type_: Type) -> list[str]:
    """Return the classes inside a type that only Java code reads: a change of their fields cannot be seen."""
    inner = [name for part in type_.parts for name in opaque_classes(part)]
    return list(dict.fromkeys([type_.class_name, *inner] if isinstance(type_, _BY_CLASS) else inner))


def _changes(old: Type, new: Type, place: str) -> Iterator[TypeChange]:
    if isinstance(old, Ttl) != isinstance(new, Ttl):
        yield from _ttl_switched(old, new, place)
    elif isinstance(old, Pojo) and isinstance(new, Pojo):
        yield from _pojo(old, new, place)
    elif isinstance(old, AvroRecord) and isinstance(new, AvroRecord):
        yield from _avro_record(old, new, place)
    elif isinstance(old, Enumeration) and isinstance(new, Enumeration):
        yield from _enumeration(old, new, place)
    elif type(old) is type(new) and isinstance(old, _MADE_OF_OTHERS) and _kind(old) == _kind(new):
        if len(old.parts) != len(new.parts):
            what = f"{len(old.parts)} fields became {len(new.parts)}"
            yield TypeChange(place, what, Compatibility.INCOMPATIBLE)
            return
        for number, (one, other) in enumerate(zip(old.parts, new.parts, strict=True)):
            yield from _changes(one, other, place_within(place, _part_name(old, number)))
    elif isinstance(old, _BY_CLASS) and isinstance(new, _BY_CLASS) and old.class_name == new.class_name:
        return  # read here or not, by the version of Flink that wrote it
    elif old.name != new.name:
        yield TypeChange(place, f"{old.name} became {new.name}", Compatibility.INCOMPATIBLE)


_BY_CLASS = (Opaque, KryoValue)
_MADE_OF_OTHERS = (Struct, Either, Optional, Sequential, Mapping, MaskedList, Timer)


def _kind(type_: Type) -> str:
    """Return what must be the same in both: the name without that of the parts."""
    return "" if isinstance(type_, Optional) else "[]" if type_.name.endswith("[]") else type_.name.partition("<")[0]


_PART_NAMES = {
    Ttl: ("last access", ""),
    Mapping: ("key", "value"),
    Either: ("left", "right"),
    Timer: ("key", "namespace"),
    Optional: ("",),
}


def _part_name(type_: Type, number: int) -> str:
    for kind, names in _PART_NAMES.items():
        if isinstance(type_, kind):
            return names[number]
    return type_.fields[number][0] if isinstance(type_, Struct) else "element"


def _ttl_switched(old: Type, new: Type, place: str) -> Iterator[TypeChange]:
    was, now = (each.inner if isinstance(each, Ttl) else each for each in (old, new))
    what = "TTL was switched off" if isinstance(old, Ttl) else "TTL was switched on"
    yield TypeChange(place, f"{what}, which Flink migrates from 2.2 on", Compatibility.MIGRATES)
    yield from _changes(was, now, place)


def _pojo(old: Pojo, new: Pojo, place: str) -> Iterator[TypeChange]:
    if old.class_name != new.class_name:
        what = f"class {old.class_name} became {new.class_name}"
        yield TypeChange(place, what, Compatibility.INCOMPATIBLE)
        return
    yield from _fields(old.fields, new.fields, place)


def _fields(old: Sequence[tuple[str, Type]], new: Sequence[tuple[str, Type]], place: str) -> Iterator[TypeChange]:
    before, after = dict(old), dict(new)
    for name, part in before.items():
        if name not in after:
            yield TypeChange(place, f"field {name} ({part.name}) was removed", Compatibility.MIGRATES, loses=True)
        else:
            yield from _changes(part, after[name], place_within(place, name))
    for name, part in after.items():
        if name not in before:
            yield TypeChange(place, f"field {name} ({part.name}) was added", Compatibility.MIGRATES)


def _avro_record(old: AvroRecord, new: AvroRecord, place: str) -> Iterator[TypeChange]:
    if old.name != new.name:
        yield TypeChange(place, f"record {old.name} became {new.name}", Compatibility.INCOMPATIBLE)
        return
    before = dict(old.fields)
    for name, part in new.fields:
        if name not in before and name not in new.defaults:
            what = f"field {name} ({part.name}) was added without a default"
            yield TypeChange(place, what, Compatibility.INCOMPATIBLE)
    added = [field for field in new.fields if field[0] in before or field[0] in new.defaults]
    for each in _fields(old.fields, added, place):
        was, _, now = each.what.partition(" became ")
        yield replace(each, compatibility=Compatibility.MIGRATES) if (was, now) in _WIDENED else each


_WIDENED = {
    (narrow, wide)
    for place, narrow in enumerate(("Integer", "Long", "Float", "Double"))
    for wide in ("Integer", "Long", "Float", "Double")[place + 1 :]
}
"""The numbers that Avro reads as wider ones."""


def _enumeration(old: Enumeration, new: Enumeration, place: str) -> Iterator[TypeChange]:
    if old.name != new.name:
        yield TypeChange(place, f"enum {old.name} became {new.name}", Compatibility.INCOMPATIBLE)
        return
    gone = [each for each in old.values if each not in new.values]
    if gone:
        what = f"enum {old.name} no longer has {', '.join(gone)}"
        yield TypeChange(place, what, Compatibility.INCOMPATIBLE)
    added = [each for each in new.values if each not in old.values]
    if added:
        yield TypeChange(place, f"enum {old.name} got {', '.join(added)}", Compatibility.AS_IS)
