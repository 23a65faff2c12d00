"""Collisions of names: other installed packages with a module or a command of the same name as the kit's."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata

PROJECT = "checkpoint-kit"
MODULES = ("kit", "widgets", "pyspark_checkpoint")
"""The modules of the kit; other packages use the names `kit` and `widgets` too."""
COMMANDS = ("kit", "checkpoint-kit")


def modules_taken() -> list[tuple[str, list[str]]]:
    """Return each other package with a module of the same name as one of the kit's, and these modules."""
    return list(_others(_modules_of))


def commands_taken() -> list[tuple[str, list[str]]]:
    """Return each other package with a command of the same name as one of the kit's, and these commands."""
    return list(_others(_commands_of))


def modules_overwritten() -> list[tuple[str, list[str]]]:
    """Return each other package that was installed over modules of the kit, and these modules.

    A module counts if its file is not the one that the kit's record of installed files describes. An editable
    installation records no such files, and cannot be overwritten.
    """
    changed = _changed_modules()
    found = [(name, [each for each in taken if each in changed]) for name, taken in modules_taken() if changed]
    return [(name, taken) for name, taken in found if taken]


def remedy(packages: Iterable[str]) -> str:
    """Return what to do about packages whose modules lie over the kit's, as a sentence for a message."""
    return f"Install one of them in another environment, or run: {reinstalling(packages)}"


def reinstalling(packages: Iterable[str]) -> str:
    """Return the command that removes packages and restores the kit's files."""
    pip = f"{sys.executable} -m pip"
    return f"{pip} uninstall -y {' '.join(packages)} && {pip} install --force-reinstall --no-deps {PROJECT}"


def _others(taken_by: Callable[[metadata.Distribution], list[str]]) -> Iterator[tuple[str, list[str]]]:
    for package in metadata.distributions():
        name = package.metadata["Name"]
        if name != PROJECT and (taken := taken_by(package)):
            yield name, taken


def _modules_of(package: metadata.Distribution) -> list[str]:
    files = {name for path in package.files or () for name in (path.parts[0], "/".join(path.parts[:2]))}
    return [name for name in MODULES if files & {f"{name}.py", f"{name}/__init__.py"}]


def _commands_of(package: metadata.Distribution) -> list[str]:
    scripts = {entry.name for entry in package.entry_points if entry.group == "console_scripts"}
    files = {path.stem for path in package.files or () if path.parent.name in ("bin", "Scripts")}
    return [name for name in COMMANDS if name in scripts | files]


def _changed_modules() -> set[str]:
    try:
        recorded = metadata.files(PROJECT) or []
    except metadata.PackageNotFoundError:
        return set()
    tops = [path for path in recorded if len(path.parts) == 2 and path.name in ("__init__.py", "__main__.py")]
    return {path.parts[0] for path in tops if path.parts[0] in MODULES and not _is_as_recorded(path)}


def _is_as_recorded(path: metadata.PackagePath) -> bool:
    if path.hash is None:
        return True
    try:
        digest = hashlib.new(path.hash.mode, path.read_binary()).digest()
    except OSError:
        return False
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == path.hash.value
