"""How a job names the operators whose state it looks for in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperatorIDPair:
    """Under which ids an operator's state is looked for: the one the user gave first, then the generated one.

    Ids are 32 hex digits. `name` and `uid` only serve messages. Source: `OperatorIDPair`.
    """

    generated_id: str
    user_defined_id: str | None = None
    name: str | None = None
    uid: str | None = None

    @property
    def label(self) -> str:
        """What to call the operator in a message."""
        known = [f"'{self.name}'"] if self.name else []
        known += [f"(uid '{self.uid}')"] if self.uid else []
        return " ".join(known) or self.user_defined_id or self.generated_id
