"""Imports that wait until something is used: the names that a package offers.

A package that offers names from many modules imports none of them itself. Its `__init__.py` lists their modules, and
imports the names `if TYPE_CHECKING`, for type checkers and editors:

    offer(__name__, {"kit.hosts.lab.lab": ["Lab"], "kit.verify.swarm.swarm": ["Swarm", "swarm"]})

The import check reads these lists as imports (`tests/house/rules.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from kit.core.extras import raise_explained


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
            try:
                value = getattr(import_module(home), name)
            except ModuleNotFoundError as error:
                raise_explained(error)
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
        return [*self.__all__, *(name for name in self.__dict__ if name.startswith("__"))]

    def __reduce__(self) -> Any:
        """Pickle the module by its name, for Spark; cloudpickle does so for plain modules only."""
        return import_module, (self.__name__,)


def offer(package: str, names: Mapping[str, Iterable[str]], signs: Callable[[str, str], None] | None = None) -> None:
    """Let a package offer names, listed by the modules that define them. `signs` may raise an ImportError of its own
    for a name that is not offered.
    """
    module = sys.modules[package]
    module.__dict__["_signs"] = signs
    module.__dict__["_homes"] = {name: home for home, defined in names.items() for name in defined}
    module.__class__ = Offering


__all__ = ["Offering", "offer"]
