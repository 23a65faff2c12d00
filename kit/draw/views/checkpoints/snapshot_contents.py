"""The contents of a snapshot: the progress of each task, a map of the bytes by owner, and the values in them.

The byte map has a bar for each file, `_metadata` first, divided into its pieces. Beside the bar is the handle that
refers to it. While a checkpoint is pending, the bars of files that are not written yet are dashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from os import PathLike
from typing import Any

import pandas as pd

from kit.core.html_tables import frame_html
from kit.core.markup import Markup
from kit.core.metadata.sections import OPERATOR
from kit.core.state.file_names import checkpoint_of
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.draw import shapes
from kit.draw.graphs import text_width
from kit.draw.panel import drawing_html, panel
from kit.draw.picture import Svg, light_svg
from kit.draw.views.checkpoints.state_html import split_name
from kit.draw.views.view import View
from kit.run.durations import duration
from kit.run.moments.job_state import PENDING
from kit.run.sizes import counted, size_text
from kit.run.subject import Subject
from kit.snapshots import state_tables
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
    Piece,
    frame_of,
)
from kit.snapshots.source import Snapshot, TaskPart, snapshot_at, snapshot_of
from kit.snapshots.state_tables import StateTables
from kit.snapshots.values import positions, rows_in_flight, values_of

STYLE = "snapshot.css"
WIDTH, LEFT, BAR, RIGHT = 840.0, 236.0, 350.0, 602.0
ROW, TOP = 34.0, 34.0
MOST_BARS = 30
"""The most files with a bar each; of more, only the largest of each operator and kind get one."""
MOST_POSITIONS = 12
MOST_OPEN = 12
"""The most tasks whose progress is shown unfolded."""
LOOKS = {
    KEYED: "keyed",
    RAW_KEYED: "raw-keyed",
    SPLIT: "split",
    UNION: "union",
    BROADCAST: "broadcast",
    RAW_OPERATOR: "raw",
    ARRIVED: "flight",
    NOT_SENT: "flight",
    COORDINATOR: "coordinator",
    SHARED: "shared",
    PRIVATE: "private",
    HEADER: "header",
}


def snapshot_contents(run: Any, checkpoint: int | None = None, *, n: int | None = None) -> SnapshotContents:
    """Return the contents of a checkpoint or savepoint.

    `run` is the path of a snapshot's directory, or a Lab, a SparkJob or a Trace, looked at after its first `n` records.
    For a run, `checkpoint` is by default the newest.

    Raises ValueError for a checkpoint that the run does not have, and SavepointNotFoundError for a path without one.
    """
    if isinstance(run, str | PathLike):
        return SnapshotContents(snapshot_at(run))
    subject = Subject(run, n, checkpoint)
    if checkpoint is not None and checkpoint not in subject.moment.checkpoints:
        drawn = ", ".join(map(str, sorted(subject.moment.checkpoints))) or "none yet"
        raise ValueError(f"there is no checkpoint {checkpoint}; there are {drawn}")
    return SnapshotContents(snapshot_of(subject))


def snapshot_view(subject: Subject) -> SnapshotContents:
    """Draw the same for the explorer's tab, which finds deleted files in a lab's past."""
    return SnapshotContents(snapshot_of(subject, then=True))


@dataclass(frozen=True, eq=False)
class SnapshotContents:
    """The contents of one snapshot; `snapshot` is None if there was none yet."""

    snapshot: Snapshot | None

    @cached_property
    def values(self) -> StateTables:
        """The readable values as tables, for example `contents.values["totals"]`."""
        return StateTables("Nothing", ()) if self.snapshot is None else values_of(self.snapshot)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per piece: its owner (operator, subtask, kind, name, key_group, entry), its place (file,
        inline, start, end, bytes), and the class of its handle.
        """
        return frame_of(() if self.snapshot is None else self.snapshot.pieces)

    def progress(self) -> pd.DataFrame:
        """Return one row per task with the times, in ms (Int64), at which its state was copied (the synchronous phase)
        and written (the asynchronous phase), its in-flight data written, and its acknowledgement received. Empty for a
        snapshot read from a directory.
        """
        tasks = {} if self.snapshot is None else self.snapshot.tasks
        rows = [
            (task, each.copied_ms, each.written_ms, each.bytes, each.channels_ms, each.channel_bytes, each.acked_ms)
            for task, each in tasks.items()
        ]
        names = ["task", "copied_ms", "written_ms", "bytes", "in_flight_ms", "in_flight_bytes", "acked_ms"]
        return pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[1:], "Int64"))

    @property
    def title(self) -> str:
        """The snapshot's kind, id and size, in a sentence."""
        if self.snapshot is None:
            return "No checkpoint has begun yet"
        size = size_text(self.snapshot.size)
        return f"Checkpoint {self.snapshot.checkpoint_id}: {self.snapshot.status}, {size} of state"

    @property
    def under(self) -> str:
        """The snapshot's path, or its progress."""
        snapshot = self.snapshot
        if snapshot is None:
            return "What it holds appears here as it is copied, written and acknowledged."
        where = f"In {snapshot.path}. " if snapshot.path else ""
        return f"{where}{snapshot.note}".strip() or "Its _metadata, which makes it a checkpoint, is not written yet."

    def svg(self) -> Svg:
        """Return the byte map alone, in light colours."""
        return light_svg(WIDTH, *_byte_map(self.snapshot), self.title, STYLE)

    def _repr_html_(self) -> str:
        if self.snapshot is None:
            return panel(self.title, under=self.under)
        parts = [self._which_records(), _progress(self.snapshot), _map_html(self.snapshot, self.title), self._values()]
        return panel(self.title, *parts, under=self.under, styles=(STYLE,))

    def _which_records(self) -> str:
        """Return a text about the records that the snapshot includes."""
        assert self.snapshot is not None
        at = [f"{task}: split {split_name(split)}, up to position {at:,}" for task, split, at in positions(self.values)]
        if not at and not self.values.of(state_tables.COORDINATOR):
            return ""
        kept = sum(row["record"].startswith("{") for row in rows_in_flight(self.values))
        flight = f"{kept} of them {'is' if kept == 1 else 'are'} kept as in-flight data." if kept else ""
        before = f"All records before these positions, and none after them: a restore reads on from there. {flight} "
        rest = "A split without a position here was read to its end, and is in it, or still waits at the coordinator."
        what = "".join(f"<li>{escape(each)}</li>" for each in at[:MOST_POSITIONS])
        more = f"<li>… and {len(at) - MOST_POSITIONS} more</li>" if len(at) > MOST_POSITIONS else ""
        return f"<h4>Which records are in it</h4><p>{before if at else ''}{rest}</p><ul>{what}{more}</ul>"

    def _values(self) -> str:
        tables = self.values
        note = f'<p class="kit-note">{escape(tables.note)}</p>' if tables.note else ""
        if not len(tables):
            return note
        shown = "".join(
            f"<details><summary>{escape(table.title)}</summary>{frame_html(table.to_pandas())}</details>"
            for table in tables
        )
        return f"<h4>The values in it</h4>{note}{shown}"

    def __repr__(self) -> str:
        return f"SnapshotContents({self.title})"


# --- how far ----------------------------------------------------------------------------------------------------------


def _progress(snapshot: Snapshot) -> str:
    """Return a table of the tasks, folded if there are many or all are done."""
    tasks = snapshot.tasks
    if not tasks:
        return ""
    counts = {
        "copied (sync)": sum(each.copied_ms is not None for each in tasks.values()),
        "written (async)": sum(each.written_ms is not None for each in tasks.values()),
        "acknowledged": sum(each.acked_ms is not None for each in tasks.values()),
    }
    done = ", ".join(f"{count} {what}" for what, count in counts.items())
    rows = [_task_row(task, each, snapshot.began_ms) for task, each in tasks.items()]
    table = frame_html(pd.DataFrame(rows), most=60)
    summary = f"<summary>Of {len(tasks)} tasks: {done}</summary>"
    is_done = counts["acknowledged"] == len(tasks)
    return f"<details{'' if is_done or len(tasks) > MOST_OPEN else ' open'}>{summary}{table}</details>"


def _task_row(task: str, part: TaskPart, began_ms: int) -> dict[str, str]:
    if part.declined:
        return {"task": task, "copied (sync)": "declined", "written (async)": "", "in flight": "", "acknowledged": ""}

    def _when(at_ms: int | None, otherwise: str = "") -> str:
        return otherwise if at_ms is None else f"✓ at {duration(at_ms - began_ms)}"

    written = _when(part.written_ms, "being written" if part.copied_ms is not None else "")
    return {
        "task": task,
        "copied (sync)": _when(part.copied_ms),
        "written (async)": f"{written}, {size_text(part.bytes)}" if part.written_ms is not None else written,
        "in flight": "" if part.channels_ms is None else f"{_when(part.channels_ms)}, {size_text(part.channel_bytes)}",
        "acknowledged": _when(part.acked_ms, "under way" if part.written_ms is not None else ""),
    }


# --- the byte map -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bar:
    """One file, or the bytes of one handle in `_metadata`."""

    label: str
    file: str
    size: int
    ranges: Sequence[tuple[int, int, str, str, str]]
    """Start, end, style, label and hint of each range."""
    handle: str
    written: bool = True


def _map_html(snapshot: Snapshot, title: str) -> str:
    if not _bars(snapshot):
        return '<p class="kit-note">No file has been begun yet.</p>'
    note = (
        '<h4>Which bytes are where</h4><p class="kit-note">A bar is one file from its first byte to its last, however '
        "large it is. Point at a part to see what it is.</p>"
    )
    return note + drawing_html(WIDTH, *_byte_map(snapshot), title)


def _byte_map(snapshot: Snapshot | None) -> tuple[float, str]:
    if snapshot is None:
        return 60.0, shapes.text(16, 34, "sn-label", "no checkpoint has begun yet")
    bars = _bars(snapshot)
    parts = [
        shapes.text(16, 20, "sn-head", "whose state, in which file"),
        shapes.text(LEFT, 20, "sn-head", "its bytes, from first to last"),
        shapes.text(RIGHT, 20, "sn-head", "the handle that refers to it"),
    ]
    y = TOP
    for bar in bars:
        parts += _bar(bar, y)
        y += ROW
    parts += _legend({look for bar in bars for _, _, look, _, _ in bar.ranges}, y + 14)
    return y + 40, "".join(parts)


def _bars(snapshot: Snapshot) -> list[_Bar]:
    return _folded([*_metadata_bar(snapshot), *_file_bars(snapshot), *_unwritten(snapshot)])


def _metadata_bar(snapshot: Snapshot) -> Iterator[_Bar]:
    if snapshot.data is None:
        return
    ranges = []
    for section in snapshot.sections:
        look = "section" if section.what == OPERATOR else "coordinator" if section.what == "master hook" else "rest"
        hint = f"{section.what} {section.name}: bytes {section.start} to {section.end}"
        ranges.append((section.start, section.end, look, section.name if section.what == OPERATOR else "", hint))
    inline = {piece.file: piece for piece in snapshot.pieces if piece.inline}
    for name, start in snapshot.inline_at.items():
        piece = inline.get(name)
        if piece is not None:
            size = max(each.end for each in snapshot.pieces if each.file == name and each.inline)
            hint = f"held in _metadata itself: {_owner(piece)}, {piece.kind}, bytes {start} to {start + size}"
            ranges.append((start, start + size, LOOKS[piece.kind] + " inline", "", hint))
    yield _Bar("_metadata", "written last: it makes this a checkpoint", len(snapshot.data), ranges, "lists all handles")


def _file_bars(snapshot: Snapshot) -> Iterator[_Bar]:
    """Yield a bar for each file; the files of one LSM tree, or the runs of one subtask, share a bar."""
    by_file: dict[tuple[str, bool], list[Piece]] = {}
    trees: dict[str, list[Piece]] = {}
    for piece in snapshot.pieces:
        if piece.kind in (SHARED, PRIVATE):
            trees.setdefault(_owner(piece), []).append(piece)
        else:
            by_file.setdefault((piece.file, piece.inline), []).append(piece)
    for (file, inline), pieces in by_file.items():
        real = [piece for piece in pieces if piece.kind != HEADER] or pieces
        owners = ", ".join(sorted({_owner(piece) for piece in real}))
        kinds = "; ".join(dict.fromkeys(piece.kind for piece in real))
        ranges = []
        for piece in sorted(pieces, key=lambda piece: piece.start):
            number = piece.entry if piece.key_group is None else piece.key_group
            label = "" if number is None else str(number)
            ranges.append((piece.start, piece.end, LOOKS[piece.kind], label, _hint(piece)))
        where, at = file.rpartition("/")[2], snapshot.inline_at.get(file)
        if inline:
            where = "inside _metadata" + ("" if at is None else f", from byte {at:,}")
        yield _Bar(f"{owners}: {kinds}", where, max(piece.end for piece in pieces), ranges, _handles(real))
    for owner, pieces in trees.items():
        yield _tree_bar(owner, pieces)


def _tree_bar(owner: str, pieces: Sequence[Piece]) -> _Bar:
    ranges, at = [], 0
    for piece in sorted(pieces, key=lambda piece: (piece.kind != SHARED, -piece.size)):
        ranges.append((at, at + piece.size, LOOKS[piece.kind], piece.name, _hint(piece)))
        at += piece.size
    shared = sum(piece.kind == SHARED for piece in pieces)
    inline = sum(piece.inline for piece in pieces)
    where = f"{len(pieces)} files, one behind the other" + (f"; {inline} of them in _metadata" if inline else "")
    handle = f"{pieces[0].handle}: {shared} shared, {len(pieces) - shared} private"
    is_ours = any(piece.kind == SHARED and checkpoint_of(piece.name) is not None for piece in pieces)
    return _Bar(f"{owner}: {'runs' if is_ours else 'LSM tree'}", where, at, ranges, handle)


def _owner(piece: Piece) -> str:
    return piece.operator if piece.subtask is None else f"{piece.operator}/{piece.subtask}"


def _hint(piece: Piece) -> str:
    what = piece.kind if piece.kind == HEADER else f"{piece.kind}, {piece.what}"
    return f"{_owner(piece)}: {what}, bytes {piece.start} to {piece.end} ({size_text(piece.size)})"


def _handles(pieces: Sequence[Piece]) -> str:
    """Return the classes of the handles and their targets."""
    names = ", ".join(dict.fromkeys(piece.handle for piece in pieces))
    if groups := sum(piece.key_group is not None for piece in pieces):
        return f"{names}: {counted(groups, 'key group')}"
    entries = sum(piece.entry is not None for piece in pieces)
    return f"{names}: {counted(entries, 'offset')}" if entries else names


def _unwritten(snapshot: Snapshot) -> Iterator[_Bar]:
    """Yield a bar for each state that was copied and is being written."""
    if snapshot.status != PENDING:
        return
    for task, part in snapshot.tasks.items():
        if part.copied_ms is not None and part.written_ms is None:
            for _, kind, name in part.parts:
                yield _Bar(
                    f"{task}: {SubtaskStateKind(kind).words} state", name, 0, (), "copied, being written", written=False
                )


def _folded(bars: Sequence[_Bar]) -> list[_Bar]:
    """Return all bars if they are few; otherwise the largest of each operator and kind, with the number left out."""
    if len(bars) <= MOST_BARS:
        return list(bars)
    groups: dict[str, list[_Bar]] = {}
    for bar in bars:
        owner, _, what = bar.label.partition(": ")
        groups.setdefault(f"{owner.rpartition('/')[0] or owner}: {what}" if "," not in owner else what, []).append(bar)
    kept: list[_Bar] = []
    most = max(1, MOST_BARS // len(groups))
    for own in groups.values():
        own.sort(key=lambda bar: -bar.size)
        kept += own[:most]
        if len(own) > most:
            count, size = len(own) - most, size_text(sum(bar.size for bar in own[most:]))
            rest = f"and a smaller one, {size}" if count == 1 else f"and {count} smaller ones, {size} together"
            kept[-1] = replace(kept[-1], file=rest)
    return kept


def _bar(bar: _Bar, y: float) -> Iterator[Markup]:
    yield shapes.group(
        f"{bar.label} in {bar.file}",
        shapes.text(16, y + 11, "sn-label", _fitted_name(bar.label, LEFT - 30, 11.5)),
        shapes.text(16, y + 25, "sn-small", _fitted(bar.file, LEFT - 30, 10.5)),
    )
    yield shapes.rect("sn-file" if bar.written else "sn-unwritten", LEFT, y, BAR, 22, rx=3)
    for start, end, look, label, hint in bar.ranges:
        x, width = LEFT + BAR * start / max(bar.size, 1), BAR * (end - start) / max(bar.size, 1)
        wide = max(width - 0.8, 0.8)
        top, high = (y + 16, 6.0) if look.endswith(" inline") else (y, 22.0)
        parts = [shapes.rect(f"sn-range sn-{look}", x, top, wide, high, rx=2)]
        if label and width > text_width(label, 10.5) + 6:
            low = 12.5 if look == "section" else 15
            parts.append(shapes.text(x + width / 2, y + low, f"sn-in sn-in-{look}", label, "middle"))
        yield shapes.group(hint, *parts)
    size = f"{size_text(bar.size)}" if bar.written else "not written yet"
    yield shapes.path("sn-arrow", f"M{RIGHT - 6:g} {y + 11:g}H{LEFT + BAR + 3:g}m5 -3.5l-5 3.5l5 3.5")
    handle = shapes.text(RIGHT, y + 11, "sn-label", _fitted_name(bar.handle, WIDTH - RIGHT - 8, 11.5))
    yield shapes.group(bar.handle, handle, shapes.text(RIGHT, y + 25, "sn-small", size))


_LEGEND = (
    ("keyed", "keyed state, number: key group"),
    ("raw-keyed", "raw keyed state"),
    ("split", "split list, number: entry"),
    ("union", "union list"),
    ("broadcast", "broadcast state"),
    ("raw", "raw operator state"),
    ("flight", "in flight, number: buffer"),
    ("coordinator", "coordinator or hook"),
    ("shared", "file that checkpoints may share"),
    ("private", "file of this checkpoint alone"),
    ("section", "operator's section of _metadata"),
    ("rest", "head and properties"),
    ("header", "header: names and types"),
)


def _legend(looks: Iterable[str], y: float) -> Iterator[Markup]:
    drawn = {look.removesuffix(" inline") for look in looks}
    x = 16.0
    for look, text in _LEGEND:
        if look in drawn:
            if x + 24 + text_width(text, 10.5) > WIDTH - 10:
                x, y = 16.0, y + 18
            yield shapes.rect(f"sn-range sn-{look}", x, y - 9, 13, 11, rx=2)
            yield shapes.text(x + 18, y, "sn-small", text)
            x += 18 + text_width(text, 10.5) + 18


def _fitted_name(text: str, width: float, size: float) -> str:
    """Fit a name and its note into a width. A long name is cut in the middle, which keeps the subtask at its end."""
    owner, colon, said = text.partition(": ")
    name, slash, subtask = owner.rpartition("/") if "/" in owner else (owner, "", "")
    for kept in range(len(name), 5, -1):
        shown = name if kept == len(name) else f"{name[: kept - kept // 2]}…{name[-(kept // 2) :]}"
        if text_width(f"{shown}{slash}{subtask}{colon}{said}", size) <= width:
            return f"{shown}{slash}{subtask}{colon}{said}"
    return _fitted(text, width, size)


def _fitted(text: str, width: float, size: float) -> str:
    """Return the text, or its beginning and end if it is too long, because file names differ at their ends."""
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 2, 2, -1):
        head = min(kept - kept // 2, 8 if " " not in text else kept)
        tail = kept - head
        cut = f"{text[:head]}…{text[-tail:]}" if tail > 0 else f"{text[:head]}…"
        if text_width(cut, size) <= width:
            return cut
    return "…"


VIEW = View("snapshot", "Snapshot", "What does a checkpoint hold, and in which bytes of which file?", snapshot_view)
