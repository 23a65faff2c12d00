"""A list of actions, each with a button: possible next actions, faults, and actions that are currently not allowed.

The kernel provides the list and the browser draws it in one piece, so a step of the run costs one message however long
the list is. An action that is not allowed is shown with the reason, and its button is disabled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import traitlets

from kit.draw.assets import joined
from widgets.base.listening import ListeningWidget, listening
from widgets.runs.item import Item

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
MOST_SHOWN = 80
"""The maximal number of items drawn; the search finds the others."""


class ActionList(ListeningWidget):
    """The list. `offer` sets its items, and `press` performs one, as a click does. `query` is the search: words that an
    item must all contain.
    """

    _esm = listening(joined(["elements.js", Path(__file__).with_name("action_list.js")]))
    name = traitlets.Unicode("Actions").tag(sync=True)
    groups: Any = traitlets.List().tag(sync=True)
    more = traitlets.Unicode("").tag(sync=True)
    """A text about the items that are not drawn."""
    note = traitlets.Unicode("").tag(sync=True)
    """A note about the whole list."""
    query = traitlets.Unicode("").tag(sync=True)

    def __init__(self, on_press: Callable[[str], None], **traits: Any) -> None:
        super().__init__(**traits)
        self._on_press = on_press
        self._items: tuple[Item, ...] = ()
        self.on_msg(self._on_message)

    @property
    def items(self) -> tuple[Item, ...]:
        """All items of the list, whatever the search."""
        return self._items

    def offer(self, items: Iterable[Item], note: str = "") -> None:
        """Replace the items of the list."""
        self._items = tuple(items)
        self.note = note
        self._show()

    def press(self, key: str) -> None:
        """Perform an action of the list. Raises KeyError for an unknown one, ValueError for one that is not allowed."""
        item = next((each for each in self._items if each.key == key), None)
        if item is None:
            raise KeyError(f"nothing on this list is {key!r}; there is {', '.join(each.key for each in self._items)}")
        if item.why_not:
            raise ValueError(f"{item.label}: {item.why_not}")
        self._on_press(key)

    def _on_message(self, _: Any, content: Any, __: Any) -> None:
        """Handle a click on a button, which may have been removed meanwhile."""
        if any(each.key == content.get("do") and not each.why_not for each in self._items):
            self._on_press(content["do"])

    @traitlets.observe("query")
    def _searched(self, _: Any) -> None:
        self._show()

    def _show(self) -> None:
        words = self.query.lower().split()
        found = [each for each in self._items if all(_has(_text(each), word) for word in words)]
        shown = found[:MOST_SHOWN]
        groups: dict[str, list[dict[str, str]]] = {}
        for each in shown:
            fields = {name: value for name, value in each._asdict().items() if value and name != "group"}
            groups.setdefault(each.group, []).append(fields)
        with self.hold_sync():
            self.groups = [{"title": title, "items": items} for title, items in groups.items()]
            left = len(found) - len(shown)
            self.more = f"{left} more: search for a task, a checkpoint, a word" if left else self._why_empty(found)

    def _why_empty(self, found: Sequence[Item]) -> str:
        """Return the text to show if no item is drawn."""
        if found or (self.note and not self._items):
            return ""
        if not self._items:
            return "There is nothing at this moment."
        return f"None of {len(self._items)} has words that begin so at this moment: {self.query.strip()}."

    def __repr__(self) -> str:
        return f"ActionList({self.name}: {len(self._items)})"


def _text(item: Item) -> str:
    text = f"{item.group} {item.label} {item.hint} {item.why_not}"
    return f"{text} {_HUMP.sub(' ', text)}".lower()


def _has(text: str, word: str) -> bool:
    """Return True if a word of the text has this prefix: `ack` is in `AcknowledgeCheckpoint`, not in `back`."""
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}" if word[0].isalnum() else re.escape(word), text) is not None
