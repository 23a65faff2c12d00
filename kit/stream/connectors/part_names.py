"""The names of a sink's files: while rows are written to them, once they are staged, and once they are published.

    <output>/.staging/<writer>/in-progress-0-6-1.parquet    the first file of subtask 0 since checkpoint 6's barrier
    <output>/.staging/<writer>/part-0-7_1.parquet           the second file that ended at checkpoint 7's barrier
    <output>/.staging/<writer>/part-0-7_1-in-8.parquet      the same rows, staged again by checkpoint 8
    <output>/part-<writer>-00000-000007_00001.parquet       the same rows, published

A writer is a run of a job (`kit.core.protocol.lineage`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

STAGING = ".staging"
IN_PROGRESS = "in-progress-"
_PUBLISHED = re.compile(
    r"part-(?P<writer>.+)-(?P<subtask>\d{5,})-(?P<checkpoint_id>\d{6,})(?:_(?P<number>\d{5,}))?\.parquet"
)
_STAGED = re.compile(
    r"part-(?P<subtask>\d+)-(?P<checkpoint_id>\d+)(?:_(?P<number>\d+))?(?:-in-(?P<staged_by>\d+))?\.parquet"
)
_BEGUN = re.compile(rf"{IN_PROGRESS}\d+-(?P<since>\d+)-\d+")


@dataclass(frozen=True, slots=True)
class PublishedName:
    """The name of a published file: its rows ended at the barrier of `checkpoint_id`, `number` counts such files."""

    writer: str
    subtask: int
    checkpoint_id: int
    number: int = 0

    def __str__(self) -> str:
        which = f"_{self.number:05d}" if self.number else ""
        return f"part-{self.writer}-{self.subtask:05d}-{self.checkpoint_id:06d}{which}.parquet"

    @classmethod
    def parse(cls, path: str) -> PublishedName | None:
        """Return the name at the end of a path; None if no sink gives such names."""
        found = _PUBLISHED.fullmatch(path.rpartition("/")[2])
        if found is None:
            return None
        return cls(found["writer"], int(found["subtask"]), int(found["checkpoint_id"]), int(found["number"] or 0))


@dataclass(frozen=True, slots=True)
class StagedName:
    """The name of a file that checkpoint `staged_by` has staged; its rows ended at the barrier of `checkpoint_id`."""

    subtask: int
    checkpoint_id: int
    staged_by: int
    number: int = 0

    def __str__(self) -> str:
        which = f"_{self.number}" if self.number else ""
        again = "" if self.staged_by == self.checkpoint_id else f"-in-{self.staged_by}"
        return f"part-{self.subtask}-{self.checkpoint_id}{which}{again}.parquet"

    @classmethod
    def parse(cls, path: str) -> StagedName | None:
        """Return the name at the end of a path, which may have an ending such as `.published`; None for other names."""
        found = _STAGED.match(path.rpartition("/")[2])
        if found is None:
            return None
        checkpoint_id = int(found["checkpoint_id"])
        return cls(
            int(found["subtask"]), checkpoint_id, int(found["staged_by"] or checkpoint_id), int(found["number"] or 0)
        )

    def published_by(self, writer: str) -> PublishedName:
        """Return the name under which `writer` publishes these rows."""
        return PublishedName(writer, self.subtask, self.checkpoint_id, self.number)


def staging_directory(path: str, writer: str) -> str:
    """Return the directory in which a run's output for the directory `path` is staged."""
    return f"{path.rstrip('/')}/{STAGING}/{writer}"


def in_progress_name(subtask: int, since: int, number: int) -> str:
    """Return the name of a subtask's `number`-th file since the barrier of checkpoint `since`."""
    return f"{IN_PROGRESS}{subtask}-{since}-{number}.parquet"


def in_progress_since(name: str) -> int | None:
    """Return the checkpoint after which such a file was begun; None for a file of another kind."""
    found = _BEGUN.match(name)
    return int(found["since"]) if found else None


def writer_and_checkpoint(path: str) -> tuple[str, int] | None:
    """Return the writer of a staged or published file, and the checkpoint at which its rows end; None for others."""
    published = PublishedName.parse(path)
    if published is not None:
        return published.writer, published.checkpoint_id
    directory, _, name = path.rpartition("/")
    staged = StagedName.parse(name)
    return None if staged is None else (directory.rpartition("/")[2], staged.checkpoint_id)


def complete_parts(published: Iterable[str], staged: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return, for each writer, the last checkpoint up to which all its rows in a directory are published.

    `published` are the published files. `staged` has, for each writer, the names of its staged files, listed after the
    published ones.
    """
    known = set(filter(None, map(PublishedName.parse, published)))
    complete: dict[str, int] = {}
    for each in known:
        complete[each.writer] = max(complete.get(each.writer, 0), each.checkpoint_id)
    for writer, names in staged.items():
        for found in filter(None, map(_STAGED.fullmatch, names)):
            name = StagedName.parse(found.string)
            assert name is not None
            if name.checkpoint_id <= complete.get(writer, 0) and name.published_by(writer) not in known:
                complete[writer] = name.checkpoint_id - 1
    return complete
