"""The growth of list state over checkpoints, by redistribution mode.

A restore splits SPLIT_DISTRIBUTE state among the subtasks, gives all of union state to every subtask, and gives each
subtask one copy of broadcast state. So if a function writes back everything that it was given, every restore multiplies
its union state by the parallelism (`OperatorStateHandle.Mode`). The numbers come from the acknowledgements in the
trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import groupby
from math import log10
from typing import Any

import pandas as pd

from kit.core.protocol.messages import AcknowledgeCheckpoint
from kit.core.protocol.notes import CheckpointRestored
from kit.draw.picture import Svg
from kit.draw.stage.scene import fit
from kit.draw.svg import asset
from kit.run.run import run_of

MODES = {"SPLIT_DISTRIBUTE": "split", "UNION": "union", "BROADCAST": "broadcast"}
COLUMNS = ["run", "checkpoint", "restores", "state", "mode", "entries"]


def list_growth(runs: Mapping[str, Any], states: Collection[str] | None = None) -> ListGrowth:
    """Count the list state in all checkpoints of these runs: Labs, SparkJobs or Traces by name.

    `states` are the names of the states to count, by default all, including those of sources and sinks.
    """
    rows = (row for name, run in runs.items() for row in _rows(name, run))
    frame = pd.DataFrame([row for row in rows if states is None or row[3] in states], columns=COLUMNS)
    return ListGrowth(frame.groupby(COLUMNS[:-1], as_index=False, sort=False)["entries"].sum())


def _rows(name: str, run: Any) -> Iterator[tuple[Any, ...]]:
    """Return a row for each list state in each subtask's acknowledgement."""
    restores = 0
    for record in run_of(run).trace:
        if record.is_a(CheckpointRestored):
            restores += 1
        if not record.is_a(AcknowledgeCheckpoint) or record.role != "command":
            continue
        for operator in ((record.data.get("state") or {}).get("subtask_states") or {}).values():
            for handle in operator.get("managed_operator_state", ()):
                for state, meta in handle.get("state_name_to_partition_offsets", {}).items():
                    entries = len(meta["offsets"])
                    yield name, record.checkpoint_id, restores, state, MODES.get(meta["mode"], meta["mode"]), entries


@dataclass(frozen=True)
class ListGrowth:
    """List state over checkpoints and restores; a notebook shows it by itself."""

    entries: pd.DataFrame

    def to_pandas(self) -> pd.DataFrame:
        """One row per run, checkpoint and state: run, checkpoint, restores (before it), state, mode, entries (of all
        subtasks together).
        """
        return self.entries

    @cached_property
    def lines(self) -> dict[tuple[str, str, str], list[tuple[int, int, int]]]:
        """Return, by run, state and mode, the restores before each checkpoint, its id, and its entries, in order."""
        rows = sorted(self.entries.itertuples(index=False), key=lambda row: (row.run, row.state, row.mode))
        return {
            key: sorted((row.restores, row.checkpoint, row.entries) for row in group)
            for key, group in groupby(rows, key=lambda row: (row.run, row.state, row.mode))
        }

    @property
    def caption(self) -> str:
        """A one-line summary of what grew most."""
        grown = {key: line[-1][2] / max(1, line[0][2]) for key, line in self.lines.items() if len(line) > 1}
        most = max(grown, key=lambda key: grown[key], default=None)
        if most is None:
            return "No list state is in more than one checkpoint"
        (_, _, first), *_, (restores, _, last) = self.lines[most]
        if grown[most] <= 1:
            return f"No list state grew over {restores} restores"
        _, state, mode = most
        return f"{mode.capitalize()} state {state!r} grew from {first:,} to {last:,} entries over {restores} restores"

    def svg(self) -> Svg:
        """The picture."""
        return Svg.of(_svg(self, f"<style>{asset('theme.css')}{asset('list_growth.css')}</style>"), self.caption)

    def _repr_html_(self) -> str:
        style = f"<style>{asset('theme.css')}{asset('list_growth.css')}</style>"
        return f'{style}<div class="kit-picture kit-growth"><div class="wide">{_svg(self, "")}</div></div>'

    def __repr__(self) -> str:
        return f"ListGrowth({self.caption})"


# --- the picture ------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 340.0, 76.0, 236.0, 74.0, 52.0
LABEL_GAP = 15.0


def _svg(growth: ListGrowth, style: str) -> str:
    lines = {key: line for key, line in growth.lines.items() if line}
    title = fit(growth.caption, WIDTH - 48, 15, bold=True)
    parts = [
        f'<text x="24" y="28" class="what">{escape(title)}<title>{escape(growth.caption)}</title></text>',
        '<text x="24" y="49" class="under">entries in all subtasks together, checkpoint after checkpoint; '
        "the upright scale grows tenfold a step</text>",
    ]
    if lines:
        last = max(1, *(restores for line in lines.values() for restores, _, _ in line))
        most = max(entries for line in lines.values() for _, _, entries in line)
        parts += [*_axes(last, most), *_drawn(lines, last, most)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="kit-picture kit-growth" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
        f'width="{WIDTH:g}" role="img" aria-label="{escape(growth.caption)}">{style}'
        f'<rect width="100%" height="100%" rx="8" class="paper"/>{"".join(parts)}</svg>'
    )


def _x(restores: int, last: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * restores / last


def _y(entries: int, most: int) -> float:
    decades = max(1, len(str(max(1, most))))
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * log10(max(1, entries)) / decades


def _axes(last: int, most: int) -> Iterator[str]:
    for decade in range(len(str(max(1, most))) + 1):
        y = _y(10**decade, most)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**decade:,}</text>'
    for restores in range(last + 1):
        x = _x(restores, last)
        yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18:g}" text-anchor="middle">{restores}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    told = "restores before the checkpoint"
    yield f'<text class="tick" x="{middle:g}" y="{HEIGHT - 12:g}" text-anchor="middle">{told}</text>'


def _drawn(lines: Mapping[tuple[str, str, str], list[tuple[int, int, int]]], last: int, most: int) -> Iterator[str]:
    """Draw a line for each state with its name at the end; names that would overlap are moved apart."""
    ends: list[tuple[float, tuple[str, str, str]]] = []
    for key, line in lines.items():
        points = [(_x(restores, last), _y(entries, most)) for restores, _, entries in line]
        way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        yield f'<path class="line {key[2]}" d="M{way}"/>'
        for (x, y), (_, checkpoint, entries) in zip(points, line):
            told = f"{key[2]} state {key[1]!r}, checkpoint {checkpoint}: {entries:,} entries"
            dot = f'<circle class="point {key[2]}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
            yield f"<g>{dot}<title>{escape(told)}</title></g>"
        ends.append((points[-1][1], key))
    below = -LABEL_GAP
    for y, (run, state, mode) in sorted(ends):
        below = max(y, below + LABEL_GAP)
        name = f"{mode}: {state}" + (f" ({run})" if run not in ("", mode) else "")
        shown = fit(name, RIGHT - 30, 11)
        yield (
            f'<text class="name {mode}" x="{WIDTH - RIGHT + 12:g}" y="{below + 4:.1f}">{escape(shown)}'
            f"<title>{escape(name)}</title></text>"
        )
