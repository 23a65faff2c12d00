"""The possible contents of a directory after a power loss: all recorded changes, or a part of them.

`recorded` notes every change of names below a directory and every `fsync`, in order. `Recording.after` returns possible
contents of the disk after a power loss at one of these moments:

- A directory has the names of some moment at or after its last sync, independently of other directories.
- A file has its bytes if it was synced; otherwise it may be empty, truncated or whole.
- A rename is one change: the file always has one of its two names.

Journaling file systems promise more: they write the changes of all directories in one order.

The model is that of ALICE (Pillai and others, "All File Systems Are Not Created Equal", OSDI 2014) with the crash
points of CrashMonkey (Mohan and others, OSDI 2018).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock


@dataclass(slots=True, eq=False)
class Node:
    """A directory, or a file whose bytes are `content`."""

    is_directory: bool
    content: bytes = b""
    names: dict[str, Node] = field(default_factory=dict)
    """What is in the directory now; while a state is built, in that state."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: `node` gets a name in `into`, or loses the one in `out_of`, or both; or `synced` is synced."""

    kind: str
    node: Node | None = None
    into: tuple[Node, str] | None = None
    out_of: tuple[Node, str] | None = None
    synced: Node | None = None
    path: str = ""

    def __repr__(self) -> str:
        return f"{self.kind} {self.path}"


class DiedError(BaseException):
    """The process is killed. No code in it may catch that, so this is not an Exception."""


@dataclass(slots=True)
class Recording:
    """The changes below `place`, in order."""

    place: Path
    root: Node = field(default_factory=lambda: Node(True))
    changes: list[Change] = field(default_factory=list)
    before: dict[Node, dict[str, Node]] = field(default_factory=dict)
    """What was on the disk before the first change: each directory, and what is in it."""
    most: int | None = None
    """The number of changes after which the process dies; None if it lives."""

    @classmethod
    def after_loss(cls, place: Path, remainder: Remainder) -> Recording:
        """Return an empty recording at `place`, where an earlier loss of power has left this."""
        recording = cls(place)
        for path, content in remainder.contents.items():
            directory, name = recording._place_of(f"{place}/{path}")
            directory.names[name] = Node(content is None, content or b"")
        directories = [recording.root]
        for directory in directories:
            recording.before[directory] = dict(directory.names)
            directories += [each for each in directory.names.values() if each.is_directory]
        return recording

    # ---- recording ------------------------------------------------------------------------------------------------

    def _place_of(self, path: str) -> tuple[Node, str]:
        """Return the directory of a path, and the name in it."""
        *above, name = Path(path).relative_to(self.place).parts
        directory = self.root
        for each in above:
            directory = directory.names[each]
        return directory, name

    def node(self, path: str) -> Node:
        """Return the node at a path; a file that was opened without a recorded call is recorded as created now."""
        if path == str(self.place):
            return self.root
        directory, name = self._place_of(path)
        if name not in directory.names:
            self._note(Change("create", Node(os.path.isdir(path)), into=(directory, name), path=path))
        return directory.names[name]

    def live_on(self) -> None:
        """Raise DiedError if the process dies before another change."""
        if self.most is not None and len(self.changes) >= self.most:
            raise DiedError

    def _note(self, change: Change) -> None:
        if change.out_of is not None:
            change.out_of[0].names.pop(change.out_of[1])
        if change.into is not None:
            assert change.node is not None
            change.into[0].names[change.into[1]] = change.node
        self.changes.append(change)

    def made(self, path: str) -> None:
        self._note(Change("mkdir", Node(True), into=self._place_of(path), path=path))

    def linked(self, source: str, target: str) -> None:
        self._note(Change("link", self._written(source), into=self._place_of(target), path=target))

    def renamed(self, source: str, target: str) -> None:
        node = self._written(source)
        there = self._place_of(target)
        self._note(Change("rename", node, into=there, out_of=self._place_of(source), path=target))

    def removed(self, path: str) -> None:
        self.node(path)
        self._note(Change("remove", out_of=self._place_of(path), path=path))

    def synced(self, path: str) -> None:
        self.changes.append(Change("sync", synced=self._written(path), path=path))

    def _written(self, path: str) -> Node:
        """Return the node at a path with its present bytes; files are never written again once they have their name."""
        node = self.node(path)
        if not node.is_directory:
            node.content = Path(path).read_bytes()
        return node

    # ---- replaying ------------------------------------------------------------------------------------------------

    def after(self, count: int, chance: random.Random | None) -> Remainder:
        """Return possible contents of a disk after `count` changes and a power loss; without `chance`, the minimum."""
        least: dict[Node, int] = {}
        whole = {node for names in self.before.values() for node in names.values()}
        for index, change in enumerate(self.changes[:count]):
            if change.synced is not None:
                least[change.synced] = index
                whole.add(change.synced)
        reached: dict[Node, int] = {}

        def is_there(directory: Node, index: int) -> bool:
            if directory not in reached:
                known = least.get(directory, 0)
                reached[directory] = known if chance is None else chance.randint(known, count)
            return index < reached[directory]

        names = {directory: dict(inside) for directory, inside in self.before.items()}
        for index, change in enumerate(self.changes[:count]):
            entered = change.into is None or is_there(change.into[0], index)
            if change.into is not None and entered:
                assert change.node is not None
                names.setdefault(change.into[0], {})[change.into[1]] = change.node
            if change.out_of is not None and entered and is_there(change.out_of[0], index):
                names.setdefault(change.out_of[0], {}).pop(change.out_of[1], None)

        def bytes_of(node: Node) -> bytes:
            if node in whole:
                return node.content
            length = 0 if chance is None else chance.choice([0, len(node.content) // 2, len(node.content)])
            return node.content[:length]

        def below(directory: Node, path: str) -> Iterator[tuple[str, bytes | None]]:
            for name, node in names.get(directory, {}).items():
                yield f"{path}{name}", None if node.is_directory else bytes_of(node)
                if node.is_directory:
                    yield from below(node, f"{path}{name}/")

        return Remainder(dict(below(self.root, "")))


@dataclass(frozen=True, slots=True)
class Remainder:
    """The contents of a disk after a power loss: the bytes of each file by path, and None for each directory."""

    contents: dict[str, bytes | None]

    def build(self, place: Path) -> None:
        """Replace the contents of `place` by this."""
        shutil.rmtree(place)
        place.mkdir()
        for path, content in self.contents.items():
            if content is None:
                os.mkdir(f"{place}/{path}")
            else:
                with open(f"{place}/{path}", "wb") as file:
                    file.write(content)

    @property
    def digest(self) -> frozenset[tuple[str, bytes | None]]:
        """The same for two that hold the same."""
        return frozenset(self.contents.items())


@contextmanager
def recorded(place: Path, remainder: Remainder | None = None) -> Iterator[Recording]:
    """Record what this process changes below `place` through the operating system's calls.

    The directory is empty, or has what an earlier loss of power left there. Nothing waits for the real disk.
    """
    recording = Recording(place) if remainder is None else Recording.after_loss(place, remainder)

    def path_of(path: Any, directory: int | None = None) -> str:
        text = os.fspath(path)
        return text if directory is None else f"{os.readlink(f'/proc/self/fd/{directory}')}/{text}"

    def noting(real: Callable[..., Any], note: Callable[..., None], paths: int, first: bool) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            named = [path_of(each, more.get("dir_fd")) for each in given[:paths]]
            is_below = named[0].startswith(f"{place}/")
            if is_below:
                recording.live_on()
            if is_below and first:
                note(*named)
            result = real(*given, **more)
            if is_below and not first:
                note(*named)
            return result

        return call

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path == str(place) or path.startswith(f"{place}/"):
            recording.live_on()
            recording.synced(path)

    with mock.patch.multiple(
        os,
        mkdir=noting(os.mkdir, recording.made, 1, first=False),
        link=noting(os.link, recording.linked, 2, first=False),
        rename=noting(os.rename, recording.renamed, 2, first=True),
        replace=noting(os.replace, recording.renamed, 2, first=True),
        unlink=noting(os.unlink, recording.removed, 1, first=True),
        remove=noting(os.remove, recording.removed, 1, first=True),
        rmdir=noting(os.rmdir, recording.removed, 1, first=True),
        fsync=fsync,
    ):
        yield recording


@contextmanager
def lasting_power() -> Iterator[None]:
    """Let nothing wait for the real disk: the power does not fail any more."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield
