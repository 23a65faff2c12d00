"""The error with which both hosts report that a job, or a requested snapshot, has failed."""

from __future__ import annotations


class JobFailedError(Exception):
    """The job, or a request to it, failed; the text says why.

    `worker_traceback` is the worker's, if it has one.
    """

    def __init__(self, error: str, worker_traceback: str = "") -> None:
        super().__init__(error)
        self.worker_traceback = worker_traceback
        if worker_traceback:
            self.add_note(worker_traceback.rstrip())
