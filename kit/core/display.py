"""The registry of displays: how lower packages show themselves with functions of packages above them.

A trace, a job or a lab knows nothing of pictures or widgets. Its `_repr_html_`, or a method like `show`, calls
`display` with the name of a display and itself. `kit.displays`, at the top of the package, has the one table of them.
"""

from __future__ import annotations

from os import PathLike
from pathlib import PurePath
from types import ModuleType
from typing import Any, Protocol

from kit.core.extras import naming_extras


class Picture(Protocol):
    """A picture that a notebook shows, and that can be saved (`kit.draw.picture.Svg`)."""

    def save(self, path: str | PathLike[str]) -> PurePath:
        """Write the picture to a file and return its path."""

    def _repr_svg_(self) -> str: ...

    def _repr_html_(self) -> str: ...


_tables: list[ModuleType] = []


def provide(table: ModuleType) -> None:
    """Let `display` find the functions that a module offers by their names (`__all__`)."""
    _tables.append(table)


def display(name: str, *arguments: Any, **named: Any) -> Any:
    """Call the display of this name. Raises ImportError if it is unknown, or if it needs a package that is missing."""
    table = next((each for each in _tables if name in each.__all__), None)
    if table is None:
        known = sorted(known for each in _tables for known in each.__all__)
        raise ImportError(f"the display {name!r} is unknown; known are {', '.join(known) or 'none'}")
    with naming_extras():
        return getattr(table, name)(*arguments, **named)
