"""The explorer: one app over a run, in a notebook's cell or a tab of its own.

The stage takes most of the space, and all parts share its cursor. Its control row has the only step buttons: at the end
of a lab's run, a step forward takes the next action. The row also has the requests to the job. Panels are shown beside
the stage or in its place, one at a time: the enabled actions, the faults, the views, and the user's actions as code.
The details of a clicked item cover the panel beside the stage. With the cursor in the past, an action starts a fork, so
no history is lost.

With room, everything has a fixed place: a click, a step back or a message moves no button (`explorer.css`).

Every action is one of the `Session`, which has no widget: it keeps the action's code, shows errors, and then has the
explorer update its parts once. Invisible parts are not drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets
from IPython.display import display

from kit.core.arguments.checks import flag_given
from kit.draw.picture import Svg
from kit.draw.views.rescaling import VIEW as RESCALING
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import READY_JOBS, ready_job
from kit.snapshots.checkpoints import Checkpoint
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from widgets.base.buttons import ROW, button, dropdown, named
from widgets.base.closing import close_with_parts
from widgets.base.deferred import Deferred, Ticker
from widgets.base.static_form import StaysInNotebook
from widgets.explorer.controls import Controls
from widgets.explorer.notice import Notice
from widgets.explorer.stages import Stages
from widgets.panels.compare_panel import ComparePanel
from widgets.panels.key_finder import KeyFinder
from widgets.panels.missions_panel import MissionsPanel
from widgets.panels.panels import ActionPanel, CodePanel, MonitorPanel, Panel, SpaceTimePanel, StagePanel, ViewPanel
from widgets.panels.place import Place
from widgets.panels.rescale_panel import RescalePanel
from widgets.panels.run_settings import RunSettings
from widgets.panels.tabs import PanelTabs
from widgets.pictures.checkpoint_browser import CheckpointBrowser
from widgets.pictures.stepper import Stepper
from widgets.runs.explored_run import ExploredRun
from widgets.runs.saving import export, save
from widgets.runs.session import Session, is_on_spark

SOON_S = 0.06
"""The time for which the cursor must rest before the panels are updated."""
LOOK_EVERY_S = 1.0
"""The interval at which a running job on Spark is read."""


class Explorer(StaysInNotebook, ipywidgets.VBox):
    """An app over a Lab, a SparkJob, a Trace or a scenario.

    `setup_code` is the code that creates the lab, if the explorer created it.

    `session` is what the user does, without the widgets: the runs, the cursor, the actions. `stepper` is the stage,
    `lab` the lab that is shown, `code` the actions as Python; `controls` and `panels` have the buttons. Raises
    TypeError for anything but a run.
    """

    def __init__(self, thing: Any, setup_code: str = "") -> None:
        self.session = Session(thing, setup_code)
        self._stages = Stages(self.session)
        self._is_turned = False
        """True if another panel was chosen and is not updated yet."""
        self._soon = Deferred(lambda: self.session.attempt(self._update_panel, by_itself=True), SOON_S)
        self.controls = Controls(self.session, self.rescale)
        self.savepoint_directory = self.controls.target
        """The field with the directory of the next savepoints."""
        self._panels = PanelTabs(self._kinds_of_panels())
        self._head = ipywidgets.HTML()
        self._notice = Notice()
        self.runs = named(dropdown("", "the run that is shown"), "the run that is shown")
        self._past = self._make_past()
        self.tabs = self._panels.widget
        self._title = _classed(ipywidgets.HBox([self._head, self.runs], layout=ROW), "kit-title")
        self._mission = ipywidgets.HTML()
        aside = _classed(ipywidgets.VBox([self._past, self.controls.why_not, self._mission]), "kit-aside")
        parts = [self._title, self.controls.widget, aside, self._notice, self._stages.widget, self.tabs]
        self._inside = _classed(ipywidgets.VBox(parts), "kit-explorer-inside")
        super().__init__([self._inside])
        self.add_class("kit-explorer")
        self.runs.observe(self._run_chosen, "value")
        if self.lab is None:
            self.controls.widget.layout.display = "none"
        self._panels.turn_to(self._panels.titles[1 if self.lab is not None or is_on_spark(thing) else 0])
        self._lay_out()
        self.tabs.observe(self._panel_chosen, "selected_index")
        self._live = Ticker(self._look_again, LOOK_EVERY_S)
        self.session.observe(self._update)
        self.session.listen(lambda text, is_error: self._notice.show(text, is_error=is_error))
        self.session.attempt(self.session.changed)

    def _panel_chosen(self, _: Any) -> None:
        self._lay_out()
        self._is_turned = True
        self.session.attempt(self._uncover)

    def _uncover(self) -> None:
        if self._panels.place is Place.BESIDE:
            self.session.pick("")  # the details would cover the panel
        self.session.changed()

    def _lay_out(self) -> None:
        """Show the panel where it has room: beside the stage, or in its place."""
        for each in Place:
            (self._inside.add_class if each is self._panels.place else self._inside.remove_class)(f"kit-{each.value}")

    def _kinds_of_panels(self) -> dict[str, tuple[Place, Callable[[], Panel]]]:
        session = self.session
        thing = session.run.thing
        kinds: dict[str, tuple[Place, Callable[[], Panel]]] = {StagePanel.title: (StagePanel.place, StagePanel)}
        if self.lab is not None:
            for title, name in (("Next", "what may happen next"), ("Faults", "faults that can be injected")):
                make = partial(ActionPanel, session, title, name, faults=title == "Faults")
                kinds[title] = ActionPanel.place, make
        if is_on_spark(thing):
            kinds[MonitorPanel.title] = MonitorPanel.place, partial(MonitorPanel, session, thing)
        others: dict[Any, Callable[[], Panel]] = {
            MissionsPanel: partial(MissionsPanel, session),
            SpaceTimePanel: partial(SpaceTimePanel, session, lambda: self.stepper),
            ViewPanel: partial(ViewPanel, session),
            ComparePanel: partial(ComparePanel, session),
            RescalePanel: partial(RescalePanel, session, self.another_run, self.show_redistribution),
            KeyFinder: partial(KeyFinder, session),
            RunSettings: partial(RunSettings, session, self.show_redistribution),
            CodePanel: partial(CodePanel, session, self.savepoint_directory),
        }
        return kinds | {kind.title: (kind.place, make) for kind, make in others.items()}

    def _make_past(self) -> ipywidgets.Box:
        """Return the buttons for a cursor in the past."""
        session = self.session
        hint = "the lab goes back to this step; what came after it is undone"
        self.go_on = button("Continue from here", hint, session.go_on_from_here)
        self.fork_here = button("Fork from here", "a second run with the same past, beside this one", session.fork)
        hint = "the cursor goes to the end of the run"
        self.to_present = button("To the present", hint, lambda: session.move(None))
        self._where = ipywidgets.HTML(layout={"margin": "0 10px 0 2px"})
        return ipywidgets.HBox(
            [self._where, self.fork_here, self.go_on, self.to_present],
            layout=ROW | {"display": "none"},
        )

    # --- what is shown --------------------------------------------------------------------------------------------

    @property
    def explored(self) -> ExploredRun:
        """The run that is shown."""
        return self.session.run

    @property
    def explored_runs(self) -> tuple[ExploredRun, ...]:
        """All runs, the first one first."""
        return self.session.runs

    @property
    def error(self) -> str:
        """The error of the last action; "" if it succeeded."""
        return self.session.error

    @property
    def lab(self) -> Lab | None:
        """The lab that is shown; None if the run is not a lab's."""
        return self.session.run.lab

    @property
    def stepper(self) -> Stepper:
        """The stage of the run that is shown."""
        return self._stages.stepper

    @property
    def code(self) -> str:
        """Python code that repeats all actions on the shown run."""
        history = self.session.run.history
        return "" if history is None else history.code

    def panel(self, title: str) -> Any:
        """The panel with this title. Raises KeyError."""
        return self._panels.panel(title)

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, in the order of their tabs."""
        return tuple(map(self.panel, self._panels.titles))

    @property
    def missions(self) -> MissionsPanel:
        """The panel of missions."""
        found: MissionsPanel = self.panel(MissionsPanel.title)
        return found

    def turn_to(self, title: str) -> Any:
        """Show the panel with this title, and return it. Raises KeyError."""
        panel = self.panel(title)
        self._panels.turn_to(title)
        return panel

    def _update(self) -> None:
        """Show the state of the session: the parts that are always visible now, the panel a little later."""
        self._stages.update()
        self._update_title()
        if self.lab is not None:
            self.controls.update()
        if self.session.is_live:
            self._live.start()
        if self._is_turned:
            self._soon.cancel()
            self._update_panel()
        else:
            self._soon.ask()

    def _update_title(self) -> None:
        run = self.session.run
        job, where = run.headline
        now = where.rpartition(", ")[2]  # the control row has the step and the time
        self._head.value = (
            f'<div class="kit-head" title="{escape(job)}: {escape(where)}"><b>{escape(job)}</b> {escape(now)}</div>'
        )
        past = run.lab is not None and not run.is_present
        self._past.layout.display = "" if past else "none"
        (self._inside.add_class if past else self._inside.remove_class)("kit-past")
        if past and run.lab is not None:
            self._where.value = f"You look back at step <b>{run.position}</b> of {run.lab.position}."
        names = [each.name for each in self.session.runs]
        self.runs.unobserve(self._run_chosen, "value")
        if list(self.runs.options) != names:
            self.runs.options = names
        self.runs.value = run.name
        self.runs.observe(self._run_chosen, "value")
        self.runs.layout.display = "" if len(names) > 1 else "none"

    def _update_panel(self) -> None:
        self._is_turned = False
        self._keep()
        said = escape(self.session.verdict())
        self._mission.value = f'<span class="kit-quiet kit-mission" title="{said}">{said}</span>' if said else ""
        self._stages.update_details()
        self._panels.shown.update()

    def _look_again(self) -> bool:
        """Add the progress of a job on Spark; return True if there may be more."""
        self.session.look_again()
        return self.session.is_live

    # --- what is done ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Take one step, as the stage does at the end of the run."""
        self.session.step()

    def fork(self) -> None:
        """Show a second run, which has the past up to the cursor."""
        self.session.fork()

    def _run_chosen(self, change: Any) -> None:
        self.session.show(next(each for each in self.session.runs if each.name == change["new"]))

    def rescale(self) -> None:
        """Show what this run can be rescaled to."""
        self.session.attempt(lambda: self.turn_to(RescalePanel.title))

    def another_run(self, parallelism: int) -> None:
        """Show the settings of another run at this parallelism, ready to resume from the newest snapshot."""
        self.session.attempt(lambda: self.turn_to(RunSettings.title).rescale(parallelism))

    def show_redistribution(self) -> None:
        """Let the tasks of the shown run begin, and show which subtask received which part of the state."""
        self.session.attempt(self._show_redistribution)

    def _show_redistribution(self) -> None:
        self.session.let_tasks_run()
        self.turn_to(ViewPanel.title).choice.value = RESCALING.title

    # --- to take with you -----------------------------------------------------------------------------------------

    def save(self, path: str) -> Path:
        """Write the run as a page (`.html`), a scenario (`.scenario`) or a trace (`.jsonl`). Raises ValueError for
        another suffix.
        """
        return save(self.session, path)

    def export(self, path: str | Path, title: str = "") -> Path:
        """Write the run that is shown as one HTML file that works offline, and return its path."""
        return export(self.session, path, title)

    def svg(self) -> Svg:
        """The stage at the cursor as a static picture."""
        return self.stepper.svg()

    def close(self) -> None:
        """Remove the explorer from the page, and stop observing the session, which is unchanged."""
        if self.comm is not None:  # otherwise it is closed already, or was not given a run
            self._soon.cancel()
            self._live.stop()
            self.session.close()
            self._stages.close()
            for panel in self._panels.opened:
                if isinstance(panel, MonitorPanel | SpaceTimePanel | ComparePanel):
                    panel.close()
            close_with_parts(self.savepoint_directory)
        super().close()

    def _still(self) -> dict[str, str]:
        return self.svg().forms()

    def __repr__(self) -> str:
        job, where = self.session.run.headline
        return f"Explorer({job}: {where})"


def show(thing: Any = None, *, tab: bool = False) -> Explorer | CheckpointBrowser:
    """Return the explorer of a run, a job or the name of a ready job, or the browser of a checkpoint (`kit.show`)."""
    flag_given("tab", tab)
    if isinstance(thing, Checkpoint):
        browser = CheckpointBrowser(thing)
        if tab:
            in_a_tab(browser, thing.title)
        return browser
    setup_code = ""
    if thing is None:
        thing = next(iter(READY_JOBS))
    if isinstance(thing, str):
        setup_code = f"env = ready_job({thing!r})\nlab = Lab(env)"
        thing = ready_job(thing)
    if isinstance(thing, StreamEnvironment | JobGraph):
        thing = Lab(thing)
    explorer = Explorer(thing, setup_code)
    if tab:
        in_a_tab(explorer, explorer.session.run.headline[0])
    return explorer


def in_a_tab(widget: Any, title: str) -> None:
    """Open a widget beside the notebook, in a JupyterLab tab."""
    from sidecar import Sidecar

    with Sidecar(title=title, anchor="split-right"):
        display(widget)


def _classed(widget: Any, name: str) -> Any:
    widget.add_class(name)
    return widget
