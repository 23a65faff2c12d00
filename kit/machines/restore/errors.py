"""Why state cannot be given back to a job.

Each error begins with what Flink says at that place, then names the operator, what was found and what to do. The
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
    """State that does not fit the job it is to be restored to.

    `flink_class` is the Java exception Flink throws here, `flink_message` its text (None where Flink gives none), and
    `advice` says what was found, what was expected and what to do. The error does not repeat what Flink says about its
    command line, which does not exist here.
    """

    default_flink_class = ILLEGAL_STATE

    def __init__(self, flink_message: str | None, advice: str, flink_class: str | None = None) -> None:
        self.flink_class = flink_class or self.default_flink_class
        self.flink_message = flink_message
        self.advice = advice
        shown = (flink_message or "").replace(CLI_ADVICE, "")
        super().__init__("\n".join(part for part in (shown, advice) if part))

    def about(self, what: str) -> Self:
        """The same error, which says whose state it is about."""
        return type(self)(self.flink_message, f"{self.advice} The state is that of {what}.", self.flink_class)


class NonRestoredStateError(RestoreError):
    """The checkpoint holds state of an operator that the job does not have."""


class MaxParallelismError(RestoreError):
    """The key groups of the checkpoint are not those of the job."""


class FinishedOperatorsError(RestoreError):
    """Operators that had finished and operators that had not are now one task."""


class ChainedChannelStateError(RestoreError):
    """There is in-flight data on what is now no channel, since its two ends became one task."""


class ChannelRescaleError(RestoreError):
    """In-flight data cannot be dealt out at the new parallelism."""


class PointwiseRescaleError(ChannelRescaleError):
    """In-flight data of a pointwise or broadcast exchange, which cannot be dealt out again."""

    default_flink_class = UNSUPPORTED_OPERATION


class RepartitionError(RestoreError):
    """Operator state that cannot be dealt out."""


def described(state: OperatorState, job: OperatorIDPair | None = None) -> str:
    """What a message calls the state of an operator: name and uid as the checkpoint has them, id and size.

    Older checkpoints have none: then what the `job` calls the operator.
    """
    name = state.name or (job.name if job else None)
    uid = state.uid or (job.uid if job else None)
    known = [f"'{name}'"] if name else []
    known += [f"uid '{uid}'"] if uid else []
    return " ".join([*known, f"[{state.operator_id}, {state.state_size} B]"])
