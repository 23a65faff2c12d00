"""Finding the action that a user names: by itself, by its key, by the id of the record that caused it, or by a few
words.

    "ack of sums/1"  "metadata of chk-3"  "StoreCheckpoint"  "turn sums/0"  "notification of checkpoint 2 to sums/0"

The words are compared with the actions' sentences. Small words ("of", "the", "to") are ignored. A word of letters may
be a part of another ("ack" of "AcknowledgeCheckpoint"); names of tasks and checkpoints must be complete. If several
actions match, they must be equal messages on one route, and the first is taken; otherwise the error names them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from kit.hosts.lab.errors import MOST_NAMED, LabError, nearest
from kit.hosts.lab.world.actions import Action

A = TypeVar("A", bound=Action)

PASSED_OVER = frozenset({"of", "the", "a", "an", "from", "to", "for", "in", "its", "next", "file", "message"})
SYNONYMS = {
    "notification": "notify",
    "notified": "notify",
    "directory": "initializelocation",
    "publication": "commiteffects",
    "publish": "commiteffects",
    "hook": "masterhook",
    "counter": "allocatecheckpointid",
}
"""Synonyms, and the words used here."""


def meant(what: str, actions: Sequence[A], doing: str) -> A:
    """Return the action that the words name. Raises LabError, with the nearest matches, if it is none or several.

    `doing` completes "nothing ... ".
    """
    for action in actions:
        if what in (action.key, action.text):
            return action
    found = matching(what, actions)
    if not found:
        texts = {action.text: None for action in actions}
        listed = "; ".join(nearest(what, [*texts])) or "nothing"
        more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
        raise LabError(f"nothing {doing} now is {what!r}; there is {listed}{more}")
    texts = {action.text: None for action in found}
    if len(texts) > 1:
        more = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
        raise LabError(f"{what!r} may be {' or '.join([*texts][:MOST_NAMED])}{more}: say which")
    return found[0]


def chosen(what: Action | int | str, enabled: Sequence[Action]) -> Action:
    """Return the action of `lab.enabled()` given by itself, its number, its key or a few words. Raises LabError."""
    if isinstance(what, int) and not isinstance(what, bool):
        if 0 <= what < len(enabled):
            return enabled[what]
        raise LabError(f"there is no action {what}: lab.enabled() has {len(enabled)}, counted from 0")
    for candidate in enabled:
        if what in (candidate, candidate.key):
            return candidate
    found = matching(what, enabled) if isinstance(what, str) else []
    if len({action.text for action in found}) == 1:
        return found[0]
    named = set(nearest(str(getattr(what, "key", what)), [candidate.key for candidate in enabled]))
    near = [number for number, candidate in enumerate(enabled) if candidate in found or candidate.key in named]
    listed = [f"{number}: {enabled[number]}" for number in near[:MOST_NAMED]]
    more = f"; lab.enabled() has all {len(enabled)}" if len(enabled) > len(listed) else ""
    what_is_wrong = "may be several things" if found else "cannot happen now"
    raise LabError(f"{what!r} {what_is_wrong}; enabled are {'; '.join(listed) or 'nothing'}{more}")


def matching(what: str, actions: Sequence[A]) -> list[A]:
    """Return the actions whose sentences contain all these words. Raises LabError unless `what` is a text."""
    if not isinstance(what, str):
        raise LabError(f"{what!r} names no action: give words of its sentence, as lab.enabled() shows it")
    wanted = _words(re.sub(r"\bcheckpoint (\d+)\b", r"chk-\1", what.lower()))
    wanted = [SYNONYMS.get(word, word) for word in wanted if word not in PASSED_OVER]
    return [action for action in actions if wanted and all(_has(action, word) for word in wanted)]


def _has(action: Action, wanted: str) -> bool:
    words = _words(action.text.lower())
    if wanted in words:
        return True
    return wanted.replace("_", "").isalpha() and len(wanted) > 1 and any(wanted in word for word in words)


def _words(text: str) -> list[str]:
    """Split a text into words, and paths into their parts as well."""
    words = [word for word in re.split(r"[\s:,()]+", text) if word]
    return words + [part for word in words if word.startswith("/") for part in word.split("/") if part]
