"""The stepper: a run in the notebook, forward and back, with everything that the page's export can do.

All frames travel to the browser once; stepping then needs no kernel. The controls are in the module itself, so they
also work where no kernel runs. `value`, the number of the frame shown, is kept the same on both sides.

After each cell the stepper looks whether the run has gone on, and if so says it to the page (`news`). A page that shows
the stepper then asks for the new frames; one that was closed costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
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

    def __init__(self, run: Any, **traits: Any) -> None:
        self._run = run
        self._shown = self._look()
        made = film(self._shown) | {"edition": 0}
        super().__init__(film=made, **{"value": len(made["frames"]) - 1, **traits})
        self.on_msg(self._asked)
        shell = get_ipython()
        if shell is not None:
            shell.events.register(AFTER_EACH_CELL, self._cell_ran)

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

    def _asked(self, _: Any, content: Any, __: Any) -> None:
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
