"""What the lab says when it cannot do what was asked, and what there is instead."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kit.files.job_ended import JobEndedError
from kit.files.job_failed import JobFailedError

MOST_NAMED = 5
MOST_LINES, KEPT_AT_END = 6, 2
LONGEST_LINE, KEPT_AT_START = 500, 200


class LabError(Exception):
    """The lab cannot do what was asked: the text says why, and what can be done, in six lines at most."""


class LabJobEndedError(LabError, JobEndedError):
    """The job in the lab has ended: the error that `SparkJob` raises, too."""


class LabJobFailedError(LabError, JobFailedError):
    """The job in the lab has failed, or a snapshot asked of it: the error that `SparkJob` raises, too."""


class Interrupted(KeyboardInterrupt):
    """A long search was interrupted; `found` is what it had found by then."""

    def __init__(self, found: object) -> None:
        super().__init__(f"{found!r} (sys.last_value.found)")
        self.found = found


class LabWarning(UserWarning):
    """What the lab gives is less than it looks like: the job has failed, or loses rows."""


def said(*lines: str) -> str:
    """Return a message of these lines without the empty ones: of too many lines, and of too long a line, the middle is
    left out, since the reason of an error is at its end.
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
    """Return the number. Raises LabError for what is no whole number, or less; `meaning` says what it is."""
    if isinstance(found, int) and not isinstance(found, bool) and (least is None or found >= least):
        return found
    bound = "" if least is None else f", {least} or more"
    raise LabError(f"{name} is {found!r}, but must be a whole number{bound}: {meaning}")


def nearest(wrong: str, known: Sequence[str]) -> list[str]:
    """What may have been meant: the names most like this one, the likeliest first; else the first ones there are."""
    folded = {name.lower(): name for name in known}
    alike = get_close_matches(wrong.lower(), folded, MOST_NAMED, 0.6)
    return [folded[name] for name in alike] or list(known[:MOST_NAMED])


def enumerated(names: Sequence[str], empty: str = "nothing") -> str:
    """Some names in a sentence, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMED])
    return (shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")) or empty
