"""A checkpoint, or a directory of several, as HTML: its tables, one below the other."""

from __future__ import annotations

from kit.draw.panel import frame_html, panel
from kit.snapshots.checkpoints.checkpoint import Checkpoint
from kit.snapshots.checkpoints.directory import Checkpoints

COLUMNS = ("operator", "name", "parallelism", "max_parallelism", "subtasks", "bytes", "written_bytes")


def checkpoint_html(found: Checkpoint | Checkpoints) -> str:
    """Show the operators and states of a checkpoint, or the checkpoints of a directory with the files nobody uses."""
    if isinstance(found, Checkpoints):
        parts = [frame_html(found.to_pandas())]
        files = found.orphans
        title = f"Files that no checkpoint here refers to: {len(files)}, {int(files['bytes'].sum()):,} B"
    else:
        operators = found.operators[[name for name in COLUMNS if name in found.operators]]
        parts = [f"<h4>Operators</h4>{frame_html(operators)}", f"<h4>States</h4>{frame_html(found.states)}"]
        files = found.files.loc[found.files.problem != "", ["file", "bytes", "problem"]]
        title = "Files that are missing"
    if len(files):
        parts.append(f"<h4>{title}</h4>{frame_html(files)}")
    return panel(found.title, *parts, under=found.directory)
