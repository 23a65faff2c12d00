"""Rows that a hook yields or returns, in place of calling `ctx.emit`.

PyFlink's functions yield what they make, so a hook here may do so too. `yield row` and `return row` mean
`ctx.emit(row)`, and `yield tag, row` means `ctx.output(tag, row)`. A list or another iterable means each of its items
in order, and None means nothing. Everything else is rejected, because it would be lost without a message.

A generator is consumed before the hook's call counts as done, while the context still has the key, the state and the
time of the row.

Follows what PyFlink's `ProcessFunction.process_element` may yield.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, GeneratorType
from typing import Any, Protocol, TypeAlias

from kit.stream.operators.rows import Row
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import shorten

Emitted: TypeAlias = Row | tuple[OutputTag, Row] | Iterable[Row | tuple[OutputTag, Row]] | None
"""The values that a hook may return."""

_MAKES_AN_ITERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class EmittingContext(Protocol):
    """The part of a context that takes what a hook emits."""

    def emit(self, row: Any) -> None: ...

    def output(self, tag: OutputTag, row: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Returned:
    """The emission of what hooks return. `kinds` are the types of one item; messages call it `one`, which is `a`."""

    kinds: tuple[type, ...]
    one: str
    a: str

    def emit(self, made: Any, context: EmittingContext) -> None:
        """Emit what a hook returned, which is not None. Raises TypeError for anything that cannot be emitted."""
        is_generator = type(made) is GeneratorType
        if not is_generator:
            if isinstance(made, self.kinds) or _is_set_aside(made):
                made = (made,)
            elif not _holds_several(made):
                raise TypeError(f"it returned {_described(made)}: {self._expected}")
        for one in _all_of(made):
            if isinstance(one, self.kinds):
                context.emit(one)
            elif _is_set_aside(one):
                context.output(*one)
            else:
                word = "yielded" if is_generator else "returned, among others,"
                raise TypeError(f"it {word} {_described(one)}: {self._expected}")

    @property
    def _expected(self) -> str:
        one = self.one
        return f"write `yield {one}` or `ctx.emit({one})` ({self.a}), and `yield tag, {one}` for a side output"


ROWS = Returned((dict, Mapping), "row", "a dict")
"""The values that a hook called row by row may return."""


def rows_made(made: Any) -> list[Any]:
    """Return the rows that a function without side outputs returned. Raises TypeError for anything else."""
    if type(made) is list:
        return made
    if isinstance(made, dict | Mapping):
        return [made]
    if not _holds_several(made):
        raise TypeError(
            f"it returned {_described(made)}: return a list of dicts (empty for no row), or yield each dict"
        )
    return list(_all_of(made))


def never_runs(made: Any) -> bool:
    """Return True for a generator or coroutine: a call that made one has run nothing of the function yet."""
    return isinstance(made, Generator) or hasattr(made, "__await__") or hasattr(made, "__anext__")


def never_returns_a_value(function: object) -> bool:
    """Return True for a Python function all of whose returns give None: a `return` was probably forgotten."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_flags & _MAKES_AN_ITERATOR:
        return False
    before, returned = None, []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            value = instruction if instruction.opname == "RETURN_CONST" else before
            returned.append(value is not None and value.opname.endswith("_CONST") and value.argval is None)
        before = instruction
    return bool(returned) and all(returned)


def _holds_several(made: Any) -> bool:
    """Return True for what may hold rows; a table or a data frame is iterable too, by its columns."""
    is_table = hasattr(made, "__arrow_c_stream__") or hasattr(made, "__arrow_c_array__")
    return isinstance(made, Iterable) and not isinstance(made, str | bytes) and not is_table


def _described(made: Any) -> str:
    return f"{shorten(repr(made))} ({type(made).__name__})"


def _is_set_aside(made: Any) -> bool:
    return isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], OutputTag)


def _all_of(made: Iterable[Any]) -> Iterator[Any]:
    """Yield all items, and behind those of a generator what it returns at its end."""
    if type(made) is not GeneratorType:
        yield from made
        return
    last = yield from made
    if last is not None:
        yield last
