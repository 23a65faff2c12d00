"""The location of a key: the task that holds it at the cursor, its key group and value, and its origin at a restore."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import ipywidgets

from kit.draw.views.rescaling import Rescaling, rescaling
from kit.hosts.lab import Lab
from kit.snapshots.pieces import KEYED as KEYED_STATE
from kit.snapshots.state_tables import KEYED
from widgets.base.key_field import KeyField
from widgets.panels.place import Place
from widgets.runs.session import Session

UNSET = '<p class="kit-quiet">The task that holds it, its key group, its value, and where it was before a restore.</p>'


class KeyFinder:
    """A field for a key with a list of existing keys, and the answer, which follows the cursor."""

    title = "Find a key"
    place = Place.BESIDE

    def __init__(self, session: Session) -> None:
        self._session = session
        self.field = KeyField("key", "a key of keyed state")
        self.key = self.field.key
        self.found = ipywidgets.HTML(UNSET)
        self.widget = ipywidgets.VBox([self.field.widget, self.found])
        self.key.observe(lambda _: session.attempt(self.update), "value")

    def update(self) -> None:
        """Look for the key at the cursor."""
        lab, key = self._session.run.lab_at_cursor, self.field.value
        self.field.offer(() if lab is None else keys_of(lab))
        if not key:
            self.found.value = UNSET
        elif lab is None:
            self.found.value = "<p>A recorded run does not say what is in state.</p>"
        else:
            places_of_key = list(places(lab, key)) or [f"no task holds the key {key} now"]
            self.found.value = f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in places_of_key)}</ul>"


def keys_of(lab: Lab) -> Iterator[object]:
    """Yield the keys in keyed state, state by state."""
    for table in lab.state().of(KEYED):
        yield from sorted(table.rows["key"].to_pylist(), key=repr)


def places(lab: Lab, key: str) -> Iterator[str]:
    """Yield sentences about the location of a key. A key of any type is identified by its printed form."""
    restore = rescaling(lab)
    for table in lab.state().of(KEYED):
        for row in table.rows.to_pylist():
            if str(row["key"]) == key:
                value = row.get("value")
                yield f"{row['task']} holds {table.name} of {key}, in key group {row['key_group']}: {value}"
                yield from _whence(restore, table.operator, row["key"])


def _whence(restore: Rescaling, operator: str, key: object) -> Iterator[str]:
    """Yield the subtask from which the last restore took the key."""
    keyed = {deal.operator for deal in restore.deals if deal.kind == KEYED_STATE}
    for move in restore.where(key, operator) if operator in keyed else ():
        went = "stayed in" if move.old == move.new else "came from"
        at = "" if restore.restore is None else f" from checkpoint {restore.restore.checkpoint_id}"
        yield f"at the restore{at}: {key} {went} {move.vertex}/{move.old}"
