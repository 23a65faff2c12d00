"""The stepper: a run in the notebook, forward and back, with everything that the page's export can do.

All frames travel to the browser once, and later ones are appended, so stepping needs no kernel. In a long run, the
other frames follow the first picture, and a step without a frame gets one when the user reaches it. The controls are in
the JavaScript module, so they also work without a kernel. `value`, the number of the frame shown, is synchronized with
the kernel when the page is idle.

Other widgets build on it. `n` is the cursor in records of the run, and `selected` the item that was clicked.
`item_details` are the kernel's additions to its details, and `offers` the actions on it; `on_act` is called with the
chosen one. If the run `goes_on`, a step forward from its end calls `on_step`. The page only displays these. After each
cell, the stepper checks whether the run has continued, and if so notifies the page (`news`). A page that shows the
stepper then requests the new frames; a closed page costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import traitlets

from kit.draw.assets import stage_css, stage_js
from kit.draw.picture import Svg
from kit.draw.stage.film import DEFER_FROM, MOST_FRAMES, FilmBuilder
from kit.draw.stage.frames import Frame, frame_of
from kit.run.moments.job_state import Moment
from kit.run.run import run_of, stepped_run_of
from widgets.base.deferred import AfterEachCell, Ticker, running_loop
from widgets.base.listening import ListeningWidget, listening
from widgets.base.static_form import StaysInNotebook

DRAWN_AT_ONCE, DRAWN_EVERY_S = 24, 0.01
"""The number of frames of a long run drawn at a time (some 40 ms), and the pause that leaves time for user input."""


class Stepper(StaysInNotebook, ListeningWidget):
    """A stepper through the run of a Lab, a SparkJob, a Trace or a scenario; it opens at the present.

    `value` is the number of the frame shown, and `moment` its state. The progress of a lab or a job is read after each
    cell, and by `refresh()`. Raises TypeError for anything but a run.
    """

    _esm = listening(stage_js())
    _css = stage_css()
    film = traitlets.Dict().tag(sync=True)
    value = traitlets.Int(0).tag(sync=True, echo_update=False)
    news = traitlets.Int(0).tag(sync=True)
    """The number of times that the run was found to have continued."""
    n = traitlets.Int(0).tag(sync=True, echo_update=False)
    """The number of records up to the moment shown: the cursor that pictures of the same run share."""
    selected = traitlets.Unicode("").tag(sync=True, echo_update=False)
    """The item that was clicked: `task:<vertex>/<subtask>`, `vertex:<name>`, `channel:<number>`, `lane:<name>`,
    `checkpoint:<id>`, `message:<record id>`, `job`, or nothing."""
    item_details = traitlets.Dict().tag(sync=True)
    """The kernel's details of it: `{"selected", "n", "html"}`, shown while both are current."""
    goes_on = traitlets.Bool(False).tag(sync=True)
    """True if the run can take a step forward from its end."""
    offers: Any = traitlets.List().tag(sync=True)
    """The possible actions: each `{"key", "label", "on", "hint", "why_not"}`, shown on the item named `on`."""

    def __init__(self, run: Any, **traits: Any) -> None:
        self._drawing = Ticker(lambda: self._draw_more(DRAWN_AT_ONCE), DRAWN_EVERY_S)
        self._run = run
        self._builder = FilmBuilder(defer_from=DEFER_FROM)
        self._look()
        self._acts: list[Callable[[str], object]] = []
        self._steps: list[Callable[[], object]] = []
        self._marks: list[Callable[[str], object]] = []
        last = len(self._builder.film["frames"]) - 1
        super().__init__(film=self._builder.film | {"edition": 0}, **{"value": last, **traits})
        self.n = self._records_at(self.value)
        self.on_msg(self._heard)
        self._follower = AfterEachCell(self._cell_ran)

    def on_act(self, act: Callable[[str], object]) -> None:
        """Call `act` with the key of an offer whenever the user chooses one."""
        self._acts.append(act)

    def on_step(self, act: Callable[[], object]) -> None:
        """Call `act` whenever the user steps forward from the end of a run that `goes_on`."""
        self._steps.append(act)

    def on_mark(self, act: Callable[[str], object]) -> None:
        """Call `act` when the user asks for the next checkpoint, failure or restore, and there is none yet."""
        self._marks.append(act)

    def _records_at(self, value: int) -> int:
        return int(self.film["frames"][value]["n"])

    @traitlets.observe("value")
    def _value_changed(self, change: Any) -> None:
        """Move the cursor to the frame, unless it is between this frame and the next."""
        if self._frame_at(self.n) != change["new"]:
            self.n = self._records_at(change["new"])
        self._keep()

    @traitlets.observe("n")
    def _n_changed(self, change: Any) -> None:
        value = self._frame_at(change["new"])
        if self._has_more_after(value) and change["new"] > self._records_at(value):
            self._insert(value + 1, change["new"])
            value = self._frame_at(change["new"])
        self.value = value

    def _frame_at(self, n: int) -> int:
        """Return the last frame with at most `n` records."""
        return max(0, bisect_right(self.film["frames"], n, key=lambda frame: frame["n"]) - 1)

    def _look(self) -> dict[str, Any]:
        """Look at the present run, and return what is new in the film."""
        self._shown = run = stepped_run_of(self._run)
        self._last = len(run.trace), run.trace[-1] if len(run.trace) else None
        return self._builder.take(run)

    @property
    def frame(self) -> Frame:
        """The frame shown."""
        return frame_of(self._builder.reading, self._shown.stages, self._records_at(self.value))

    @property
    def moment(self) -> Moment:
        """The state known at the frame shown."""
        return self.moment_at(self._records_at(self.value))

    def moment_at(self, n: int) -> Moment:
        """Return the state after the first `n` records that were read, causes before effects."""
        return self._builder.reading.moment_at(n)

    def refresh(self) -> Stepper:
        """Read the progress of the run. If the last frame is shown, the new last frame is shown then; an earlier frame
        stays.
        """
        return self._refresh(self.is_last)

    def _refresh(self, follow: bool) -> Stepper:
        shown = self._records_at(self.value)
        self._extend(self._look())
        with self.hold_sync():
            self.value = len(self.film["frames"]) - 1 if follow else self._frame_at(shown)
            self.n = self._records_at(self.value)
        return self

    def _extend(self, news: dict[str, Any]) -> None:
        """Send new frames to the page. The whole film is updated for pages opened later, but not sent."""
        edition = self.film["edition"]
        if "anew" in news:
            self.film = self._builder.film | {"edition": edition + 1}
            return
        self.film.update({"edition": edition + 1, "notes": news["notes"]})
        self.send({"film": news | {"base": edition, "edition": edition + 1}})

    def turn(self, vertex: str) -> Stepper:
        """Draw each subtask of a vertex, or one box for all if it is open already. Raises ValueError for an unknown
        vertex.
        """
        names = [each.name for stage in self._shown.stages for each in stage.vertices]
        if vertex not in names:
            raise ValueError(f"there is no vertex {vertex!r}: expected one of {', '.join(dict.fromkeys(names))}")
        shown = self.n
        self._builder = FilmBuilder([*self._builder.turned, vertex], defer_from=DEFER_FROM)
        self._look()
        with self.hold_sync():
            self.film = self._builder.film | {"edition": self.film["edition"] + 1}
            self.value = self._frame_at(shown)
        return self

    def _has_more_after(self, value: int) -> bool:
        """Return True if steps after this frame have no frame of their own."""
        frames = self.film["frames"]
        return value + 1 < len(frames) and "skipped" in frames[value + 1]

    def _insert(self, number: int, n: int, go: int | None = None) -> int:
        """Give frames to the steps before a frame, around record `n`; return their number. With `go`, the page then
        shows the first of them, or with -1 the last.
        """
        edition = self.film["edition"]
        self._draw_more(len(self.film["frames"]))
        news = self._builder.insert(number, n)
        added = len(news["frames"]) - 1
        self.film["edition"] = edition + 1
        moves_to = {} if go is None else {"go": number if go > 0 else number + added - 1}
        self.send({"film": news | {"base": edition, "edition": edition + 1} | moves_to})
        return added

    def _between(self, number: int, by: int) -> None:
        """Insert frames because the user steps over some that do not exist yet."""
        frames = self.film["frames"]
        n = frames[number - 1]["n"] + 1 if by > 0 else frames[number]["n"] - 1
        added = self._insert(number, n, by)
        self.value = number if by > 0 else number + added - 1

    def _draw_more(self, most: int) -> bool:
        """Send the page the pictures of the next frames; return True if there are more."""
        if self._builder.is_owed:
            looks, edition = len(self.film["looks"]), self.film["edition"]
            drawn = self._builder.draw_more(most)
            news = {"drawn": drawn, "looks": self.film["looks"][looks:], "base": edition, "edition": edition}
            self.send({"film": news})
        return self._builder.is_owed

    def _pictures_wanted(self, upto: int | None) -> None:
        """Draw the other frames for a page that shows the run: those up to a number at once, the rest while idle."""
        if upto is not None:
            if "set" in self.film["frames"][upto]:
                self.send_state("film")  # it was sent but did not arrive
            while "set" not in self.film["frames"][upto] and self._draw_more(MOST_FRAMES):
                pass
        elif running_loop() is None:
            self._draw_more(len(self.film["frames"]))
        else:
            self._drawing.start()

    @property
    def is_last(self) -> bool:
        """True if the last frame is shown."""
        return self.value == len(self.film["frames"]) - 1

    @property
    def _is_stale(self) -> bool:
        """True if the run differs from the one shown: it is longer, or went back and took another path."""
        now = run_of(self._run).trace
        return self._last != (len(now), now[-1] if len(now) else None)

    def _cell_ran(self) -> None:
        if self._is_stale:
            self.news += 1

    def _heard(self, _: Any, content: Any, __: Any) -> None:
        """Handle a message of the page: a chosen action, a vertex to open or close, a request for new frames."""
        if "do" in content:
            for act in self._acts:
                act(content["do"])
        elif "open" in content:
            self.turn(content["open"])
        elif content["wanted"] == "step":
            for step in self._steps:
                step()
        elif content["wanted"] == "mark":
            for go_to in self._marks:
                go_to(content["mark"])
        elif content["wanted"] == "film":
            self.send_state("film")
        elif content["wanted"] == "pictures":
            self._pictures_wanted(content.get("upto"))
        elif content["wanted"] == "between":
            if content["edition"] == self.film["edition"]:
                self._between(content["frame"], content["by"])
        else:
            self._asked(content)

    def _asked(self, content: Any) -> None:
        """Handle a request for new frames, which follows `news`, or the user's wish to see the present.

        The page sends the number and the edition of the frame that it shows. For an old edition, the answer is already
        in flight.
        """
        if content["edition"] == self.film["edition"]:
            self.value = content["value"]
        follow = content["wanted"] == "present" or self.is_last
        if self._is_stale:
            self._refresh(follow)
        elif follow:
            self.value = len(self.film["frames"]) - 1

    def close(self) -> None:
        """Remove the stepper from the page, and stop observing the run."""
        if self.comm is not None:  # otherwise it is closed already, or was not given a run
            self._follower.stop()
            self._drawing.stop()
        super().close()

    def svg(self) -> Svg:
        """The frame shown as a static picture."""
        return self.frame.svg()

    def _still(self) -> dict[str, str]:
        return self.svg().forms()

    def __repr__(self) -> str:
        return f"Stepper({len(self.film['frames'])} frames, at {self.value})"
