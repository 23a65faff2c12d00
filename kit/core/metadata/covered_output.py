"""The output that a checkpoint covers, as its `_metadata` holds it: beside the master hooks' states, under a name.

Flink passes over a state without a hook, unless the job has hooks of its own and may drop no state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from kit.core.metadata.primitives import MetadataError
from kit.core.metadata.serializer import CheckpointMetadata
from kit.core.protocol.lineage import CoveredOutput, RunOutput
from kit.core.state.operator_state import MasterState

LINEAGE = "checkpoint-kit-lineage"
VERSION = 1


def with_covered_output(metadata: CheckpointMetadata, covered: CoveredOutput) -> CheckpointMetadata:
    """Return the same metadata, with the output that the checkpoint covers."""
    state = MasterState(LINEAGE, VERSION, covered.encode().encode())
    return replace(metadata, master_states=(*hook_states(metadata.master_states), state))


def covered_output(metadata: CheckpointMetadata, data: bytes) -> CoveredOutput:
    """Return the output that a checkpoint covers; `data` is the content of its `_metadata`.

    A checkpoint that does not say so, for instance one of Flink, covers nothing, and begins a lineage of its own. That
    is named after the content, so a copy of it begins the same one. Raises MetadataError.
    """
    for state in metadata.master_states:
        if state.name == LINEAGE:
            try:
                return CoveredOutput.decode(state.data.decode())
            except ValueError as error:
                raise MetadataError(f"the state {LINEAGE!r} cannot be read: {error}", "runs and checkpoints") from error
    return CoveredOutput((RunOutput(hashlib.sha256(data).hexdigest()[:32], 0),))


def hook_states(states: Iterable[MasterState]) -> tuple[MasterState, ...]:
    """Return the states of master hooks, without the covered output."""
    return tuple(state for state in states if state.name != LINEAGE)
