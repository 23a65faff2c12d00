"""The files of each checkpoint, and the files that discarding one would delete.

An incremental checkpoint refers to files that earlier ones wrote. A file is deleted when the last checkpoint that
refers to it is discarded. Rows are files, grouped by the checkpoints that hold them; columns are checkpoints. The data
come from the handles in each checkpoint's `_metadata`.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd

from kit.core.html_tables import frame_html
from kit.core.markup import Markup
from kit.core.metadata import MetadataError
from kit.core.state.errors import StateError
from kit.draw import shapes
from kit.draw.graphs import text_width
from kit.draw.panel import drawing_html, panel
from kit.draw.picture import Svg, light_svg
from kit.draw.views.view import View
from kit.run.moments.job_state import COMPLETED
from kit.run.sizes import size_text
from kit.run.subject import Subject
from kit.snapshots.pieces import SHARED
from kit.snapshots.source import Snapshot, looking_at, snapshot_at, snapshot_of

STYLE = "shared_state.css"
WIDTH, LEFT, ROW, TOP = 840.0, 330.0, 30.0, 66.0
MOST_COLUMNS, MOST_ROWS = 16, 40


def shared_state(run: Any) -> SharedState:
    """Return the files of the stored checkpoints of a Lab, a SparkJob or a Trace, of those in a directory, or of those
    in a list of paths.

    Raises ValueError if there is no checkpoint.
    """
    if isinstance(run, str | PathLike):
        paths = sorted({found.parent for found in Path(run).rglob("_metadata")}, key=_in_order)
        if not paths:
            raise ValueError(f"there is no checkpoint below {fspath(run)!r}: no file there is called _metadata")
        return SharedState(tuple(map(snapshot_at, paths)))
    if isinstance(run, list | tuple) and all(isinstance(each, str | PathLike) for each in run):
        return SharedState(tuple(map(snapshot_at, run)))
    return shared_state_view(Subject(run))


def _in_order(path: Path) -> tuple[int, str]:
    digits = "".join(filter(str.isdigit, path.name))
    return int(digits or 0), path.name


def shared_state_view(subject: Subject) -> SharedState:
    """Draw the files of a run's checkpoints by then, for the explorer's tab."""
    complete = [each.checkpoint_id for each in subject.moment.checkpoints.values() if each.status == COMPLETED]
    found, gone = [], []
    for number in sorted(complete):
        try:
            snapshot = snapshot_of(looking_at(subject, number))
        except (StateError, MetadataError, OSError):
            snapshot = None
        if snapshot is not None and snapshot.metadata is not None:
            found.append(snapshot)
        else:
            gone.append(number)
    return SharedState(tuple(found), tuple(gone))


@dataclass(frozen=True, slots=True)
class HeldFile:
    """One file: the checkpoints that hold it, its size, and whether it is shared state of an incremental checkpoint."""

    path: str
    size: int
    shared: bool
    holders: tuple[int, ...]

    @property
    def directory(self) -> str:
        """The last part of the directory's path: chk-3, shared."""
        return posixpath.basename(posixpath.dirname(self.path))


@dataclass(frozen=True, eq=False)
class SharedState:
    """Files and checkpoints; `gone` are completed checkpoints whose files no longer exist."""

    snapshots: tuple[Snapshot, ...]
    gone: tuple[int, ...] = ()

    @property
    def checkpoints(self) -> list[int]:
        """The ids of the existing checkpoints."""
        return [snapshot.checkpoint_id for snapshot in self.snapshots]

    @cached_property
    def files(self) -> list[HeldFile]:
        """The files of these checkpoints, `_metadata` included, ordered by the number of holders, largest first."""
        sizes: dict[str, int] = {}
        shared: set[str] = set()
        holders: dict[str, list[int]] = defaultdict(list)
        for snapshot in self.snapshots:
            own = [(piece.file, piece.end) for piece in snapshot.pieces if piece.file and not piece.inline]
            own += [] if snapshot.data is None else [(snapshot.path, len(snapshot.data))]
            for path, end in own:
                sizes[path] = max(end, sizes.get(path, 0))
            for path in dict(own):
                holders[path].append(snapshot.checkpoint_id)
            shared |= {piece.file for piece in snapshot.pieces if piece.kind == SHARED and not piece.inline}
        found = [HeldFile(path, sizes[path], path in shared, tuple(holders[path])) for path in sizes]
        return sorted(found, key=lambda each: (-len(each.holders), each.holders, each.path))

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per file: file, directory, bytes, shared, references (the number of checkpoints that hold it),
        and a bool column for each checkpoint.
        """
        rows = []
        for each in self.files:
            properties = (posixpath.basename(each.path), each.directory, each.size, each.shared, len(each.holders))
            rows.append((*properties, *(number in each.holders for number in self.checkpoints)))
        columns = ["file", "directory", "bytes", "shared", "references", *(f"chk-{each}" for each in self.checkpoints)]
        return pd.DataFrame(rows, columns=columns)

    def freed_by(self, *checkpoints: int) -> pd.DataFrame:
        """Return the files that discarding these checkpoints would delete: file, directory, bytes. A file that another
        checkpoint holds is kept.

        Raises ValueError for an unknown checkpoint.
        """
        if wrong := [each for each in checkpoints if each not in self.checkpoints]:
            known_ids = ", ".join(map(str, self.checkpoints))
            raise ValueError(f"there is no checkpoint {wrong[0]} here; there are {known_ids}")
        rows = [
            (posixpath.basename(each.path), each.directory, each.size)
            for each in self.files
            if set(each.holders) <= set(checkpoints)
        ]
        return pd.DataFrame(rows, columns=["file", "directory", "bytes"])

    @property
    def is_shared(self) -> bool:
        """True if any file belongs to more than one checkpoint."""
        return any(len(each.holders) > 1 for each in self.files)

    @property
    def title(self) -> str:
        """The total size and the number of checkpoints, in a sentence."""
        if not self.snapshots:
            return "No complete checkpoint is stored"
        total = size_text(sum(each.size for each in self.files))
        numbers = ", ".join(map(str, self.checkpoints[-MOST_COLUMNS:]))
        word = "Checkpoint" if len(self.snapshots) == 1 else "Checkpoints"
        return f"{word} {numbers}: {len(self.files)} files, {total}"

    @property
    def under(self) -> str:
        """A sentence about the shared files."""
        sentences = []
        if self.snapshots and not any(each.shared for each in self.files):
            sentences.append(
                "None of these is incremental: each checkpoint has files of its own, and discarding one frees all of "
                "them."
            )
        elif self.snapshots:
            saved = sum((len(each.holders) - 1) * each.size for each in self.files)
            sentences.append(
                f"Sharing saves {size_text(saved)}. A shared file goes with the last checkpoint that holds it."
            )
        if self.gone:
            numbers = ", ".join(map(str, self.gone[-8:]))
            sentences.append(f"Gone already: checkpoint {numbers}.")
        return " ".join(sentences)

    def svg(self) -> Svg:
        """Return the matrix alone, in light colours."""
        return light_svg(WIDTH, *self._drawn(), self.title, STYLE)

    def _repr_html_(self) -> str:
        if not self.snapshots:
            return panel(self.title, under=self.under or "Complete checkpoints appear here.")
        picture = drawing_html(WIDTH, *self._drawn(), self.title)
        every = f"<details><summary>Every file</summary>{frame_html(self.to_pandas(), most=200)}</details>"
        return panel(self.title, picture, every, *self._frees(), under=self.under, styles=(STYLE,))

    def _frees(self) -> Iterator[str]:
        for number in self.checkpoints[-MOST_COLUMNS:]:
            freed = self.freed_by(number)
            size = size_text(int(freed["bytes"].sum()))
            summary = f"<summary>Discarding checkpoint {number} frees {len(freed)} files, {size}</summary>"
            yield f"<details>{summary}{frame_html(freed, most=100)}</details>"

    def _drawn(self) -> tuple[float, str]:
        """Draw a row for each set of holders, with the number of files that they share."""
        columns = self.checkpoints[-MOST_COLUMNS:]
        step = min(90.0, (WIDTH - LEFT - 150) / max(len(columns), 1))
        parts = [shapes.text(16, TOP - 12, "ss-head", "files"), shapes.text(LEFT - 90, TOP - 12, "ss-head", "bytes")]
        freed = {number: int(self.freed_by(number)["bytes"].sum()) for number in columns}
        for place, number in enumerate(columns):
            x = LEFT + (place + 0.5) * step
            parts.append(shapes.text(x, TOP - 30, "ss-column", f"chk-{number}", "middle"))
            label = f"frees {size_text(freed[number])}"
            if text_width(label, 10.5) < step + 14 or place % 2 == 0:
                parts.append(shapes.text(x, TOP - 14, "ss-small", label, "middle"))
        parts.append(shapes.text(LEFT + len(columns) * step + 20, TOP - 12, "ss-head", "references"))
        y = TOP
        groups = _groups(self.files)
        for files in groups[:MOST_ROWS]:
            parts += _group_row(files, columns, step, y)
            y += ROW
        if len(groups) > MOST_ROWS:
            parts.append(shapes.text(16, y + 16, "ss-small", f"and {len(groups) - MOST_ROWS} rows more"))
            y += ROW
        entries = ((16, "own", "file of one checkpoint's own"), (230, "shared", "file that several may share"))
        for x, look, words in entries:
            if any(each.shared == (look == "shared") for each in self.files):
                parts.append(shapes.circle(f"ss-dot ss-{look}", x + 6, y + 18, 6))
                parts.append(shapes.text(x + 20, y + 22, "ss-small", words))
        return y + 34, "".join(parts)

    def __repr__(self) -> str:
        return f"SharedState({self.title})"


def _groups(files: Iterable[HeldFile]) -> list[list[HeldFile]]:
    """Group files by directory and by the checkpoints that hold them."""
    groups: dict[tuple[tuple[int, ...], str, bool], list[HeldFile]] = defaultdict(list)
    for each in files:
        groups[each.holders, each.directory, each.shared].append(each)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0][0], -len(key[0]), key[1], not key[2]))]


def _group_row(files: list[HeldFile], columns: list[int], step: float, y: float) -> Iterator[Markup]:
    one = files[0]
    names = ", ".join(posixpath.basename(each.path) for each in files[:30])
    what = posixpath.basename(one.path) if len(files) == 1 else f"{len(files)} files"
    cut = what if len(what) <= 22 else what[:8] + "…" + what[-11:]
    size = sum(each.size for each in files)
    named = shapes.text(16, y + 17, "ss-label", f"{cut} in {one.directory}")
    yield shapes.group(names, named, shapes.text(LEFT - 90, y + 17, "ss-small", size_text(size)))
    held = [place for place, number in enumerate(columns) if number in one.holders]
    look = "shared" if one.shared else "own"
    if len(held) > 1:
        first, last = LEFT + (held[0] + 0.5) * step, LEFT + (held[-1] + 0.5) * step
        yield shapes.path(f"ss-line ss-{look}-line", f"M{first:.1f} {y + 13:g}H{last:.1f}")
    for place in range(len(columns)):
        x = LEFT + (place + 0.5) * step
        if place in held:
            yield shapes.circle(f"ss-dot ss-{look}", x, y + 13, 7, f"checkpoint {columns[place]} holds {what}")
        else:
            yield shapes.circle("ss-none", x, y + 13, 2.5)
    many = len(one.holders)
    yield shapes.text(LEFT + len(columns) * step + 20, y + 17, "ss-label", f"{many}{', shared' if one.shared else ''}")


VIEW = View(
    "shared-state", "Files", "Which checkpoint holds which file, and what would discarding one free?", shared_state_view
)

__all__ = ["HeldFile", "SharedState", "shared_state", "shared_state_view"]
