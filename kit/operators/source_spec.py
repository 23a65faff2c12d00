"""A source as the head of a job: what it needs at the two places where it runs, its subtasks and its coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from kit.operators.coordinator import OperatorCoordinatorContext
from kit.operators.source import Source
from kit.operators.source_coordinator import SourceCoordinator
from kit.operators.source_operator import SourceOperator
from kit.operators.spec import ResolvedSpec


@dataclass(frozen=True, eq=False, repr=False)
class SourceSpec(ResolvedSpec):
    """A source as the head of a job: `source` says what to read."""

    source: Source

    def _resolve(self) -> None:
        self._set(output_schema=self.source.schema)

    def create(self) -> SourceOperator:
        """One subtask's operator."""
        return SourceOperator(self.source, self.name)

    def create_coordinator(self, context: OperatorCoordinatorContext) -> SourceCoordinator:
        """The coordinator that hands out the splits."""
        return SourceCoordinator(context, self.source.backlog_splits)
