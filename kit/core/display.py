"""The registry of displays: how lower packages show themselves with functions of packages above them.

A trace, a job or a lab knows nothing of pictures or widgets. Its `_repr_html_`, or a method like `show`, calls
`display` with the name of a display and itself. `kit.displays`, at the top of the package, has the one table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import PurePath
from typing import Any, Protocol

from kit.core.extras import raise_explained


class Picture(Protocol):
    """A picture that a notebook shows, and that can be saved (`kit.draw.picture.Svg`)."""

    def save(self, path: str | PathLike[str]) -> PurePath:
        """Write the picture to a file and return its path."""

    def _repr_svg_(self) -> str: ...

    def _repr_html_(self) -> str: ...


_displays: dict[str, Callable[..., Any]] = {}


def provide(displays: Mapping[str, Callable[..., Any]]) -> None:
    """Add displays to the registry, or replace those of the same names."""
    _displays.update(displays)


def display(name: str, *arguments: Any, **named: Any) -> Any:
    """Call the display of this name. Raises ImportError if it is unknown, or if it needs a package that is missing."""
    found = _displays.get(name)
    if found is None:
        raise ImportError(f"the display {name!r} is unknown; known are {', '.join(sorted(_displays)) or 'none'}")
    try:
        return found(*arguments, **named)
    except ModuleNotFoundError as error:
        raise_explained(error)
