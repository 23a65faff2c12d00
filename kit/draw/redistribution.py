"""What a restore gave to whom: a table, and a picture with a ribbon for every piece of state that changed hands.

Both read the trace's `StateAssigned` records. Keyed state is drawn by key group: old owners above, new owners below,
the groups side by side, so a ribbon is as wide as the groups it carries. Operator state is a list; what matters there
is from which subtasks the entries of each new subtask came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from kit.draw.job_state import RestoreMoment
from kit.draw.moment import moment_at
from kit.draw.picture import Svg
from kit.draw.scene import fit, size_text
from kit.draw.shown import shown
from kit.draw.svg import document
from kit.protocol.tasks import split_task_name
from kit.protocol.trace import Trace
from kit.state.key_groups import key_group_range_for_operator_index

WIDTH, ROW_HEIGHT, LEFT, RIGHT = 1100.0, 128.0, 24.0, 1076.0
BAR, GAP = 22.0, 5.0
SHADES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f2a", "#6a51a3")
"""Of the old subtasks in turn: a colour says where state comes from."""

_KINDS = {
    "keyed": "keyed state, by key group",
    "raw keyed": "raw keyed state, by key group",
    "operator": "operator state, by list entry",
    "raw operator": "raw operator state, by partition",
    "in flight, input": "buffers in flight that had arrived",
    "in flight, output": "buffers in flight that had not been sent",
}

COLUMNS = [
    "epoch",
    "checkpoint_id",
    "operator",
    "task",
    "kind",
    "from",
    "first_group",
    "last_group",
    "entries",
    "bytes",
]


def restores_of(run: Any) -> tuple[RestoreMoment, ...]:
    """Every restore of a Lab, a SparkJob or a Trace, oldest first."""
    return moment_at(run).restores


def restores_table(trace: Trace) -> pd.DataFrame:
    """What each restore gave to whom: one row per epoch, task, operator and kind of state."""
    rows = [
        {"epoch": record.data["epoch"], "checkpoint_id": record.checkpoint_id, **row}
        for record in trace
        for row in record.data.get("assignments", ())
    ]
    columns = ["epoch", "checkpoint_id", "operator", "task", "kind", "from", "key_groups", "entries", "bytes"]
    return pd.DataFrame(rows, columns=columns)


def redistribution(run: Any) -> pd.DataFrame:
    """One row per restore, operator, new subtask and kind of state, of a Lab, a SparkJob or a Trace.

    Columns: epoch, checkpoint_id, operator, task, kind ("keyed", "raw keyed", "operator", "raw operator", "in flight,
    input" or "in flight, output"), from (list of old subtask indices), first_group and last_group (Int64; for keyed
    state), entries, bytes.
    """
    rows = []
    for restore in restores_of(run):
        for given in restore.assignments:
            first, last = given.get("key_groups") or (None, None)
            head = [restore.epoch, restore.checkpoint_id, given["operator"], given["task"], given["kind"]]
            rows.append([*head, list(given["from"]), first, last, given.get("entries"), given.get("bytes")])
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype(dict.fromkeys(("first_group", "last_group", "entries", "bytes"), "Int64"))


@shown.register(RestoreMoment)
def redistribution_svg(run: Any, epoch: int | None = None) -> Svg:
    """The picture of one restore, operator by operator: of the one that `epoch` began with, by default the last.

    `run` is a Lab, a SparkJob or a Trace, or the restore itself. Raises ValueError when there was no such restore.
    """
    restore = run if isinstance(run, RestoreMoment) else _restore(restores_of(run), epoch)
    by_operator: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for given in restore.assignments:
        by_operator.setdefault((given["operator"], given["kind"]), []).append(given)
    parts: list[str] = []
    y = 62.0
    for (operator, kind), rows in by_operator.items():
        rows = sorted(rows, key=lambda row: split_task_name(row["task"])[1])
        parts += _operator(operator, kind, rows, restore.before, y)
        y += ROW_HEIGHT
    height = max(y, 90.0)
    title = f"Checkpoint {restore.checkpoint_id} is given to the tasks of epoch {restore.epoch}"
    note = "above: the subtasks that wrote the state, below: those that read it; a colour stays with its writer"
    if not by_operator:
        note = "the checkpoint holds no state"
    drawn = (
        f'<text x="24" y="26" class="what">{escape(title)}</text>'
        f'<text x="24" y="45" class="because">{note}</text>{"".join(parts)}'
    )
    return document(WIDTH, height, drawn, title)


def _restore(restores: Sequence[RestoreMoment], epoch: int | None) -> RestoreMoment:
    for restore in reversed(restores):
        if epoch in (None, restore.epoch):
            return restore
    there = ", ".join(str(restore.epoch) for restore in restores)
    asked = "nothing has been restored in this run" if epoch is None else f"epoch {epoch} began with no restore"
    raise ValueError(f"{asked}; epochs that did: {there or 'none'}")


def _operator(
    operator: str, kind: str, rows: Sequence[Mapping[str, Any]], before: Mapping[str, int], y: float
) -> list[str]:
    vertex = split_task_name(rows[0]["task"])[0]
    olds = sorted({old for row in rows for old in row["from"]})
    what = _KINDS[kind]
    name = fit(f"{operator}: {what}", 600, 12, bold=True)
    parts = [f'<text x="{LEFT:g}" y="{y + 10:g}" class="vertex-title">{escape(name)}</text>']
    many = before.get(vertex, max(olds, default=0) + 1)
    if rows[0]["key_groups"] is not None:
        return parts + _keyed(vertex, many, rows, y + 18)
    return parts + _listed(vertex, olds, rows, y + 18)


def _shade(old: int) -> str:
    return SHADES[old % len(SHADES)]


def _bar(x: float, y: float, width: float, label: str, hint: str, fill: str = "#f3f6fa") -> str:
    shown = fit(label, width - 6, 10.5)
    text = "" if width < 18 else f'<text x="{x + width / 2:g}" y="{y + 14.5:g}" text-anchor="middle" class="chip-text">'
    text += "" if width < 18 else f"{escape(shown)}</text>"
    return (
        f'<g><title>{escape(hint)}</title><rect x="{x:g}" y="{y:g}" width="{max(width, 2):g}" height="{BAR:g}" rx="3" '
        f'fill="{fill}" stroke="#54606f"/>{text}</g>'
    )


def _ribbon(left: float, right: float, to_left: float, to_right: float, y: float, old: int, hint: str) -> str:
    top, bottom = y + BAR + 1, y + BAR + 47
    middle = (top + bottom) / 2
    path = (
        f"M{left:.1f} {top:g}C{left:.1f} {middle:g} {to_left:.1f} {middle:g} {to_left:.1f} {bottom:g}"
        f"L{to_right:.1f} {bottom:g}C{to_right:.1f} {middle:g} {right:.1f} {middle:g} {right:.1f} {top:g}Z"
    )
    return f'<path d="{path}" fill="{_shade(old)}" fill-opacity="0.5"><title>{escape(hint)}</title></path>'


def _keyed(vertex: str, parallelism: int, rows: Sequence[Mapping[str, Any]], y: float) -> list[str]:
    """Bars as wide as their key groups. The old ranges follow from the old parallelism, as when they were written."""
    groups = max(row["key_groups"][1] for row in rows) + 1
    before = {}
    for old in range(parallelism):
        key_range = key_group_range_for_operator_index(groups, parallelism, old)
        before[old] = (key_range.start, key_range.end)
    after = {split_task_name(row["task"])[1]: tuple(row["key_groups"]) for row in rows}
    parts: list[str] = []
    at_old, at_new = _scale(before, groups), _scale(after, groups)
    for old, (first, last) in before.items():
        x, width = at_old(old, first), at_old(old, last + 1) - at_old(old, first)
        label = f"{vertex}/{old}: {first} to {last}"
        parts.append(_bar(x, y, width, label, f"{label}, before", _light(old)))
    for row in rows:
        new = split_task_name(row["task"])[1]
        first, last = after[new]
        label = f"{row['task']}: {first} to {last}"
        x, width = at_new(new, first), at_new(new, last + 1) - at_new(new, first)
        parts.append(_bar(x, y + BAR + 48, width, label, f"{label}, {size_text(row.get('bytes') or 0)}"))
        for old in row["from"]:
            low, high = max(first, before[old][0]), min(last, before[old][1])
            if low <= high:
                ends = (at_old(old, low), at_old(old, high + 1), at_new(new, low), at_new(new, high + 1))
                parts.append(_ribbon(*ends, y, old, f"key groups {low} to {high}: {vertex}/{old} to {row['task']}"))
    return parts


def _scale(ranges: Mapping[int, tuple[int, ...]], groups: int) -> Any:
    """Where a key group is within its owner's bar: the bars stand apart, so their owners' order shifts them."""
    order = {owner: place for place, owner in enumerate(sorted(ranges))}
    room = RIGHT - LEFT - GAP * (len(order) - 1)
    return lambda owner, group: LEFT + room * group / groups + GAP * order[owner]


def _light(old: int) -> str:
    return _shade(old) + "55"


def _listed(vertex: str, olds: list[int], rows: Sequence[Mapping[str, Any]], y: float) -> list[str]:
    """Equal bars; a thin ribbon from each old subtask whose entries a new one was given."""
    at_old, at_new = _slots(olds), _slots(range(len(rows)))
    readers = {old: [place for place, row in enumerate(rows) if old in row["from"]] for old in olds}
    parts = [
        _bar(x, y, width, f"{vertex}/{old}", f"{vertex}/{old}, before", _light(old))
        for old in olds
        for x, width in [at_old(old)]
    ]
    for place, row in enumerate(rows):
        x, width = at_new(place)
        entries = row.get("entries") or 0
        one, many = ("buffer", "buffers") if row["kind"].startswith("in flight") else ("entry", "entries")
        label = f"{row['task']}: {entries} {one if entries == 1 else many}"
        parts.append(_bar(x, y + BAR + 48, width, label, f"{label}, {size_text(row.get('bytes') or 0)}"))
        for number, old in enumerate(row["from"]):
            old_x, old_width = at_old(old)
            thin = min(12.0, width / (len(row["from"]) + 1), old_width / (len(readers[old]) + 1))
            start = old_x + old_width * (readers[old].index(place) + 1) / (len(readers[old]) + 1)
            end = x + width * (number + 1) / (len(row["from"]) + 1)
            ends = (start - thin / 2, start + thin / 2, end - thin / 2, end + thin / 2)
            parts.append(_ribbon(*ends, y, old, f"entries of {vertex}/{old} to {row['task']}"))
    return parts


def _slots(owners: Iterable[int]) -> Any:
    order = {owner: place for place, owner in enumerate(owners)}
    width = (RIGHT - LEFT - GAP * (len(order) - 1)) / max(1, len(order))
    return lambda owner: (LEFT + order[owner] * (width + GAP), width)
