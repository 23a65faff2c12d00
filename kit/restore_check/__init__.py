"""Checks before a restore: does a checkpoint fit a job, what would each subtask get, and what is lost or repeated?

`check_restore` answers before anything is started. It runs the state assignment of `kit.machines.restore` on the
checkpoint's metadata, so its answer is the answer of the restore.
"""

from kit.restore_check.check import check_restore
from kit.restore_check.findings import Effect, Finding, Severity, SharedFinding
from kit.restore_check.job_shape import JobShape, shape_of
from kit.restore_check.restore_check import Match, MatchedOperator, RestoreCheck

__all__ = [
    "Effect",
    "Finding",
    "JobShape",
    "Match",
    "MatchedOperator",
    "RestoreCheck",
    "Severity",
    "SharedFinding",
    "check_restore",
    "shape_of",
]
