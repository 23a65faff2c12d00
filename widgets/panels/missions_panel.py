"""The panel of missions: what to make happen, a check of the run, hints on request, and the solution."""

from __future__ import annotations

from html import escape

import ipywidgets

from kit.core.markup import Markup
from kit.course.missions.mission import Mission
from kit.course.missions.mission_page import mission_notes
from kit.course.missions.missions import MISSIONS
from widgets.base.buttons import ROW, button, named
from widgets.panels.app import App, Place
from widgets.runs.explored_run import ExploredRun

BY_START = {each.made: each for each in MISSIONS.values()}


def mission_of(explored: ExploredRun) -> Mission | None:
    """Return the mission that a run was started for, or the run that it was forked from."""
    return None if explored.history is None else BY_START.get(explored.history.made)


class MissionsPanel:
    """The panel. `choice` names a mission; `start`, `hint` and `show` are its buttons.

    A mission that was started is checked after every action, on the run that was started for it.
    """

    title = "Missions"
    place = Place.BESIDE

    def __init__(self, app: App) -> None:
        self._app = app
        self._hints = 0
        self.done: set[str] = set()
        """The names of the missions that were accomplished."""
        self.choice = ipywidgets.Select(
            options=self._options(), rows=6, tooltip="the missions", layout={"width": "100%", "max_width": "100%"}
        )
        named(self.choice, "missions")
        hint = "start a run for this mission"
        self.start = button("Start", hint, lambda: app.guarded(self._begin), "play", "primary")
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

    @property
    def running(self) -> Mission | None:
        """The mission that the run was started for, or the run that it was forked from."""
        return mission_of(self._app.explored)

    def verdict(self) -> str:
        """Return the title of the mission on the run that is shown, with the result of its check; "" without one."""
        mission, lab = self.running, self._app.explored.lab
        if mission is None or lab is None:
            return ""
        found = mission.check(lab)
        if found.done and mission.name not in self.done:
            self.done.add(mission.name)
            chosen = self.choice.value
            self.choice.options = self._options()
            self.choice.value = chosen
        return f"{'✓' if found.done else '○'} {mission.title}: {found.says}"

    def notes(self) -> Markup:
        """Return the mission on the run that is shown, for a page; empty without one."""
        mission = self.running
        return Markup("") if mission is None else mission_notes(mission, f"The run on this page: {self.verdict()}")

    def update(self) -> None:
        """Show the result of the check."""
        running = self.running
        self.show.disabled = running is not self.mission
        said = self.verdict() if running is self.mission else "Start it to begin a run of its own."
        self.state.value = f"<p>{escape(said)}</p>"

    def _options(self) -> list[tuple[str, str]]:
        return [
            (f"{'✓' if each.name in self.done else '○'} {number}. {each.title}", each.name)
            for number, each in enumerate(MISSIONS.values(), 1)
        ]

    def _chosen(self, _: object) -> None:
        self._hints = 0
        self._tell()
        self._app.guarded(self.update)

    def _tell(self) -> None:
        hints = "".join(f"<li>{escape(each)}</li>" for each in self.mission.hints[: self._hints])
        self.task.value = f"<p>{escape(self.mission.task)}</p>" + (f"<ul>{hints}</ul>" if hints else "")
        self.hint.disabled = self._hints >= len(self.mission.hints)

    def _begin(self) -> None:
        self._app.begin(self.mission.title, self.mission.lab(), self.mission.made)
        self.update()

    def _hint(self) -> None:
        self._hints += 1
        self._tell()

    def _show(self) -> None:
        """Carry out the lines of the solution that follow the ones already carried out here."""
        history = self._app.explored.history
        known = [] if history is None else history.done
        for number, (code, act) in enumerate(self.mission.solution):
            if known[number : number + 1] != [code]:
                self._app.do(act, code)
                break
        self._app.guarded(self.update)
