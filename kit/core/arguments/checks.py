"""Checks of the arguments of a lab and of a job on Spark, with the same messages for both."""

from __future__ import annotations

from enum import Enum
from os import PathLike, fspath
from typing import TypeVar

Choice = TypeVar("Choice", bound=Enum)


def no_job(found: object) -> str:
    """Return the error message for a value that is not a job."""
    kind = type(found).__name__
    return (
        f"a job is a StreamEnvironment or a JobGraph, not {'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}: "
        "give the environment, as in Lab(env) or SparkJob(env)"
    )


def one_of(kind: type[Choice], setting: str, found: object) -> Choice:
    """Return the member of an enum, given as itself or as its value. Raises ValueError for anything else."""
    try:
        return kind(found)
    except ValueError:
        known = ", ".join(repr(each.value) for each in kind)
        raise ValueError(f"{setting} is {found!r}, but must be one of {known}") from None


def directory_given(what: str, found: object) -> str | None:
    """Return a directory as text, or None if omitted. Raises TypeError for anything but a path."""
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, PathLike):
        return fspath(found)
    raise TypeError(f"{what} is {found!r}, but must be the path of a directory, such as '/savepoints'")


def path_given(what: str, found: object) -> str:
    """Return the path of a savepoint as text. Raises TypeError for anything but a path."""
    if isinstance(found, str | PathLike):
        return fspath(found)
    raise TypeError(f"{what} is {found!r}, but must be the path of a savepoint, as savepoint(wait=True) returns it")


def flag_given(what: str, found: object) -> bool:
    """Return True or False. Raises TypeError for anything else."""
    if isinstance(found, bool):
        return found
    raise TypeError(f"{what} is {found!r}, but must be True or False")


def count_given(what: str, found: object) -> int:
    """Return a number of things. Raises TypeError for anything but a whole number, ValueError for a negative one."""
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeError(f"{what} is {found!r}, but must be a whole number from 0 on")
    if found < 0:
        raise ValueError(f"{what} is {found!r}, but must be a whole number from 0 on")
    return found


def seconds_given(what: str, found: object) -> float | None:
    """Return a time in seconds, or None for no limit. Raises TypeError for anything but a number."""
    if found is None or (isinstance(found, int | float) and not isinstance(found, bool)):
        return found
    raise TypeError(f"{what} is {found!r}, but must be a number of seconds, or None to wait forever")
