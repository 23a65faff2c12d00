"""The control bar of a live run: step, run until a condition holds, and send requests to the job."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import ipywidgets

from widgets.base.buttons import ROW, button, dropdown, icon_button, named
from widgets.runs.explored_run import ExploredRun
from widgets.runs.next_actions import why_none_can_act
from widgets.runs.session import Session
from widgets.runs.targets import targets


class Controls:
    """The bar of a lab. `rescale` is called when the user wants to rescale the run."""

    def __init__(self, session: Session, rescale: Callable[[], object]) -> None:
        self._session = session
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
        self.rescale = icon_button("Rescale", "arrows-h", "continue this run at another parallelism", rescale)
        self._asks = [self.checkpoint, self.savepoint, self.stop, self.drain, self.cancel]
        self._acts = [self.go, *self._asks]
        self._hints = {each: each.tooltip for each in self._acts}
        self.why_not = ipywidgets.HTML()
        self.widget = ipywidgets.HBox([self.until, self.go, *self._asks, self.rescale], layout=ROW)
        self.widget.add_class("kit-requests")

    # --- what is done ---------------------------------------------------------------------------------------------

    def _go(self) -> None:
        self._session.run_until(self.until.value)

    def _ask(
        self, label: str, icon: str, hint: str, request: str, *, target: bool = False, **settings: bool
    ) -> ipywidgets.Button:
        """Return a button that makes a request to the lab; with `target`, it passes the directory that was typed."""

        def press() -> None:
            typed = self.target.value.strip() if target else ""
            self._session.ask(label, request, *([typed] if typed else []), **settings)

        return icon_button(label, icon, hint, press)

    # --- what is shown --------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Show which actions are currently possible."""
        explored, missed = self._session.run, self._session.missed
        reason = why_none_can_act(explored)
        for each in self._acts:
            why_not = reason or (_why_not_ask(explored) if each in self._asks else "")
            each.disabled = bool(why_not)
            each.tooltip = why_not or self._hints[each]
        if missed:
            reason = f"Not before the job ends: {missed}. {reason or 'The run has not moved.'}"
        said = reason or explored.answer
        self.why_not.value = f'<span class="kit-quiet" title="{escape(said)}">{escape(said)}</span>' if said else ""
        if explored.lab is not None:
            conditions = list(targets(explored.lab))
            if list(self.until.options) != conditions:
                chosen = self.until.value
                self.until.options = conditions
                self.until.value = chosen if chosen in conditions else conditions[0]


def _why_not_ask(explored: ExploredRun) -> str:
    """Return why the job takes no requests, although actions may still be possible: it has ended."""
    lab = explored.lab
    if lab is None or not explored.is_present or not lab.ended:
        return ""
    return f"The job is {lab.status.lower()} and takes no requests. Step back, or start another run."
