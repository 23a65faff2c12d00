"""The sizes of explorations: `python -m tests.verify.explore.several` writes `several.txt` again.

The explorations have each kind of fault, several faults and checkpoints, and the search with and without its rules. The
numbers change with the protocol's machines. After any other change they are the same, so read `git diff`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kit.verify.explore import always, explore
from tests.stored_parts import Part, store
from tests.verify.explore.jobs import collects, counts, hears, overtakes

STORED = Path(__file__).with_suffix(".txt")
EXPLORED: tuple[tuple[Callable[..., Any], tuple[str, ...], int, int, bool], ...] = (
    (collects, (), 0, 0, True),
    (counts, (), 0, 0, True),
    (collects, (), 0, 1, False),
    (hears, (), 0, 1, False),
    (collects, ("lose",), 2, 0, False),
    (collects, ("repeat",), 2, 0, False),
    (collects, ("lose",), 1, 1, False),
    (collects, ("repeat",), 1, 1, False),
    (collects, ("kill",), 1, 0, False),
    (collects, ("fail",), 1, 0, False),
    (collects, ("expire", "repeat"), 1, 0, False),
    (counts, ("expire", "lose"), 1, 0, False),
    (overtakes, ("fail",), 1, 0, False),
    (overtakes, ("lose",), 1, 0, False),
)
"""Jobs, kinds of faults, the numbers of faults and of checkpoints, and True for a search in every order."""


def parts() -> Iterator[Part]:
    """Each exploration with its numbers."""
    for job, kinds, faults, checkpoints, exact in EXPLORED:
        found = explore(
            job(), [always("any", lambda _: True)], kinds=kinds, faults=faults, checkpoints=checkpoints, exact=exact
        )
        title = f"{job.__name__}, faults: {faults} of {' '.join(kinds) or 'none'}, checkpoints: {checkpoints}"
        numbers = [f"states: {found.states}", f"transitions: {found.transitions}", f"depth: {found.depth}"]
        yield f"{title}{', in every order' if exact else ''}", numbers


if __name__ == "__main__":
    store(STORED, parts())
