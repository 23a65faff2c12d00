"""The errors and warnings of the lab, and helpers for their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from kit.machines.job.errors import JobEndedError, JobFailedError

MOST_NAMED = 5
MOST_LINES, KEPT_AT_END = 6, 2
LONGEST_LINE, KEPT_AT_START = 500, 200


class LabError(Exception):
    """The lab cannot do what was asked. The text says why, and what to do, in at most six lines."""


class LabJobEndedError(LabError, JobEndedError):
    """The job in the lab has ended. `SparkJob` raises the base class, JobEndedError, as well."""


class LabJobFailedError(LabError, JobFailedError):
    """The job in the lab, or a requested snapshot, has failed. `SparkJob` raises the base class, JobFailedError, as
    well.
    """


class Interrupted(KeyboardInterrupt):
    """A long search was interrupted; `found` is its result so far."""

    def __init__(self, found: object) -> None:
        super().__init__(f"{found!r} (sys.last_value.found)")
        self.found = found


class LabWarning(UserWarning):
    """The result is incomplete: the job has failed, or loses rows."""


def said(*lines: str) -> str:
    """Return a message of the lines that are not empty.

    If there are too many lines, or a line is too long, the middle is left out: the reason of an error is at its end.
    """
    parts = [part for line in lines for part in line.splitlines() if part.strip()]
    if len(parts) > MOST_LINES:
        parts = [*parts[: MOST_LINES - KEPT_AT_END], *parts[-KEPT_AT_END:]]
    return "\n".join(map(_cut, parts))


def _cut(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:KEPT_AT_START]} ... {line[KEPT_AT_START - LONGEST_LINE :]}"


def whole_number(name: str, found: object, meaning: str, least: int | None = None) -> int:
    """Return the number. Raises LabError if it is not an integer, or below `least`; `meaning` describes it."""
    if isinstance(found, int) and not isinstance(found, bool) and (least is None or found >= least):
        return found
    bound = "" if least is None else f", {least} or more"
    raise LabError(f"{name} is {found!r}, but must be a whole number{bound}: {meaning}")


def several(name: str, found: object, example: str) -> list[Any]:
    """Return the values as a list. Raises LabError for one value that is not in a list, or for a text."""
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise LabError(f"{name} is {found!r}, but must be several values, such as {example}")
    return list(found)


def nearest(wrong: object, known: Sequence[str]) -> list[str]:
    """Return the known names most similar to this one, the most similar first; if none is, the first known ones."""
    if not isinstance(wrong, str):
        return list(known[:MOST_NAMED])
    folded = {name.lower(): name for name in known}
    alike = get_close_matches(wrong.lower(), folded, MOST_NAMED, 0.6)
    return [folded[name] for name in alike] or list(known[:MOST_NAMED])


def enumerated(names: Sequence[str], empty: str = "nothing") -> str:
    """List some of the names in a sentence, and the number of the others."""
    shown = ", ".join(names[:MOST_NAMED])
    return (shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")) or empty
