"""The user's actions on a lab, as Python code that repeats them.

An action of the explorer becomes the corresponding call: `lab.run_until(checkpoint=2)`. Actions from elsewhere, and
those partly undone because the lab went back, are listed one by one, by their keys. In both cases the code takes
exactly the same steps when it is run with the same job.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kit.core.protocol.events import (
    RequestCancel,
    RequestCheckpoint,
    RequestRescale,
    RequestSavepoint,
    RequestStop,
    StartJob,
)
from kit.core.protocol.words import ProtocolMessage
from kit.hosts.lab import Lab
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.world.actions import Action, LetTimePass
from kit.hosts.lab.world.schedulers import Random

LINE_LENGTH = 100
STEP, RUN = "lab.step()", "lab.run_until("
AT_POSITION = f"{RUN}lambda lab: lab.position == {{position}})"
"""The code of a run whose condition takes more than a line; `ActionHistory.add` fills in the step that it reached."""
OF_THE_LAB = ("Adversarial", "Fair", "First", "Random", "faults", "ready_job")


@dataclass(frozen=True, slots=True)
class UserAction:
    """One user action: its code, and the steps that it took, from the step after `before` on."""

    code: str
    before: int
    actions: tuple[Action | ProtocolMessage, ...]

    @property
    def after(self) -> int:
        """The step at which the action was complete."""
        return self.before + len(self.actions)


class ActionHistory:
    """The user's actions on one lab, as far as they were observed. `setup_code` is the code that creates the lab."""

    def __init__(self, lab: Lab, setup_code: str = "") -> None:
        self._lab = lab
        self.setup_code = setup_code or made_by(lab)
        self._scheduler = lab.scheduler
        self._performed: list[UserAction] = []

    def add(self, code: str, before: int) -> None:
        """Add `code`, which led the lab from the step `before` to its current step."""
        code = code.replace("{position}", str(self._lab.position))
        self._performed.append(UserAction(code, before, self._lab.past.actions[before:]))

    def again(self, lab: Lab) -> ActionHistory:
        """Return the same past, for a lab that continues on its own from here."""
        other = ActionHistory(lab, self.setup_code)
        other._scheduler = self._scheduler
        other._performed = list(self._performed)
        other.cut()
        return other

    def cut(self) -> None:
        """Drop the actions after the lab's present step, because it takes another way. From now on its present
        scheduler makes the choices.
        """
        position = self._lab.position
        self._performed = [performed for performed in self._performed if performed.before < position]
        if self._lab.scheduler != self._scheduler:
            self._performed.append(UserAction(f"lab.scheduler = {self._lab.scheduler!r}", position, ()))

    @property
    def done(self) -> list[str]:
        """The code of each action, as it was added."""
        return [performed.code for performed in self._performed]

    @property
    def body(self) -> str:
        """Python code that creates the lab and repeats the actions, without imports."""
        return "\n".join([self.setup_code, *self._lines()])

    @property
    def code(self) -> str:
        """Python code that creates the lab and repeats the actions."""
        imports, text = ["from kit import Lab"], self.body
        needed = [name for name in OF_THE_LAB if re.search(rf"(?<!lab\.)\b{name}[.(]", text)]
        imports += [f"from kit.hosts.lab import {', '.join(needed)}"] if needed else []
        return "\n".join([*imports, "", text]) + "\n"

    def _lines(self) -> Iterator[str]:
        actions = self._lab.past.actions
        at, steps = 1, 0
        for performed in self._performed:
            is_cut = performed.after > len(actions)
            done = actions[performed.before : performed.after]
            if performed.before < at or performed.before > len(actions) or done != performed.actions[: len(done)]:
                continue
            if is_cut and not (done and performed.code.startswith(RUN)):
                continue
            if (steps and performed.code != STEP) or performed.before > at:
                yield from _steps(steps)
                steps = 0
            yield from code_of(actions[at : performed.before])
            if performed.code == STEP:
                steps += 1
            else:
                yield f"{RUN}lambda lab: lab.position == {len(actions)})" if is_cut else performed.code
            at = performed.before + len(done)
        yield from _steps(steps)
        yield from code_of(actions[at:])


def _steps(count: int) -> Iterator[str]:
    if count == 1:
        yield STEP
    elif count:
        yield f"for _ in range({count}):\n    {STEP}"


def made_by(lab: Lab) -> str:
    """Return code that creates such a lab from the reader's job."""
    arguments = [f"seed={lab.past.seed}"] if lab.past.seed else []
    if lab.scheduler != Random():
        arguments.append(f"scheduler={lab.scheduler!r}")
    first = lab.past.actions[0]
    if isinstance(first, StartJob) and first.restore_path is not None:
        arguments.append(f"restore_path={first.restore_path!r}, after=earlier")
    return f"lab = Lab({', '.join(['env', *arguments])})  # env is the job {lab.job.name!r}"


def code_of(actions: Iterable[Action | ProtocolMessage]) -> Iterator[str]:
    """Yield lines that perform these actions, independent of the scheduler."""
    keys: list[str] = []
    for action in actions:
        if isinstance(action, Action) and not isinstance(action, Fault | LetTimePass):
            keys.append(action.key)
            continue
        yield from _by_keys(keys)
        keys = []
        yield line_of(action)
    yield from _by_keys(keys)


def _by_keys(keys: Sequence[str]) -> Iterator[str]:
    if len(keys) == 1:
        yield f"lab.step({keys[0]!r})"
    elif keys:
        yield 'for key in """'
        yield from textwrap.wrap(" ".join(keys), LINE_LENGTH, break_long_words=False, break_on_hyphens=False)
        yield '""".split():\n    lab.step(key)'


def line_of(action: Action | ProtocolMessage) -> str:
    """Return the line of Python that performs this action."""
    if isinstance(action, LetTimePass):
        return f"lab.wait_until({action.until_ms})"
    if isinstance(action, Fault):
        return action.code
    if isinstance(action, Action):
        return f"lab.step({action.key!r})"
    if isinstance(action, RequestCheckpoint):
        return f"lab.trigger_checkpoint({'full=True' if action.full else ''})"
    if isinstance(action, RequestSavepoint):
        return f"lab.savepoint({'' if action.target is None else repr(action.target)})"
    if isinstance(action, RequestStop):
        given = ([] if action.target is None else [repr(action.target)]) + ["drain=True"] * action.drain
        return f"lab.stop({', '.join(given)})"
    if isinstance(action, RequestRescale):
        return f"lab.rescale({action.parallelism!r}{'' if action.at_once else ', at_once=False'})"
    if isinstance(action, RequestCancel):
        return "lab.cancel()"
    return f"# {action!r} was sent to the JobMaster"
