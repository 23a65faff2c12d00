"""The number of examples for each property."""

from __future__ import annotations

from hypothesis import settings

IN_CI = 20


def examples(count: int, in_ci: int = IN_CI) -> int:
    """Return the number of examples for a property that takes seconds: `count`, and at most `in_ci` in `make test`.

    Properties of the machines have fixed numbers. They take a second, and planted bugs hide from twenty examples.
    """
    return min(count, in_ci) if settings.get_current_profile_name() == "ci" else count


def examples_of_each(count: int) -> int:
    """Return the number of examples for each of many cases that differ little: `count`, and one in `make test`."""
    return 1 if settings.get_current_profile_name() == "ci" else count
