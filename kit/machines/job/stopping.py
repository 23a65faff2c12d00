"""Stop-with-savepoint: the request, the savepoint that answers it, and when the answer may be given.

The user is answered only after the job has finished, because until then it may still fail. A savepoint that fails is
answered at once. Periodic checkpoints then continue, or, if all tasks have finished meanwhile, the job fails over.

Once the savepoint is complete, its tasks are notified and sinks publish what it covers. A restart would go back to an
older checkpoint and publish the same rows again. So from then on no failure is recovered from: the job fails and names
the savepoint, and its user must resume from that. With a durable store the savepoint is recorded there before any task
is notified. If the driver dies in between, the next one resumes from the savepoint too.

Follows Flink's `StopWithSavepointTerminationManager`, `StopWithSavepointTerminationHandlerImpl` and
`StopWithSavepointStoppingException`, which is not recoverable. The record in the store has no counterpart in Flink.
"""

from __future__ import annotations

from kit.core.protocol.commands import CompleteRequest
from kit.machines.job.status import JobStatus


class StopWithSavepoint:
    """At most one stop at a time.

    `request` is its id, and `answer` the completed savepoint, while the tasks finish.
    """

    def __init__(self) -> None:
        self.request: int | None = None
        self.answer: CompleteRequest | None = None
        self._failed = False
        """True if a stop failed and its consequences are still to be handled."""

    def begin(self, request: int) -> None:
        """Start the stop that the user requested under this id."""
        self.request = request

    def take_failure(self) -> bool:
        """Return True if a stop has failed since the last call."""
        failed, self._failed = self._failed, False
        return failed

    @property
    def is_under_way(self) -> bool:
        """True if the job is being stopped."""
        return self.request is not None

    @property
    def stands(self) -> bool:
        """True if the savepoint is complete, so that sinks may have published what it covers."""
        return self.answer is not None

    @property
    def path(self) -> str:
        """The path of the completed savepoint, while the tasks finish; "" if there is none."""
        return "" if self.answer is None else self.answer.path or ""

    def holds_back(self, word: CompleteRequest) -> bool:
        """Handle the answer to the stop; return True if it must wait until the job has finished."""
        if word.request_id != self.request:
            return False
        if not word.error:
            self.answer = word
            return True
        self.request = None
        self._failed = True
        return False

    def end(self, status: JobStatus, error: str) -> CompleteRequest | None:
        """Return the answer that was held back, if any, after the job has ended."""
        if self.answer is None:
            return None
        return self._take() if status is JobStatus.FINISHED else self.give_up(error or f"it is {status.name}")

    def _take(self) -> CompleteRequest:
        answer = self.answer
        assert answer is not None
        self.answer = self.request = None
        return answer

    def give_up(self, error: str) -> CompleteRequest:
        """Return the answer of a job that failed although its savepoint is complete: it says where to resume from."""
        savepoint = self._take()
        text = (
            f"the savepoint is complete at {savepoint.path}, but the job did not stop with it: {error}\n"
            f"Its output may not all be published: go on from this savepoint, restore_path={savepoint.path!r}, "
            "and from no older checkpoint."
        )
        return CompleteRequest(request_id=savepoint.request_id, error=text)

    def __repr__(self) -> str:
        return f"StopWithSavepoint({'none' if self.request is None else self.request})"
