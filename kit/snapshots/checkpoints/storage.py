"""The storage of a checkpoint: whose bytes they are, in how many files, and what other settings would save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

from kit.core.display import display
from kit.core.metadata import CheckpointMetadata
from kit.core.state.errors import StateError
from kit.core.state.handles import ByteStreamStateHandle, SegmentFileStateHandle
from kit.core.state.operator_state import OperatorState
from kit.run.sizes import size_text
from kit.snapshots.checkpoints import frames
from kit.snapshots.checkpoints.naming import label
from kit.snapshots.formats.rows import Measures
from kit.snapshots.leaf_streams import leaf_streams, streams_of

if TYPE_CHECKING:
    import pandas as pd

KIB, MIB = 1 << 10, 1 << 20
SMALL_BYTES = MIB
"""A file below this size costs more for its requests than for its bytes."""
MERGED_BYTES = 32 * MIB
"""The size up to which Flink fills a merged file (`execution.checkpointing.file-merging.max-file-size`)."""
MOST_INLINE_BYTES = MIB
"""The largest value that Flink takes for `execution.checkpointing.data-inline-threshold`."""
CLASSES = ((20 * KIB, "up to 20 KiB"), (SMALL_BYTES, "up to 1 MiB"), (MERGED_BYTES, "up to 32 MiB"))
REST = "(headers, indexes and files that hold no rows)"
UNREAD = "(not read: {why})"
STATES = ["operator", "state", "kind", "entries", "bytes", "share"]


class Measured(Protocol):
    """An opened checkpoint, as far as its storage is accounted for."""

    metadata: CheckpointMetadata

    @property
    def title(self) -> str: ...
    @property
    def metadata_bytes(self) -> int: ...
    def measure(self, operator: OperatorState) -> Mapping[str, tuple[int, int]]: ...


class Storage:
    """An account of the bytes of one checkpoint: `states`, `files`, and what would be saved (`savings`)."""

    def __init__(self, checkpoint: Measured) -> None:
        self._checkpoint = checkpoint

    @cached_property
    def states(self) -> pd.DataFrame:
        """One row per state, the largest first: operator, state, kind, entries, bytes, share (of all bytes).

        Bytes are those in the files, compressed if these are. A file that several subtasks refer to counts once: its
        bytes are split evenly among them.
        """
        import pandas as pd

        rows = [row for operator in self._checkpoint.metadata.operator_states for row in self._rows(operator)]
        frame = pd.DataFrame(rows, columns=STATES[:-1]).astype({"entries": "Int64"})
        frame["share"] = frame["bytes"] / (frame["bytes"].sum() or 1)
        return frame.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)

    def _rows(self, operator: OperatorState) -> Iterator[tuple[Any, ...]]:
        called = label(operator)
        of_kind: Counter[str] = Counter()
        for state in operator.subtask_states.values():
            for name, kind in frames.KINDS.items():
                of_kind[name] += sum(each.state_size for each in state.of_kind(kind))
        keyed = of_kind["keyed"] + of_kind["raw_keyed"]
        once = _counted_once(operator)
        try:
            measured = dict(self._checkpoint.measure(operator)) if keyed else {}
            rest = REST
        except StateError as error:
            measured, rest = {}, UNREAD.format(why=str(error).partition(":")[0])
        for name, (entries, size) in measured.items():
            yield called, name, "keyed", entries, round(size * once)
        left = keyed - sum(size for _, size in measured.values())
        if left > 0:
            yield called, rest, "keyed", None, round(left * once)
        yield from ((called, *row) for row in _list_states(operator, of_kind["operator"]))
        for name in ("raw_operator", "input_channel", "output_channel"):
            if of_kind[name]:
                yield called, "", name.replace("_", " "), None, of_kind[name]
        if operator.coordinator_state is not None:
            yield called, "", "coordinator", None, operator.coordinator_state.state_size

    @cached_property
    def files(self) -> pd.DataFrame:
        """One row per class of size: where, files, bytes. Small state is inside `_metadata` and has no file."""
        import pandas as pd

        counted: dict[str, list[int]] = {"in _metadata": [0, 0], **{name: [0, 0] for _, name in CLASSES}}
        counted["larger"] = [0, 0]
        for handle in streams_of(self._checkpoint.metadata):
            if isinstance(handle, ByteStreamStateHandle):
                counted["in _metadata"][0] += 1
                counted["in _metadata"][1] += handle.state_size
        for size in frames.file_sizes(self._checkpoint.metadata).values():
            found = counted[next((name for most, name in CLASSES if size <= most), "larger")]
            found[0], found[1] = found[0] + 1, found[1] + size
        rows = [(name, many, size) for name, (many, size) in counted.items()]
        return pd.DataFrame(rows, columns=["where", "files", "bytes"])

    @property
    def requests(self) -> dict[str, int]:
        """The requests to an object store, estimated: `writes` of a full checkpoint, `reads` of a restore, `deletes`.

        Each file is one request of each sort, and `_metadata` another; a file above 32 MiB is written in parts of 32.
        """
        sizes = list(frames.file_sizes(self._checkpoint.metadata).values())
        parts = sum(max(1, ceil(size / MERGED_BYTES)) for size in sizes)
        return {"writes": parts + 1, "reads": len(sizes) + 1, "deletes": len(sizes) + 1}

    @cached_property
    def savings(self) -> pd.DataFrame:
        """The settings that would save files: setting, files_before, files_after, and a note."""
        import pandas as pd

        sizes = [
            size for path, size in frames.file_sizes(self._checkpoint.metadata).items() if path not in self._segmented
        ]
        small = [size for size in sizes if size < SMALL_BYTES]
        inline = [size for size in sizes if size <= MOST_INLINE_BYTES // 10]
        rows = []
        if len(small) > 1:
            merged = ceil(sum(small) / MERGED_BYTES)
            rows.append(
                (
                    "execution.checkpointing.file-merging.enabled: true",
                    len(sizes),
                    len(sizes) - len(small) + merged,
                    f"{len(small)} files below 1 MiB become at least {merged}; each task manager has its own",
                )
            )
        if inline:
            rows.append(
                (
                    "execution.checkpointing.data-inline-threshold: 100kb",
                    len(sizes),
                    len(sizes) - len(inline),
                    f"_metadata grows by {size_text(sum(inline))}, and the job manager holds it in memory",
                )
            )
        return pd.DataFrame(rows, columns=["setting", "files_before", "files_after", "note"])

    @cached_property
    def _segmented(self) -> set[str]:
        """The files that hold segments of several handles: they are merged already."""
        found = streams_of(self._checkpoint.metadata)
        return {each.path for each in found if isinstance(each, SegmentFileStateHandle) and each.path}

    @property
    def title(self) -> str:
        """A line that says how many bytes are in how many files."""
        files = self.files.set_index("where")["files"]
        many = int(files.sum() - files["in _metadata"])
        small = int(files["up to 20 KiB"] + files["up to 1 MiB"])
        held = f", {size_text(self._checkpoint.metadata_bytes)} of _metadata"
        return f"{self._checkpoint.title}; {many} files{f', {small} below 1 MiB' if small else ''}{held}"

    def __repr__(self) -> str:
        return f"Storage({self.title})"

    def _repr_html_(self) -> str:
        return str(display("storage_html", self))


def _counted_once(operator: OperatorState) -> float:
    """Return the bytes of an operator's files of keyed state by those of all references to them."""
    once: dict[object, int] = {}
    referred = 0
    for state in operator.subtask_states.values():
        for handle in (*state.managed_keyed_state, *state.raw_keyed_state):
            for stream in leaf_streams(handle):
                start = stream.start_pos if isinstance(stream, SegmentFileStateHandle) else 0
                place = (stream.path, start) if getattr(stream, "path", None) else id(stream)
                once[place] = stream.state_size
                referred += stream.state_size
    return sum(once.values()) / referred if referred else 1.0


def _list_states(operator: OperatorState, total: int) -> Iterator[tuple[str, str, int | None, int]]:
    """Yield name, kind, entries and bytes of list and broadcast states: each entry ends where the next one begins."""
    found: dict[tuple[str, str], list[int]] = {}
    for state in operator.subtask_states.values():
        for handle in state.managed_operator_state:
            offsets = sorted(
                (offset, name)
                for name, info in handle.state_name_to_partition_offsets.items()
                for offset in info.offsets
            )
            for name, info in handle.state_name_to_partition_offsets.items():
                own = found.setdefault((name, info.mode.name.lower().replace("_", " ")), [0, 0])
                own[0] += len(info.offsets)
                ranges = pairwise([*offsets, (handle.state_size, "")])
                own[1] += sum(end - at for (at, of), (end, _) in ranges if of == name)
    for (name, kind), (entries, size) in found.items():
        yield name, kind, entries, size
    left = total - sum(size for _, size in found.values())
    if left > 0:
        yield REST, "operator", None, left


def measured(parts: Iterator[Any]) -> Measures:
    """Return the entries and bytes of each state, summed over the parts of an operator. Raises CheckpointError."""
    found = Measures()
    for part in parts:
        for name, measure in part.measure().items():
            found.add(name, *measure)
    return found
