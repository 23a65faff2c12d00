"""A source as the head of a job. It runs in two places: in its subtasks, and in its coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kit.stream.backend.types.arrow_types import stream_schema
from kit.stream.operators.coordinator import OperatorCoordinatorContext
from kit.stream.operators.sources.source import Source
from kit.stream.operators.sources.source_coordinator import SourceCoordinator
from kit.stream.operators.sources.source_operator import SourceOperator
from kit.stream.operators.spec import ResolvedSpec


@dataclass(frozen=True, eq=False, repr=False)
class SourceSpec(ResolvedSpec):
    """The spec of a source; `source` says what to read.

    View and run-length columns become plain ones.
    """

    source: Source
    converts: bool = field(init=False, default=False)

    hooks_remedy: ClassVar[str] = "let its create_listener() return a SourceListener for each subtask"

    def _resolve(self) -> None:
        read = self.source.schema
        made = stream_schema(read)
        self._set(output_schema=made, converts=made is not read)

    def create(self) -> SourceOperator:
        """Return one subtask's operator."""
        return SourceOperator(self.source, self.name, self.output_schema if self.converts else None)

    def create_coordinator(self, context: OperatorCoordinatorContext) -> SourceCoordinator:
        """Return the coordinator that assigns the splits."""
        source = self.source
        return SourceCoordinator(
            context,
            source.backlog_splits,
            discover_every_ms=source.discover_every_ms,
            removes_splits=source.removes_splits,
        )
