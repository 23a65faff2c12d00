"""Imports that wait until something is used: the names that a package offers.

A package that offers names from many modules imports none of them itself. Its `__init__.py` lists them once, as imports
for type checkers and editors, and calls `offer`:

    if TYPE_CHECKING:
        from kit.hosts.lab.lab import Lab as Lab

    offer(__name__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from kit.core.extras import naming_extras


class Offering(ModuleType):
    """A package whose names are imported when they are first used, as PEP 562 has it.

    It is a class instead of the two functions of PEP 562, because a submodule may have the same name as an object it
    defines (`kit.verify.swarm.swarm`): importing the submodule would replace that object.
    """

    _homes: Mapping[str, str]
    _signs: Callable[[str, str], None] | None

    def __getattr__(self, name: str) -> Any:
        home = self.__dict__["_homes"].get(name)
        if home is not None:
            with naming_extras():
                value = getattr(import_module(home), name)
            super().__setattr__(name, value)
            return value
        inside = f"{self.__name__}.{name}"
        if not name.startswith("_") and find_spec(inside) is not None:
            return import_module(inside)
        if self.__dict__["_signs"] is not None:
            self.__dict__["_signs"](self.__name__, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self._homes):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """Return the names for completion: those it offers, without what its file happens to import."""
        dunders = {name for name in (*self.__dict__["_homes"], *self.__dict__) if name.startswith("__")}
        return [*self.__all__, *sorted(dunders)]

    def __reduce__(self) -> Any:
        """Pickle the module by its name, for Spark; cloudpickle does so for plain modules only."""
        return import_module, (self.__name__,)


def offer(package: str, *own: str, signs: Callable[[str, str], None] | None = None) -> None:
    """Let a package offer the names that its file imports `if TYPE_CHECKING`, and its `own`, which the file defines.

    They become its `__all__`, except names like `__version__`. `signs` may raise an ImportError of its own for a name
    that is not offered.
    """
    module: Any = sys.modules[package]
    homes = dict(_imported_for_type_checkers(module.__spec__.loader.get_source(package)))
    module.__dict__.update(_signs=signs, _homes=homes, __all__=_public([*homes, *own]))
    module.__class__ = Offering


def _public(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith("__"))


def _imported_for_type_checkers(source: str) -> Iterator[tuple[str, str]]:
    """Yield each name that a file imports `if TYPE_CHECKING`, with its module."""
    for guarded in ast.parse(source).body:
        if isinstance(guarded, ast.If) and ast.unparse(guarded.test) == "TYPE_CHECKING":
            for line in guarded.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    yield from ((alias.name, line.module) for alias in line.names)
