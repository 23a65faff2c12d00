"""A checkpoint, or a directory of several, as HTML: its tables, one below the other."""

from __future__ import annotations

from html import escape

from kit.draw.panel import frame_html, panel
from kit.snapshots.checkpoints.checkpoint import Checkpoint
from kit.snapshots.checkpoints.directory import Checkpoints

COLUMNS = ("operator", "name", "parallelism", "max_parallelism", "subtasks", "bytes", "written_bytes")


def checkpoint_html(found: Checkpoint | Checkpoints) -> str:
    """Show the operators and states of a checkpoint, or the checkpoints of a directory with the files nobody uses."""
    if isinstance(found, Checkpoints):
        return panel(found.title, *_directory(found), under=found.directory)
    return panel(found.title, *_checkpoint(found), under=found.directory)


def _checkpoint(checkpoint: Checkpoint) -> list[str]:
    operators = checkpoint.operators[[name for name in COLUMNS if name in checkpoint.operators]]
    parts = [_section("Operators", frame_html(operators)), _section("States", frame_html(checkpoint.states))]
    problems = checkpoint.files[checkpoint.files.problem != ""]
    if len(problems):
        parts.append(_section("Files that are missing", frame_html(problems[["file", "bytes", "problem"]])))
    return parts


def _directory(checkpoints: Checkpoints) -> list[str]:
    parts = [frame_html(checkpoints.to_pandas())]
    orphans = checkpoints.orphans
    if len(orphans):
        size = int(orphans["bytes"].sum())
        parts.append(
            _section(f"Files that no checkpoint here refers to: {len(orphans)}, {size:,} B", frame_html(orphans))
        )
    return parts


def _section(title: str, body: str) -> str:
    return f"<h4>{escape(title)}</h4>{body}"
