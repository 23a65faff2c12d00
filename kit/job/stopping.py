"""Stop-with-savepoint: the request, the savepoint that answers it, and when the answer may be given.

The user is answered only when the job has finished, for until then it may still fail and go on from the savepoint. A
savepoint that fails is answered at once; periodic checkpoints then go on, or, if all tasks have finished meanwhile,
the job fails over.

Follows Flink's `StopWithSavepointTerminationManager` and `StopWithSavepointTerminationHandlerImpl`.
"""

from __future__ import annotations

from kit.protocol.commands import CompleteRequest


class StopWithSavepoint:
    """At most one stop at a time: `request` is its number, `answer` the savepoint that stands, while the tasks
    finish.
    """

    def __init__(self) -> None:
        self.request: int | None = None
        self.answer: CompleteRequest | None = None
        self.failed = False
        """Whether a stop failed and its consequences are still to be drawn."""

    @property
    def is_under_way(self) -> bool:
        """Whether the job is being stopped."""
        return self.request is not None

    def holds_back(self, word: CompleteRequest) -> bool:
        """Take note of the answer to the stop; True when it has to wait until the job has finished."""
        if word.request_id != self.request:
            return False
        if not word.error:
            self.answer = word
            return True
        self.request = None
        self.failed = True
        return False

    def finish(self) -> CompleteRequest | None:
        """The job has finished: the answer that was held back."""
        answer, self.answer, self.request = self.answer, None, None
        return answer

    def give_up(self, error: str) -> CompleteRequest | None:
        """The job did not stop with the savepoint that stands: the answer that says so."""
        answer = self.answer
        if answer is None:
            return None
        self.answer = self.request = None
        text = f"the savepoint stands at {answer.path}, but the job did not stop with it: {error}"
        return CompleteRequest(request_id=answer.request_id, error=text)

    def __repr__(self) -> str:
        return f"StopWithSavepoint({'none' if self.request is None else self.request})"
