"""What a task's snapshot is made of while it is on its way between machine and host.

A machine takes the synchronous part of a snapshot and hands the host immutable `SnapshotPart`s to encode and write;
on a restore the host hands back `RestoredPart`s, the bytes behind each handle. `Effect`s are output that a
checkpoint's completion publishes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.protocol.loggable import loggable
from kit.core.state.handles import KeyGroupRange


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One part of a task's snapshot, taken synchronously and now immutable; the host encodes and writes it.

    `kind` is "managed_keyed", "managed_operator", "raw_keyed" or "raw_operator"; `encode()` gives the bytes of the
    state file and what its handle needs to know (offsets per key group, or the meta info per state name). Large state
    has `write` too, which hands these bytes over piece by piece instead, and returns the other.
    """

    operator_id: str
    kind: str
    file_name: str
    encode: Callable[[], tuple[Any, Any]]
    key_group_range: KeyGroupRange | None = None
    write: Callable[[Callable[[Any], object]], Any] | None = None

    def to_loggable(self) -> dict[str, Any]:
        """What a trace says of it: which file it will be, not how that is made."""
        told = ("operator_id", "kind", "file_name", "key_group_range")
        return {"type": type(self).__name__, **{name: loggable(getattr(self, name)) for name in told}}


@dataclass(frozen=True, slots=True)
class Effect:
    """Output that becomes visible when a checkpoint completes: staged at `staged` (while the snapshot is written),
    published at `final`.
    """

    operator_id: str
    staged: str
    final: str
    table: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class RestoredPart:
    """The bytes behind one state handle: `handle` says what they are (see `kit.core.state.handles`)."""

    operator_id: str
    kind: str
    handle: Any
    data: Any
