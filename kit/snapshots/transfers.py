"""The state that each task received in a restore, piece by piece, with the subtasks that had written it.

The JobMaster's `DeployTask` has all of it: the handles, cut to the task's part; and for in-flight data, the mapping of
channels and the need to filter records. A file's name tells its writer; for Flink's own files, the checkpoint's
`_metadata` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.core.metadata import MetadataError, hook_states
from kit.core.protocol.commands import StartEpoch, StartTasks
from kit.core.protocol.messages import DeployTask
from kit.core.protocol.notes import StateAssigned
from kit.core.protocol.tasks import split_task_name
from kit.core.state.errors import StateError
from kit.core.state.file_names import parts_of
from kit.run.moments.job_state import RestoreMoment
from kit.run.stage import stage_for
from kit.run.subject import Subject
from kit.snapshots.pieces import (
    ARRIVED,
    BROADCAST,
    COORDINATOR,
    HEADER,
    KEYED,
    NOT_SENT,
    PRIVATE,
    RAW_KEYED,
    RAW_OPERATOR,
    SHARED,
    SPLIT,
    UNION,
    LoggedState,
    Piece,
    pieces_of,
    settled,
)
from kit.snapshots.source import Snapshot, files_of, looking_at, operator_names, snapshot_at, snapshot_of

if TYPE_CHECKING:
    import pandas as pd

BY_GROUP = (KEYED, RAW_KEYED)
IN_FLIGHT = (ARRIVED, NOT_SENT)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One piece that moved from subtask `old` (None: unknown) to subtask `new` of a vertex. With `filtered`, other
    subtasks received it too, and each keeps only its own records.
    """

    operator: str
    kind: str
    name: str
    old: int | None
    new: int
    size: int
    entry: tuple[str, int]
    key_group: int | None = None
    filtered: bool = False


@dataclass(frozen=True, slots=True)
class Deal:
    """The redistribution of one state from `before` to `after` subtasks, in a vertex of `groups` key groups."""

    operator: str
    vertex: str
    kind: str
    name: str
    before: int
    after: int
    groups: int
    transfers: tuple[Transfer, ...]

    @property
    def bytes_by_reader(self) -> list[int]:
        """The bytes that each new subtask received."""
        sizes = [0] * self.after
        for each in self.transfers:
            sizes[each.new] += each.size
        return sizes

    @property
    def readers_of_nothing(self) -> list[int]:
        """The new subtasks that received none of it."""
        readers = {each.new for each in self.transfers}
        return [subtask for subtask in range(self.after) if subtask not in readers]

    @property
    def skew(self) -> float:
        """The largest part of a subtask, as a multiple of an even share."""
        sizes = self.bytes_by_reader
        return max(sizes) * len(sizes) / total if (total := sum(sizes)) else 1.0


@dataclass(frozen=True, slots=True)
class Restore:
    """One restore: the redistributed state, the state of coordinators and hooks, and the mapping of channels."""

    epoch: int
    checkpoint_id: int
    deals: tuple[Deal, ...]
    to_master: tuple[tuple[str, int], ...] = ()
    mappings: tuple[tuple[str, str], ...] = ()
    note: str = ""
    snapshot: Snapshot | None = field(default=None, repr=False)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per piece and reader: operator, kind, name, key_group (Int64), entry (its place in the file),
        from and to (subtasks), bytes, filtered.
        """
        import pandas as pd

        rows = [
            (
                deal.operator,
                deal.kind,
                deal.name,
                each.key_group,
                *each.entry,
                each.old,
                each.new,
                each.size,
                each.filtered,
            )
            for deal in self.deals
            for each in deal.transfers
        ]
        columns = ["operator", "kind", "name", "key_group", "file", "start", "from", "to", "bytes", "filtered"]
        frame = pd.DataFrame(rows, columns=columns)
        return frame.astype(dict.fromkeys(("key_group", "start", "from", "to", "bytes"), "Int64"))

    def pairs(self, operator: str | None = None) -> pd.DataFrame:
        """Return one row per state, old and new subtask with a transfer between them, of this operator or of all.

        Columns: operator, kind, name, from, to, pieces (key groups, entries or buffers), bytes, filtered (the reader
        drops records that are not its own).
        """
        pieces = self.to_pandas()
        if operator is not None:
            pieces = pieces[pieces["operator"] == operator]
        by = pieces.groupby(["operator", "kind", "name", "from", "to"], as_index=False, sort=False, dropna=False)
        return by.agg(pieces=("bytes", "size"), bytes=("bytes", "sum"), filtered=("filtered", "max"))


def _deployed(subject: Subject, restore: RestoreMoment) -> dict[str, Mapping[str, Any]]:
    """Return the state that each task was deployed with in this restore, by operator id."""
    of_epoch = [each for each in subject.moment.restores if each.epoch == restore.epoch]
    number = of_epoch.index(restore) if restore in of_epoch else 0
    found: dict[str, Mapping[str, Any]] = {}
    assigned, is_this = -1, False
    for record in subject.trace:
        if record.is_a(StateAssigned) and record.data["epoch"] == restore.epoch:
            assigned += 1
            is_this = assigned == number
        elif record.is_a(StartEpoch, StartTasks) and found:
            is_this = False
        elif is_this and record.is_a(DeployTask) and record.role == "command" and record.data.get("restore"):
            found[record.data["task"]] = record.data["restore"]["state"]["subtask_states"]
    return found


def restore_of(subject: Subject, restore: RestoreMoment) -> Restore:
    """Return the redistribution of state in this restore of the subject's run."""
    stage = stage_for(subject.whole.stages, restore.epoch)
    deployed = _deployed(subject, restore)
    names = operator_names(subject)
    snapshot = _restored_snapshot(subject, restore)
    writer = _Writers(snapshot)
    found: dict[tuple[str, str, str, str], list[tuple[int, Piece, bool]]] = defaultdict(list)
    for task, states in deployed.items():
        vertex, new = split_task_name(task)
        for operator_id, state in states.items():
            label = names.get(operator_id, operator_id[:8])
            for piece in pieces_of(operator_id, label, new, state):
                name = "" if piece.kind in (*BY_GROUP, *IN_FLIGHT) else piece.name
                found[vertex, label, piece.kind, name].append((new, piece, _is_filtered(piece, state)))
    once = {(piece.file, piece.start): piece for given in found.values() for _, piece, _ in given}
    sizes = {(piece.file, piece.start): piece.size for piece in settled(once.values()) if piece.kind != HEADER}
    deals = []
    for (vertex, label, kind, name), given in found.items():
        shape = next(each for each in stage.vertices if each.name == vertex)
        transfers = tuple(
            Transfer(
                label,
                kind,
                piece.name,
                piece.subtask if kind in IN_FLIGHT else writer.of(piece),
                new,
                sizes[piece.file, piece.start],
                (piece.file.rpartition("/")[2], piece.start),
                piece.key_group,
                filtered,
            )
            for new, piece, filtered in given
        )
        before = restore.before.get(vertex) or writer.parallelism(given[0][1], transfers)
        deals.append(Deal(label, vertex, kind, name, before, shape.parallelism, shape.max_parallelism, transfers))
    order = [vertex.name for vertex in stage.vertices]
    deals.sort(key=lambda deal: (order.index(deal.vertex), deal.operator, _KINDS.index(deal.kind), deal.name))
    return Restore(
        restore.epoch,
        restore.checkpoint_id,
        tuple(deals),
        tuple(_to_master(snapshot)),
        tuple(_mappings(deployed)),
        "" if snapshot is not None and snapshot.metadata is not None else _FROM_TRACE,
        snapshot,
    )


_KINDS = (KEYED, RAW_KEYED, SPLIT, UNION, BROADCAST, RAW_OPERATOR, ARRIVED, NOT_SENT, SHARED, PRIVATE)
_FROM_TRACE = "The checkpoint's files are not at hand: what went to coordinators and hooks is not told."


def _restored_snapshot(subject: Subject, restore: RestoreMoment) -> Snapshot | None:
    """Return the restored checkpoint: one of this run, or the one at the path in the trace."""
    if restore.checkpoint_id in subject.moment.checkpoints:
        own = snapshot_of(looking_at(subject, restore.checkpoint_id))
        if own is not None:
            return own
    assigned = (record.note(StateAssigned) for record in subject.trace if record.is_a(StateAssigned))
    path = next((note.path for note in assigned if note.epoch == restore.epoch), "")
    try:
        return snapshot_at(path, files_of(subject.thing)) if path else None
    except (OSError, StateError, MetadataError, ValueError):
        return None


@dataclass
class _Writers:
    """The writers of state."""

    snapshot: Snapshot | None
    known: dict[tuple[str, bool], int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for piece in () if self.snapshot is None else self.snapshot.pieces:
            if piece.kind not in (HEADER, *IN_FLIGHT):
                self.known.setdefault((piece.file, piece.inline), piece.subtask)

    def of(self, piece: Piece) -> int | None:
        """Return the writer of a piece of state; None if unknown."""
        if (piece.file, piece.inline) in self.known:
            return self.known[piece.file, piece.inline]
        named = parts_of(piece.file.rpartition("/")[2])
        return None if named is None else named[1]

    def parallelism(self, piece: Piece, transfers: Iterable[Transfer]) -> int:
        """Return the number of subtasks that the operator had."""
        metadata = None if self.snapshot is None else self.snapshot.metadata
        for state in () if metadata is None else metadata.operator_states:
            if state.operator_id == piece.operator_id:
                return state.parallelism
        return max((each.old for each in transfers if each.old is not None), default=0) + 1


def _is_filtered(piece: Piece, state: LoggedState) -> bool:
    """Return True if several new subtasks recover this buffer, and each drops the records of the others."""
    field_name = {ARRIVED: "input_rescale_descriptor", NOT_SENT: "output_rescale_descriptor"}.get(piece.kind)
    gates = state.get(field_name, {}).get("gates", ()) if field_name else ()
    number = int(piece.name.split()[1]) if gates else 0
    return bool(gates) and piece.subtask in gates[number].get("ambiguous", ())


def _mappings(deployed: Mapping[str, Mapping[str, LoggedState]]) -> Iterator[tuple[str, str]]:
    """Yield task and sentence for each gate and partition whose in-flight data has another parallelism."""
    sides = (("input_rescale_descriptor", "gate", "senders"), ("output_rescale_descriptor", "partition", "receivers"))
    for task, states in deployed.items():
        for state in states.values():
            for field_name, what, others in sides:
                for number, gate in enumerate(state.get(field_name, {}).get("gates", ())):
                    if gate["mapping_type"] == "RESCALING":
                        yield task, _mapping(gate, f"{what} {number}", others)


def _mapping(gate: Mapping[str, Any], what: str, others: str) -> str:
    old = ", ".join(map(str, gate["old_subtasks"])) or "none"
    channels = gate["channels"]
    if channels["is_identity"]:
        moved = f"its {others} are as they were"
    else:
        rows = [f"{new} ← {', '.join(map(str, row)) or 'none'}" for new, row in enumerate(channels["mappings"])]
        moved = f"{others}, new ← old: {'; '.join(rows)}"
    shared = ", ".join(map(str, gate["ambiguous"]))
    filtered = f"; what subtask {shared} had is given to others too and filtered" if shared else ""
    return f"{what}: recovers what old subtask {old} had; {moved}{filtered}"


def _to_master(snapshot: Snapshot | None) -> Iterator[tuple[str, int]]:
    if snapshot is None or snapshot.metadata is None:
        return
    for piece in snapshot.pieces:
        if piece.kind == COORDINATOR:
            yield f"coordinator of {piece.operator}", piece.size
    for state in hook_states(snapshot.metadata.master_states):
        yield f"master hook {state.name}", len(state.data)
