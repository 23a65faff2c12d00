"""Deleting a savepoint, or a retained checkpoint, of which only the path is known."""

from __future__ import annotations

import os
from collections.abc import Collection

from pyarrow import fs

from kit.core.arguments.checks import path_given
from kit.core.metadata import read_metadata
from kit.core.state.errors import CheckpointError, StorageError
from kit.files.confinement import paths_outside
from kit.files.storage import StateFiles


class CheckpointInUseError(RuntimeError):
    """A checkpoint cannot be deleted, because the job may still return to it."""


def dispose_savepoint(path: str | os.PathLike[str], *, file_system: fs.FileSystem | None = None) -> None:
    """Delete a savepoint or a retained checkpoint: its `_metadata`, then the files to which this refers.

    The directory goes too, unless something else is in it. Use the method of this name of a `Lab` or a `SparkJob` for
    a snapshot of that job: it refuses one that the job may still restore.

    Args:
        path: the directory or the `_metadata` file, local or a URI that pyarrow knows (`s3://bucket/path`).
        file_system: the file system of all paths, instead of the one that `path` names.

    Raises:
        SavepointNotFoundError: there is no snapshot at the path.
        CheckpointError: the metadata is damaged, so its files are unknown. Nothing is deleted.
        StorageError: a file is outside the snapshot's own directory, so other snapshots may use it, and nothing is
            deleted; or some files could not be deleted.

    Flink: `Checkpoints.disposeSavepoint`. It deletes every file to which the metadata refers, wherever that is.
    """
    dispose(StateFiles(file_system), path)


def dispose(files: StateFiles, path: object, in_use: Collection[str] = ()) -> None:
    """Delete a snapshot, as `dispose_savepoint` does.

    Raises CheckpointInUseError if its directory is in `in_use`: the directories of the checkpoints that a job keeps.
    """
    found = files.resolve(path_given("path", path))
    directory = found.location.directory
    if directory in in_use:
        raise CheckpointInUseError(
            f"{directory} is a checkpoint that the job keeps and may restore: it deletes the checkpoint itself when "
            "newer ones have replaced it, or at its end"
        )
    try:
        state_files = read_metadata(found.metadata, directory)[0].files()
    except ValueError as error:
        raise CheckpointError(
            f"{found.metadata_path!r}: {error}. Nothing was deleted, because the files of the snapshot are unknown; if "
            "they are all in its directory, delete the directory"
        ) from error
    outside = list(paths_outside(state_files, [directory], is_real=files.is_real))
    if outside:
        raise StorageError(
            f"the snapshot in {directory} refers to {outside[0]}, outside its own directory: other snapshots may use "
            "this file, so nothing was deleted"
        )
    _delete(files, found.metadata_path, state_files, directory)


def _delete(files: StateFiles, metadata_path: str, state_files: Collection[str], directory: str) -> None:
    """Delete `_metadata` first, so that nobody finds half a snapshot. Raises StorageError after trying everything."""
    failed = []
    for paths in ([metadata_path], state_files):
        try:
            files.discard(paths)
        except StorageError as error:
            failed.append(str(error))
    if failed:
        raise StorageError("; ".join(failed))
    files.remove_if_empty(directory)
