"""A view: one question about a run, and the picture that answers it at a moment of the run.

`View.draw` takes a `Subject`, which is a run after some of its records, and returns something `Drawn`. The table in
`kit.draw.views.views` lists the views. Each has a tab in the explorer and in an exported page; scripts call the same
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from kit.run.subject import Subject


class Drawn(Protocol):
    """The result of a view: a fragment of HTML in the theme's colours, and its numbers."""

    def _repr_html_(self) -> str:
        """Return the picture and its heading in one element of the class `kit-picture`, without network requests."""
        ...

    def to_pandas(self) -> pd.DataFrame:
        """Return the numbers in the picture."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """One question and the function that answers it."""

    name: str
    title: str
    question: str
    draw: Callable[[Subject], Drawn]
    asks: str = ""
    """The label of the input field, such as "where is key"; empty if the view has none."""
    choices: Callable[[Any], Sequence[object]] = lambda drawn: ()
    """Suggestions for the input field, from the drawn view, the likeliest first."""

    def __repr__(self) -> str:
        return f"View({self.name}: {self.question})"
