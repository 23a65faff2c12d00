"""The definition of keyed state: what its values were made from, beyond their types.

A sum and a maximum of one column have the same type, and so have keys of two columns of strings. A snapshot therefore
holds, in the metadata of each state's schema, the aspects that give its values their meaning:

    key_by       the columns of the key; of two inputs those of each
    aggregates   the aggregates, as in {"total": "sum(n)"}
    window       the kind of window with its settings
    time         the column of event time, of two inputs those of both
    reduce       the words by which a reducing state folds values

A restore compares the aspects that both sides have, and raises StateDescriptorError for one that differs. So a snapshot
without a definition is restored unchanged, and so is state whose reduction was a word and is a function now. User
functions and classes are not compared: harmless refactoring changes their names, and their meaning may change without
their names. Flink compares what its serializers know, the types, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kit.core.state.errors import StateDescriptorError

Aspects = Mapping[str, Any]
"""Texts, and lists and mappings of texts, by the names above."""

_METADATA = "definition"
_RENAMED = "; where only a column's name has changed, rename it back before key_by: rename(new='old')"


def to_metadata(aspects: Aspects) -> dict[str, str]:
    """Return the entry of a schema's metadata, none without aspects. Equal aspects make equal bytes."""
    return {_METADATA: json.dumps(aspects, sort_keys=True, separators=(",", ":"))} if aspects else {}


def aspects_of(schema: pa.Schema) -> dict[str, Any]:
    """Return the aspects that a schema of a snapshot holds."""
    stored = (schema.metadata or {}).get(_METADATA.encode(), b"{}")
    aspects: dict[str, Any] = json.loads(stored)
    return aspects


@dataclass(frozen=True, slots=True)
class StateDefinition:
    """The aspects that all keyed state of one operator has in common; errors call the operator `owner`."""

    owner: str = "this operator"
    aspects: Aspects = field(default_factory=dict)

    def check(self, state: str, stored: Aspects, declared: Aspects | None = None) -> None:
        """Raise StateDescriptorError if a snapshot's state was made from something else than is declared.

        `declared` are the operator's own aspects, unless those of one state are given.
        """
        declared = self.aspects if declared is None else declared
        for aspect in sorted(stored.keys() & declared.keys()):
            if stored[aspect] != declared[aspect]:
                hint = "" if aspect in ("window", "reduce") else _RENAMED
                raise StateDescriptorError(
                    f"State {state!r} of {self.owner} was written with {_described(aspect, stored[aspect])}, and this "
                    f"job declares {_described(aspect, declared[aspect])}: the two must not be mixed. Restore the old "
                    "definition, or give the operator another uid and start with allow_non_restored_state=True to "
                    f"begin without this state{hint}"
                )

    def without_shared(self, aspects: Aspects) -> dict[str, Any]:
        """Return the aspects that are specific to a state."""
        return {aspect: value for aspect, value in aspects.items() if aspect not in self.aspects}


def _described(aspect: str, value: Any) -> str:
    if aspect == "key_by":
        sides = value if value and not isinstance(value[0], str) else [value]
        return " and ".join(f"key_by({', '.join(map(repr, side))})" for side in sides)
    if isinstance(value, Mapping):
        return f"{aspect} {', '.join(f'{name}={each}' for name, each in sorted(value.items()))}"
    return f"{aspect} {value if isinstance(value, str) else ', '.join(map(str, value))}"
