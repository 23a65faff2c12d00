"""The reasons why state cannot be restored to a job.

Each error begins with Flink's message for the case, then names the operator, what was found and what to do. The
attributes `flink_class` and `flink_message` hold Flink's part alone.
"""

from __future__ import annotations

from typing import Self

from kit.core.state.operator_state import OperatorState
from kit.machines.restore.operator_id_pair import OperatorIDPair

ILLEGAL_STATE = "java.lang.IllegalStateException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
UNSUPPORTED_OPERATION = "java.lang.UnsupportedOperationException"
CLI_ADVICE = " If you want to allow to skip this, you can set the --allowNonRestoredState option on the CLI."


class RestoreError(ValueError):
    """State that does not fit the job that it should be restored to.

    `flink_class` is the Java exception that Flink throws here, and `flink_message` its text (None if Flink gives none).
    `advice` says what was found, what was expected and what to do. Hints about Flink's command line are left out, since
    it does not exist here.
    """

    default_flink_class = ILLEGAL_STATE

    def __init__(self, flink_message: str | None, advice: str, flink_class: str | None = None) -> None:
        self.flink_class = flink_class or self.default_flink_class
        self.flink_message = flink_message
        self.advice = advice
        shown = (flink_message or "").replace(CLI_ADVICE, "")
        super().__init__("\n".join(part for part in (shown, advice) if part))

    def about(self, what: str) -> Self:
        """Return the same error with the owner of the state added."""
        return type(self)(self.flink_message, f"{self.advice} The state is that of {what}.", self.flink_class)


class NonRestoredStateError(RestoreError):
    """The checkpoint holds state of an operator that is not in the job."""


class MaxParallelismError(RestoreError):
    """The checkpoint's key groups differ from the job's."""


class FinishedOperatorsError(RestoreError):
    """Finished and unfinished operators are now in one task."""


class ChainedChannelStateError(RestoreError):
    """There is in-flight data between two operators that are now in one task, without a channel."""


class ChannelRescaleError(RestoreError):
    """In-flight data cannot be redistributed to the new parallelism."""


class PointwiseRescaleError(ChannelRescaleError):
    """In-flight data of a pointwise or broadcast exchange, which cannot be redistributed."""

    default_flink_class = UNSUPPORTED_OPERATION


class RepartitionError(RestoreError):
    """Operator state that cannot be redistributed."""


def advice_for(*states: OperatorState) -> str:
    """Return the advice for state that has no operator in the job."""
    unnamed = [state for state in states if state.name and not state.uid]
    if not unnamed:
        return "Give the operator the uid it had, or pass allow_non_restored_state=True to drop what it stored."
    names = ", ".join(f"'{state.name}'" for state in unnamed)
    return (
        f"{names} had no uid, so the state is found by the operator's place in the job, and the job has changed. "
        "Restore it to the job as it was, give each operator with state a uid and take a savepoint; or pass "
        "allow_non_restored_state=True to drop what was stored."
    )


def described(state: OperatorState, job: OperatorIDPair | None = None) -> str:
    """Return the description of an operator's state in messages: its name and uid, id and size.

    Name and uid come from the checkpoint. Older checkpoints have none; then the names in `job` are used.
    """
    name = state.name or (job.name if job else None)
    uid = state.uid or (job.uid if job else None)
    known = [f"'{name}'"] if name else []
    known += [f"uid '{uid}'"] if uid else []
    return " ".join([*known, f"[{state.operator_id}, {state.state_size} B]"])
