"""The error with which both hosts report that a job has ended and takes no more requests."""

from __future__ import annotations


class JobEndedError(Exception):
    """The job ended without a failure before the request could be fulfilled."""
