"""Types by the names that tables show: `Tuple2<Integer, List<String>>`.

A checkpoint has no serializers of records in flight, so the user names their type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.basic import BASIC
from kit.snapshots.serializers.composite import Either, Row, tuple_of
from kit.snapshots.serializers.reading import MAX_DEPTH
from kit.snapshots.serializers.temporal import TEMPORAL
from kit.snapshots.serializers.types import Sequential, Type, list_of, map_of, set_of

_SIMPLE = {type_.name: type_ for type_ in reversed((*BASIC.values(), *TEMPORAL.values()))}
_WORD = re.compile(r"\s*([\w.$]+(?:\[\])*|[<>,])")
_MADE: dict[str, tuple[int | None, Callable[..., Type]]] = {
    "Row": (None, lambda *parts: Row(parts, writes_kind=True)),
    "List": (1, list_of),
    "Set": (1, set_of),
    "Map": (2, map_of),
    "Either": (2, Either),
}
"""The types that are made of others, by name: the number of parts, and how they are made."""
KNOWN = f"{', '.join(sorted(_SIMPLE))}, X[], Tuple1<X> to Tuple25, {', '.join(f'{name}<X>' for name in _MADE)}"


def type_named(text: str) -> Type:
    """Return the type of a name. Raises CheckpointError for one that is unknown or not complete."""
    return _Names(text).whole()


class _Names:
    def __init__(self, text: str) -> None:
        self._text = text
        self._words = [*self._split(text), ""]
        self._at = 0

    def _split(self, text: str) -> Iterator[str]:
        at = 0
        while text[at:].strip():
            found = _WORD.match(text, at)
            if found is None:
                raise self._error(f"{text[at:].strip()!r}")
            yield found[1]
            at = found.end()

    def whole(self) -> Type:
        """Return the type of the whole text."""
        found = self._type(0)
        if self._words[self._at]:
            raise self._error(f"{self._words[self._at]!r} behind a type")
        return found

    def _type(self, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise self._error(f"types nested more than {MAX_DEPTH} levels deep")
        name = self._words[self._at]
        self._at += bool(name)
        bare = name.rstrip("[]")
        parts = self._parts(depth)
        if name in _SIMPLE and not parts:  # such as String[]
            return _SIMPLE[name]
        made = self._made(bare, parts)
        for _ in range(name.count("[]")):
            made = Sequential(f"{made.name}[]", made, flag=0)
        return made

    def _made(self, name: str, parts: list[Type]) -> Type:
        if name in _SIMPLE and not parts:
            return _SIMPLE[name]
        if name == f"Tuple{len(parts)}" and parts:
            return tuple_of(parts)
        many, make = _MADE.get(name, (None, None))
        if make is None or not parts or (many is not None and many != len(parts)):
            raise self._error(f"{name or 'nothing'!r} with {len(parts)} parts")
        return make(*parts)

    def _parts(self, depth: int) -> list[Type]:
        if self._words[self._at] != "<":
            return []
        found: list[Type] = []
        while self._words[self._at] in ("<", ","):
            self._at += 1
            found.append(self._type(depth + 1))
        if self._words[self._at] != ">":
            raise self._error("a list of types without its end")
        self._at += 1
        return found

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(f"the type {self._text!r} has {what}; known are {KNOWN}")
