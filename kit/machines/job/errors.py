"""The errors with which both hosts report the end of a job to its user."""

from __future__ import annotations


class JobEndedError(Exception):
    """The job ended without a failure before the request could be fulfilled."""


class JobFailedError(Exception):
    """The job, or a request to it, failed; the text says why.

    `worker_traceback` is the worker's, if it has one.
    """

    def __init__(self, error: str, worker_traceback: str = "") -> None:
        super().__init__(error)
        self.worker_traceback = worker_traceback
        if worker_traceback:
            self.add_note(worker_traceback.rstrip())
