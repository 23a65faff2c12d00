"""Planting of a fault: one place in one function of the kit is different while the mutant lives.

The function's own code is compiled again, from its source with one fragment replaced by another (`fragments.py`), and
put into the existing function object. So every holder of the function (a table, a decorator, a subclass) runs the
mutant. It works in any process that has imported the kit, and `planted` reverts it. If the fragment is not exactly once
in the function, the mutant is rejected: the kit has changed, and the mutant must be rewritten.

Another process plants what `KIT_MUTANT` holds: `environment` gives the variables, `tests/mutants/site` holds what
Python runs at its start. Spark's workers inherit both from their driver.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
import json
import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.mutants.finders import Finder
from tests.mutants.fragments import Fragment

VARIABLE = "KIT_MUTANT"
ROOT = Path(__file__).parents[2]
SITE = Path(__file__).parent / "site"


class MutantError(Exception):
    """A mutant that cannot be planted: the kit no longer reads as it says."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A change of one function: in `where`, a `module:Class.function`, the fragment `old`, which must be there once,
    becomes `new`.
    """

    name: str
    where: str
    old: str
    new: str

    def code(self) -> CodeType:
        """The function's code with the fault in it; raises MutantError where the kit reads otherwise."""
        function = self.function()
        definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(definition, ast.FunctionDef)
        fragment = Fragment(self.old, function.__globals__)
        places = fragment.places(definition)
        if len(places) != 1:
            raise MutantError(f"{self.name}: {self.where} has {len(places)} times {self.old!r}, not once")
        fragment.replace(places[0], self.new)
        return _compiled(function, definition, self)

    def function(self) -> FunctionType:
        """The living function."""
        module, _, path = self.where.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            try:
                found = inspect.getattr_static(found, name)
            except AttributeError:
                raise MutantError(f"{self.name}: there is no {self.where}: {name} is missing") from None
        for wrapper in ("fget", "func", "__func__", "__wrapped__"):
            found = getattr(found, wrapper, found)
        if not isinstance(found, FunctionType):
            raise MutantError(f"{self.name}: {self.where} is a {type(found).__name__}, not a function")
        return found


@dataclass(frozen=True, kw_only=True)
class Mutant(Fault):
    """A fault that is kept: in `area`, `breaks` says in a sentence what goes wrong; `found_by` finds it."""

    area: str
    breaks: str
    found_by: Finder


def _compiled(function: FunctionType, definition: ast.FunctionDef, fault: Fault) -> CodeType:
    """The code of the changed function, which sees the same cells (`__class__` above all) as the living one."""
    definition.decorator_list = []
    old = function.__code__
    ast.increment_lineno(definition, old.co_firstlineno - definition.lineno)
    tree = ast.parse(f"def outer({', '.join(old.co_freevars)}): pass")
    outer = tree.body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [definition]
    ast.fix_missing_locations(tree)
    flags = old.co_flags & __future__.annotations.compiler_flag
    compiled = compile(tree, old.co_filename, "exec", flags, dont_inherit=True)
    code = _named(_named(compiled, "outer"), definition.name)
    if code.co_freevars != old.co_freevars:
        raise MutantError(f"{fault.name}: {fault.where} needs {old.co_freevars}, the mutant {code.co_freevars}")
    return code


def _named(code: CodeType, name: str) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """While this lasts, the kit has the fault, in this process."""
    function, code = fault.function(), fault.code()
    sound, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = sound


def environment(fault: Fault | None) -> dict[str, str]:
    """Return the variables for a process that plants the fault at its start, also in its child processes."""
    path = [str(SITE), str(ROOT)] if fault is not None else [str(ROOT)]
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    planted_there = {} if fault is None else {VARIABLE: json.dumps({name: getattr(fault, name) for name in _FIELDS})}
    return inherited | planted_there | {"PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])}


def plant_for_good(variable: str) -> None:
    """Plant the fault that the variable of `environment` holds until the process ends."""
    fault = Fault(**json.loads(variable))
    fault.function().__code__ = fault.code()


_FIELDS = [each.name for each in fields(Fault)]
