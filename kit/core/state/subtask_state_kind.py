"""The kinds of state that one subtask of one operator has in a checkpoint."""

from __future__ import annotations

from enum import StrEnum


class SubtaskStateKind(StrEnum):
    """A kind of state of a subtask, by its name in traces and in the names of state files.

    Only restored state has an `UPSTREAM_OUTPUT_BUFFER`.
    """

    MANAGED_OPERATOR = "managed_operator"
    RAW_OPERATOR = "raw_operator"
    MANAGED_KEYED = "managed_keyed"
    RAW_KEYED = "raw_keyed"
    INPUT_CHANNEL = "input_channel"
    RESULT_SUBPARTITION = "result_subpartition"
    UPSTREAM_OUTPUT_BUFFER = "upstream_output_buffer"

    @property
    def field(self) -> str:
        """The field of `OperatorSubtaskState` that has its handles."""
        return f"{self.value}_state"

    @property
    def words(self) -> str:
        """Its name in tables and messages."""
        return _WORDS[self]


_WORDS = {
    SubtaskStateKind.MANAGED_OPERATOR: "operator",
    SubtaskStateKind.RAW_OPERATOR: "raw operator",
    SubtaskStateKind.MANAGED_KEYED: "keyed",
    SubtaskStateKind.RAW_KEYED: "raw keyed",
    SubtaskStateKind.INPUT_CHANNEL: "input",
    SubtaskStateKind.RESULT_SUBPARTITION: "output",
    SubtaskStateKind.UPSTREAM_OUTPUT_BUFFER: "upstream output",
}
OPERATOR_KINDS = (SubtaskStateKind.MANAGED_OPERATOR, SubtaskStateKind.RAW_OPERATOR)
KEYED_KINDS = (SubtaskStateKind.MANAGED_KEYED, SubtaskStateKind.RAW_KEYED)
CHANNEL_KINDS = (SubtaskStateKind.INPUT_CHANNEL, SubtaskStateKind.RESULT_SUBPARTITION)
