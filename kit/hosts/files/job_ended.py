"""The error with which both hosts say that nothing can be asked of a job any more."""

from __future__ import annotations


class JobEndedError(Exception):
    """The job ended, and not because it failed, before what was asked of it could be done."""
