"""The stepper: a run in the notebook, forward and back, with everything that the page's export can do.

All frames travel to the browser once; stepping then needs no kernel. The controls are in the module itself, so they
also work where no kernel runs. `value`, the number of the frame shown, is kept the same on both sides.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from kit.draw.frames import Frame, film, frames
from kit.draw.job_state import Moment
from kit.draw.svg import asset


class Stepper(anywidget.AnyWidget):
    """Steps through a lab's run so far, or through a trace; a trace needs the `stages` of its epochs.

    `value` is the number of the frame shown; `moment` is what is known then. `refresh()` takes in what a lab has done
    since. Raises TypeError for a trace without stages.
    """

    _esm = asset("stage.js")
    _css = asset("stage.css") + asset("player.css")
    film = traitlets.Dict().tag(sync=True)
    value = traitlets.Int(0).tag(sync=True)

    def __init__(self, run: Any, **traits: Any) -> None:
        self._run = run
        super().__init__(film=film(run), **traits)

    @property
    def frame(self) -> Frame:
        """The frame shown."""
        shown = self.film["frames"][self.value]["n"]
        return next(frame for frame in frames(self._run) if frame.moment.n == shown)

    @property
    def moment(self) -> Moment:
        """What is known at the frame shown."""
        return self.frame.moment

    def refresh(self) -> Stepper:
        """Take in what happened since, and go to the last frame."""
        made = film(self._run)
        with self.hold_sync():
            self.film = made
            self.value = len(made["frames"]) - 1
        return self

    def svg(self) -> str:
        """The frame shown as a static picture."""
        return self.frame.svg()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, and for where no widget can be shown the picture."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, *rest = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**(data or {}), "text/html": self.svg(), "text/plain": repr(self)}
        return (data, *rest) if rest else data

    def __repr__(self) -> str:
        return f"Stepper({len(self.film['frames'])} frames, at {self.value})"
