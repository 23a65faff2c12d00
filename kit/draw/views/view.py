"""A view: one question about a run, and the picture that answers it at a moment of the run.

`View.draw` takes a `Subject`, a run looked at after some of its records, and gives something `Drawn`. The explorer has
a tab for each view of the table in `kit.draw.views.views`, the exported page a section, and a script calls the same
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from kit.run.subject import Subject


class Drawn(Protocol):
    """What a view gives: a fragment of HTML in the theme's colours, and its numbers."""

    def _repr_html_(self) -> str:
        """The picture and its heading, inside one element of the class `kit-picture`; asks the network for nothing."""
        ...

    def to_pandas(self) -> pd.DataFrame:
        """What the picture says, as numbers."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """One question and what answers it. `follows` says whether the answer changes with the moment that is looked at."""

    name: str
    title: str
    question: str
    draw: Callable[[Subject], Drawn]
    follows: bool = True
    asks: str = ""
    """What may be typed in, in a few words: "where is key"; empty where nothing may."""
    choices: Callable[[Any], Sequence[object]] = lambda drawn: ()
    """Of what was drawn: what is worth typing in, the likeliest first."""

    def __repr__(self) -> str:
        return f"View({self.name}: {self.question})"
