"""Names of state files, made of operator, subtask, checkpoint and part: the same wherever the job runs.

Flink names them at random (`FsCheckpointStreamFactory`).
"""

from __future__ import annotations

import re

_STATE_FILE_NAME = re.compile(r"([0-9a-f]{32})-(\d+)-(\d+)-(.*)")


def state_file_name(operator_id: str, subtask: int, checkpoint_id: int, part: str) -> str:
    """Return the name of a state file: the same for the same arguments, wherever the job runs."""
    return f"{operator_id}-{subtask}-{checkpoint_id}-{part}"


def parts_of(state_file: str) -> tuple[str, int, int, str] | None:
    """Return operator, subtask, checkpoint and part of a state file's name, or None for a file of another kind."""
    found = _STATE_FILE_NAME.match(state_file)
    return None if found is None else (found[1], int(found[2]), int(found[3]), found[4])


def checkpoint_of(state_file: str) -> int | None:
    """Return the checkpoint of the state file with this name, or None for a file of another kind."""
    found = parts_of(state_file)
    return None if found is None else found[2]
