"""The panel of comparisons: the explorer's runs, or its job under every mode.

A comparison runs in labs of its own, and does not change the run in the explorer. The panel also shows the Python code
that makes the same comparison.
"""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets

from kit.course.comparing import SLOW_MS, SLOWER_MS, compare_modes, slow_tasks
from kit.draw.charts.comparison import compare
from kit.run.run import run_of
from widgets.base.buttons import ROW, button, number_field
from widgets.base.closing import close_with_parts
from widgets.panels.place import Place
from widgets.runs.session import Session

MODES, RUNS = "the four modes", "the runs above"
QUESTIONS = {
    MODES: "What does each way of taking checkpoints cost, and what does it keep?",
    RUNS: "How do these runs differ?",
}
READY_WORKLOAD = "two-sources"
"""The job to run if the explorer's job takes no periodic checkpoints, or is not a lab's."""


class ComparePanel:
    """Runs side by side on one time axis. `shown` holds the picture, `code` the Python code that makes it."""

    title = "Compare"
    place = Place.INSTEAD

    def __init__(self, session: Session) -> None:
        self._session = session
        self.what = ipywidgets.ToggleButtons(options=[*QUESTIONS], style={"button_width": "auto"})
        self.busy_ms = number_field("slow task, ms a buffer", SLOW_MS, 0, 60)
        self.source_ms = number_field("slower source, ms a buffer", SLOWER_MS, 0, 60)
        self.timeout_ms = number_field("aligned timeout, ms", 40, 1, 200)
        self.fail_after = number_field("a worker dies after checkpoint", 2, 0, 6)
        hint = "run the compared jobs to their end"
        self.go = button("Compare", hint, lambda: session.attempt(self._run), "play", "primary")
        self.question, self.note, self.shown, self.code = (ipywidgets.HTML() for _ in range(4))
        self._of = {
            MODES: (self.busy_ms, self.source_ms, self.timeout_ms, self.fail_after),
            RUNS: (),
        }
        self._settings = ipywidgets.HBox(layout=ROW | {"grid_gap": "2px 14px"})
        self._were_two = False
        self._shown_of: object = None
        """The subject of the current picture."""
        self.widget = ipywidgets.VBox(
            [self.what, self.question, self._settings, self.go, self.note, self.shown, self.code]
        )
        for each in (self.what, *(field for of in self._of.values() for field in of)):
            each.observe(lambda _: session.attempt(self.update), "value")

    def update(self) -> None:
        """Show the settings of the comparison, which runs on request. Compare the explorer's runs if there are two."""
        two = len(self._session.runs) > 1
        if two and not self._were_two:
            self._were_two = True
            self.what.value = RUNS
        self.question.value = f'<div class="kit-question">{QUESTIONS[self.what.value]}</div>'
        self._settings.children = self._of[self.what.value]
        runs = self._session.runs
        alone = self.what.value == RUNS and len(runs) == 1
        self.go.disabled = alone
        if self._shown_of not in (None, self._asked):
            self._forget()
        if alone or self._shown_of is None:
            self.note.value = "There is one run so far: fork it to have two." if alone else ""

    @property
    def _asked(self) -> object:
        """Return all that the picture depends on: the question, its settings, and the progress of the runs."""
        settings = tuple(field.value for field in self._of[self.what.value])
        runs: object = self._session.run.name
        if self.what.value == RUNS:
            runs = tuple((explored.name, len(run_of(explored.thing).trace)) for explored in self._session.runs)
        return self.what.value, settings, runs

    def _forget(self) -> None:
        """Remove the picture because it answers another question than the one above it."""
        self._shown_of = None
        for each in (self.note, self.shown, self.code):
            each.value = ""

    def _run(self) -> None:
        self._forget()
        asked = self._asked
        if self.what.value == MODES:
            comparison, code = self._modes()
        else:
            comparison = compare({explored.name: explored.thing for explored in self._session.runs})
            code = "kit.draw.compare({'the run': lab, 'the fork': other})"
        self._shown_of = asked
        self.shown.value = comparison._repr_html_()
        self.code.value = f"<p>as Python: <code>{escape(code)}</code></p>"

    def _modes(self) -> tuple[Any, str]:
        lab, timeout_ms = self._session.run.lab, self.timeout_ms.value
        fail_after = self.fail_after.value or None
        options = {"timeout_ms": timeout_ms, "fail_after": fail_after, "seed": 0 if lab is None else lab.past.seed}
        said = ", ".join(f"{name}={value!r}" for name, value in options.items())
        if lab is not None and lab.job.settings.checkpoint.interval_ms is not None:
            busy_ms = slow_tasks(lab.job, self.busy_ms.value, self.source_ms.value)
            return compare_modes(lab.job, busy_ms=busy_ms, **options), f"compare_modes(env, busy_ms={busy_ms}, {said})"
        self.note.value = f"The job takes no checkpoints by itself, so the ready job {READY_WORKLOAD!r} is run instead."
        busy_ms = {"sums": self.busy_ms.value, "right": self.source_ms.value}
        code = f"compare_modes({READY_WORKLOAD!r}, busy_ms={busy_ms}, {said})"
        return compare_modes(READY_WORKLOAD, busy_ms=busy_ms, **options), code

    def close(self) -> None:
        """Close the settings of the comparisons that are not shown."""
        close_with_parts(*(field for fields in self._of.values() for field in fields))
