"""The distribution of real keys under a parallelism and a maximum parallelism, before a job is deployed.

The key group of a key depends on the job's maximum parallelism, which can never be changed. Subtasks own contiguous
ranges of key groups. So with few key groups per subtask, some subtasks own half as many again as others, however even
the keys are. A plan shows the keys of each subtask, the imbalance caused by the key groups and by the keys, Flink's
default maximum, and what another parallelism would move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from kit.advice.balance import Balance, key_column
from kit.core.html_tables import frame_html
from kit.core.markup import Markup
from kit.core.state.key_groups import (
    default_max_parallelism,
    key_group_partitions,
    operator_index_for_key_group,
    sums_by_subtask,
)
from kit.draw import shapes
from kit.draw.graphs import text_width
from kit.draw.panel import drawing_html, panel
from kit.draw.picture import Svg, light_svg
from kit.draw.stage.scene import short
from kit.stream.backend.keys.key_hashing import assign_to_key_group, java_hash, key_groups_for_hashes

STYLE = "rescale_plan.css"
WIDTH, LEFT, RIGHT, TOP, CHART = 840.0, 64.0, 24.0, 34.0, 150.0
STRIP = 26.0
HEIGHT = TOP + CHART + STRIP + 62
NAMED = 40
"""The most subtasks that are drawn with their number and their number of keys."""


def rescale_plan(
    keys: Any, parallelism: int, max_parallelism: int | None = None, *, before: int | None = None
) -> RescalePlan:
    """Distribute these keys to `parallelism` subtasks.

    `keys` is an Arrow array, a numpy array of numbers, a pandas Series or a list. A key that occurs twice counts twice:
    pass a column of records to see the load, or its distinct values to see the state. `max_parallelism` is by default
    Flink's default for this parallelism. `before` is the parallelism that the state was written with.

    Raises ValueError for an invalid parallelism, or one above the maximum.
    """
    most = default_max_parallelism(before or parallelism) if max_parallelism is None else max_parallelism
    for each in filter(None, (parallelism, before)):
        key_group_partitions(most, each)  # raises for invalid values
    column = key_column(keys)
    hashes = java_hash(column) if len(column) else np.empty(0, np.int32)
    return RescalePlan(parallelism, most, _counts(hashes, most), column.type, before, hashes)


def _counts(hashes: npt.NDArray[np.int32], most: int) -> npt.NDArray[np.int64]:
    groups = key_groups_for_hashes(hashes, most) if len(hashes) else np.empty(0, np.uint16)
    return np.bincount(groups, minlength=most).astype(np.int64)


@dataclass(frozen=True, eq=False)
class RescalePlan:
    """Keys distributed to subtasks. `counts` is the number of keys per key group, int64, shape (max_parallelism,)."""

    parallelism: int
    max_parallelism: int
    counts: npt.NDArray[np.int64]
    key_type: pa.DataType
    before: int | None = None
    hashes: npt.NDArray[np.int32] | None = None
    """The keys' Java hash codes, from which they can be distributed again."""

    def replaced(
        self, parallelism: int | None = None, max_parallelism: int | None = None, before: int | None = None
    ) -> RescalePlan:
        """Return the same keys distributed differently; arguments left out keep their values.

        Raises ValueError as `rescale_plan` does, and for another maximum if the hash codes are not known.
        """
        most = max_parallelism or self.max_parallelism
        new, old = parallelism or self.parallelism, before or self.before
        for each in filter(None, (new, old)):
            key_group_partitions(most, each)
        if most == self.max_parallelism:
            counts = self.counts
        elif self.hashes is None:
            raise ValueError("this plan knows its keys by key group only: make it with rescale_plan(keys, ...)")
        else:
            counts = _counts(self.hashes, most)
        return replace(self, parallelism=new, max_parallelism=most, counts=counts, before=old)

    @cached_property
    def default(self) -> RescalePlan | None:
        """The plan with Flink's default maximum; None if this plan has it, or if it is below the parallelism."""
        if self.flinks_default == self.max_parallelism or self.hashes is None:
            return None
        try:
            return self.replaced(max_parallelism=self.flinks_default)
        except ValueError:
            return None

    @property
    def keys(self) -> int:
        """The number of keys."""
        return int(self.counts.sum())

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per subtask: subtask, first_group, last_group, key_groups, keys, and share, as a multiple of
        an even load. If the parallelism before is known, moved_in counts the keys that another subtask had.
        """
        ranges = key_group_partitions(self.max_parallelism, self.parallelism)
        keys = self.balance.by_subtask.astype(np.int64)
        frame = pd.DataFrame(
            {
                "subtask": range(self.parallelism),
                "first_group": [each.start for each in ranges],
                "last_group": [each.end for each in ranges],
                "key_groups": [each.end - each.start + 1 for each in ranges],
                "keys": keys,
                "share": keys * self.parallelism / max(self.keys, 1),
            }
        )
        if self.before is not None:
            moved = np.where(self.balance.moved_from(self.before), self.counts, 0)
            frame["moved_in"] = sums_by_subtask(moved, self.parallelism).astype(np.int64)
        return frame

    @cached_property
    def balance(self) -> Balance:
        """The balance of the keys."""
        return Balance(self.counts, self.parallelism)

    @property
    def moved(self) -> int:
        """The number of keys that another subtask had before; 0 if the parallelism before is not known."""
        return 0 if self.before is None else int(self.counts[self.balance.moved_from(self.before)].sum())

    @property
    def group_imbalance(self) -> float:
        """The most key groups of a subtask, as a multiple of an even share: the imbalance due to the ranges."""
        return self.balance.group_imbalance

    @property
    def imbalance(self) -> float:
        """The most keys of a subtask, as a multiple of an even share: the slowdown of the slowest subtask."""
        return self.balance.imbalance

    @property
    def headroom(self) -> float:
        """The factor by which the parallelism can still grow."""
        return self.balance.headroom

    @property
    def flinks_default(self) -> int:
        """The maximum parallelism that Flink chooses when none is set."""
        return default_max_parallelism(self.before or self.parallelism)

    def where(self, key: Any) -> str:
        """Return where a key is: its key group, its subtask, and where it was before."""
        group = assign_to_key_group(key, self.max_parallelism, self.key_type)
        subtask = operator_index_for_key_group(self.max_parallelism, self.parallelism, group)
        words = f"{key!r} is in key group {group}, which subtask {subtask} owns"
        if self.before is None:
            return words
        old = operator_index_for_key_group(self.max_parallelism, self.before, group)
        return f"{words}; it was with subtask {old}" if old != subtask else f"{words}, as before"

    def across(self, parallelisms: Iterable[int]) -> pd.DataFrame:
        """The same keys at other parallelisms: parallelism, group_imbalance, imbalance, idle (subtasks without a key),
        moved (keys that change their subtask from here).
        """
        others = (replace(self, parallelism=each, before=self.parallelism) for each in parallelisms)
        rows = [
            (each.parallelism, each.group_imbalance, each.imbalance, each.balance.idle, each.moved) for each in others
        ]
        return pd.DataFrame(rows, columns=["parallelism", "group_imbalance", "imbalance", "idle", "moved"])

    @property
    def caption(self) -> str:
        """A one-line summary of the plan."""
        return (
            f"{self.keys:,} keys on {self.parallelism} of at most {self.max_parallelism} subtasks: the fullest has "
            f"{self.imbalance:.2f} times its part, key groups alone make it {self.group_imbalance:.2f}"
        )

    def beside(self) -> pd.DataFrame:
        """This plan and, where it is another, that with Flink's default, one row each: max_parallelism, imbalance,
        group_imbalance, headroom, idle (subtasks without a key), moved.
        """
        rows = []
        for name, plan in (("chosen", self), ("Flink's default", self.default)):
            if plan is not None:
                numbers = (plan.imbalance, plan.group_imbalance, plan.headroom)
                rows.append(
                    (name, plan.max_parallelism, *(round(each, 3) for each in numbers), plan.balance.idle, plan.moved)
                )
        columns = ["plan", "max_parallelism", "imbalance", "group_imbalance", "headroom", "idle", "moved"]
        return pd.DataFrame(rows, columns=columns)

    def svg(self) -> Svg:
        """The picture: keys by subtask, and below them the key groups that they own."""
        return light_svg(WIDTH, HEIGHT, _drawn(self), self.caption, STYLE)

    def _repr_html_(self) -> str:
        pictures = [_picture(self, "")]
        if self.default is not None:
            pictures.append(_picture(self.default, f"Beside it Flink's default, {self.flinks_default} key groups"))
        return panel(self.caption, *pictures, frame_html(self.beside()), under=_under(self), styles=(STYLE,))

    def __repr__(self) -> str:
        return f"RescalePlan({self.caption})"


def _picture(plan: RescalePlan, heading: str) -> str:
    head = f"<h4>{escape(heading)}</h4>" if heading else ""
    return head + drawing_html(WIDTH, HEIGHT, _drawn(plan), plan.caption)


def _drawn(plan: RescalePlan) -> str:
    return "".join((*_bars(plan), *_groups(plan), *_legend(plan, HEIGHT - 16)))


def _under(plan: RescalePlan) -> str:
    parts = [f"it can grow to {plan.headroom:.3g} times as many subtasks, never further"]
    if plan.max_parallelism != plan.flinks_default:
        parts.append(f"Flink's default would be {plan.flinks_default} key groups")
    else:
        parts.append("this is Flink's default number of key groups")
    if plan.before is not None:
        parts.append(f"from {plan.before} subtasks, {plan.moved:,} keys move")
    return "; ".join(parts)


def _span(plan: RescalePlan, first: int, last: int) -> tuple[float, float]:
    """Return the horizontal interval of these key groups, which are drawn in order and equally wide."""
    room = WIDTH - LEFT - RIGHT
    return LEFT + room * first / plan.max_parallelism, room * (last - first + 1) / plan.max_parallelism


def _bars(plan: RescalePlan) -> Iterable[str]:
    """Draw a bar per subtask, as wide as its key groups and as high as its keys, before a line at an even share."""
    table = plan.to_pandas()
    most = max(int(table["keys"].max()), 1)
    base = TOP + CHART
    even = base - CHART * plan.keys / plan.parallelism / most
    yield shapes.path("rp-even", f"M{LEFT:g} {even:.1f}H{WIDTH - RIGHT:g}")
    yield shapes.text(LEFT - 8, even + 4, "rp-note", "even", "end")
    for row in table.itertuples():
        x, width = _span(plan, row.first_group, row.last_group)
        height = CHART * row.keys / most
        moved = CHART * getattr(row, "moved_in", 0) / most
        gap = min(1.5, width / 6)
        words = (
            f"subtask {row.subtask}: key groups {row.first_group} to {row.last_group}, {row.keys:,} keys, "
            f"{row.share:.2f} times its part"
        )
        for look, y, tall in (("stayed", base - height, height - moved), ("moved", base - moved, moved)):
            if tall > 0:
                yield shapes.rect(f"rp-{look}", x + gap, y, width - 2 * gap, tall, words)
        if plan.parallelism <= NAMED:
            label = f"{row.keys:,}" if text_width(f"{row.keys:,}", 10.5) < width else short(int(row.keys))
            if text_width(label, 10.5) < width:
                yield shapes.text(x + width / 2, number_place(base - height, even), "rp-number", label, "middle")
    yield shapes.path("rp-axis", f"M{LEFT:g} {base:g}H{WIDTH - RIGHT:g}")


def number_place(top: float, even: float) -> float:
    """Return the y position, in px, of the number of a bar that ends at `top`: above the bar, and above the line of an
    even share if that would cross it.
    """
    baseline = top - 4
    return even - 4 if baseline - 10 < even < baseline + 3 else baseline


def _groups(plan: RescalePlan) -> Iterable[str]:
    """Draw a strip of the key groups, darker the more keys they have, with their owners."""
    most = max(int(plan.counts.max(initial=0)), 1)
    y = TOP + CHART + 6
    for group, keys in enumerate(plan.counts.tolist()):
        x, width = _span(plan, group, group)
        hint = f"key group {group}: {keys:,} keys"
        yield shapes.rect("rp-group", x, y, width, STRIP, hint, fill_opacity=0.06 + 0.84 * keys / most)
    for subtask, owned in enumerate(key_group_partitions(plan.max_parallelism, plan.parallelism)):
        x, width = _span(plan, owned.start, owned.end)
        yield shapes.rect("rp-owner", x, y, width, STRIP)
        if plan.parallelism <= NAMED:
            label = f"subtask {subtask}" if width > 66 else str(subtask)
            if text_width(label, 10.5) < width:
                yield shapes.text(x + width / 2, y + STRIP + 14, "rp-note", label, "middle")


def _legend(plan: RescalePlan, y: float) -> Iterable[str]:
    moved = shapes.rect("rp-moved", 0, -9, 14, 10)
    entries: Sequence[tuple[Markup, str]] = [
        (shapes.rect("rp-stayed", 0, -9, 14, 10), "keys of a subtask"),
        *([(moved, "of these, keys that another subtask had")] if plan.moved else []),
        (shapes.path("rp-even", "M-4 -4H18"), "an even part"),
        (shapes.rect("rp-group", 0, -9, 14, 10, fill_opacity=0.6), "key group, stronger: more keys"),
    ]
    x = LEFT
    for sign, text in entries:
        yield shapes.moved(x, y, sign, shapes.text(24, 0, "rp-note", text))
        x += 24 + text_width(text, 10.5) + 24
