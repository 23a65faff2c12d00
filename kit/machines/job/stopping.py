"""Stop-with-savepoint: the request, the savepoint that answers it, and when the answer may be given.

The user is answered only when the job has finished, for until then it may still fail. A savepoint that fails is
answered at once; periodic checkpoints then go on, or, if all tasks have finished meanwhile, the job fails over.

Once the savepoint is complete, its tasks are told and sinks publish what it covers. A restart would go back to an older
checkpoint and publish the same rows again, so from then on no failure is recovered from: the job fails, names the
savepoint, and its user goes on from that alone. With a durable store the savepoint is noted there before any task is
told, so a driver that dies in between is followed by one that goes on from the savepoint too.

Follows Flink's `StopWithSavepointTerminationManager`, `StopWithSavepointTerminationHandlerImpl` and
`StopWithSavepointStoppingException`, which is not recoverable. The note in the store has no twin in Flink.
"""

from __future__ import annotations

from kit.core.protocol.commands import CompleteRequest
from kit.machines.job.status import JobStatus


class StopWithSavepoint:
    """At most one stop at a time: `request` is its number, `answer` the savepoint that is complete, while the tasks
    finish.
    """

    def __init__(self) -> None:
        self.request: int | None = None
        self.answer: CompleteRequest | None = None
        self._failed = False
        """Whether a stop failed and its consequences are still to be drawn."""

    def begin(self, request: int) -> None:
        """The user asks for it, under this number."""
        self.request = request

    def take_failure(self) -> bool:
        """Whether a stop failed since this was asked last."""
        failed, self._failed = self._failed, False
        return failed

    @property
    def is_under_way(self) -> bool:
        """Whether the job is being stopped."""
        return self.request is not None

    @property
    def stands(self) -> bool:
        """Whether the savepoint is complete, so that sinks may have published what it covers."""
        return self.answer is not None

    @property
    def path(self) -> str:
        """The savepoint that is complete, while the tasks finish; "" if there is none."""
        return "" if self.answer is None else self.answer.path or ""

    def holds_back(self, word: CompleteRequest) -> bool:
        """Take note of the answer to the stop; True when it has to wait until the job has finished."""
        if word.request_id != self.request:
            return False
        if not word.error:
            self.answer = word
            return True
        self.request = None
        self._failed = True
        return False

    def end(self, status: JobStatus, error: str) -> CompleteRequest | None:
        """The job has ended: the answer that was held back, if one was."""
        if self.answer is None:
            return None
        return self._take() if status is JobStatus.FINISHED else self.give_up(error or f"it is {status.name}")

    def _take(self) -> CompleteRequest:
        answer = self.answer
        assert answer is not None
        self.answer = self.request = None
        return answer

    def give_up(self, error: str) -> CompleteRequest:
        """The job did not stop with its savepoint, which is complete: the answer says so, and where to go on from."""
        savepoint = self._take()
        text = (
            f"the savepoint is complete at {savepoint.path}, but the job did not stop with it: {error}\n"
            f"Its output may not all be published: go on from this savepoint, restore_path={savepoint.path!r}, "
            "and from no older checkpoint."
        )
        return CompleteRequest(request_id=savepoint.request_id, error=text)

    def __repr__(self) -> str:
        return f"StopWithSavepoint({'none' if self.request is None else self.request})"
