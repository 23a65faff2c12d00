"""The explorer: one app over a run, in a notebook's cell or a tab of its own.

The stage takes most of the space, and all parts share its cursor. Its control row has the only step buttons: at the end
of a lab's run, a step forward takes the next action. The row also has the requests to the job. Panels are shown beside
the stage or in its place, one at a time: the enabled actions, the faults, the views, and the user's actions as code.
The details of a clicked item cover the panel beside the stage. With the cursor in the past, an action starts a fork, so
no history is lost.

With room, everything has a fixed place: a click, a step back or a message moves no button (`explorer.css`).

Every action goes through `do`, which keeps its code, updates the stage, and shows errors. Invisible parts are not
drawn.
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
from kit.draw.page.page import export_html
from kit.draw.picture import Svg
from kit.draw.views.rescaling import VIEW as RESCALING
from kit.hosts.lab import Lab, LabError, save_scenario
from kit.hosts.lab.interrupts import interrupts_deferred
from kit.hosts.lab.jobs.ready_jobs import READY_JOBS, ready_job
from kit.machines.job.errors import JobFailedError
from kit.machines.job.status import JobStatus
from kit.run.run import run_of
from kit.snapshots.checkpoints import Checkpoint
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from widgets.base.buttons import ROW, button, dropdown, named
from widgets.base.deferred import Deferred, Ticker
from widgets.base.static_form import StaysInNotebook
from widgets.explorer.controls import NEXT_CHECKPOINT, Controls
from widgets.explorer.notice import Notice
from widgets.panels.app import Place
from widgets.panels.compare_panel import ComparePanel
from widgets.panels.key_finder import KeyFinder
from widgets.panels.missions_panel import MissionsPanel, mission_of
from widgets.panels.panels import (
    ActionPanel,
    CodePanel,
    MonitorPanel,
    Panel,
    SpaceTimePanel,
    StagePanel,
    ViewPanel,
    is_on_spark,
)
from widgets.panels.rescale_panel import RescalePanel
from widgets.panels.run_settings import RunSettings
from widgets.panels.tabs import PanelTabs
from widgets.pictures.checkpoint_browser import CheckpointBrowser
from widgets.pictures.stepper import Stepper
from widgets.runs.action_history import RUN
from widgets.runs.details import Details
from widgets.runs.explored_run import ExploredRun
from widgets.runs.next_actions import can_go_on, why_none_can_act

SOON_S = 0.06
"""The time for which the cursor must rest before the panels are updated."""
LOOK_EVERY_S = 1.0
"""The interval at which a running job on Spark is read."""
MOST_UNSEEN = 20
"""The most steps that one press of the button takes, if they record nothing."""
LONGEST_ERROR = 400


class Explorer(StaysInNotebook, ipywidgets.VBox):
    """An app over a Lab, a SparkJob, a Trace or a scenario. `made` is the code that made the lab, if it was made here.

    `stepper` is the stage, `lab` the lab that is shown, `code` the actions as Python; `controls` and `panels` have the
    buttons. Raises TypeError for anything but a run.
    """

    def __init__(self, thing: Any, made: str = "") -> None:
        self.explored = ExploredRun("the run", thing, made)
        """The run that is shown."""
        self.explored_runs: tuple[ExploredRun, ...] = (self.explored,)
        """All runs, the first one first."""
        self._details: dict[str, Details] = {}
        self._under_way = 0
        """The number of calls of `guarded` that have not returned: only the outermost is an action of its own."""
        self._over: list[Callable[[], object]] = []
        """The functions that remove the messages of the last action."""
        self.told = ""
        """The error of the last action; "" if it succeeded."""
        self._soon = Deferred(lambda: self.guarded(self._update_panel, by_itself=True), SOON_S)
        self.controls = Controls(self)
        self.savepoint_directory = self.controls.target
        """The field with the directory of the next savepoints."""
        self._panels = PanelTabs(self._kinds_of_panels())
        self._head = ipywidgets.HTML()
        self._notice = Notice()
        self.runs = named(dropdown("", "the run that is shown"), "the run that is shown")
        self.runs.layout.display = "none"
        self._past = self._make_past()
        self._stage = ipywidgets.Box([self.stepper], layout={"display": "block"})
        self.tabs = self._panels.widget
        self._title = _classed(ipywidgets.HBox([self._head, self.runs], layout=ROW), "kit-title")
        self._mission = ipywidgets.HTML()
        aside = _classed(ipywidgets.VBox([self._past, self.controls.why_not, self._mission]), "kit-aside")
        parts = [self._title, self.controls.widget, aside, self._notice, self._stage, self.tabs]
        self._inside = _classed(ipywidgets.VBox(parts), "kit-explorer-inside")
        super().__init__([self._inside])
        self.add_class("kit-explorer")
        self._watch(self.explored)
        self.runs.observe(self._run_chosen, "value")
        if self.lab is None:
            self.controls.widget.layout.display = "none"
        self._panels.turn_to(self._panels.titles[1 if self.lab is not None or is_on_spark(thing) else 0])
        self._lay_out()
        self.tabs.observe(self._panel_chosen, "selected_index")
        self._live = Ticker(self._look_again, LOOK_EVERY_S)
        if is_on_spark(thing) and not thing.ended:
            self._live.start()
        self.guarded(self._update)

    def _panel_chosen(self, _: Any) -> None:
        self._lay_out()
        if self._panels.place is Place.BESIDE:
            self.stepper.picked = ""  # the details would cover the panel
        self.guarded(self._update_panel)

    def _lay_out(self) -> None:
        """Show the panel where it has room: beside the stage, or in its place."""
        for each in Place:
            (self._inside.add_class if each is self._panels.place else self._inside.remove_class)(f"kit-{each.value}")

    def _kinds_of_panels(self) -> dict[str, tuple[Place, Callable[[], Panel]]]:
        thing = self.explored.thing
        kinds: dict[str, tuple[Place, Callable[[], Panel]]] = {StagePanel.title: (StagePanel.place, StagePanel)}
        if self.explored.lab is not None:
            for title, name in (("Next", "what may happen next"), ("Faults", "faults that can be injected")):
                make = partial(ActionPanel, self, title, name, faults=title == "Faults")
                kinds[title] = ActionPanel.place, make
        if is_on_spark(thing):
            kinds[MonitorPanel.title] = MonitorPanel.place, partial(MonitorPanel, self, thing)
        shown: list[Any] = [MissionsPanel, SpaceTimePanel, ViewPanel, ComparePanel]
        acting: list[Any] = [RescalePanel, KeyFinder, RunSettings, CodePanel]
        return kinds | {each.title: (each.place, partial(each, self)) for each in shown + acting}

    def _make_past(self) -> ipywidgets.Box:
        """Return the buttons for a cursor in the past."""
        self.go_on = button(
            "Go on from here", "the lab goes back to this step; what came after it is undone", self.go_on_from_here
        )
        self.fork_here = button("Fork from here", "a second run with the same past, beside this one", self.fork)
        self.to_present = button("To the present", "the cursor goes to the end of the run", self.show_present)
        self._where = ipywidgets.HTML(layout={"margin": "0 10px 0 2px"})
        return ipywidgets.HBox(
            [self._where, self.fork_here, self.go_on, self.to_present],
            layout=ROW | {"display": "none"},
        )

    # --- what is shown --------------------------------------------------------------------------------------------

    @property
    def lab(self) -> Lab | None:
        """The lab that is shown; None if the run is not a lab's."""
        return self.explored.lab

    @property
    def stepper(self) -> Stepper:
        """The stage of the run that is shown."""
        return self.explored.stepper

    @property
    def code(self) -> str:
        """Python code that repeats all actions on the shown run."""
        return "" if self.explored.history is None else self.explored.history.code

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

    def _watch(self, explored: ExploredRun) -> None:
        explored.stepper.observe(lambda _: self.guarded(self._update), "n")
        explored.stepper.observe(lambda _: self.guarded(self._soon.ask), "picked")
        explored.stepper.on_step(self.step)
        explored.stepper.on_mark(self.go_to_next)
        self._details[explored.name] = Details(explored, self.do, self.guarded)

    def _update(self) -> None:
        job, where = self.explored.headline
        now = where.rpartition(", ")[2]  # the control row has the step and the time
        self._head.value = (
            f'<div class="kit-head" title="{escape(job)}: {escape(where)}"><b>{escape(job)}</b> {escape(now)}</div>'
        )
        past = self.lab is not None and not self.explored.is_present
        self._past.layout.display = "" if past else "none"
        (self._inside.add_class if past else self._inside.remove_class)("kit-past")
        if past and self.lab is not None:
            self._where.value = f"You look back at step <b>{self.explored.position}</b> of {self.lab.position}."
        if self.lab is not None:
            self.controls.update()
        self._soon.ask()

    def _look_again(self) -> bool:
        """Add the progress of a job on Spark; return True if there may be more."""
        more = any(not each.thing.ended for each in self.explored_runs if is_on_spark(each.thing))
        if is_on_spark(self.explored.thing):
            self.guarded(self.explored.stepper.refresh, by_itself=True)
            self.guarded(self._update, by_itself=True)
        return more

    def _update_panel(self) -> None:
        self._keep()
        said = "" if mission_of(self.explored) is None else escape(self.missions.verdict())
        self._mission.value = f'<span class="kit-quiet kit-mission" title="{said}">{said}</span>' if said else ""
        self._details[self.explored.name].update()
        self._panels.shown.update()

    # --- what is done ---------------------------------------------------------------------------------------------

    def do(self, act: Callable[[Lab], object], code: str = "") -> None:
        """Perform an action on the lab at the cursor; in a fork, if the cursor is in the past.

        `code` is its Python code; if it is "", the steps taken are written as code. The app shows errors.
        """
        self.guarded(lambda: self._do(act, code))

    def _do(self, act: Callable[[Lab], object], code: str) -> None:
        self._say("")
        self.controls.missed = ""
        reason = why_none_can_act(self.explored)
        if reason:
            raise ValueError(reason)
        if not self.explored.is_present:
            self._fork()
        explored = self.explored
        assert explored.lab is not None
        assert explored.history is not None
        before = explored.lab.position
        if code.startswith(RUN):  # the kernel handles no messages until it is done
            self._notice.show("Running …", is_error=False)
        try:
            act(explored.lab)
            if code:
                explored.history.add(code, before)
        except KeyboardInterrupt:
            if code.startswith(RUN) and explored.lab.position > before:
                explored.history.add(f"lab.run_until(lambda lab: lab.position == {explored.lab.position})", before)
            raise
        except LabError:
            if not explored.lab.ended or can_go_on(explored.lab) or not code.startswith(RUN):
                raise
            self.controls.missed = self.controls.until.value  # not an error: the bar shows it
            if explored.lab.status == JobStatus.FINISHED.name:  # and asking consumes nothing
                explored.lab.goto(before)
        finally:
            self._say(self.told)
            explored.stepper.refresh()
            self._update()

    def step(self) -> None:
        """Take one step, chosen by the scheduler, as the stage does at the end of the run.

        A step that records nothing changes no picture; the next one is taken as well.
        """
        for _ in range(MOST_UNSEEN):
            before = self.explored.n
            self.do(lambda lab: lab.step(), "lab.step()")
            if self.told or self.lab is None or not can_go_on(self.lab) or len(self.lab.trace) > before:
                break

    def go_to_next(self, mark: str) -> None:
        """Run the lab to the next checkpoint, requested at the end of the run; do nothing for other marks."""
        if mark == "checkpoint" and not self.controls.go.disabled:
            self.controls.until.value = NEXT_CHECKPOINT
            self.controls.go.click()
        else:
            told = f"No {mark} follows."
            if mark != "checkpoint":
                told += " Make something fail under Faults, or by a click on the item itself."
            self.guarded(lambda: self._say(told))

    def guarded(self, act: Callable[[], object], *, by_itself: bool = False) -> None:
        """Perform an action; show an error in one line of the app, since users do not read the kernel's log.

        The message about the previous action is removed, unless the app does this `by_itself`, or as a part of another
        action.
        """
        if not by_itself and self._under_way == 0:
            self._forget()
        self._under_way += 1
        try:
            with interrupts_deferred():  # finish everything that follows the action, above all the picture
                act()
        except KeyboardInterrupt:
            self._say(f"Interrupted at {self.explored.end}: the last step is complete, and the run can go on.")
        except (LabError, JobFailedError, ValueError) as error:  # their texts say what to do
            self._say(_short(str(error).partition("\n")[0] if isinstance(error, LabError) else str(error)))
        except OSError as error:
            what = f"{error.strerror}: {error.filename}" if error.errno and error.filename else str(error)
            self._say(_short(what))
        except Exception as error:
            self._say(f"{type(error).__name__}: {_short(str(error))}")
        finally:
            self._under_way -= 1

    def until_next(self, take_away: Callable[[], object]) -> None:
        """Call `take_away` when the next action begins: a message is about the last one only."""
        self._over.append(take_away)

    def _forget(self) -> None:
        over, self._over = self._over, []
        for take_away in over:
            take_away()
        if self.told:
            self._say("")

    def _say(self, text: str) -> None:
        self.told = text
        self._notice.show(text)

    def show_present(self) -> None:
        """Move the cursor to the end of the run."""
        self.stepper.value = len(self.stepper.film["frames"]) - 1

    def go_on_from_here(self) -> None:
        """Move the lab back to the cursor and undo everything after it."""
        self.guarded(self._go_on)

    def _go_on(self) -> None:
        self._say("")
        if self.lab is None:
            raise ValueError(why_none_can_act(self.explored))
        assert self.explored.history is not None
        self.lab.goto(self.explored.position)
        self.explored.history.cut()
        self.show_present()
        self.stepper.refresh()
        self._update()

    # --- forks ----------------------------------------------------------------------------------------------------

    def fork(self) -> None:
        """Show a second run, which has the past up to the cursor."""
        self.guarded(self._fork)

    def _fork(self) -> None:
        self._show(self._add(self.explored.fork(f"fork {len(self.explored_runs)} at {self.explored.at}")))

    def begin(self, name: str, lab: Lab, made: str) -> None:
        """Show another run, which has just started, besides the existing ones."""
        self._show(self._add(ExploredRun(self._unlike(name), lab, made)))

    def show_job(self, job: Any) -> None:
        """Show a job on Spark besides the existing runs, or again."""
        known = next((each for each in self.explored_runs if each.thing is job), None)
        self.guarded(lambda: self._show(known or self._add(ExploredRun(self._unlike(job.job.name), job))))
        if not job.ended:
            self._live.start()

    def _unlike(self, name: str) -> str:
        names = [each.name for each in self.explored_runs]
        return name if name not in names else f"{name} ({len(names)})"

    def rescale(self) -> None:
        """Show what this run can be rescaled to."""
        self._say("")
        self.guarded(lambda: self.turn_to(RescalePanel.title).update())

    def another_run(self, parallelism: int) -> None:
        """Show the settings of another run at this parallelism, ready to resume from the newest snapshot."""
        self._say("")
        self.guarded(lambda: self.turn_to(RunSettings.title).rescale(parallelism))

    def show_redistribution(self) -> None:
        """Let the tasks of the shown run begin, and show which subtask received which part of the state."""
        if self.lab is not None and self.lab.status != "RUNNING":
            self._do(*self.controls.targets["all tasks are running"])
        self.turn_to(ViewPanel.title).choice.value = RESCALING.title
        self._update_panel()

    def _add(self, explored: ExploredRun) -> ExploredRun:
        self.explored_runs += (explored,)
        self._watch(explored)
        return explored

    def _show(self, explored: ExploredRun) -> None:
        self._say("")
        self.controls.missed = ""
        self.explored = explored
        if is_on_spark(explored.thing):
            explored.stepper.refresh()
        self._stage.children = (explored.stepper,)
        names = [each.name for each in self.explored_runs]
        self.runs.unobserve(self._run_chosen, "value")
        self.runs.options = names
        self.runs.value = explored.name
        self.runs.observe(self._run_chosen, "value")
        self.runs.layout.display = "" if len(names) > 1 else "none"
        self._update()

    def _run_chosen(self, change: Any) -> None:
        chosen = next((each for each in self.explored_runs if each.name == change["new"]), None)
        if chosen is not None and chosen is not self.explored:
            self.guarded(lambda: self._show(chosen))

    # --- to take with you -----------------------------------------------------------------------------------------

    def save(self, path: str) -> Path:
        """Write the run as a page (`.html`), a scenario (`.scenario`) or a trace (`.jsonl`). Raises ValueError for
        another suffix.
        """
        suffix = Path(path).suffix
        if suffix == ".html":
            return self.export(path)
        if suffix == ".scenario":
            if self.lab is None:
                raise ValueError("a scenario is made of a lab's run: this run is recorded, save it as .jsonl")
            return save_scenario(self.lab, path)
        if suffix == ".jsonl":
            return Path(run_of(self.explored.thing).trace.save(path))
        raise ValueError(f"{path!r}: expected a file that ends in .html, .scenario or .jsonl")

    def export(self, path: str | Path, title: str = "") -> Path:
        """Write the run that is shown as one HTML file that works offline, and return its path."""
        explored = self.explored
        explored.stepper.refresh()
        job, _ = explored.headline
        status = getattr(explored.lab or explored.thing, "status", "")
        stood = f"The run had come to {explored.end}{f' ({status.lower()})' if status else ''} when this was written"
        there = "." if explored.is_present else f"; it opens at {explored.at}."
        notes = "" if mission_of(explored) is None else self.missions.notes()
        return export_html(explored.thing, path, title or job, intro=stood + there, at=explored.n, notes=notes)

    def svg(self) -> Svg:
        """The stage at the cursor as a static picture."""
        return self.stepper.svg()

    def close(self) -> None:
        """Remove the explorer from the page, and stop observing the run."""
        if not hasattr(self, "tabs"):  # it was not given a run
            return
        self._soon.cancel()
        self._forget_kept()
        self._live.stop()
        for panel in self._panels.made:
            if isinstance(panel, MonitorPanel | SpaceTimePanel):
                panel.close()
        for explored in self.explored_runs:
            explored.close()
        super().close()

    def _still(self) -> dict[str, str]:
        return self.svg().forms()

    def __repr__(self) -> str:
        job, where = self.explored.headline
        return f"Explorer({job}: {where})"


def show(thing: Any = None, *, tab: bool = False) -> Explorer | CheckpointBrowser:
    """Return the explorer of a run, a job or the name of a ready job, or the browser of a checkpoint (`kit.show`)."""
    flag_given("tab", tab)
    if isinstance(thing, Checkpoint):
        browser = CheckpointBrowser(thing)
        if tab:
            in_a_tab(browser, thing.title)
        return browser
    made = ""
    if thing is None:
        thing = next(iter(READY_JOBS))
    if isinstance(thing, str):
        made = f"env = ready_job({thing!r})\nlab = Lab(env)"
        thing = ready_job(thing)
    if isinstance(thing, StreamEnvironment | JobGraph):
        thing = Lab(thing)
    explorer = Explorer(thing, made)
    if tab:
        in_a_tab(explorer, explorer.explored.headline[0])
    return explorer


def in_a_tab(widget: Any, title: str) -> None:
    """Open a widget beside the notebook, in a JupyterLab tab."""
    from sidecar import Sidecar

    with Sidecar(title=title, anchor="split-right"):
        display(widget)


def _classed(widget: Any, name: str) -> Any:
    widget.add_class(name)
    return widget


def _short(text: str) -> str:
    """Return one line of an error, cut if it is very long."""
    line = "; ".join(" ".join(each.split()) for each in text.splitlines() if each.strip())
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}…"
