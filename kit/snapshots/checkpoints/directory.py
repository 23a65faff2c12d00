"""A directory with several checkpoints: which are complete, which can be restored, and which files nobody refers to."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from pyarrow import fs

from kit.core.arguments.checks import flag_given
from kit.core.display import display
from kit.core.state.errors import SavepointNotFoundError, StateError
from kit.files.storage import METADATA_FILE_NAME, StateFiles
from kit.run.sizes import size_text
from kit.snapshots.checkpoints.checkpoint import Checkpoint, opened
from kit.snapshots.checkpoints.state_bytes import NOT_LOOKED_AT, Listing
from kit.snapshots.checkpoints.storage import REST

if TYPE_CHECKING:
    import pandas as pd

MOST_FILES = 1_000_000


def open_checkpoints(
    directory: str | os.PathLike[str],
    *,
    follow: bool = False,
    file_system: fs.FileSystem | None = None,
    progress: Callable[[int, int], None] = lambda read, of: None,
) -> Checkpoints:
    """Open all checkpoints and savepoints in a directory and below it; only their `_metadata` is read.

    Args:
        directory: a job's checkpoint directory, or the one above it; local or a URI.
        follow: count files outside a checkpoint's own directories as found.
        file_system: the file system of all paths, instead of the one that `directory` names.
        progress: called with the number of directories that were read, and of all, when they are first needed.

    Raises:
        SavepointNotFoundError: there is no such directory, or no file in it.
    """
    files = StateFiles(file_system)
    flag_given("follow", follow)
    infos = dict(files.walk_infos(directory, MOST_FILES))
    if not infos:
        raise SavepointNotFoundError(f"there is no directory {os.fspath(directory)!r} with files in it")
    sizes = {path: info.size for path, info in infos.items()}
    modified_ms = {path: info.mtime_ns // 1_000_000 for path, info in infos.items() if info.mtime_ns is not None}
    listed = Listing(files.qualified(directory), sizes)
    return Checkpoints(files, listed, modified_ms, follow=follow, progress=progress)


@dataclass(frozen=True)
class Found:
    """One directory of a checkpoint: what was opened, or why it could not be."""

    directory: str
    checkpoint: Checkpoint | None
    problem: str
    has_metadata: bool = True
    is_looked_at: bool = True
    """False if the only problem is that files are outside, where nothing is looked at."""

    @property
    def is_restorable(self) -> bool | None:
        """True if it can be restored; None if that is not known, because files were not looked at."""
        if self.checkpoint is not None and not self.is_looked_at:
            return None
        return self.checkpoint is not None and not self.problem


class Checkpoints:
    """The checkpoints of one directory. `files` are all files in it, with their bytes.

    `modified_ms` has the time of the last change of those files of which the file system knows it.
    """

    def __init__(
        self,
        files: StateFiles,
        listed: Listing,
        modified_ms: Mapping[str, int],
        *,
        follow: bool,
        progress: Callable[[int, int], None],
    ) -> None:
        self.directory, self.files, self._modified_ms = listed.directory, listed.sizes, modified_ms
        self._files, self._listed, self._follow, self._progress = files, listed, follow, progress

    @cached_property
    def found(self) -> tuple[Found, ...]:
        """Each directory that has a `_metadata`, or the name of a checkpoint's directory."""
        return tuple(sorted(self._open_all(), key=_order))

    def _open_all(self) -> Iterator[Found]:
        holders = {posixpath.dirname(path) for path in self.files}
        for read, directory in enumerate(holders, 1):
            name = posixpath.basename(directory)
            if f"{directory}/{METADATA_FILE_NAME}" in self.files:
                try:
                    checkpoint = opened(directory, self._files, {}, follow=self._follow, listed=self._listed)
                    yield Found(directory, checkpoint, _missing(checkpoint), is_looked_at=_is_looked_at(checkpoint))
                except (StateError, ValueError) as error:
                    yield Found(directory, None, str(error))
            elif name.startswith(("chk-", "savepoint-")):
                yield Found(directory, None, f"it has no {METADATA_FILE_NAME}: it was never completed", False)
            self._progress(read, len(holders))

    def __iter__(self) -> Iterator[Checkpoint]:
        return (each.checkpoint for each in self.found if each.checkpoint is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, checkpoint_id: int) -> Checkpoint:
        """Return the checkpoint with this id. Raises KeyError, which lists the existing ones."""
        for each in self:
            if each.checkpoint_id == checkpoint_id:
                return each
        there = ", ".join(str(each.checkpoint_id) for each in self)
        raise KeyError(f"there is no checkpoint {checkpoint_id} in {self.directory!r}; there are {there or 'none'}")

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per directory: its checkpoint, kind, bytes, whether it can be restored, and why not.

        `restorable` is null if files are outside the checkpoint's directories, where nothing is looked at.
        """
        import pandas as pd

        rows = [
            {
                "directory": posixpath.relpath(each.directory, self.directory),
                "checkpoint_id": None if each.checkpoint is None else each.checkpoint.checkpoint_id,
                "savepoint": None if each.checkpoint is None else each.checkpoint.is_savepoint,
                "complete": each.checkpoint is not None,
                "restorable": each.is_restorable,
                "operators": 0 if each.checkpoint is None else len(each.checkpoint.metadata.operator_states),
                "bytes": 0 if each.checkpoint is None else each.checkpoint.size,
                "problem": each.problem,
            }
            for each in self.found
        ]
        columns = ["directory", "checkpoint_id", "savepoint", "complete", "restorable", "operators", "bytes", "problem"]
        return pd.DataFrame(rows, columns=columns).astype(
            {"checkpoint_id": "Int64", "savepoint": "boolean", "restorable": "boolean"}
        )

    @cached_property
    def shared_files(self) -> pd.DataFrame:
        """One row per file that checkpoints refer to: its bytes, and the ids of those that do."""
        import pandas as pd

        users: dict[str, list[int]] = {}
        for each in self:
            for file in each.found_files:
                if file.found:
                    users.setdefault(file.found, []).append(each.checkpoint_id)
        rows = [
            (posixpath.relpath(path, self.directory), self.files.get(path, 0), ids)
            for path, ids in sorted(users.items())
        ]
        return pd.DataFrame(rows, columns=["file", "bytes", "checkpoints"])

    @cached_property
    def orphans(self) -> pd.DataFrame:
        """One row per file that no checkpoint here refers to, with its bytes. Nothing is deleted: this is a dry run.

        Empty if a checkpoint cannot be read: what that refers to is not known. Files of a checkpoint in progress are
        among them (`in_progress`); `orphans_older_than` leaves out what is new.
        """
        return self._frame(self._orphans)

    def orphans_older_than(self, age_ms: int, now_ms: int) -> pd.DataFrame:
        """Return the rows of `orphans` whose file was last changed more than `age_ms` before `now_ms`.

        A file of which the file system does not know the time is left out.
        """
        last = now_ms - age_ms
        return self._frame([path for path in self._orphans if self._modified_ms.get(path, last) < last])

    @cached_property
    def in_progress(self) -> tuple[str, ...]:
        """The directories of checkpoints without `_metadata`: a job may be writing them, or have given them up."""
        return tuple(each.directory for each in self.found if not each.has_metadata)

    @cached_property
    def _orphans(self) -> list[str]:
        used = {file.found for each in self for file in each.found_files if file.found}
        used |= {f"{each.directory}/{METADATA_FILE_NAME}" for each in self}
        unread = any(each.checkpoint is None and each.has_metadata for each in self.found)
        return [] if unread else sorted(self.files.keys() - used)

    def _frame(self, paths: Iterable[str]) -> pd.DataFrame:
        import pandas as pd

        rows = [(posixpath.relpath(path, self.directory), self.files[path]) for path in paths]
        return pd.DataFrame(rows, columns=["file", "bytes"])

    @cached_property
    def growth(self) -> pd.DataFrame:
        """One row per checkpoint, in order: how its bytes grow, and how many are in files of its own.

        Columns: checkpoint_id, directory, bytes, grown_bytes (since the one before), files, new_files, new_bytes,
        fair_bytes, freed_bytes, metadata_bytes. New files are those that no earlier checkpoint here refers to. For
        fair_bytes each file is split evenly among the checkpoints that refer to it. Freed bytes are in files that only
        this one refers to.
        """
        import pandas as pd

        every = list(self)
        held = [{file.file: file.bytes for file in each.found_files} for each in every]
        users = Counter(path for files in held for path in files)
        rows: list[dict[str, object]] = []
        seen, before = set[str](), 0
        for each, files in zip(every, held, strict=True):
            new = files.keys() - seen
            inline = each.size - sum(files.values())
            rows.append(
                {
                    "checkpoint_id": each.checkpoint_id,
                    "directory": posixpath.relpath(each.directory, self.directory),
                    "bytes": each.size,
                    "grown_bytes": each.size - before if rows else 0,
                    "files": len(files),
                    "new_files": len(new),
                    "new_bytes": sum(files[path] for path in new),
                    "fair_bytes": round(max(inline, 0) + sum(size / users[path] for path, size in files.items())),
                    "freed_bytes": sum(size for path, size in files.items() if users[path] == 1),
                    "metadata_bytes": each.metadata_bytes,
                }
            )
            seen |= files.keys()
            before = each.size
        columns = ["checkpoint_id", "directory", "bytes", "grown_bytes", "files", "new_files", "new_bytes"]
        return pd.DataFrame(rows, columns=[*columns, "fair_bytes", "freed_bytes", "metadata_bytes"])

    @cached_property
    def incremental(self) -> pd.DataFrame:
        """One row per checkpoint after the first: what it wrote, and what an incremental checkpoint writes at least.

        Columns: checkpoint_id, directory, written_bytes, changed_bytes, saved_bytes. Changed bytes are those of rows of
        keyed state that were added or changed since the checkpoint before, as a share of their state, and all other
        state. RocksDB writes more when it compacts files. All state is read. Raises CheckpointError.
        """
        import pandas as pd

        every = list(self)
        rows = []
        for before, after in pairwise(every):
            written, changed = int(after.operators["written_bytes"].sum()), _changed_bytes(before, after)
            directory = posixpath.relpath(after.directory, self.directory)
            rows.append((after.checkpoint_id, directory, written, changed, max(0, written - changed)))
        columns = ["checkpoint_id", "directory", "written_bytes", "changed_bytes", "saved_bytes"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        return f"Checkpoints({self.directory!r}, {len(self)} of {len(self.found)} complete)"

    @property
    def title(self) -> str:
        """A line that says how many checkpoints can be restored, and how many files there are."""
        size = size_text(sum(self.files.values()))
        known = [each.is_restorable for each in self.found]
        unknown = f", {known.count(None)} not looked at" if None in known else ""
        return (
            f"{known.count(True)} of {len(known)} checkpoints can be restored{unknown}; {len(self.files)} files, {size}"
        )

    def _repr_html_(self) -> str:
        return str(display("checkpoint_html", self))


def _changed_bytes(before: Checkpoint, after: Checkpoint) -> int:
    """Return the bytes of rows of keyed state that a checkpoint adds or changes, and of all its other state."""
    differ = {(row.operator, row.name): row for row in before.diff(after).states.itertuples() if not row.error}
    changed = 0.0
    for row in after.storage.states.itertuples():
        rows = differ.get((row.operator, row.state)) if row.kind == "keyed" else None
        is_head = row.kind == "keyed" and rows is None and row.state.startswith(REST)
        share = 0.0 if is_head else 1.0
        if rows is not None and rows.rows_after:
            share = min(1.0, (rows.added + rows.changed) / rows.rows_after)
        changed += row.bytes * share
    return round(changed)


def _is_looked_at(checkpoint: Checkpoint) -> bool:
    """Return False if each problem is that a file is outside the checkpoint's directories."""
    problems = [each.problem for each in checkpoint.found_files if each.problem]
    return not problems or not all(each.startswith(NOT_LOOKED_AT) for each in problems)


def _missing(checkpoint: Checkpoint) -> str:
    """Return why a complete checkpoint cannot be restored: a file is missing, or not as long as recorded."""
    problems = sorted(
        (each.problem for each in checkpoint.found_files if each.problem),
        key=lambda problem: problem.startswith(NOT_LOOKED_AT),
    )
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more files)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


def _order(found: Found) -> tuple[str, int, str]:
    parent, _, name = found.directory.rpartition("/")
    number = name.removeprefix("chk-")
    return parent, int(number) if number.isdecimal() else -1, name
