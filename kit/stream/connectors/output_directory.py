"""The directory of a sink's files: what is known of it before anything is written."""

from __future__ import annotations

from kit.filesystems.places import open_path


class CommitError(OSError):
    """Staged output could not be written, or is missing and cannot be published."""


def check_output_directory(path: str) -> None:
    """Raise CommitError naming `path` if output certainly cannot be written there."""
    system, inner = open_path(path)
    if obstacle := system.obstacle(inner):
        raise CommitError(f"output directory {path} cannot be written: {obstacle}")
