"""The pieces of a snapshot: the ranges of bytes to which each handle refers.

Handles are read in the form in which a trace has them (`loggable`); those from a file are converted to it first. A
*piece* is one range: a key group of keyed state, an entry of a list, an in-flight buffer, or a whole file of an LSM
tree or of incremental state of the kit. The end of a piece is not stored: it is the start of the next one in the same
file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kit.core.state.subtask_state_kind import SubtaskStateKind

if TYPE_CHECKING:
    import pandas as pd


KEYED, RAW_KEYED, RAW_OPERATOR = (
    f"{kind.words} state"
    for kind in (SubtaskStateKind.MANAGED_KEYED, SubtaskStateKind.RAW_KEYED, SubtaskStateKind.RAW_OPERATOR)
)
SPLIT, UNION, BROADCAST = "split list state", "union list state", "broadcast state"
ARRIVED, NOT_SENT = "in flight, arrived", "in flight, not sent"
HEADER, COORDINATOR, SHARED, PRIVATE = "header", "coordinator", "shared file", "private file"
MODES = {"SPLIT_DISTRIBUTE": SPLIT, "UNION": UNION, "BROADCAST": BROADCAST}

LoggedState = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes from `start` to `end` of `file`, or, if inline, of the handle of that name in `_metadata`.

    `name` is that of the state, the channel, or the file in the LSM tree. `entry` counts entries and buffers.
    """

    operator: str
    subtask: int | None
    kind: str
    name: str
    file: str
    inline: bool
    start: int
    end: int
    handle: str
    key_group: int | None = None
    entry: int | None = None
    operator_id: str = ""
    base: int = 0
    """The start of the handle's bytes; several handles may share a file."""

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start

    @property
    def what(self) -> str:
        """A short description of the piece."""
        if self.key_group is not None:
            return f"key group {self.key_group}"
        if self.entry is not None:
            one = "buffer" if self.kind in (ARRIVED, NOT_SENT) else "entry"
            return f"{self.name}, {one} {self.entry}"
        return self.name or self.kind


@dataclass(frozen=True, slots=True)
class _Stream:
    """The bytes behind a handle: in a file from `base` on, or in `_metadata` itself."""

    file: str
    base: int
    size: int
    inline: bool


def frame_of(pieces: Iterable[Piece]) -> pd.DataFrame:
    """Return one row per piece: operator, subtask, kind, name, key_group, entry (Int64), file, inline, start, end,
    bytes, handle.
    """
    import pandas as pd

    columns = ["operator", "subtask", "kind", "name", "key_group", "entry", "file", "inline", "start", "end"]
    rows = [[*(getattr(each, column) for column in columns), each.size, each.handle] for each in pieces]
    frame = pd.DataFrame(rows, columns=[*columns, "bytes", "handle"])
    return frame.astype(dict.fromkeys(("subtask", "key_group", "entry", "start", "end", "bytes"), "Int64"))


def pieces_of(operator_id: str, operator: str, subtask: int, state: LoggedState) -> list[Piece]:
    """Return the pieces of one subtask of one operator; `state` is its `OperatorSubtaskState` in loggable form."""
    found: list[Piece] = []
    for kind, (read, name) in _READERS.items():
        for handle in state.get(kind.field, ()):
            piece = Piece(operator, subtask, "", "", "", False, 0, 0, handle["type"], operator_id=operator_id)
            found += read(piece, handle, name)
    return found


def settled(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces with their ends set to the next start in the file, and a piece for each file's header."""
    by_file: dict[tuple[str, bool, int], list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_file[piece.file, piece.inline, piece.end].append(piece)
    ready: list[Piece] = []
    for (_, _, size), own in by_file.items():
        starts = sorted({piece.start for piece in own})
        ends = dict(zip(starts, [*starts[1:], size], strict=True))
        first = own[0]
        if starts[0] > first.base and first.kind not in (SHARED, PRIVATE):
            ready.append(
                replace(first, kind=HEADER, name="", start=first.base, end=starts[0], key_group=None, entry=None)
            )
        ready += [replace(piece, end=ends[piece.start]) for piece in own]
    return ready


# --- handles in loggable form --- -------------------------------------------------------------------------------------


def stream_of(facts: LoggedState) -> _Stream:
    """Return the bytes behind a handle or its delegate."""
    while "delegate" in facts:
        facts = facts["delegate"]
    if "data" in facts:
        return _Stream(facts["handle_name"], 0, facts["data"]["bytes"], inline=True)
    file = facts.get("path") or facts.get("registered_id") or ""  # a placeholder has the id of what it stands for
    return _Stream(file, facts.get("start_pos", 0), facts.get("size", 0), inline=False)


def _at(piece: Piece, stream: _Stream, offset: int, **more: Any) -> Piece:
    """Return the piece at an offset; its end is that of the stream until all pieces of the file are known."""
    start, end = stream.base + offset, stream.base + stream.size
    return replace(piece, file=stream.file, inline=stream.inline, start=start, end=end, base=stream.base, **more)


def _whole(piece: Piece, facts: LoggedState, kind: str, name: str) -> Iterator[Piece]:
    stream = stream_of(facts)
    if stream.size:
        yield _at(piece, stream, 0, kind=kind, name=name)


def _by_key_group(piece: Piece, facts: LoggedState, kind: str) -> Iterator[Piece]:
    if "offsets" in facts:
        stream, first = stream_of(facts), facts["key_group_range"]["start"]
        least = 0 if kind == RAW_KEYED else 1  # in a canonical savepoint, 0 marks an empty key group
        for place, offset in enumerate(facts["offsets"]):
            if offset >= least:
                yield _at(piece, stream, offset, kind=kind, key_group=first + place)
        return
    for field, held in (("shared_state", SHARED), ("private_state", PRIVATE)):
        for part in facts.get(field, ()):
            yield from _whole(piece, part["handle"], held, part["local_path"])
    if "meta_state" in facts:
        yield from _whole(piece, facts["meta_state"], PRIVATE, "meta state")
    for part in (*facts.get("materialized", ()), *facts.get("non_materialized", ())):
        yield from _by_key_group(replace(piece, handle=part["type"]), part, kind)
    for handle, _ in facts.get("handles_and_offsets", ()):
        yield from _whole(piece, handle, PRIVATE, "changelog")


def _operator(piece: Piece, facts: LoggedState, kind: str | None) -> Iterator[Piece]:
    """Yield the entries of lists and maps, of this kind, or of the kind of each."""
    stream = stream_of(facts)
    for name, info in facts["state_name_to_partition_offsets"].items():
        for entry, offset in enumerate(info["offsets"]):
            yield _at(piece, stream, offset, kind=kind or MODES[info["mode"]], name=name, entry=entry)


def _channel(piece: Piece, facts: LoggedState, kind: str) -> Iterator[Piece]:
    """Yield the buffers of a channel, or of each channel in a merged handle."""
    name, stream, writer = _CHANNEL_NAMES[kind], stream_of(facts), facts.get("subtask_index", -1)
    piece = replace(piece, subtask=piece.subtask if writer < 0 else writer)
    for part in facts.get("contents", (facts,)):
        for entry, offset in enumerate(part["offsets"]):
            yield _at(piece, stream, offset, kind=kind, name=name.format(**part["info"]), entry=entry)


_CHANNEL_NAMES = {
    ARRIVED: "gate {gate_idx} channel {input_channel_idx}",
    NOT_SENT: "partition {partition_idx} subpartition {subpartition_idx}",
}
_READERS: Mapping[SubtaskStateKind, tuple[Callable[[Piece, LoggedState, Any], Iterator[Piece]], str | None]] = {
    SubtaskStateKind.MANAGED_KEYED: (_by_key_group, KEYED),
    SubtaskStateKind.RAW_KEYED: (_by_key_group, RAW_KEYED),
    SubtaskStateKind.MANAGED_OPERATOR: (_operator, None),
    SubtaskStateKind.RAW_OPERATOR: (_operator, RAW_OPERATOR),
    SubtaskStateKind.INPUT_CHANNEL: (_channel, ARRIVED),
    SubtaskStateKind.RESULT_SUBPARTITION: (_channel, NOT_SENT),
    SubtaskStateKind.UPSTREAM_OUTPUT_BUFFER: (_channel, ARRIVED),
}
