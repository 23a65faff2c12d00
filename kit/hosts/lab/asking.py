"""Why, in a lab: all that the trace tells, and what the machines know: a value in state, what an action waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from kit.hosts.lab.choices import Choices
from kit.hosts.lab.fault_verbs import Faults
from kit.hosts.lab.world.actions import Action
from kit.hosts.lab.world.world import World
from kit.why.asking import Asking, Named, named_by

if TYPE_CHECKING:
    from kit.why.answer import Why


class InALab(Named, total=False):
    """A value in state is asked about as well."""

    key: Any
    state: str | None


class LabAsking(Asking):
    """The part of a `Lab` that answers "why?"."""

    _world: World

    def enabled(self) -> Choices:
        raise NotImplementedError

    @property
    def faults(self) -> Faults:
        raise NotImplementedError

    def why_not(self, action: Action | str) -> Why:
        """Return why an action may not happen now, and what it waits for, down to the first cause. `action` is one of
        `enabled()` or `faults.possible()` of any moment, its key ("turn:sums/1", "receive:3",
        "timer:job:checkpoint-trigger", "deliver:AcknowledgeCheckpoint:chk-1:sums/1:job"), or a few words that name one.

        Raises LabError for words that name none.
        """
        from kit.hosts.lab.faults.why_not import named_action, why_not

        known = self._known()
        if isinstance(action, str):
            action = named_action(action, known, self.enabled(), self.faults.possible())
        return why_not(self._world, known, action)

    @named_by(InALab)
    def why(self, about: object = None, **named: Unpack[InALab]) -> Why:
        """Why something is as it is: the chain of causes, as `kit.why.why` has it.

        With `key` it is a value in keyed state: that of this key in the state named `state`, of the task or operator
        `about`; either may be left out where only one state holds the key. The steps that changed it are found by
        taking the steps of this epoch again.

        An action is asked about as `why_not` does. Raises WhyError for what the run does not have.
        """
        if isinstance(about, Action):
            return self.why_not(about)
        if "key" in named:
            from kit.hosts.lab.recordings.state_history import why_value

            of = named.get("task") if about is None else str(about)
            return why_value(self, self._known(), named["key"], named.get("state"), of)
        asked: Any = {name: value for name, value in named.items() if name != "state"}
        return super().why(about, **asked)
