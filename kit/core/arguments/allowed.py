"""The values that a setting or a parameter allows, each set as text and as a test.

A class names what each of its settings allows and checks itself on creation (`check_allowed`), so that every wrong
value is refused in the same words: the setting, the value found, and what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kit.core.arguments.durations import WAYS_TO_WRITE, DurationError, to_ms

LONGEST_MS = 2**63 - 1
"""The longest time (`Long.MAX_VALUE`)."""
UNLIMITED = 2**31 - 1
"""An unlimited number of attempts or tolerated failures (`Integer.MAX_VALUE`)."""


class SettingError(ValueError):
    """A setting has a value that is not allowed, or one that contradicts another setting."""


def expect(ok: bool, setting: str, found: object, allowed: str) -> None:
    """Raise SettingError, with what was found and what is allowed, unless `ok`."""
    if not ok:
        text = repr(found)
        raise SettingError(f"{setting} = {text if len(text) <= 120 else text[:117] + '...'}: expected {allowed}")


@dataclass(frozen=True, slots=True)
class Allowed:
    """A set of values, as text and as a test."""

    text: str
    test: Callable[[Any], bool]
    kind: str = ""
    """What the text goes without, for an error about a value of another type."""


def whole(least: int, most: int) -> Allowed:
    """Return the whole numbers in a range; Java's largest numbers are not mentioned in the text."""
    text = f"{least} or more" if most in (UNLIMITED, LONGEST_MS) else f"{least} to {most}"
    return Allowed(text, lambda found: type(found) is int and least <= found <= most, "a whole number, ")


def count(least: int) -> Allowed:
    """Return the counts, as Java's int."""
    return whole(least, UNLIMITED)


def milliseconds(least: int) -> Allowed:
    """Return the durations, as Java's long."""
    return whole(least, LONGEST_MS)


def number(text: str, test: Callable[[float], bool]) -> Allowed:
    """Return the numbers that pass a test, whole or not."""
    return Allowed(text, lambda found: type(found) in (int, float) and test(found))


def or_none(allowed: Allowed, meaning: str) -> Allowed:
    """Return `allowed` and None, which means `meaning`."""
    return Allowed(f"{allowed.text}, or None for {meaning}", lambda found: found is None or allowed.test(found))


def one_of(kind: type[Enum]) -> Allowed:
    """Return the members of an enumeration; settings take their values too, see `member`."""
    return Allowed(" or ".join(repr(each.value) for each in kind), lambda found: isinstance(found, kind))


def member(kind: type[Enum], found: object) -> object:
    """Return the member of an enumeration that a setting names, by itself or by value, else the value found."""
    return next((each for each in kind if found in (each, each.value)), found)


def instance(kind: type, example: str) -> Allowed:
    """Return the instances of a class; `example` is one as a user writes it."""
    return Allowed(f"a {kind.__name__}, such as {example}", lambda found: isinstance(found, kind))


FLAG = Allowed("True or False", lambda found: type(found) is bool)
PLACE = Allowed("a path or URI", lambda found: isinstance(found, str) and bool(found))
TEXT = Allowed("a text", lambda found: isinstance(found, str))
NAME = Allowed("a text that is not empty", lambda found: isinstance(found, str) and bool(found))
CHARACTER = Allowed("one character", lambda found: isinstance(found, str) and len(found) == 1)
STRINGS = Allowed(
    "a list of texts",
    lambda found: isinstance(found, Collection) and not isinstance(found, str) and all(map(TEXT.test, found)),
)
COLUMN_NAMES = Allowed("a list of names of columns, such as ['line']", STRINGS.test)
SECONDS = number("a number of seconds above 0", lambda found: found > 0)
ANY_WHOLE = Allowed("a whole number", lambda found: type(found) is int)


def check_allowed(settings: object, rules: Mapping[str, Allowed], of: str = "") -> None:
    """Check an object's attributes; durations, whose names end in `_ms`, become ms. Raises SettingError.

    `of` is what the error begins with, if the names of the settings do not say whose they are.
    """
    for name, allowed in rules.items():
        found = getattr(settings, name)
        called = f"{of}: {name}" if of else name
        if name.endswith("_ms") and found is not None:
            duration = _ms_or_none(found, name)
            expect(duration is not None, called, found, f"{allowed.text}: {WAYS_TO_WRITE}")
            object.__setattr__(settings, name, duration)
            found = duration
        kind = "" if type(found) is int else allowed.kind
        expect(allowed.test(found), called, found, kind + allowed.text)


def _ms_or_none(duration: object, name: str) -> int | None:
    """Return the duration in ms, or None if the value is not a duration."""
    try:
        return to_ms(duration, name)
    except DurationError:
        return None
