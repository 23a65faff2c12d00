"""The error with which both hosts say that a job, or a snapshot asked of it, has failed."""

from __future__ import annotations


class JobFailedError(Exception):
    """The job ended without having done its work, or without what was asked of it; the text says why.

    `worker_traceback` is the worker's, where it has one.
    """

    def __init__(self, error: str, worker_traceback: str = "") -> None:
        super().__init__(error)
        self.worker_traceback = worker_traceback
        if worker_traceback:
            self.add_note(worker_traceback.rstrip())
