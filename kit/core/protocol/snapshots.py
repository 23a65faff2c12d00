"""The parts of a task's snapshot on their way between machine and host.

A machine takes the synchronous part of a snapshot and gives the host immutable `SnapshotPart`s to encode and write. On
a restore the host returns `RestoredPart`s, the bytes behind each handle. `Effect`s are output that is published when
the checkpoint completes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.protocol.loggable import loggable
from kit.core.state.handles import HandleAndLocalPath, KeyGroupRange
from kit.core.state.subtask_state_kind import SubtaskStateKind


@dataclass(frozen=True, slots=True)
class SharedRuns:
    """The runs of an incremental part: those of earlier checkpoints that it reuses, and the manifest of all.

    The manifest's file is named `manifest_name`.
    """

    backend_identifier: str
    reused: tuple[HandleAndLocalPath, ...]
    manifest: bytes
    manifest_name: str


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One immutable part of a task's snapshot, taken synchronously; the host encodes and writes it.

    `encode()` returns the bytes of the state file and the content of its handle (offsets per key group, or the meta
    info per state name). Large state also has `write`, which passes the bytes on piece by piece and returns the content
    of the handle.

    With `runs` the part is incremental: its file is shared with later checkpoints. It has none if nothing has changed;
    `encode` is None then.
    """

    operator_id: str
    kind: SubtaskStateKind
    file_name: str
    encode: Callable[[], tuple[Any, Any]] | None
    key_group_range: KeyGroupRange | None = None
    write: Callable[[Callable[[Any], object]], Any] | None = None
    runs: SharedRuns | None = None

    def to_loggable(self) -> dict[str, Any]:
        """Return the part's description in a trace: the file it becomes, not how that is made."""
        names = ("operator_id", "kind", "file_name", "key_group_range")
        facts = {"type": type(self).__name__, **{name: loggable(getattr(self, name)) for name in names}}
        if self.runs is not None:
            facts["reused"] = [run.local_path for run in self.runs.reused]
        return facts


@dataclass(frozen=True, slots=True)
class Effect:
    """Output that becomes visible when a checkpoint completes.

    It is staged at `staged` while the snapshot is written, and published at `final`. Its rows are those of `table`, or
    those that were written to `pending` before the barrier.
    """

    operator_id: str
    staged: str
    final: str
    table: pa.Table | None = None
    pending: str = ""


@dataclass(frozen=True, slots=True)
class RestoredPart:
    """The bytes behind one state handle; `handle` describes them (see `kit.core.state.handles`)."""

    operator_id: str
    kind: SubtaskStateKind
    handle: Any
    data: Any
