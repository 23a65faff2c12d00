"""The stages of a session: the picture of each run, with the session's cursor and selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ipywidgets

from widgets.pictures.stepper import Stepper
from widgets.runs.details import choose, details_html, offers
from widgets.runs.explored_run import ExploredRun
from widgets.runs.next_actions import can_go_on
from widgets.runs.session import Session


class Stages:
    """A stage for each run, made when the run is first shown; `widget` shows the one of the shown run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._made: dict[ExploredRun, Stepper] = {}
        self._shown_changes: dict[ExploredRun, int] = {}
        """The `changes` of each run that its stage shows."""
        self._is_updating = False
        """True while the stage follows the session: then it has no news for it."""
        self.widget = ipywidgets.Box([self.stepper], layout={"display": "block"})

    @property
    def stepper(self) -> Stepper:
        """The stage of the run that is shown."""
        run = self._session.run
        if run not in self._made:
            self._made[run] = self._make(run)
        return self._made[run]

    def _make(self, run: ExploredRun) -> Stepper:
        session, stepper = self._session, Stepper(run.thing)
        self._shown_changes[run] = run.changes
        move, pick = (
            lambda: session.move(None if stepper.is_last else stepper.n),
            lambda: session.pick(stepper.selected),
        )
        for name, act in (("n", move), ("selected", pick)):
            stepper.observe(lambda _, act=act: self._unless_updating(act), name)
        stepper.on_step(session.step)
        stepper.on_mark(session.go_to_next)
        stepper.on_act(lambda key: choose(session, key))
        return stepper

    def _unless_updating(self, act: Callable[[], object]) -> None:
        if not self._is_updating:
            act()

    @contextmanager
    def _updating(self) -> Iterator[None]:
        self._is_updating = True
        try:
            yield
        finally:
            self._is_updating = False

    def update(self) -> None:
        """Show the run, its progress, its cursor and its selection."""
        run, stepper = self._session.run, self.stepper
        with self._updating():
            if run.is_present:
                stepper.value = len(stepper.film["frames"]) - 1
            if self._shown_changes[run] != run.changes:
                stepper.refresh()
                self._shown_changes[run] = run.changes
            if run.cursor is not None:
                stepper.n = run.cursor
            stepper.selected = run.selected
            stepper.goes_on = run.lab is not None and can_go_on(run.lab)
        if self.widget.children != (stepper,):
            self.widget.children = (stepper,)

    def update_details(self) -> None:
        """Show the details of the selected item, and the actions on it."""
        run, stepper = self._session.run, self.stepper
        if run.selected:
            html = self._session.answer + details_html(run, run.selected)
            stepper.item_details = {"selected": run.selected, "n": stepper.n, "html": html}
        stepper.offers = list(offers(run, run.selected)) if run.selected else []

    def close(self) -> None:
        """Remove the stages from the page."""
        for stepper in self._made.values():
            stepper.close()
