"""Hints for typical mistakes of newcomers in user functions.

A row is a dict, and hooks have arguments of their own. Only errors of the call itself, or of a dict, are explained. Any
other error is the function's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_HOOKS = {
    "process_element": "a row, a dict, and a context: ctx.emit(row) hands a row on, ctx.state(descriptor) has state",
    "on_timer": "the time of the timer in ms, and a context: ctx.emit(row) hands a row on",
    "open": "a context: ctx.state(descriptor) has state",
}
_HOOKS |= {f"process_element{number}": _HOOKS["process_element"] for number in (1, 2)}
ONE_ROW = "a row, a dict"


def hint(function: Callable[..., Any], error: BaseException, called_with: str = "") -> str:
    """Return the text about what to write instead, after a semicolon; "" if the error is not a known mistake.

    `called_with` are the arguments of a function that is not a hook.
    """
    if isinstance(error, AttributeError) and isinstance(error.obj, dict):
        return f"; a row is a dict: write row[{error.name!r}]"
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], int):
        return "; a row is a dict: its columns have names, such as row['letter']"
    was_entered = error.__traceback__ is not None and error.__traceback__.tb_next is not None
    if isinstance(error, TypeError) and "positional argument" in str(error) and not was_entered:
        name = getattr(function, "__name__", "")
        if name in _HOOKS:
            return f"; {name} is called with {_HOOKS[name]}"
        if called_with:
            return f"; it is called with {called_with}"
    return ""
