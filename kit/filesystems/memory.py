"""Files that exist only in memory: the lab's disk.

`MemoryFiles` is a pyarrow file system over a dict of paths to bytes, so code that uses `pyarrow.fs` works on it
unchanged. Copying it is cheap, because the bytes are shared; rewinding and forking a lab need that. `export` writes it
to a real disk.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from kit.core.trace.json_lines import target_of


class MemoryFiles:
    """A file system in memory; paths are absolute, with `/` between names."""

    def __init__(self, contents: dict[str, bytes] | None = None, directories: set[str] | None = None) -> None:
        self.contents: dict[str, bytes] = contents if contents is not None else {}
        self.directories: set[str] = directories if directories is not None else set()
        self.filesystem = fs.PyFileSystem(_Handler(self))

    def copy(self) -> MemoryFiles:
        """Return another file system with the same files."""
        return MemoryFiles(dict(self.contents), set(self.directories))

    def __deepcopy__(self, memo: dict[int, object]) -> MemoryFiles:
        """Return a copy, as `copy` does: the bytes never change."""
        return self.copy()

    def paths(self, below: str = "/") -> list[str]:
        """Return all files below a directory, in order."""
        prefix = below.rstrip("/") + "/"
        return sorted(path for path in self.contents if path.startswith(prefix))

    def export(self, directory: str | Path, below: str = "/") -> Path:
        """Write all files below a directory to a real directory, under the same relative names.

        Raises FileNotFoundError if the parent of the real directory does not exist.
        """
        prefix = below.rstrip("/") + "/"
        target = target_of(directory)
        for path in self.paths(below):
            file = target / path.removeprefix(prefix)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.contents[path])
        return target

    def __repr__(self) -> str:
        size = sum(map(len, self.contents.values()))
        return f"MemoryFiles({len(self.contents)} files, {size} B)"


class _WrittenFile(BytesIO):
    """A file being written: it appears, complete, when it is closed."""

    def __init__(self, appear: Callable[[bytes], None]) -> None:
        super().__init__()
        self._appear = appear

    def close(self) -> None:
        if not self.closed:
            self._appear(self.getvalue())
        super().close()


class _Handler(fs.FileSystemHandler):
    """The file system interface of pyarrow over a dict."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def get_type_name(self) -> str:
        return "memory"

    def normalize_path(self, path: str) -> str:
        return "/" + path.strip("/")

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(self.normalize_path(path)) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        if path in self._files.contents:
            return fs.FileInfo(path, fs.FileType.File, size=len(self._files.contents[path]))
        if path in self._files.directories or any(each.startswith(path + "/") for each in self._files.contents):
            return fs.FileInfo(path, fs.FileType.Directory)
        return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        base = self.normalize_path(selector.base_dir)
        if self._info(base).type is not fs.FileType.Directory:
            if selector.allow_not_found:
                return []
            raise FileNotFoundError(base)
        prefix = base.rstrip("/") + "/"
        names: set[str] = set()
        for path in (*self._files.contents, *self._files.directories):
            if path.startswith(prefix):
                parts = path.removeprefix(prefix).split("/")
                depth = len(parts) if selector.recursive else 1
                names |= {prefix + "/".join(parts[:end]) for end in range(1, depth + 1)}
        return [self._info(name) for name in sorted(names)]

    def create_dir(self, path: str, recursive: bool) -> None:
        path = self.normalize_path(path)
        if not recursive:
            self._check_parent(path)
            if self._info(path).type is not fs.FileType.NotFound:
                raise FileExistsError(path)
        self._files.directories.add(path)

    def delete_dir(self, path: str) -> None:
        self.delete_dir_contents(path, True)
        self._files.directories.discard(self.normalize_path(path))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        prefix = self.normalize_path(path).rstrip("/") + "/"
        for file in self._files.paths(prefix):
            del self._files.contents[file]
        self._files.directories -= {each for each in self._files.directories if each.startswith(prefix)}

    def delete_root_dir_contents(self) -> None:
        self.delete_dir_contents("/")

    def delete_file(self, path: str) -> None:
        path = self.normalize_path(path)
        if path not in self._files.contents:
            raise FileNotFoundError(path)
        del self._files.contents[path]

    def move(self, src: str, dest: str) -> None:
        src, dest = self.normalize_path(src), self.normalize_path(dest)
        kind = self._info(src).type
        if kind is fs.FileType.NotFound:
            raise FileNotFoundError(src)
        self._check_parent(dest)
        if kind is fs.FileType.File:
            self._files.contents[dest] = self._files.contents.pop(src)
        else:
            self._move_directory(src, dest)

    def _move_directory(self, src: str, dest: str) -> None:
        if self._info(dest).type is not fs.FileType.NotFound:
            raise FileExistsError(dest)
        contents, directories, below = self._files.contents, self._files.directories, f"{src}/"
        for path in self._files.paths(src):
            contents[dest + path.removeprefix(src)] = contents.pop(path)
        moved = {path for path in directories if path == src or path.startswith(below)}
        directories -= moved
        directories |= {dest, *(dest + path.removeprefix(src) for path in moved)}

    def _check_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and self._info(parent).type is not fs.FileType.Directory:
            raise FileNotFoundError(f"{path}: there is no directory {parent}")

    def copy_file(self, src: str, dest: str) -> None:
        self._files.contents[self.normalize_path(dest)] = self._content(src)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._content(path))

    open_input_file = open_input_stream

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:
        path = self.normalize_path(path)
        return pa.PythonFile(_WrittenFile(lambda data: self._files.contents.__setitem__(path, data)), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        raise OSError(f"{path}: files in memory are written as a whole")

    def _content(self, path: str) -> bytes:
        path = self.normalize_path(path)
        if path not in self._files.contents:
            raise FileNotFoundError(path)
        return self._files.contents[path]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other._files is self._files

    def __hash__(self) -> int:
        return id(self._files)
