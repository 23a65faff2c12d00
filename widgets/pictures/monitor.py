"""The monitor: jobs that run on Spark, live, with buttons for requests.

While it is open, it reads the chosen job every second on the kernel's event loop. While a cell runs, the loop is
blocked, and the monitor does not update. Buttons send requests and never wait. The outcome of a request is shown when
it arrives; if the request is rejected, a line gives the reason.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import escape
from typing import Any
from weakref import WeakKeyDictionary

import ipywidgets as ui

from kit.draw.charts.live import Live, Story, live_of, page_part
from widgets.base.deferred import Ticker
from widgets.base.static_form import StaysInNotebook

EVERY_S = 1.0
MOST_LINES = 12
NEWEST, KILL = "the newest", "Kill worker"


class Monitor(StaysInNotebook, ui.VBox):
    """A monitor of one of several SparkJobs: of `jobs`, or by default of those that run in this process at the moment.
    With `others`, of both.

    `refresh()` reads the job now, `watch(job)` chooses another job, and `close()` stops watching; the job continues.
    """

    def __init__(self, *jobs: Any, others: bool = False) -> None:
        self._given, self._others = list(jobs), others or not jobs
        self._heed: Callable[[Any], None] = lambda job: None
        self._asked: list[tuple[str, Callable[[], str | None]]] = []
        """The requests, each with a function that returns the path of the result, None while it is pending."""
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="kit-monitor")
        self._live: Live | None = None
        self._stories: WeakKeyDictionary[Any, Story] = WeakKeyDictionary()
        self._log = LogTail()
        self._looked_at: tuple[Any, ...] = ()
        """The state of the job when the static picture was last updated."""
        self._ticker = Ticker(self._watch, EVERY_S)
        self._job = ui.Dropdown(description="Job", options=[], layout=ui.Layout(width="360px"))
        self._which = ui.Dropdown(description="Checkpoint", options=[(NEWEST, NEWEST)], value=NEWEST)
        self._worker = ui.Dropdown(description="Worker", options=[])
        self._parallelism = ui.BoundedIntText(description="Parallelism", value=1, min=1, max=10_000)
        self._target = ui.Text(
            description="Savepoints to", placeholder="the configured directory", continuous_update=False
        )
        self._target.style.description_width = "initial"
        self._drain = ui.Checkbox(description="drain first", value=False, indent=False, layout=_NARROW)
        self._said = ui.HTML()
        self._shown = ui.HTML()
        acts = self._acts()
        self._hints = {name: hint for name, (hint, _) in acts.items()}
        self._buttons = {name: self._button(name, act) for name, (_, act) in acts.items()}
        self._is_filling = False
        self._job.observe(self._chosen, "value")
        self._which.observe(self._chosen, "value")
        checkpoint, savepoint, stop, cancel, rescale, kill = self._buttons.values()
        rows = (
            [self._job, self._which],
            [checkpoint, savepoint, stop, self._drain, self._target, cancel],
            [self._parallelism, rescale, self._worker, kill],
        )
        super().__init__([*(ui.HBox(row, layout=_ROW) for row in rows), self._said, self._shown])
        self.refresh()
        self._ticker.start()

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def job(self) -> Any:
        """The SparkJob that is watched; None if there is none."""
        return self._job.value

    def refresh(self) -> Monitor:
        """Read the job now."""
        self._hear()
        jobs = self._jobs()
        first = self._given[0] if self._given else jobs[-1] if jobs else None  # or the one that started last
        chosen = self.job if self.job in jobs else first
        self._fill(self._job, [(f"{job.job.name}, {job.status.lower()}", job) for job in jobs], chosen)
        if self.job is None:
            self._shown.value = page_part('<p class="quiet">no job runs: SparkJob(env).start() begins one</p>')
        else:
            self._look(self.job)
        self._enable()
        if self.job is not None and (not self._looked_at or self._looked_at[0] is not self.job):
            self._parallelism.value = max(vertex.parallelism for vertex in self.job.job.vertices)
        looked_at = (self.job, self.job and self.job.status, self._which.value)
        if looked_at != self._looked_at:  # not every second: keeping a picture marks the notebook as unsaved
            self._looked_at = looked_at
            self._keep()
        return self

    def _jobs(self) -> list[Any]:
        if not self._others:
            return self._given
        from kit.hosts.spark import running

        return [*self._given, *(job for job in running() if job not in self._given)]

    def watch(self, job: Any) -> None:
        """Watch this job from now on."""
        if job is not self.job:
            if job not in self._jobs():
                self._given.append(job)
            self.refresh()
            self._job.value = job

    def on_job(self, heed: Callable[[Any], None]) -> None:
        """Call `heed` with the job that is chosen in the menu."""
        self._heed = heed

    def _fill(self, menu: ui.Dropdown, options: list[tuple[str, Any]], value: Any) -> None:
        """Set the choices of a menu, if they have changed; observers do not see intermediate values."""
        if list(menu.options) != options:
            self._is_filling = True
            menu.options = options
            menu.value = value
            self._is_filling = False

    def _chosen(self, change: Any) -> None:
        if not self._is_filling:
            self.refresh()
            if change["owner"] is self._job:
                self._said.value = ""
                self._heed(self.job)

    def _look(self, job: Any) -> None:
        wanted = None if self._which.value == NEWEST else self._which.value
        self._live = live_of(job, wanted, self._stories.setdefault(job, Story()), self._log.lines)
        known = self._live.history["id"].tolist()
        options = [(NEWEST, NEWEST), *((f"checkpoint {number}", number) for number in known)]
        self._fill(self._which, options, wanted if wanted in known else NEWEST)
        workers = [(f"slot {slot}, process {pid}", slot) for slot, pid in sorted(job.look.workers().items())]
        slots = [slot for _, slot in workers]
        here = self._worker.value if self._worker.value in slots else slots[0] if slots else None
        self._fill(self._worker, workers, here)
        self._shown.value = self._live._repr_html_()

    def _enable(self) -> None:
        """Disable the buttons whose request would be rejected, with the reason as a hint."""
        job = self.job
        why_not = "there is no job" if job is None else f"the job is {job.status.lower()}" if job.ended else ""
        for name, button in self._buttons.items():
            reason = why_not or ("no worker is running" if name == KILL and not self._worker.options else "")
            button.disabled = bool(reason)
            button.tooltip = reason or self._hints[name]

    def _watch(self) -> bool:
        if self.comm is None:
            return False
        self.refresh()
        return True

    def close(self) -> None:
        """Remove the monitor from the page, and stop watching; the job continues."""
        if self.comm is not None:
            self._ticker.stop()
            self._threads.shutdown(wait=False)
            self._log.close()
        super().close()

    # --- asking ---------------------------------------------------------------------------------------------------

    def _button(self, label: str, act: Callable[[], None]) -> ui.Button:
        def press(_: Any) -> None:
            try:
                act()
            except Exception as error:  # an error in a callback would only be in the server's log
                self._say(str(error), "bad")

        button = ui.Button(description=label)
        button.on_click(press)
        return button

    def _say(self, text: str, look: str = "quiet") -> None:
        self._said.value = page_part(f'<p class="{look}" aria-live="polite">{escape(text)}</p>')

    def _hear(self) -> None:
        """Show the outcomes of the requests."""
        asked, self._asked = self._asked, []
        for what, answer in asked:
            try:
                path = answer()
            except Exception as error:
                self._say(f"{what}: {error}", "bad")
                continue
            if path is None:
                self._asked.append((what, answer))
            else:
                self._say(f"{what}: {path}", "good")

    def _ask(self, what: str, request: str, *arguments: Any, **settings: Any) -> None:
        job = self.job
        number = getattr(job, request)(*arguments, **settings, wait=False)
        self._asked.append((what, lambda: job.look.answer(number)))
        self._say(f"{what}: asked")

    def _later(self, what: str, act: Callable[[], Any]) -> None:
        """Do long work on another thread; its outcome is shown when it is done."""
        done = self._threads.submit(act)

        def outcome() -> str | None:
            if not done.done():
                return None
            done.result()  # raises the error of what failed
            return "done"

        self._asked.append((what, outcome))
        self._say(f"{what}: asked")

    def _acts(self) -> dict[str, tuple[str, Callable[[], None]]]:
        """Return the purpose and the function of each button, by its label."""

        def target() -> str | None:
            return self._target.value.strip() or None

        def rescale() -> None:
            parallelism = self._parallelism.value
            self._later(f"parallelism {parallelism}", partial(self.job.rescale, parallelism))

        def kill() -> None:
            self._say(f"process {self.job.faults.kill(self._worker.value)} was killed", "good")

        return {
            "Checkpoint": ("take a checkpoint now", lambda: self._ask("checkpoint", "trigger_checkpoint")),
            "Savepoint": ("take a savepoint", lambda: self._ask("savepoint", "savepoint", target())),
            "Stop": (
                "stop the job with a savepoint",
                lambda: self._ask("stop with savepoint", "stop", target(), drain=self._drain.value),
            ),
            "Cancel": ("end the job without a savepoint", lambda: self._later("cancel", self.job.cancel)),
            "Rescale": ("continue at this parallelism, from a checkpoint taken for it", rescale),
            KILL: ("kill this worker's process, as a crash would", kill),
        }

    def __repr__(self) -> str:
        return f"Monitor({'no job' if self.job is None else self.job.job.name})"

    def _still(self) -> dict[str, str]:
        return {"text/html": self._shown.value}


class LogTail(logging.Handler):
    """The last lines of the kit's log: a restart with its reason, a connection that was closed."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
        logging.getLogger("kit").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first line of the message."""
        self._lines.append(self.format(record).partition("\n")[0])

    @property
    def lines(self) -> tuple[str, ...]:
        """Oldest first."""
        return tuple(self._lines)

    def close(self) -> None:
        """Stop listening."""
        logging.getLogger("kit").removeHandler(self)
        super().close()


_NARROW = {"width": "auto"}
_ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 10px"}
