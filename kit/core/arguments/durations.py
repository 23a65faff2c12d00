"""Durations as people write them: whole milliseconds, `timedelta`, numpy's `timedelta64`, or a text such as "1min"."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TypeAlias

import numpy as np

Duration: TypeAlias = "int | str | dt.timedelta | np.timedelta64"
"""The type of every parameter that ends in `_ms`; a whole number is milliseconds."""

WAYS_TO_WRITE = "whole milliseconds, a timedelta, or a text such as '500ms', '10s', '1min', '2h' or '1d'"

_UNITS_MS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)"
_TEXT = re.compile(rf"\s*(-?)\s*((?:{_PART}\s*)+)", re.IGNORECASE | re.ASCII)
_ONE_PART = re.compile(_PART, re.IGNORECASE | re.ASCII)


class DurationError(ValueError):
    """The value is not a duration in whole milliseconds."""


def to_ms(duration: object, name: str) -> int:
    """Return a duration in ms; `name` is the name of the parameter.

    Raises DurationError for anything else, such as a bool, a NaN, an unknown unit or a fraction of a millisecond.
    """
    if type(duration) is int:
        return duration
    found: Decimal | None = None
    if isinstance(duration, int | np.integer) and not isinstance(duration, bool | np.timedelta64):
        found = Decimal(int(duration))
    elif isinstance(duration, np.timedelta64) and not np.isnat(duration) and np.datetime_data(duration)[0] != "generic":
        found = _of_numpy(duration)
    elif isinstance(duration, dt.timedelta) and duration == duration:  # noqa: PLR0124 (pandas has one that is not)
        micros = (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds
        found = Decimal(micros * 1_000 + getattr(duration, "nanoseconds", 0)) / 1_000_000
    elif isinstance(duration, str):
        found = _of_text(duration)
    if found is None or found != int(found):
        raise DurationError(f"{name} = {duration!r}: expected {WAYS_TO_WRITE}")
    return int(found)


def settle_durations(settings: object, *names: str, or_none: Sequence[str] = ()) -> None:
    """Replace the durations among a frozen object's attributes by milliseconds; those in `or_none` may be None.

    Raises DurationError.
    """
    for name in (*names, *or_none):
        found = getattr(settings, name)
        if found is not None or name not in or_none:
            object.__setattr__(settings, name, to_ms(found, f"{type(settings).__name__}: {name}"))


def _of_numpy(duration: np.timedelta64) -> Decimal | None:
    """Return the ms, or None for months and years, which have no fixed length."""
    unit, count = np.datetime_data(duration)
    lengths = {"W": 604_800_000, "D": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
    parts = {"us": 1_000, "ns": 1_000_000, "ps": 10**9, "fs": 10**12, "as": 10**15}
    number = Decimal(int(duration.astype(np.int64)) * count)
    if unit in lengths:
        return number * lengths[unit]
    return number / parts[unit] if unit in parts else None


def _of_text(text: str) -> Decimal | None:
    whole = _TEXT.fullmatch(text)
    if whole is None:
        return None
    total = Decimal(0)
    for number, unit in _ONE_PART.findall(whole[2]):
        if unit == "M" or unit.lower() not in _UNITS_MS:  # pandas reads "M" as months
            return None
        total += Decimal(number) * _UNITS_MS[unit.lower()]
    return -total if whole[1] else total
