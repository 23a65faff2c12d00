"""The reasons why a checkpoint ended without completing, in words."""

from __future__ import annotations

ENDED_BECAUSE = {
    "CHECKPOINT_ASYNC_EXCEPTION": "a task could not write its snapshot",
    "CHECKPOINT_COORDINATOR_SHUTDOWN": "the job ended",
    "CHECKPOINT_DECLINED": "a task declined it",
    "CHECKPOINT_EXPIRED": "it took longer than its timeout",
    "CHECKPOINT_SUBSUMED": "a later one is complete",
    "FINALIZE_CHECKPOINT_FAILURE": "its metadata could not be written",
    "IO_EXCEPTION": "its directory could not be created",
    "JOB_FAILOVER_REGION": "the job was restarted",
}
"""Why a checkpoint ended without completing, by the name of the reason."""


def ended_because(reason: str) -> str:
    """Return a reason in words; a reason without words of its own is its name in lower case."""
    return ENDED_BECAUSE.get(reason, ended_in_short(reason))


def ended_in_short(reason: str) -> str:
    """Return a reason as a label: its name in lower case, except for a restart, whose name says too little."""
    return "job restarted" if reason == "JOB_FAILOVER_REGION" else reason.replace("_", " ").lower()
