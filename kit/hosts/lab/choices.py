"""Lists of actions for the user: those enabled, the possible faults, and those that are not allowed now.

Each is a sequence. It prints its actions by group, with the number that `step` accepts, and converts to a DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from kit.core.html_tables import frame_html, notebook_html
from kit.hosts.lab.world.actions import Action

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 20
"""The number of actions printed; a notebook's table has five times as many."""


class Choices(Sequence[Action]):
    """The actions of one moment, in a fixed order. `refused` has those not allowed now, with the reasons."""

    def __init__(self, actions: Iterable[Action], *, what: str, refused: Iterable[tuple[Action, str]] = ()) -> None:
        self._actions = tuple(actions)
        self._what = what
        self.refused = tuple(refused)

    @overload
    def __getitem__(self, index: int) -> Action: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Action, ...]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._actions[index]

    def __len__(self) -> int:
        return len(self._actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per action, refused ones included: number (missing if refused), group, action, its subject,
        key, and why not.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = [
            {"number": number, **_row(action), "why_not": ""} for number, action in enumerate(self._actions)
        ]
        rows += [{"number": None, **_row(action), "why_not": why} for action, why in self.refused]
        frame = pd.DataFrame(rows, columns=["number", "group", "action", "subject", "key", "why_not"])
        frame["number"] = frame["number"].astype("Int64")
        return frame

    def _lines(self) -> Iterator[str]:
        group = ""
        for number, action in enumerate(self._actions[:SHOWN]):
            if action.group.value != group:
                group = action.group.value
                yield f"{group}:"
            yield f"  {number}  {action}"
        if len(self) > SHOWN:
            yield f"and {len(self) - SHOWN} more: .to_pandas() has all"

    def __repr__(self) -> str:
        refused = f", {len(self.refused)} that may not now (.refused)" if self.refused else ""
        return "\n".join((f"{len(self)} {self._what}{refused}", *self._lines()))

    def _repr_html_(self) -> str:
        frame = self.to_pandas().drop(columns=["subject"])
        if not self.refused:
            frame = frame.drop(columns=["why_not"])
        shown = frame_html(frame, 5 * SHOWN, all_in=".to_pandas()")
        return notebook_html(repr(self).partition("\n")[0], shown)


def _row(action: Action) -> dict[str, str]:
    return {"group": action.group.value, "action": action.text, "subject": action.subject, "key": action.key}
