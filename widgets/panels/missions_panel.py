"""The panel of missions: what to make happen, a check of the run, hints on request, and the solution."""

from __future__ import annotations

from html import escape

import ipywidgets

from kit.course.missions.mission import Mission
from kit.course.missions.missions import MISSIONS
from widgets.base.buttons import ROW, button, named
from widgets.panels.place import Place
from widgets.runs.session import Session


class MissionsPanel:
    """The panel. `choice` names a mission; `start`, `hint` and `show` are its buttons.

    A mission that was started is checked after every action, on the run that was started for it.
    """

    title = "Missions"
    place = Place.BESIDE

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hints = 0
        self.choice = ipywidgets.Select(
            options=self._options(), rows=6, tooltip="the missions", layout={"width": "100%", "max_width": "100%"}
        )
        named(self.choice, "missions")
        hint = "start a run for this mission"
        self.start = button("Start", hint, lambda: session.attempt(self._begin), "play", "primary")
        self.hint = button("Hint", "show one more hint", self._hint, "lightbulb-o")
        self.show = button("Show me", "carry out the next line of the solution", self._show, "magic")
        self.task, self.state = ipywidgets.HTML(), ipywidgets.HTML()
        buttons = ipywidgets.HBox([self.start, self.hint, self.show], layout=ROW)
        self.widget = ipywidgets.VBox([self.choice, self.task, buttons, self.state])
        self.choice.observe(self._chosen, "value")
        self._chosen(None)

    @property
    def mission(self) -> Mission:
        """The mission that was chosen."""
        return MISSIONS[self.choice.value]

    def update(self) -> None:
        """Show the result of the check."""
        is_running = self._session.mission is self.mission
        self.show.disabled = not is_running
        said = self._session.verdict() if is_running else "Start it to begin a run of its own."
        options = self._options()
        if list(self.choice.options) != options:
            chosen = self.choice.value
            self.choice.unobserve(self._chosen, "value")
            self.choice.options = options
            self.choice.value = chosen
            self.choice.observe(self._chosen, "value")
        self.state.value = f"<p>{escape(said)}</p>"

    def _options(self) -> list[tuple[str, str]]:
        return [
            (f"{'✓' if each.name in self._session.accomplished else '○'} {number}. {each.title}", each.name)
            for number, each in enumerate(MISSIONS.values(), 1)
        ]

    def _chosen(self, _: object) -> None:
        self._hints = 0
        self._tell()
        self._session.attempt(self.update)

    def _tell(self) -> None:
        hints = "".join(f"<li>{escape(each)}</li>" for each in self.mission.hints[: self._hints])
        self.task.value = f"<p>{escape(self.mission.task)}</p>" + (f"<ul>{hints}</ul>" if hints else "")
        self.hint.disabled = self._hints >= len(self.mission.hints)

    def _begin(self) -> None:
        self._session.begin(self.mission.title, self.mission.lab(), self.mission.setup_code)

    def _hint(self) -> None:
        self._hints += 1
        self._tell()

    def _show(self) -> None:
        """Carry out the lines of the solution that follow the ones already carried out here."""
        history = self._session.run.history
        known = [] if history is None else history.done
        for number, (code, act) in enumerate(self.mission.solution):
            if known[number : number + 1] != [code]:
                self._session.do(act, code)
                break
