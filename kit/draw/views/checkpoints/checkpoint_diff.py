"""What changed from one checkpoint to another, as tables."""

from __future__ import annotations

from kit.draw.view_html import answer, fold, frame, view_html
from kit.snapshots.checkpoints.difference import CheckpointDiff


def checkpoint_diff_html(diff: CheckpointDiff) -> str:
    """Show the states that changed and the operators that grew; what did not change is folded."""
    states, operators = diff.states, diff.operators
    differ = states[(states[["added", "removed", "changed"]].sum(axis="columns") > 0) | (states["error"] != "")]
    grown = int(operators["grown_bytes"].sum())
    rows = ", ".join(f"{int(states[change].sum()):,} {change}" for change in ("added", "removed", "changed"))
    moved = operators[operators["change"] != "unchanged"]
    subtasks = diff.subtasks
    changed = subtasks[(subtasks[["grown_bytes", "added", "removed", "changed"]] != 0).any(axis="columns")]
    return view_html(
        diff.title,
        answer(f"Rows of state: {rows}. All state together {'grew' if grown >= 0 else 'shrank'} by {abs(grown):,} B."),
        fold("States", f"{len(differ)} of {len(states)} differ", frame(differ), is_open=len(differ) > 0),
        fold("Subtasks", f"{len(changed)} of {len(subtasks)} differ", frame(changed)),
        fold("Operators", f"{len(moved)} of {len(operators)} differ", frame(moved.drop(columns="operator_id"))),
    )
