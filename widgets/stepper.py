"""The stepper: a run in the notebook, forward and back, with everything that the page's export can do.

All frames travel to the browser once; stepping then needs no kernel. The controls are in the module itself, so they
also work where no kernel runs. `value`, the number of the frame shown, is kept the same on both sides.

Others build on it: `n` is the cursor in records of the run, `picked` the thing that was clicked, `told` what the kernel
adds to its details, `offers` what may be done with it, and `on_act` hears what was chosen. The page shows them and
knows no more of it.

After each cell the stepper looks whether the run has gone on, and if so says it to the page (`news`). A page that shows
the stepper then asks for the new frames; one that was closed costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from kit.draw.frames import Frame, film, frames
from kit.draw.job_state import Moment
from kit.draw.picture import Svg
from kit.draw.run import Run, run_of
from kit.draw.svg import asset

AFTER_EACH_CELL = "post_run_cell"


class Stepper(anywidget.AnyWidget):
    """Steps through the run of a Lab, a SparkJob, a Trace or a play, and opens at the present.

    `value` is the number of the frame shown; `moment` is what is known then. What a lab or a job has done since is
    taken in after each cell, and by `refresh()`. Raises TypeError for what is no run.
    """

    _esm = asset("stage.js")
    _css = asset("stage.css") + asset("player.css")
    film = traitlets.Dict().tag(sync=True)
    value = traitlets.Int(0).tag(sync=True)
    news = traitlets.Int(0).tag(sync=True)
    """Counts how often the run was found to have gone on."""
    n = traitlets.Int(0).tag(sync=True)
    """How many records had happened at the moment shown: the cursor that pictures of the same run share."""
    picked = traitlets.Unicode("").tag(sync=True)
    """What was clicked: `task:<vertex>/<subtask>`, `vertex:<name>`, `channel:<number>`, `lane:<name>`,
    `checkpoint:<id>`, `message:<record id>`, `job`, or nothing."""
    told = traitlets.Dict().tag(sync=True)
    """What the kernel has to say of it: `{"picked", "n", "html"}`; shown while both are what is looked at."""
    offers: Any = traitlets.List().tag(sync=True)
    """What may be done: each `{"key", "label", "on", "hint", "why_not"}`, shown on the thing named `on`."""

    def __init__(self, run: Any, **traits: Any) -> None:
        self._run = run
        self._shown = self._look()
        made = film(self._shown) | {"edition": 0}
        self._acts: list[Callable[[str], object]] = []
        super().__init__(film=made, **{"value": len(made["frames"]) - 1, **traits})
        self.n = self._records_at(self.value)
        self.on_msg(self._heard)
        shell = get_ipython()
        if shell is not None:
            shell.events.register(AFTER_EACH_CELL, self._cell_ran)

    def on_act(self, act: Callable[[str], object]) -> None:
        """Have `act` called with the key of an offer whenever somebody chooses one."""
        self._acts.append(act)

    def _records_at(self, value: int) -> int:
        return int(self.film["frames"][value]["n"])

    @traitlets.observe("value")
    def _value_changed(self, change: Any) -> None:
        """The cursor follows the frame, unless it lies between this one and the next."""
        if self._frame_at(self.n) != change["new"]:
            self.n = self._records_at(change["new"])

    @traitlets.observe("n")
    def _n_changed(self, change: Any) -> None:
        self.value = self._frame_at(change["new"])

    def _frame_at(self, n: int) -> int:
        """The last frame with at most `n` records."""
        return max(0, bisect_right(self.film["frames"], n, key=lambda frame: frame["n"]) - 1)

    def _look(self) -> Run:
        """The run as it is now: a lab's own trace goes on."""
        run = run_of(self._run)
        return Run(run.trace[:], run.stages, run.notes)

    @property
    def frame(self) -> Frame:
        """The frame shown."""
        shown = self.film["frames"][self.value]["n"]
        return next(frame for frame in frames(self._shown) if frame.moment.n == shown)

    @property
    def moment(self) -> Moment:
        """What is known at the frame shown."""
        return self.frame.moment

    def refresh(self) -> Stepper:
        """Take in what happened since. Whoever looks at the last frame then looks at the new last one; whoever looks at
        an earlier one stays there.
        """
        return self._refresh(self._is_last)

    def _refresh(self, follow: bool) -> Stepper:
        shown = self.film["frames"][self.value]["n"]
        self._shown = self._look()
        made = film(self._shown) | {"edition": self.film["edition"] + 1}
        numbers = [frame["n"] for frame in made["frames"]]
        with self.hold_sync():
            self.film = made
            self.value = len(numbers) - 1 if follow else max(0, bisect_right(numbers, shown) - 1)
            self.n = numbers[self.value]
        return self

    @property
    def _is_last(self) -> bool:
        """Whether the frame shown is the last one."""
        return self.value == len(self.film["frames"]) - 1

    @property
    def _is_stale(self) -> bool:
        """Whether the run is another than the one shown: longer, or gone back and on another way."""
        now, shown = run_of(self._run).trace, self._shown.trace
        return len(now) != len(shown) or (len(now) > 0 and now[-1] != shown[-1])

    def _cell_ran(self, _: Any) -> None:
        if self._is_stale:
            self.news += 1

    def _heard(self, _: Any, content: Any, __: Any) -> None:
        """The page sends what somebody chose, or asks for what is new."""
        if "do" in content:
            for act in self._acts:
                act(content["do"])
        else:
            self._asked(content)

    def _asked(self, content: Any) -> None:
        """The page asks for what is new: because it was told (`news`), or because somebody wants to see the present.

        It says which frame of which edition of the film it shows; where that is an old one the answer is under way.
        """
        if content["edition"] == self.film["edition"]:
            self.value = content["value"]
        follow = content["wanted"] == "present" or self._is_last
        if self._is_stale:
            self._refresh(follow)
        elif follow:
            self.value = len(self.film["frames"]) - 1

    def close(self) -> None:
        """Take the stepper out of the page, and look at the run no more."""
        shell = get_ipython()
        if shell is not None and self._cell_ran in shell.events.callbacks[AFTER_EACH_CELL]:
            shell.events.unregister(AFTER_EACH_CELL, self._cell_ran)
        super().close()

    def svg(self) -> Svg:
        """The frame shown as a static picture."""
        return self.frame.svg()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, and for where no widget can be shown the picture."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, *rest = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**(data or {}), "image/svg+xml": str(self.svg()), "text/plain": repr(self)}
        return (data, *rest) if rest else data

    def __repr__(self) -> str:
        return f"Stepper({len(self.film['frames'])} frames, at {self.value})"
