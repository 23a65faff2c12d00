"""Why, in a lab: all that the trace tells, and besides what only the machines know, a value in state."""

from __future__ import annotations

from typing import Any

from kit.lab.state_history import why_value
from kit.why import Asking, Why, why

NO_KEY = object()


class LabAsking(Asking):
    """The part of a `Lab` that answers "why?"."""

    def why(
        self,
        about: object = None,
        *,
        task: str | None = None,
        channel: int | None = None,
        checkpoint: int | None = None,
        request: int | None = None,
        epoch: int | None = None,
        key: Any = NO_KEY,
        state: str | None = None,
    ) -> Why:
        """Why something is as it is: the chain of causes, as `kit.why.why` has it.

        With `key` it is a value in keyed state: that of this key in the state named `state`, of the task or operator
        `about`; either may be left out where only one state holds the key. The steps that changed it are found by
        taking the steps of this epoch again.

        Raises WhyError for what the run does not have.
        """
        if key is not NO_KEY:
            return why_value(self, key, state, task if about is None else str(about))
        return why(self, about, task=task, channel=channel, checkpoint=checkpoint, request=request, epoch=epoch)
