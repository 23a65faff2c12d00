"""The search for what in a job cannot be sent to Spark's workers, described with the names in the user's code.

A job is sent with the user's functions and all objects that these refer to: variables of the enclosing function,
globals, defaults, and attributes of the object whose method a function is. The search follows these references from the
function inwards to the innermost object that cannot be pickled.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle

from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.spec import shorten

MOST_STEPS = 20
"""The maximal depth of the search: an error with a longer path would be hard to understand."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step from an object to one that it refers to: a name for it, and the function that captures it, if any."""

    name: str
    thing: Any
    function: Any = None


def not_portable(job: JobGraph) -> str:
    """Return why the job cannot be sent to Spark's workers, and what to do; "" if it can be sent."""
    if not _refusal(job):
        return ""
    for vertex in job.vertices:
        for operator in vertex.operators:
            if _refusal(operator.spec):
                kind = type(operator.spec).__name__
                return _explained(job, f"operator {operator.name!r} ({_kind(kind)})", operator.spec)
        for edge in vertex.outputs:
            if edge.partition_function is not None and _refusal(edge.partition_function):
                between = f"the partitioning between {edge.source!r} and {edge.target!r}"
                return _explained(job, between, edge.partition_function)
    return _explained(job, "something in it", job)


def _explained(job: JobGraph, where: str, start: Any) -> str:
    path = _way_in(start)
    culprit = path[-1].thing if path else start
    holders = [step.function for step in reversed(path) if step.function is not None]
    function = next(filter(inspect.isroutine, holders), holders[0] if holders else None)
    names = [step.name for step in path if step.name]
    holder = f"function {_described(function)}" if function is not None else "it"
    return (
        f"job {job.name} cannot be sent to Spark's workers: {where}\n"
        f"{holder} captures {_joined(names)}, {_a(type(culprit))}\n"
        f"({shorten(_refusal(culprit))})\n"
        f"{_OF_SPARK if _is_of_spark(culprit) else _MADE_ELSEWHERE}"
    )


_MADE_ELSEWHERE = (
    "Make it where it is used: inside the function, or in open() of a process function; each worker has its own then.\n"
    "Or capture what it is made from (a path, a name, a number) instead."
)
_OF_SPARK = (
    "Sessions and DataFrames of Spark exist in the driver only. Give the job the rows of a DataFrame with "
    "env.from_spark(df, uid='rows'), or collect the values that the function needs."
)


def _refusal(thing: Any) -> str:
    """Return why an object cannot be pickled; "" if it can."""
    try:
        cloudpickle.dumps(thing)
    except Exception as error:  # a class may raise anything to prevent copies
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ""


def _way_in(thing: Any) -> list[_Step]:
    """Return the steps from an object that cannot be pickled to the innermost such object in it."""
    path: list[_Step] = []
    seen = {id(thing)}
    while len(path) < MOST_STEPS:
        step = next((each for each in _held(thing) if id(each.thing) not in seen and _refusal(each.thing)), None)
        if step is None:
            break
        path.append(step)
        thing = step.thing
        seen.add(id(thing))
        if _is_of_spark(thing):
            break
    return path


def _is_of_spark(thing: Any) -> bool:
    """Return True for an object of PySpark, whose parts say nothing to a user."""
    return type(thing).__module__.partition(".")[0] in ("pyspark", "py4j")


def _held(thing: Any) -> Iterator[_Step]:
    """Yield a step to each object that an object refers to, as far as pickling follows it."""
    if isinstance(thing, types.FunctionType):
        yield from _held_by_function(thing)
    elif isinstance(thing, types.MethodType):
        yield _Step("", thing.__func__)
        for name, value in _attributes(thing.__self__):
            yield _Step(f"self.{name}", value, thing)
        yield _Step("self", thing.__self__, thing)
    elif isinstance(thing, functools.partial):
        yield _Step("", thing.func)
        for number, value in enumerate(thing.args):
            yield _Step(f"argument {number}", value, thing.func)
        for name, value in thing.keywords.items():
            yield _Step(name, value, thing.func)
    elif isinstance(thing, type):
        for name, value in vars(thing).items():
            value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            yield _Step("" if isinstance(value, types.FunctionType) else f"{thing.__name__}.{name}", value, thing)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield _Step(f"[{shorten(repr(key))}]", value)
    elif isinstance(thing, list | tuple | set | frozenset):
        for number, value in enumerate(thing):
            yield _Step(f"[{number}]", value)
    else:
        user = callable(thing)
        for name, value in _attributes(thing):
            ours = type(thing).__module__.startswith("kit.")
            yield _Step("" if ours and callable(value) else f".{name}", value, thing if user and not ours else None)
        if type(thing).__module__ == "__main__":
            yield _Step("", type(thing))


def _held_by_function(function: types.FunctionType) -> Iterator[_Step]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the variable has no value yet
            yield _Step(name, cell.cell_contents, function)
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield _Step(name, function.__globals__[name], function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            yield _Step(f"{parameter.name} (a default)", parameter.default, function)
    for name, value in vars(function).items():
        yield _Step(f"{function.__name__}.{name}", value, function)


def _global_names(code: types.CodeType) -> list[str]:
    """Return the names that a function, or one nested in it, may look up among its globals."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _global_names(constant)
    return list(dict.fromkeys(names))


def _attributes(thing: Any) -> list[tuple[str, Any]]:
    held = list(getattr(thing, "__dict__", {}).items())
    for base in type(thing).__mro__:
        slots = base.__dict__.get("__slots__", ())
        held += [(name, getattr(thing, name)) for name in slots if hasattr(thing, name)]
    return held


# --- descriptions------------------------------------------------------------------------------------------------------


def _described(function: Any) -> str:
    """Return a description such as `look_up (orders.py, line 12)`; for a callable object, its class."""
    function = getattr(function, "__func__", function)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    name = name.rpartition("<locals>.")[2]
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(type(function).__dict__.get("__call__"), "__code__", None)
    if code is None:
        return str(name)
    file = "a cell of the notebook" if "ipykernel_" in code.co_filename else os.path.basename(code.co_filename)
    return f"{name} ({file}, line {code.co_firstlineno})"


def _joined(names: list[str]) -> str:
    """Return the names as an expression: `connection`, `pool['reader']` or `self.client.lock`."""
    text = ""
    for name in names:
        text += name if not text or name.startswith((".", "[")) else f" -> {name}"
    return f"`{text.removeprefix('.')}`" if text else "something"


def _a(kind: type) -> str:
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _kind(spec: str) -> str:
    """Return the operator's kind by the name of its method: `flat_map`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in spec).lstrip("_")
