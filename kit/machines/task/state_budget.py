"""The memory that each operator's keyed state may take in a slot."""

from __future__ import annotations

from kit.stream.backend.spill.memory_budget import BYTES_PER_MB, MemoryBudget
from kit.stream.backend.spill.spill_space import SpillSpace
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.job_settings import StateBackend


def memory_budget(job: JobGraph, space: SpillSpace) -> MemoryBudget | None:
    """Return the budget of one subtask of one operator; None if all state is in memory.

    A slot has at most one subtask of each operator, so the operators with keyed state have equal shares.
    """
    if job.settings.state_backend is StateBackend.MEMORY:
        return None
    keyed = sum(operator.spec.key_type is not None for operator in job.operators)
    return MemoryBudget(space, int(job.settings.state_memory_mb * BYTES_PER_MB / max(1, keyed)))
