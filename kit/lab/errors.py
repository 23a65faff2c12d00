"""What the lab says when it cannot do what was asked, and what there is instead."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kit.host.job_failed import JobFailedError

MOST_NAMED = 5
MOST_LINES, KEPT_AT_END = 6, 2
LONGEST_LINE = 300


class LabError(Exception):
    """The lab cannot do what was asked: the text says why, and what can be done, in six lines at most."""


class LabJobFailedError(LabError, JobFailedError):
    """The job in the lab has failed, or a snapshot asked of it: the error that `SparkJob` raises, too."""


class LabWarning(UserWarning):
    """What the lab gives is less than it looks like: the job has failed."""


def said(*lines: str) -> str:
    """A message of these lines, without the empty ones: too long a line is cut, of too many the middle is left out."""
    parts = [part for line in lines for part in line.splitlines() if part.strip()]
    if len(parts) > MOST_LINES:
        parts = [*parts[: MOST_LINES - KEPT_AT_END], *parts[-KEPT_AT_END:]]
    return "\n".join(part if len(part) <= LONGEST_LINE else f"{part[:LONGEST_LINE]}..." for part in parts)


def nearest(wrong: str, known: Sequence[str]) -> list[str]:
    """What may have been meant: the names most like this one, the likeliest first; else the first ones there are."""
    folded = {name.lower(): name for name in known}
    alike = get_close_matches(wrong.lower(), folded, MOST_NAMED, 0.6)
    return [folded[name] for name in alike] or list(known[:MOST_NAMED])


def enumerated(names: Sequence[str], empty: str = "nothing") -> str:
    """Some names in a sentence, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMED])
    return (shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")) or empty
