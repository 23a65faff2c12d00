"""One entry of a list of actions: a possible next action, or a fault."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """One action: `key` identifies it, `group` is its heading, `hint` describes it, and `why_not` is the reason why it
    is not allowed now, if any.
    """

    key: str
    label: str
    group: str = ""
    hint: str = ""
    why_not: str = ""
