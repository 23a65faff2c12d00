"""The ids under which a job looks for its operators' state in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperatorIDPair:
    """The ids of an operator's state: the user-defined one is tried first, then the generated one.

    Ids are 32 hex digits. `name` and `uid` only serve messages. Source: `OperatorIDPair`.
    """

    generated_id: str
    user_defined_id: str | None = None
    name: str | None = None
    uid: str | None = None

    @property
    def label(self) -> str:
        """The operator's name in messages."""
        known = [f"'{self.name}'"] if self.name else []
        known += [f"(uid '{self.uid}')"] if self.uid else []
        return " ".join(known) or self.user_defined_id or self.generated_id
