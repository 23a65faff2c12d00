"""What a parallelism and a maximum parallelism would do with real keys: who gets how many, and how far it can grow.

A key belongs to a key group for as long as the job's maximum parallelism stays what it is, and that can never be
changed; subtasks own contiguous ranges of key groups. So with few key groups for each subtask some own half as many
again as others, however even the keys are. Here this is seen before a job is deployed: keys by subtask, the
imbalance that key groups alone cause and that the keys add to it, the default that Flink would have chosen, and what
another parallelism would move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from kit.backend.key_hashing import assign_to_key_group, key_groups
from kit.draw.picture import CARD, LEAST_WIDTH, Svg
from kit.draw.scene import fit, short
from kit.draw.shown import shown
from kit.state.key_groups import (
    default_max_parallelism,
    key_group_partitions,
    operator_index_for_key_group,
    operator_indexes,
)

LEFT, RIGHT, TOP, CHART = 64.0, 24.0, 78.0, 150.0
STRIP = 26.0
NAMED = 40
"""Up to so many subtasks have their number, and how many keys they have, on the picture."""


def rescale_plan(
    keys: Any, parallelism: int, max_parallelism: int | None = None, *, before: int | None = None
) -> RescalePlan:
    """Deal these keys to `parallelism` subtasks. `keys` is an Arrow array, a numpy array of numbers, a pandas Series or
    a list; a key that comes twice counts twice, so a column of records shows the load, and its distinct values the
    state. Without `max_parallelism` it is Flink's default for this parallelism. `before` is the parallelism that the
    state was written with.

    Raises ValueError for a parallelism that is not possible, or larger than the maximum.
    """
    most = default_max_parallelism(before or parallelism) if max_parallelism is None else max_parallelism
    for each in filter(None, (parallelism, before)):
        key_group_partitions(most, each)  # raises for what is not possible
    column = _column(keys)
    counts = np.bincount(key_groups(column, most), minlength=most) if len(column) else np.zeros(most, np.int64)
    return RescalePlan(parallelism, most, counts.astype(np.int64), column.type, before)


def _column(keys: Any) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    return keys if isinstance(keys, pa.Array) else pa.array(keys)


@dataclass(frozen=True, eq=False)
class RescalePlan:
    """Keys dealt to subtasks; `counts` are the keys of each key group: int64, one for each of `max_parallelism`."""

    parallelism: int
    max_parallelism: int
    counts: npt.NDArray[np.int64]
    key_type: pa.DataType
    before: int | None = None

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return int(self.counts.sum())

    def to_pandas(self) -> pd.DataFrame:
        """One row per subtask: subtask, first_group, last_group, key_groups, keys, share (of an even load: 1.0 is
        exactly its part), and, when the parallelism before is known, moved_in: keys that another subtask had.
        """
        ranges = key_group_partitions(self.max_parallelism, self.parallelism)
        keys = self._by_subtask(self.counts)
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
            frame["moved_in"] = self._by_subtask(np.where(self._moves(self.before), self.counts, 0))
        return frame

    def _by_subtask(self, by_group: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        owners = operator_indexes(np.arange(self.max_parallelism), self.max_parallelism, self.parallelism)
        return np.bincount(owners, weights=by_group, minlength=self.parallelism).astype(np.int64)

    def _moves(self, before: int) -> npt.NDArray[np.bool_]:
        """Which key groups change their subtask."""
        groups = np.arange(self.max_parallelism)
        old = operator_indexes(groups, self.max_parallelism, before).astype(np.int64)
        return old != operator_indexes(groups, self.max_parallelism, self.parallelism)

    @property
    def moved(self) -> int:
        """How many keys another subtask had before; 0 when the parallelism before is not known."""
        return 0 if self.before is None else int(self.counts[self._moves(self.before)].sum())

    @property
    def group_imbalance(self) -> float:
        """The most key groups of a subtask, as a multiple of an even part: what the ranges alone cause."""
        ranges = key_group_partitions(self.max_parallelism, self.parallelism)
        return max(each.end - each.start + 1 for each in ranges) * self.parallelism / self.max_parallelism

    @property
    def imbalance(self) -> float:
        """The most keys of a subtask, as a multiple of an even part: so much longer the slowest takes."""
        return float(self._by_subtask(self.counts).max()) * self.parallelism / max(self.keys, 1)

    @property
    def headroom(self) -> float:
        """How many times the parallelism could be of what it is."""
        return self.max_parallelism / self.parallelism

    @property
    def flinks_default(self) -> int:
        """The maximum parallelism that Flink chooses when none is set."""
        return default_max_parallelism(self.before or self.parallelism)

    def where(self, key: Any) -> str:
        """Where one key is: its key group, its subtask, and where it was before."""
        group = assign_to_key_group(key, self.max_parallelism, self.key_type)
        subtask = operator_index_for_key_group(self.max_parallelism, self.parallelism, group)
        told = f"{key!r} is in key group {group}, which subtask {subtask} owns"
        if self.before is None:
            return told
        old = operator_index_for_key_group(self.max_parallelism, self.before, group)
        return f"{told}; it was with subtask {old}" if old != subtask else f"{told}, as before"

    def across(self, parallelisms: Iterable[int]) -> pd.DataFrame:
        """The same keys at other parallelisms: parallelism, group_imbalance, imbalance, idle (subtasks without a key),
        moved (keys that change their subtask from here).
        """
        rows = []
        for parallelism in parallelisms:
            other = RescalePlan(parallelism, self.max_parallelism, self.counts, self.key_type, self.parallelism)
            idle = int((other._by_subtask(self.counts) == 0).sum())
            rows.append((parallelism, other.group_imbalance, other.imbalance, idle, other.moved))
        return pd.DataFrame(rows, columns=["parallelism", "group_imbalance", "imbalance", "idle", "moved"])

    @property
    def caption(self) -> str:
        """What there is to know, in a line."""
        return (
            f"{self.keys:,} keys on {self.parallelism} of at most {self.max_parallelism} subtasks: the fullest has "
            f"{self.imbalance:.2f} times its part, key groups alone make it {self.group_imbalance:.2f}"
        )

    def svg(self) -> Svg:
        """The picture: keys by subtask, and below them the key groups that they own."""
        return Svg.of(shown(self), self.caption)

    def _repr_svg_(self) -> str:
        return shown(self)

    def __repr__(self) -> str:
        return f"RescalePlan({self.caption})"


@shown.register(RescalePlan)
def _(plan: RescalePlan) -> str:
    height = TOP + CHART + STRIP + 92
    parts = [
        f'<text x="24" y="28" class="what">{escape(fit(plan.caption, LEAST_WIDTH - 48, 16, bold=True))}</text>',
        f'<text x="24" y="49" class="because">{escape(_under(plan))}</text>',
        *_bars(plan),
        *_groups(plan),
        *_legend(plan, height - 22),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kit-plan" viewBox="0 0 {LEAST_WIDTH} {height:g}" width="100%" '
        f'style="max-width:{LEAST_WIDTH}px" role="img" aria-label="{escape(plan.caption)}">'
        f"<style>{_STYLE}</style>{CARD}{''.join(parts)}</svg>"
    )


_STYLE = """
.kit-plan { font-family: "DejaVu Sans", Verdana, Helvetica, Arial, sans-serif; }
.kit-plan text { font-size: 11px; fill: #1b2430; }
.kit-plan text.what { font-size: 16px; font-weight: 600; }
.kit-plan text.because { font-size: 12.5px; fill: #3d4856; }
.kit-plan text.small { font-size: 10px; fill: #3d4856; }
.kit-plan .stayed { fill: #8fb8dc; }
.kit-plan .moved { fill: #e69f00; }
.kit-plan .even { stroke: #1b2430; stroke-width: 1.4; stroke-dasharray: 5 4; }
.kit-plan .axis { stroke: #98a4b3; }
.kit-plan .owner { fill: none; stroke: #54606f; }
"""


def _under(plan: RescalePlan) -> str:
    parts = [f"it can grow to {plan.headroom:.3g} times as many subtasks, never further"]
    if plan.max_parallelism != plan.flinks_default:
        parts.append(f"Flink's default would be {plan.flinks_default} key groups")
    else:
        parts.append("so many key groups are Flink's default")
    if plan.before is not None:
        parts.append(f"from {plan.before} subtasks, {plan.moved:,} keys move")
    return "; ".join(parts)


def _span(plan: RescalePlan, first: int, last: int) -> tuple[float, float]:
    """Where key groups are drawn: in order, as wide as each other."""
    room = LEAST_WIDTH - LEFT - RIGHT
    return LEFT + room * first / plan.max_parallelism, room * (last - first + 1) / plan.max_parallelism


def _bars(plan: RescalePlan) -> Iterable[str]:
    """A bar per subtask, as wide as its key groups and as high as its keys."""
    table = plan.to_pandas()
    most = max(int(table["keys"].max()), 1)
    base = TOP + CHART
    for row in table.itertuples():
        x, width = _span(plan, row.first_group, row.last_group)
        height = CHART * row.keys / most
        moved = CHART * getattr(row, "moved_in", 0) / most
        gap = min(1.5, width / 6)
        told = (
            f"subtask {row.subtask}: key groups {row.first_group} to {row.last_group}, {row.keys:,} keys, "
            f"{row.share:.2f} times its part"
        )
        for look, y, tall in (("stayed", base - height, height - moved), ("moved", base - moved, moved)):
            if tall > 0:
                yield (
                    f'<rect class="{look}" x="{x + gap:.1f}" y="{y:.1f}" width="{width - 2 * gap:.1f}" '
                    f'height="{tall:.1f}"><title>{escape(told)}</title></rect>'
                )
        if plan.parallelism <= NAMED:
            label = short(int(row.keys)) if width < 52 else f"{row.keys:,}"
            yield _small(x + width / 2, base - height - 4, label)
    even = base - CHART * plan.keys / plan.parallelism / most
    yield f'<path class="axis" d="M{LEFT} {base}H{LEAST_WIDTH - RIGHT}"/>'
    yield f'<path class="even" d="M{LEFT} {even:.1f}H{LEAST_WIDTH - RIGHT}"/>'


def _groups(plan: RescalePlan) -> Iterable[str]:
    """A strip of the key groups, darker the more keys they have, and whose they are."""
    most = max(int(plan.counts.max(initial=0)), 1)
    y = TOP + CHART + 6
    for group, keys in enumerate(plan.counts.tolist()):
        x, width = _span(plan, group, group)
        yield (
            f'<rect x="{x:.2f}" y="{y:g}" width="{width:.2f}" height="{STRIP:g}" fill="#0072b2" '
            f'fill-opacity="{0.06 + 0.84 * keys / most:.2f}"><title>key group {group}: {keys:,} keys</title></rect>'
        )
    for subtask, owned in enumerate(key_group_partitions(plan.max_parallelism, plan.parallelism)):
        x, width = _span(plan, owned.start, owned.end)
        yield f'<rect class="owner" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{STRIP:g}"/>'
        if plan.parallelism <= NAMED:
            label = f"subtask {subtask}" if width > 62 else str(subtask)
            yield _small(x + width / 2, y + STRIP + 13, label)


def _small(x: float, y: float, text: str) -> str:
    return f'<text class="small" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def _legend(plan: RescalePlan, y: float) -> Iterable[str]:
    entries: Sequence[tuple[str, str]] = [
        ('<rect class="stayed" y="-8" width="14" height="10"/>', "keys of a subtask"),
        *(
            [('<rect class="moved" y="-8" width="14" height="10"/>', "of these, keys that another subtask had")]
            if plan.moved
            else []
        ),
        ('<path class="even" d="M-6 -3H18"/>', "an even part"),
        ('<rect y="-8" width="14" height="10" fill="#0072b2" fill-opacity="0.6"/>', "key group, darker with more keys"),
    ]
    x = LEFT
    for sign, text in entries:
        yield f'<g transform="translate({x:g} {y:g})">{sign}<text x="24">{escape(text)}</text></g>'
        x += 24 + 6.4 * len(text) + 24
