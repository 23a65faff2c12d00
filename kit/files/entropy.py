"""Entropy in the paths of state files, which lets an object store spread them over its partitions.

An object store chooses the partition of an object by the first characters of its path. If all state files of a job
begin alike, one partition receives all requests. With `entropy_key="_entropy_"`, each state file gets characters of
its own in the place of this name:

    directory        s3://bucket/_entropy_/checkpoints
    a state file     s3://bucket/7c1f/checkpoints/<job id>/chk-7/<name>
    its `_metadata`  s3://bucket/checkpoints/<job id>/chk-7/_metadata

`_metadata` refers to such files by absolute paths, so a savepoint that has them cannot be moved.

In Flink the characters are random. Here they are hex digits from a hash of the path without them: the same job leaves
the same files wherever it runs, and a reader recognises such a path without knowing the setting (`without_entropy`).

Follows Flink's `EntropyInjector`.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass

from kit.stream.settings.job_settings import CheckpointConfig
from kit.stream.settings.setting_rules import MOST_ENTROPY

_DIGITS = re.compile(rf"[0-9a-f]{{1,{MOST_ENTROPY}}}")


@dataclass(frozen=True, slots=True)
class SplitPath:
    """A path in which `digits` are one name: what is before them, and what is behind them."""

    before: str
    digits: str
    behind: str

    @property
    def plain(self) -> str:
        """The path without the digits."""
        return f"{self.before}/{self.behind}"


@dataclass(frozen=True, slots=True)
class Entropy:
    """The name that a state file's characters replace in the path of a directory, and the number of characters."""

    key: str
    length: int

    def is_in(self, directory: str) -> bool:
        """Return True if the key is one of the names in the directory's path."""
        return self.key in _names(directory)[1]

    def without_key(self, directory: str) -> str:
        """Return the directory of `_metadata`: the path without the first name that is the key."""
        root, names = _names(directory)
        if self.key in names:
            names.remove(self.key)
        return root + "/".join(names)

    def in_place_of_key(self, directory: str, plain: str) -> str:
        """Return the path of a state file. `directory` has the key; `plain` is the file's path without characters."""
        root, names = _names(directory)
        _, of_file = _names(plain)
        at = names.index(self.key)
        return root + "/".join((*of_file[:at], _digits_of(plain)[: self.length], *of_file[at:]))


def entropy_of(settings: CheckpointConfig) -> Entropy | None:
    """Return the entropy that the settings ask for, if any."""
    return None if settings.entropy_key is None else Entropy(settings.entropy_key, settings.entropy_length)


def without_entropy(path: str) -> SplitPath | None:
    """Return the parts of a state file's path that has entropy; None for any other path."""
    names = path.split("/")
    for at, name in enumerate(names):
        if at and _DIGITS.fullmatch(name):
            split = SplitPath("/".join(names[:at]), name, "/".join(names[at + 1 :]))
            if split.behind == posixpath.normpath(split.behind) and _digits_of(split.plain).startswith(name):
                return split
    return None


def _digits_of(plain: str) -> str:
    return hashlib.sha256(plain.encode()).hexdigest()


def _names(path: str) -> tuple[str, list[str]]:
    """Return the root of a path (a scheme with its bucket, or "/"), and the names below it."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        root = "file:/" if path.startswith("file:") else "/"
        return root, path.removeprefix("file:").strip("/").split("/")
    bucket, _, inner = rest.partition("/")
    return f"{scheme}://{bucket}/", inner.strip("/").split("/")
