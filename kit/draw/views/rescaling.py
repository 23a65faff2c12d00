"""A restore as a picture: for each state, the subtasks that wrote it above, and those that restored it below.

Keyed state is drawn along its key groups. State moves where the ranges above and below differ; the bars between them
show the bytes of each key group. List entries and in-flight buffers are strands from writer to reader. Union state is
one pool that every subtask receives. Many subtasks are drawn as bands of several. A key can be followed from its key
group to both owners.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import pandas as pd
import pyarrow as pa

from kit.core.html_tables import frame_html
from kit.draw.graphs import Graph
from kit.draw.graphviz_objects import Dot
from kit.draw.panel import drawing_html, panel
from kit.draw.picture import Svg, light_svg
from kit.draw.views.redistribution_graph import redistribution_graph
from kit.draw.views.rescaling_svg import WIDTH, drawn
from kit.draw.views.view import View
from kit.run.redistribution import restores_of
from kit.run.sizes import size_text
from kit.run.subject import Subject
from kit.snapshots import state_tables
from kit.snapshots.key_moves import KeyMove, move_of, owners
from kit.snapshots.transfers import Deal, Restore, restore_of
from kit.snapshots.values import values_of

STYLE = "rescaling.css"
MOST_KEYS = 200


def rescaling(run: Any, epoch: int | None = None, *, key: Any = None) -> Rescaling:
    """Return the redistribution of state in a restore of a Lab, a SparkJob or a Trace.

    It is the restore that started `epoch`, by default the last one. `key` is followed from its old owner to its new
    one.

    Raises ValueError if epoch `epoch` did not start with a restore.
    """
    restores = restores_of(run)
    found = [each for each in restores if epoch in (None, each.epoch)]
    if epoch is not None and not found:
        names = ", ".join(str(each.epoch) for each in restores) or "none"
        raise ValueError(f"epoch {epoch} began with no restore; epochs that did: {names}")
    if not found:
        return Rescaling(None, None)
    subject = Subject(run)
    return Rescaling(restore_of(subject, found[-1]), key, _key_types(run))


def rescaling_view(subject: Subject) -> Rescaling:
    """Draw the last restore by then, for the explorer's tab."""
    restores = subject.moment.restores
    restore = restore_of(subject, restores[-1]) if restores else None
    found = Rescaling(restore, None, _key_types(subject.thing))
    return found.find(subject.asked) if subject.asked else found


def _key_types(run: Any) -> dict[str, pa.DataType]:
    """Return the key type of each keyed operator, if the job is available."""
    vertices = getattr(getattr(run, "job", None), "vertices", ())
    operators = (operator for vertex in vertices for operator in vertex.operators)
    return {each.name: each.spec.key_type for each in operators if each.spec.key_type is not None}


@dataclass(frozen=True, eq=False)
class Rescaling:
    """One restore; `restore` is None if there was none by then."""

    restore: Restore | None
    key: Any = None
    key_types: Any = None
    note: str = ""

    @property
    def title(self) -> str:
        """The checkpoint and the epoch that restored it, in a sentence."""
        if self.restore is None:
            return "Nothing has been restored yet"
        return f"Checkpoint {self.restore.checkpoint_id} was given to the tasks of epoch {self.restore.epoch}"

    @cached_property
    def deals(self) -> tuple[Deal, ...]:
        """The redistribution of each state of each operator."""
        return () if self.restore is None else self.restore.deals

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per piece and reader, as `kit.snapshots.transfers.Restore.to_pandas` does; empty without a
        restore.
        """
        return (self.restore or Restore(0, 0, ())).to_pandas()

    def pairs(self, operator: str | None = None) -> pd.DataFrame:
        """Return one row per state, old and new subtask, as `kit.snapshots.transfers.Restore.pairs` does."""
        return (self.restore or Restore(0, 0, ())).pairs(operator)

    def subtasks(self) -> pd.DataFrame:
        """Return one row per state and new subtask: operator, kind, name, subtask, bytes, pieces, share (of an even
        part).
        """
        rows = []
        for deal in self.deals:
            sizes, total = deal.bytes_by_reader, sum(deal.bytes_by_reader)
            for new, size in enumerate(sizes):
                pieces = sum(each.new == new for each in deal.transfers)
                share = size * deal.after / total if total else 0.0
                rows.append((deal.operator, deal.kind, deal.name, new, size, pieces, share))
        return pd.DataFrame(rows, columns=["operator", "kind", "name", "subtask", "bytes", "pieces", "share"])

    def where(self, key: Any, operator: str | None = None) -> list[KeyMove]:
        """Return the subtasks of a key before and after this restore, in each keyed operator or in `operator`.

        Raises ValueError if no operator has keys of its type, or for an unknown operator.
        """
        keyed = [deal for deal in self.deals if deal.kind == "keyed state"]
        types = self.key_types or {}
        moves = (move_of(key, each, types.get(each.operator)) for each in keyed if operator in (None, each.operator))
        found = [move for move in moves if move is not None]
        if not found:
            names = ", ".join(deal.operator for deal in keyed) or "none"
            raise ValueError(
                f"no keyed operator has a key {key!r}; operators with keyed state in this restore: {names}"
            )
        return found

    def keys(self) -> pd.DataFrame:
        """Return every key in the checkpoint's keyed state, if its files can be read: operator, key, key_group, from,
        to (subtasks), moved. A key that occurs in several states has one row.
        """
        columns = ["operator", "key", "key_group", "from", "to", "moved"]
        snapshot = None if self.restore is None else self.restore.snapshot
        if snapshot is None:
            return pd.DataFrame(columns=columns)
        deals = {deal.operator: deal for deal in self.deals if deal.kind == "keyed state"}
        found: dict[tuple[str, str], tuple[Any, ...]] = {}
        for table in values_of(snapshot).of(state_tables.KEYED):
            if table.operator not in deals:
                continue
            for row in table.rows.select(["key", "key_group"]).to_pylist():
                old, new = owners(deals[table.operator], row["key_group"])
                moved = (table.operator, row["key"], row["key_group"], old, new, old != new)
                found[table.operator, repr(row["key"])] = moved
        return pd.DataFrame([found[each] for each in sorted(found)], columns=columns)

    def find(self, text: str) -> Rescaling:
        """Return the same restore with the key that the user typed, parsed as the type of the keys. If no such key
        exists, `note` says so.
        """
        for key_type in dict.fromkeys([*(self.key_types or {}).values(), pa.string(), pa.int64()]):
            try:
                key = pa.scalar(text).cast(key_type).as_py()
                self.where(key)
            except (ValueError, TypeError, pa.ArrowException):
                continue
            return Rescaling(self.restore, key, self.key_types)
        return Rescaling(self.restore, None, self.key_types, f"No operator of this restore has a key {text!r}.")

    @cached_property
    def _moves(self) -> list[KeyMove]:
        return [] if self.key is None else self.where(self.key)

    def svg(self) -> Svg:
        """Return the picture alone, in light colours."""
        return light_svg(WIDTH, *self._drawn(), self.title, STYLE)

    def dot(self, operator: str | None = None, kind: str | None = None) -> Dot:
        """Return the same as an object of the `graphviz` package. Raises ValueError as `graph` does."""
        return self.graph(operator, kind).dot()

    def graph(self, operator: str | None = None, kind: str | None = None) -> Graph:
        """Return the writers at the left and the readers at the right, with an arrow for each pair: of all states, or
        of those of one operator, or of one kind such as "keyed state".

        Raises ValueError if this restore has no such state.
        """
        deals = [deal for deal in self.deals if operator in (None, deal.operator) and kind in (None, deal.kind)]
        if not deals and (operator or kind):
            names = ", ".join(f"{deal.kind} of {deal.operator}" for deal in self.deals) or "none"
            asked = f"{kind or 'state'} of {operator or 'any operator'}"
            raise ValueError(f"this restore has no {asked}; it has: {names}")
        return redistribution_graph(deals, self.title)

    def _drawn(self) -> tuple[float, str]:
        nothing = "the checkpoint holds no state" if self.restore else self.title
        return drawn(self.deals, self._moves, nothing)

    def _repr_html_(self) -> str:
        if self.restore is None:
            return panel(self.title, under="After a failure or a rescale: who was given which piece of state.")
        picture = drawing_html(WIDTH, *self._drawn(), self.title)
        under = "Above who wrote it, below who was given it; a colour stays with its writer."
        moves = "".join(f"<p><b>{escape(str(move))}</b></p>" for move in self._moves)
        moves += f"<p>{escape(self.note)}</p>" if self.note else ""
        return panel(self.title, moves, picture, self._besides(), under=under, styles=(STYLE,))

    def _besides(self) -> str:
        """Return every key, the state of coordinators and hooks, and the mappings."""
        assert self.restore is not None
        master = "".join(f"<li>{escape(what)}: {size_text(size)}</li>" for what, size in self.restore.to_master)
        to_master = f"<h4>To the JobMaster</h4><ul>{master}</ul>" if master else ""
        rows = "".join(f"<li>{escape(task)}, {escape(words)}</li>" for task, words in self.restore.mappings[:40])
        rows += f"<li>… and {more} more</li>" if (more := len(self.restore.mappings) - 40) > 0 else ""
        mapped = f"<details><summary>How the channels map</summary><ul>{rows}</ul></details>" if rows else ""
        note = f'<p class="kit-note">{escape(self.restore.note)}</p>' if self.restore.note else ""
        keys, every = self.keys(), ""
        if len(keys):
            words = f"Where each of {len(keys):,} keys went: {int(keys['moved'].sum()):,} changed their subtask"
            every = f"<details><summary>{words}</summary>{frame_html(keys, most=MOST_KEYS)}</details>"
        return every + to_master + mapped + note

    def __repr__(self) -> str:
        return f"Rescaling({self.title})"


VIEW = View(
    "rescaling",
    "Redistribution",
    "Which subtask received which state at the last restore?",
    rescaling_view,
    asks="where is key",
    choices=lambda drawn: drawn.keys()["key"],
)
