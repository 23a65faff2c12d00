"""Forged reports: copies of a task's report on a checkpoint that claim to come from elsewhere.

No task of a healthy cluster sends such a message. The coordinator still handles each case
(`kit.machines.coordinator.acknowledging`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kit.core.protocol.messages import AcknowledgeCheckpoint, DeclineCheckpoint, ReportCheckpointMetrics
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.stream_handles import FileStateHandle, RelativeFileStateHandle

REPORTS = (AcknowledgeCheckpoint, DeclineCheckpoint, ReportCheckpointMetrics)
"""The messages that can be forged."""
FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "job": ("job_id", str),
    "task": ("task", str),
    "attempt": ("attempt", int),
    "checkpoint": ("checkpoint_id", int),
}
"""The fields of a report that can be forged, with their types."""
STRANGER = "task=stranger/0"
USUAL = ("job=another-job", STRANGER, "checkpoint=1000")
"""The claims that the lab proposes."""


def claims_of(**claims: str | int | None) -> str:
    """Return claims as one word: `task=stranger/0,checkpoint=1000`."""
    return ",".join(f"{name}={claim}" for name, claim in claims.items() if claim is not None)


def why_not(claims: str) -> str | None:
    """Return what is wrong with the claims, or None."""
    parts = [part.partition("=") for part in claims.split(",")]
    for name, _, value in parts:
        if name not in FIELDS or not value:
            return f"a forged report claims another {', '.join(FIELDS)}, but {name or 'nothing'!r} was given"
        if FIELDS[name][1] is int and not value.isdecimal():
            return f"{name} is {value!r}, expected a number"
        if name == "task" and not value.rpartition("/")[2].isdecimal():
            return f"task is {value!r}, expected a name with a subtask's index: 'stranger/0'"
    return None


def forged(report: ProtocolMessage, claims: str, copied: Callable[[str], str]) -> ProtocolMessage:
    """Return the report with these claims.

    It refers to copies of the files, which `copied` makes. A report of another job keeps the originals, which the
    coordinator must not touch.
    """
    claimed = dict(part.split("=", 1) for part in claims.split(","))
    facts = {FIELDS[name][0]: FIELDS[name][1](value) for name, value in claimed.items()}
    if isinstance(report, AcknowledgeCheckpoint) and "job" not in claimed:
        facts["state"] = _moved(report.state, copied)
    return replace(report, **facts)


def _moved(value: Any, copied: Callable[[str], str]) -> Any:
    """Return the same state with copies of its files."""
    if isinstance(value, FileStateHandle | RelativeFileStateHandle):
        return FileStateHandle(copied(value.path), value.size)
    if isinstance(value, tuple):
        return tuple(_moved(each, copied) for each in value)
    if isinstance(value, Mapping):
        return {key: _moved(each, copied) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value) if each.init]
        return replace(value, **{name: _moved(getattr(value, name), copied) for name in names})
    return value
