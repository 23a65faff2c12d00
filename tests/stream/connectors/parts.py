"""The paths of parts of a sink's output."""

from __future__ import annotations

from kit.stream.connectors import Sink
from kit.stream.connectors.part_names import StagedName


def paths_of_part(
    sink: Sink, checkpoint_id: int, staged_by: int = 0, *, number: int = 0, partition: str = "", writer: str = "job"
) -> tuple[str, str]:
    """Return where a writer stages a part of subtask 0, and where it publishes it; `staged_by` is usually the same."""
    name = StagedName(0, checkpoint_id, staged_by or checkpoint_id, number)
    return sink.staged_path(writer, name), sink.published_path(name.published_by(writer), partition)
