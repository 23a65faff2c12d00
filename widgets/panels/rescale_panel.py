"""The panel for rescaling: the run continues at another parallelism, from a checkpoint taken for it.

It has a field with the number of subtasks for each vertex. The user either requests the rescale, to step through it, or
lets it happen at once, and then sees the redistribution of state. Below is the planner, which shows the effect of
another parallelism on the existing keys.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import ipywidgets

from kit.hosts.lab import Lab
from widgets.base.buttons import ROW, button, number_field
from widgets.base.closing import replace_children
from widgets.panels.place import Place
from widgets.pictures.rescale_planner import RescalePlanner
from widgets.runs.next_actions import why_none_can_act
from widgets.runs.session import Session
from widgets.runs.targets import ALL_RUNNING


class RescalePanel:
    """The panel. `fields` are the numbers of subtasks by vertex, `rescale` and `ask` buttons, `plan` the planner.

    `another_run` shows the settings of another run at a parallelism, `show_redistribution` where the state went.
    """

    title = "Rescale"
    place = Place.INSTEAD

    def __init__(
        self, session: Session, another_run: Callable[[int], object], show_redistribution: Callable[[], object]
    ) -> None:
        self._session = session
        self._another_run = another_run
        self._show_redistribution = show_redistribution
        self.fields: dict[str, ipywidgets.BoundedIntText] = {}
        self._at: dict[str, int] = {}
        """The numbers of subtasks that the fields were made from."""
        self._fields = ipywidgets.HBox(layout=ROW | {"grid_gap": "2px 14px"})
        self.later = ipywidgets.Checkbox(
            description="wait for the next checkpoint",
            tooltip="and for the cooldown and the stabilization time before it; otherwise one is taken now",
            indent=False,
            layout={"width": "auto"},
        )
        hint = "let it happen, and show which subtask received which state"
        self.rescale = button("Rescale", hint, lambda: session.attempt(self._rescale), "play", "primary")
        hint = "request it, and step through the rescale on the stage"
        self.ask = button("Only ask", hint, lambda: session.attempt(self._ask))
        hint = "keep this run, and start another one from its newest snapshot"
        self.another = button("As another run…", hint, self._another)
        self.said = ipywidgets.HTML()
        buttons = ipywidgets.HBox([self.rescale, self.ask, self.later, self.another], layout=ROW)
        self._asking = ipywidgets.VBox([self._fields, buttons, self.said])
        self.plan = PlannerPanel(session)
        heading = ipywidgets.HTML("<b>What would another parallelism do with the keys?</b>")
        self.widget = ipywidgets.VBox([self._asking, heading, self.plan.widget])

    # --- what is shown --------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Show the run's parallelism at the cursor. Numbers that the user set are kept while it does not change."""
        lab = self._session.run.lab_at_cursor
        self._asking.layout.display = "none" if lab is None else ""
        if lab is not None:
            self._show_of(lab)
        self.plan.update()

    def _show_of(self, lab: Lab) -> None:
        vertices = lab.look.stages[-1].vertices
        at = {vertex.name: vertex.parallelism for vertex in vertices}
        if at != self._at:
            self._at, widest = at, max(at.values())
            self.fields = {
                each.name: number_field(
                    each.name,
                    at[each.name] + (at[each.name] == widest),
                    1,
                    each.max_parallelism,
                    f"subtasks of {each.name}, at most {each.max_parallelism}: its max parallelism",
                )
                for each in vertices
            }
            replace_children(self._fields, *self.fields.values())
        ended = why_none_can_act(self._session.run)
        self.rescale.disabled = self.ask.disabled = bool(ended)
        now = ", ".join(f"{name} {number}" for name, number in at.items())
        self.said.value = f'<span class="kit-quiet">{escape(ended or f"Subtasks now: {now}.")}</span>'

    @property
    def wanted(self) -> dict[str, int]:
        """The numbers of subtasks that differ from the present ones."""
        return {name: field.value for name, field in self.fields.items() if field.value != self._at[name]}

    # --- what is done ---------------------------------------------------------------------------------------------

    def _call(self) -> tuple[int | dict[str, int], bool, str]:
        """Return the requested parallelism, whether to rescale at once, and the arguments as Python code."""
        wanted, at_once = self.wanted, not self.later.value
        if not wanted:
            raise ValueError("that is the parallelism that the run has: set another number of subtasks")
        widest = max(self._at.values())
        numbers = set(wanted.values())
        all_alike = len(numbers) == 1 and set(wanted) == {name for name, at in self._at.items() if at == widest}
        parallelism: int | dict[str, int] = numbers.pop() if all_alike else wanted
        return parallelism, at_once, f"{parallelism!r}{'' if at_once else ', at_once=False'}"

    def _ask(self) -> None:
        wanted, at_once, arguments = self._call()

        def ask(lab: Lab) -> None:
            self._session.run.note_request(lab.rescale(wanted, at_once=at_once), "Rescale")

        self._session.do(ask, f"lab.rescale({arguments})")

    def _rescale(self) -> None:
        wanted, at_once, arguments = self._call()
        if self._session.run.lab_at_cursor is not None and self._session.run.lab_at_cursor.status == "CREATED":
            self._session.run_until(ALL_RUNNING)
        self._session.do(
            lambda lab: lab.rescale(wanted, at_once=at_once, wait=True), f"lab.rescale({arguments}, wait=True)"
        )
        if not self._session.error:
            self._show_redistribution()

    def _another(self) -> None:
        self._another_run(max(field.value for field in self.fields.values()))


class PlannerPanel:
    """The rescale planner for the keys in the lab's state at the cursor; `planner` is None while there are none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.planner: RescalePlanner | None = None
        self._of: object = None
        self.again = button("Read the keys again", "take the keys as they are at the cursor", self._again, "refresh")
        self.note = ipywidgets.HTML()
        self._shown = ipywidgets.VBox()
        self.widget = ipywidgets.VBox([ipywidgets.HBox([self.again, self.note], layout=ROW), self._shown])

    def _again(self) -> None:
        self._of = None
        self._session.attempt(self.update)

    def update(self) -> None:
        """Make the planner when it is first visible, and for another run; moved sliders keep their values."""
        explored = self._session.run
        if self._of is explored:
            return
        self.planner = None
        if explored.lab_at_cursor is None:
            self.note.value = "A recorded run has no state to read keys from: widgets.RescalePlanner(keys) takes keys."
        else:
            try:
                self.planner = RescalePlanner(explored.lab_at_cursor)
                self.note.value = f"The keys at {explored.at}."
                self._of = explored
            except ValueError:
                self.note.value = "No task holds keyed state now: go back in the slider to when one did, or go on."
        replace_children(self._shown, *(() if self.planner is None else (self.planner,)))
