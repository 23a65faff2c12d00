"""The panels below the stage: each is a tab, updated only while it is visible."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, Protocol

import ipywidgets

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html
from kit.draw.panel import panel
from kit.draw.views.view import Drawn, View
from kit.draw.views.views import VIEWS
from widgets.base.action_list import ActionList
from widgets.base.buttons import ROW, button
from widgets.base.code_box import CodeBox
from widgets.base.key_field import KeyField
from widgets.panels.place import Place
from widgets.pictures.monitor import Monitor
from widgets.pictures.space_time import SpaceTimeWidget
from widgets.pictures.stepper import Stepper
from widgets.runs.explored_run import ExploredRun
from widgets.runs.next_actions import action_of, fault_items, next_items, why_none_can_act
from widgets.runs.saving import save
from widgets.runs.session import Session, is_on_spark


def _numbers_html(view: View, drawn: Drawn) -> str:
    """Return the table of the numbers that a picture is drawn from."""
    return panel(view.title, frame_html(drawn.to_pandas(), NOTEBOOK_ROWS, all_in=".to_pandas()"))


class Panel(Protocol):
    """One tab of the explorer."""

    title: str
    place: Place
    widget: ipywidgets.Widget

    def update(self) -> None:
        """Show the current state, because the panel is visible."""


class StagePanel:
    """No panel: the stage has all the room, and the details of a clicked item are beside it."""

    title = "Stage"
    place = Place.NONE

    def __init__(self) -> None:
        self.widget = ipywidgets.Box()

    def update(self) -> None:
        """Do nothing: the stage follows the run by itself."""


class ActionPanel:
    """The possible next actions, or the faults, as a list of buttons."""

    place = Place.BESIDE

    def __init__(self, session: Session, title: str, name: str, *, faults: bool) -> None:
        self.title = title
        self._session = session
        self._faults = faults
        self.list = ActionList(self._pressed, name=name)
        self.widget = self.list

    def _pressed(self, key: str) -> None:
        self._session.do(lambda lab: lab.step(action_of(lab, key)), "")

    def update(self) -> None:
        """List the items at the cursor."""
        explored = self._session.run
        lab = explored.lab_at_cursor
        if lab is None:
            self.list.offer([], why_none_can_act(explored))
            return
        items = fault_items(lab) if self._faults else next_items(lab)
        past = f"This is the past, at {explored.at}: an action here starts a fork."
        self.list.offer(items, why_none_can_act(explored) if explored.is_present else past)


class ViewPanel:
    """The views, one at a time: a question, and the picture that answers it at the cursor."""

    title = "Look closer"
    place = Place.INSTEAD

    def __init__(self, session: Session) -> None:
        self._session = session
        self.choice = ipywidgets.ToggleButtons(
            options=[view.title for view in VIEWS],
            tooltips=[view.question for view in VIEWS],
            style={"button_width": "auto"},
        )
        self.as_table = ipywidgets.ToggleButton(
            description="As a table", tooltip="the numbers that the picture is drawn from", layout={"width": "auto"}
        )
        self.question = ipywidgets.HTML()
        self.field = KeyField("", "what the view looks for")
        self.asked = self.field.key
        self.shown = ipywidgets.HTML(layout={"overflow": "auto"})
        asked = ipywidgets.HBox([self.question, self.as_table], layout=ROW | {"grid_gap": "0 18px"})
        self.widget = ipywidgets.VBox([self.choice, asked, self.field.widget, self.shown])
        for each in (self.choice, self.as_table, self.asked):
            each.observe(lambda _: session.attempt(self.update), "value")
        self._drawn: object = None

    @property
    def view(self) -> View:
        """The view that was chosen."""
        return VIEWS[self.choice.index]

    def update(self) -> None:
        """Draw the view that was chosen, unless it is drawn already."""
        view, explored = self.view, self._session.run
        subject = explored.subject
        self.field.widget.layout.display = "" if view.asks else "none"
        self.asked.description, asked = view.asks, self.field.value if view.asks else ""
        moment = (id(explored), len(subject.whole.trace), explored.n, subject.checkpoint)
        wanted = (view, self.as_table.value, moment, asked)
        if wanted == self._drawn:
            return
        self.question.value = f'<div class="kit-question">{escape(view.question)}</div>'
        drawn = view.draw(subject.asking(asked) if asked else subject)
        self.field.offer(view.choices(drawn) if view.asks else ())
        self.shown.value = _numbers_html(view, drawn) if self.as_table.value else drawn._repr_html_()
        self._drawn = wanted


class SpaceTimePanel:
    """A space-time diagram for each run, made when it is first visible, with the stage's cursor."""

    title = "Space-time"
    place = Place.INSTEAD

    def __init__(self, session: Session, stage: Callable[[], Stepper]) -> None:
        self._session = session
        self._stage = stage
        """Returns the stage of the run that is shown."""
        self._diagrams: dict[ExploredRun, SpaceTimeWidget] = {}
        self.widget = ipywidgets.Box(layout={"display": "block"})

    @property
    def diagram(self) -> SpaceTimeWidget | None:
        """The diagram of the run that is shown, if it was made."""
        return self._diagrams.get(self._session.run)

    def update(self) -> None:
        """Read the progress of the run; the cursor is the stage's."""
        explored = self._session.run
        diagram = self._diagrams.get(explored)
        if diagram is None:
            stage = self._stage()
            diagram = self._diagrams[explored] = SpaceTimeWidget(explored.thing, n=stage.n, stage=stage)
            for name in ("n", "selected"):
                ipywidgets.link((stage, name), (diagram, name))
        else:
            diagram.refresh()
        if self.widget.children != (diagram,):
            self.widget.children = (diagram,)

    def close(self) -> None:
        """Remove the diagrams from the page."""
        for diagram in self._diagrams.values():
            diagram.close()


class MonitorPanel:
    """Jobs on Spark, live, with buttons for requests. The chosen job is the one that the session shows."""

    title = "The job on Spark"
    place = Place.BESIDE

    def __init__(self, session: Session, job: Any) -> None:
        self._session = session
        self._monitor = Monitor(job, others=True)
        self._monitor.on_job(session.show_job)
        self.widget = self._monitor

    def update(self) -> None:
        """Read the job now; while the panel is visible, the monitor reads it by itself."""
        if is_on_spark(self._session.run.thing):
            self._monitor.watch(self._session.run.thing)
        self._monitor.refresh()

    def close(self) -> None:
        """Stop observing the job."""
        self._monitor.close()


class CodePanel:
    """The user's actions as Python code, with buttons that save a scenario or a page that works offline.

    Below is the field with the directory of the next savepoints.
    """

    title = "Save"
    place = Place.BESIDE

    def __init__(self, session: Session, savepoint_directory: ipywidgets.Text) -> None:
        self._session = session
        self.code = CodeBox(label="Copy as Python")
        self.path = ipywidgets.Text(
            description="file", placeholder="run.html, run.scenario or run.jsonl", continuous_update=False
        )
        self.save = button("Save", "write the file", lambda: session.attempt(self._save), "save")
        self.said = ipywidgets.HTML()
        hint = "<p>.html: a page to step through, offline; .scenario: to do it again; .jsonl: the trace</p>"
        row = ipywidgets.HBox([self.path, self.save, self.said], layout=ROW)
        self.widget = ipywidgets.VBox([self.code, row, ipywidgets.HTML(hint), savepoint_directory])

    def update(self) -> None:
        """Show the user's actions."""
        history = self._session.run.history
        self.code.text = "# a recorded run takes no actions\n" if history is None else history.code

    def _save(self) -> None:
        path = save(self._session, self.path.value.strip())
        self.said.value = f"Written: {escape(str(path))} ({Path(path).stat().st_size / 1000:,.0f} kB)"
        self._session.until_next(self._forget)

    def _forget(self) -> None:
        self.said.value = ""
