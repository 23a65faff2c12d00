"""The control bar of a live run: step, run until a condition holds, and send requests to the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import ipywidgets

from kit.hosts.lab import Lab
from kit.machines.job.errors import JobFailedError
from kit.run.moments.job_state import ACKNOWLEDGED, BEGUN, SENT, UNHEARD
from widgets.base.buttons import ROW, button, dropdown, icon_button, named
from widgets.panels.app import App
from widgets.runs.action_history import AT_POSITION
from widgets.runs.explored_run import ExploredRun
from widgets.runs.next_actions import can_go_on, why_none_can_act

HAS_BARRIER = (*BEGUN, SENT, ACKNOWLEDGED, UNHEARD)
"""The phases of a checkpoint in which a task has received its barrier."""


NEXT_CHECKPOINT = "the next checkpoint is complete"
Target = tuple[Callable[[Lab], object], str]
"""An action that runs until a condition holds, and its code."""


class Controls:
    """The bar of a lab. `targets` are the conditions until which it can run."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.missed = ""
        """The last condition that was awaited and did not occur before the job's end."""
        self.until = dropdown("until", "run until this condition holds")
        self.go = button("Go", "run until this condition holds", self._go, "fast-forward", "primary")
        where = "the directory of the next savepoints"
        field = ipywidgets.Text(
            placeholder="savepoints to: the default directory", tooltip=where, layout={"width": "250px"}
        )
        self.target = named(field, where)
        self.checkpoint = self._ask("Checkpoint", "flag", "trigger a checkpoint now", "trigger_checkpoint")
        self.savepoint = self._ask("Savepoint", "bookmark", "trigger a savepoint", "savepoint", target=True)
        kept = "windows and timers keep what they have"
        self.stop = self._ask("Stop with savepoint", "stop", kept, "stop", target=True)
        fired = "stop with a savepoint after all timers and windows have fired"
        self.drain = self._ask("Drain", "tint", fired, "stop", target=True, drain=True)
        self.cancel = self._ask("Cancel", "ban", "end the job without a savepoint", "cancel")
        self.rescale = icon_button("Rescale", "arrows-h", "continue this run at another parallelism", app.rescale)
        self._asks = [self.checkpoint, self.savepoint, self.stop, self.drain, self.cancel]
        self._acts = [self.go, *self._asks]
        self._hints = {each: each.tooltip for each in self._acts}
        self.why_not = ipywidgets.HTML()
        self.widget = ipywidgets.HBox([self.until, self.go, *self._asks, self.rescale], layout=ROW)
        self.widget.add_class("kit-requests")
        self.targets: Mapping[str, Target] = {}

    # --- what is done ---------------------------------------------------------------------------------------------

    def _go(self) -> None:
        self._app.do(*self.targets[self.until.value])

    def _ask(
        self, label: str, icon: str, hint: str, request: str, *, target: bool = False, **settings: bool
    ) -> ipywidgets.Button:
        """Return a button that makes a request to the lab; with `target`, it passes the directory that was typed."""

        def press() -> None:
            typed = self.target.value.strip() if target else ""
            given = [typed] if typed else []
            code = ", ".join([*map(repr, given), *(f"{name}={value}" for name, value in settings.items())])

            def ask(lab: Lab) -> None:
                number = getattr(lab, request)(*given, **settings)
                if isinstance(number, int):
                    self._app.explored.asked[number] = label

            self._app.do(ask, f"lab.{request}({code})")

        return icon_button(label, icon, hint, press)

    def _answers(self, lab: Lab) -> str:
        """Return the outcome of the last request; "" if there was none."""
        asked = self._app.explored.asked
        if not asked:
            return ""
        number, label = list(asked.items())[-1]
        if number > lab.position or getattr(lab.past.actions[number - 1], "request_id", None) != number:
            return ""  # the run went back to a step before the request
        try:
            path = lab.look.answer(number)
        except JobFailedError as error:
            return f"{label}: {error}"
        return f"{label}: asked for, not done yet" if path is None else f"{label}: {path or 'done'}"

    # --- what is shown --------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Show which actions are currently possible."""
        explored = self._app.explored
        reason = why_none_can_act(explored)
        for each in self._acts:
            why_not = reason or (_why_not_ask(explored) if each in self._asks else "")
            each.disabled = bool(why_not)
            each.tooltip = why_not or self._hints[each]
        explored.stepper.goes_on = explored.lab is not None and can_go_on(explored.lab)
        if self.missed:
            reason = f"Not before the job ends: {self.missed}. {reason or 'The run has not moved.'}"
        said = reason or ("" if explored.lab is None else self._answers(explored.lab))
        self.why_not.value = f'<span class="kit-quiet" title="{escape(said)}">{escape(said)}</span>' if said else ""
        if explored.lab is not None:
            self.targets = targets(explored.lab)
            if list(self.until.options) != list(self.targets):
                chosen = self.until.value
                self.until.options = list(self.targets)
                self.until.value = chosen if chosen in self.targets else next(iter(self.targets))


def _why_not_ask(explored: ExploredRun) -> str:
    """Return why the job takes no requests, although actions may still be possible: it has ended."""
    lab = explored.lab
    if lab is None or not explored.is_present or not lab.ended:
        return ""
    return f"The job is {lab.status.lower()} and takes no requests. Step back, or start another run."


def targets(lab: Lab) -> dict[str, Target]:
    """Return the conditions until which a lab can run, each with the action and its code."""
    fails = "lab.run_until(lambda lab: lab.error != '')"
    found: dict[str, Target] = {
        NEXT_CHECKPOINT: _until(checkpoint=lab.look.master.checkpoints.store.latest_id + 1),
        "a checkpoint begins": _until(record="CheckpointTriggered"),
        "an acknowledgement is in flight": _acknowledgement(lab),
        "a checkpoint ends badly": _until(record="CheckpointAborted"),
        "something fails": (lambda lab: lab.run_until(lambda lab: lab.error != ""), fails),
        "all tasks are running": _until(record="AllTasksRunning"),
        "the job has ended": _until(ended=True),
    }
    for task in lab.look.stages[-1].tasks():
        found[f"{task} has its barrier"] = _barrier(task, lab)
    return found


def _until(**condition: Any) -> Target:
    ((name, value),) = condition.items()
    return (lambda lab: lab.run_until(**condition)), f"lab.run_until({name}={value!r})"


def _acknowledgement(lab: Lab) -> Target:
    """Return the action that runs until a task has sent an acknowledgement that is not yet in flight."""

    def in_flight(lab: Lab) -> set[str]:
        return {each for each, message in lab.moment().messages.items() if message.mail == "ack"}

    before = in_flight(lab)
    code = f"{AT_POSITION}  # an acknowledgement is in flight"
    return (lambda lab: lab.run_until(lambda lab: bool(in_flight(lab) - before))), code


def _barrier(task: str, lab: Lab) -> Target:
    def newest(lab: Lab) -> int:
        phases = getattr(lab.moment().tasks.get(task), "phases", {})
        return max((number for number, phase in phases.items() if phase in HAS_BARRIER), default=0)

    before = newest(lab)
    code = f"{AT_POSITION}  # {task} has its barrier"
    return (lambda lab: lab.run_until(lambda lab: newest(lab) > before)), code
