"""Where a key is: the task that holds it at the cursor, its key group and value, and whence a restore took it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import ipywidgets
import pandas as pd

from kit.draw.state_tables import KEYED
from kit.lab import Lab
from kit.state.key_groups import operator_index_for_key_group
from widgets.controls import App
from widgets.key_field import KeyField

UNSET = '<p class="kit-quiet">The task that holds it, its key group, its value, and where it was before a restore.</p>'


class KeyFinder:
    """A field for a key with some of those that there are, and the answer, which follows the cursor."""

    title = "Find a key"

    def __init__(self, app: App) -> None:
        self._app = app
        self.field = KeyField("key", "a key of keyed state")
        self.key = self.field.key
        self.found = ipywidgets.HTML(UNSET)
        self.widget = ipywidgets.VBox([self.field.widget, self.found])
        self.key.observe(lambda _: app.guarded(self.update), "value")

    def update(self) -> None:
        """Look for the key at the cursor."""
        lab, key = self._app.branch.there, self.field.value
        self.field.offer(() if lab is None else keys_of(lab))
        if not key:
            self.found.value = UNSET
        elif lab is None:
            self.found.value = "<p>A recorded run does not say what is in state.</p>"
        else:
            told = list(places(lab, key)) or [f"no task holds the key {key} now"]
            self.found.value = f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in told)}</ul>"


def keys_of(lab: Lab) -> Iterator[object]:
    """The keys in keyed state, those of one state after those of another."""
    for table in lab.state().of(KEYED):
        yield from sorted(table.rows["key"].to_pylist(), key=repr)


def places(lab: Lab, key: str) -> Iterator[str]:
    """Where a key is, in sentences: a key of any type is meant by how it prints."""
    for table in lab.state().of(KEYED):
        for row in table.rows.to_pylist():
            if str(row["key"]) == key:
                value = row.get("value")
                yield f"{row['task']} holds {table.name} of {key}, in key group {row['key_group']}: {value}"
                yield from _whence(lab, table.operator, row["task"], row["key_group"], key)


def _whence(lab: Lab, operator: str, task: str, group: int, key: str) -> Iterator[str]:
    """From which subtask the last restore took the key group."""
    given = lab.restores()
    given = given[(given["operator"] == operator) & (given["kind"] == "keyed")]
    if not len(given):
        return
    last = given[given["epoch"] == given["epoch"].max()]
    vertex, most = task.rpartition("/")[0], lab.job.vertex(task.rpartition("/")[0]).max_parallelism
    (mine,) = last.loc[last["task"] == task, "from"]
    fits = {_owner(most, before, group) for before in range(1, most + 1) if _is_dealt(last, most, before)}
    old = fits if len(fits) == 1 else set(mine)
    whence = " or ".join(f"{vertex}/{number}" for number in sorted(old))
    moved = f"{key} stayed in {whence}" if whence == task else f"{key} came from {whence}"
    yield f"at the restore from checkpoint {int(last['checkpoint_id'].iloc[0])}: {moved}"


def _is_dealt(last: pd.DataFrame, most: int, before: int) -> bool:
    """Whether so many subtasks before would explain from whom each one now got its key groups."""
    return all(
        {_owner(most, before, each) for each in range(groups[0], groups[-1] + 1)} == set(old)
        for old, groups in zip(last["from"], last["key_groups"])
    )


def _owner(most: int, parallelism: int, group: int) -> int:
    return operator_index_for_key_group(most, parallelism, group)
