"""The faults of an exploration."""

from __future__ import annotations

from kit.hosts.lab.faults.faults import FAULTS as IN_THE_LAB

EXPLORED = {kind.explored.kind: kind for kind in IN_THE_LAB.values() if kind.explored is not None}
"""The lab's faults that an exploration tries, by what it calls them."""
FAULTS = {
    **{name: kind.explored.text for name, kind in EXPLORED.items()},
    "expire": "a checkpoint takes longer than its timeout",
}
"""The kinds of fault, with a description."""
