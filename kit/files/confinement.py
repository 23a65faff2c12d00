"""The directories that a checkpoint may refer to, and the check that it refers to nothing else.

A checkpoint may come from an untrusted place: its paths are read, and with claim mode CLAIM deleted. So every path in
its metadata is resolved first, including symbolic links. It must be in one of these directories:

- the checkpoint's own directory,
- `shared` and `taskowned` beside it, which hold files that several checkpoints refer to,
- the directory of the restored job.

A state file may have entropy in its path (`kit.files.entropy`): without these characters, the path must be in one of
these directories, and no link may occur in it from the characters on.

A sink checks the output paths in its state against its own directory (`kit.stream.connectors.sink`), and a source
checks a split's path against its files (`kit.stream.connectors.file_sources`). Flink follows any path that it finds.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable

from kit.core.metadata import read_metadata
from kit.core.state.errors import StorageError
from kit.files.entropy import without_entropy
from kit.files.storage import SHARED_STATE_DIR, TASK_OWNED_STATE_DIR

_MOST_NAMED = 3


class OutsidePathError(StorageError):
    """A checkpoint refers to a file outside its own directories."""


def check_metadata(data: bytes, location: str, job_directory: str, *, is_real: bool) -> int | None:
    """Return the id of the checkpoint at `location`. Raises OutsidePathError if its metadata refers to a file outside.

    `is_real` says that local paths are those of this machine, whose symbolic links count. For invalid metadata None is
    returned: the next reader reports what is wrong with it.
    """
    try:
        metadata = read_metadata(data, location)[0]
    except ValueError:
        return None
    paths = metadata.files()
    parent = posixpath.dirname(location)
    roots = (location, f"{parent}/{SHARED_STATE_DIR}", f"{parent}/{TASK_OWNED_STATE_DIR}", job_directory)
    outside = list(paths_outside(paths, roots, is_real=is_real))
    if outside:
        more = f" and {len(outside) - _MOST_NAMED} more" if len(outside) > _MOST_NAMED else ""
        raise OutsidePathError(
            f"the checkpoint at {location} refers to {', '.join(outside[:_MOST_NAMED])}{more}, outside its own "
            f"directory and the directories {SHARED_STATE_DIR} and {TASK_OWNED_STATE_DIR} beside it: nothing was read "
            "or deleted; if these files belong to the checkpoint, copy them there and correct the paths"
        )
    return metadata.checkpoint_id


def paths_outside(paths: Iterable[str], roots: Iterable[str], *, is_real: bool) -> Iterable[str]:
    """Yield the paths that are not below one of the roots, as given."""
    allowed = Confinement(roots, is_real=is_real)
    return (path for path in paths if not allowed.holds(path))


class Confinement:
    """Some directories, and the question whether a path is in one of them; each directory is resolved once."""

    def __init__(self, roots: Iterable[str], *, is_real: bool) -> None:
        self._is_real = is_real
        self._roots = tuple(f"{_resolved(root, is_real=is_real)}/" for root in roots)
        self._directories: dict[str, str] = {}

    def holds(self, path: str) -> bool:
        """Return True if the path, or without its entropy, is below one of the directories."""
        if self._is_inside(path):
            return True
        plain = _without_entropy(path, is_real=self._is_real)
        return plain is not None and self._is_inside(plain)

    def _is_inside(self, path: str) -> bool:
        directory, name = posixpath.split(path)
        if directory not in self._directories:
            self._directories[directory] = _resolved(directory, is_real=self._is_real)
        whole = f"{self._directories[directory]}/{name}"
        if self._is_real and os.path.islink(whole):
            whole = _resolved(whole, is_real=True)
        return name not in ("", ".", "..") and whole.startswith(self._roots)


def _without_entropy(path: str, *, is_real: bool) -> str | None:
    """Return the path without its entropy; None if it has none, or if a link leads elsewhere from there on."""
    split = without_entropy(path)
    if split is None:
        return None
    straight = f"{_resolved(split.before, is_real=is_real)}/{split.digits}/{split.behind}"
    return split.plain if _resolved(path, is_real=is_real) == straight else None


def _resolved(path: str, *, is_real: bool) -> str:
    """Return a path without links and detours, a URI without detours."""
    scheme, separator, rest = path.partition("://")
    if separator and not path.startswith(("/", "file:")):
        return f"{scheme}://{posixpath.normpath(rest)}"
    local = "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
    return os.path.realpath(local) if is_real else posixpath.normpath(local)
