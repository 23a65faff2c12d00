"""Values that only Java code can read: of Kryo, of Java's serialization, of serializers that users write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import Type

Decode = Callable[[bytes], Any]
"""A decoder that a user gives for a class: the bytes of one value in, the value out."""


class Opaque(Type):
    """A value that is returned as its bytes. `class_name` is that of the serializer, or of the values if it is known.

    Nothing says where such a value ends: it takes all bytes that are left.
    """

    arrow, is_opaque = pa.binary(), True

    def __init__(self, class_name: str, decoder: Decode | None = None) -> None:
        self.class_name, self.decoder = class_name, decoder
        self.name = f"bytes of {class_name}"

    def read(self, reader: Reader) -> Any:
        return self.value(reader.rest())

    def value(self, held: bytes) -> Any:
        """Return a value from its bytes: these, or what the user's decoder makes of them."""
        return held if self.decoder is None else self.decoder(held)


def cannot_be_read(state: str, type_: Type, *, follower: str = "", advice: str = "") -> CheckpointError:
    """Return the error for a state with a type whose values have an end that is not known here.

    `follower` names the state that was asked for, if it comes after the one that cannot be read.
    """
    place = (
        f"state {follower!r} comes after state {state!r}, and nothing says where" if follower else f"state {state!r}"
    )
    because = "only Java code knows where such a value ends"
    return CheckpointError(
        f"{place}: this type cannot be read: {type_.name}; {because}{f': {advice}' if advice else ''}"
    )
