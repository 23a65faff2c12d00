"""A machine's table of transitions: the code follows it, its errors quote it, and its figure is drawn from it.

    LIGHT = Transitions("light", "red", {"red": {"timer": "green"}, "green": {"timer": "red"}})
    state = LIGHT.follow("the light", state, "timer")

A state or an event is a member of an enum, a class or a text. If an event may lead to several states, the code chooses,
and `check` compares its choice with the table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.core.protocol.words import ProtocolError

if TYPE_CHECKING:
    import pandas as pd

S = TypeVar("S", bound=Hashable)
NEW_LINE = "\\n"
"""A line break as Graphviz writes it."""


class Transitions(Generic[S]):
    """The states that may follow, by state and event; `first` is the initial state, or a tuple of initial states.

    Raises ValueError for a target that is not a state of the table, and for a state that cannot be reached from
    `first`.
    """

    def __init__(self, name: str, first: S | tuple[S, ...], table: Mapping[S, Mapping[Any, S | tuple[S, ...]]]) -> None:
        self.name = name
        self.first = _tuple(first)
        self._table: dict[S, dict[Any, tuple[S, ...]]] = {
            state: {event: _tuple(targets) for event, targets in row.items()} for state, row in table.items()
        }
        named = {*self.first, *(target for state in self._table for target in self.targets(state))}
        if unknown := sorted(label(state) for state in named - self._table.keys()):
            raise ValueError(f"{self!r}: unknown state {', '.join(unknown)}: add a row for it (it may be empty)")
        if lost := [label(state) for state in self._table if state not in self._reachable()]:
            raise ValueError(f"{self!r}: no path leads to {', '.join(lost)}")

    def _reachable(self) -> set[S]:
        reached, ahead = set(self.first), list(self.first)
        while ahead:
            found = set(self.targets(ahead.pop())) - reached
            reached |= found
            ahead += found
        return reached

    def __iter__(self) -> Iterator[S]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def targets(self, state: S) -> tuple[S, ...]:
        """Return the states that may follow this one, whatever the event; () for a terminal state."""
        return tuple(dict.fromkeys(target for targets in self._table[state].values() for target in targets))

    def targets_at(self, state: S, event: Any) -> tuple[S, ...]:
        """Return the states that may follow this one at `event`; () if it does not take the event."""
        return self._table[state].get(event, ())

    def events(self, state: S) -> tuple[Any, ...]:
        """Return the events that this state takes."""
        return tuple(self._table[state])

    def is_end(self, state: S) -> bool:
        """Return True if no state follows."""
        return not self._table[state]

    def allows(self, state: S, target: S, event: Any = None) -> bool:
        """Return True if the table has this transition, at `event` if one is given."""
        return target in (self.targets(state) if event is None else self._table[state].get(event, ()))

    def check(self, who: object, state: S, target: S, event: Any = None) -> None:
        """Raise ProtocolError, which quotes the table, if `who` may not take this transition."""
        if not self.allows(state, target, event):
            when = "" if event is None else f" at {label(event)!r}"
            raise ProtocolError(f"{who} is {label(state)} and cannot become {label(target)}{when}; {self._row(state)}")

    def follow(self, who: object, state: S, event: Any) -> S:
        """Return the state that follows. Raises ProtocolError, which quotes the table, if `who` cannot take the event.

        Raises ValueError if the table leaves a choice, which the code must make.
        """
        targets = self._table[state].get(event)
        if targets is None:
            raise ProtocolError(f"{who} is {label(state)} and cannot take {label(event)!r}; {self._row(state)}")
        (target,) = targets
        return target

    def _row(self, state: S) -> str:
        steps = (
            f"{label(event)} -> {' or '.join(map(label, targets))}" for event, targets in self._table[state].items()
        )
        return "; ".join(steps) or "nothing follows"

    # --- the figure -----------------------------------------------------------------------------------------------

    def _edges(self) -> dict[tuple[str, str], list[str]]:
        """Return the events that lead from one state to another, by the labels of both."""
        edges: dict[tuple[str, str], list[str]] = {}
        for state, row in self._table.items():
            for event, targets in row.items():
                for target in targets:
                    edges.setdefault((label(state), label(target)), []).append(label(event))
        return edges

    def dot(self) -> str:
        """Return the figure in Graphviz' language; terminal states have two circles."""
        ends = "".join(f'  "{label(state)}" [peripheries=2]\n' for state in self if self.is_end(state))
        edges = "".join(
            f'  "{source}" -> "{target}" [label="{NEW_LINE.join(events)}"]\n'
            for (source, target), events in self._edges().items()
        )
        return f'digraph "{self.name}" {{\n  node [shape=box, style=rounded]\n{ends}{edges}}}\n'

    def mermaid(self) -> str:
        """Return the figure in the language that GitHub and Jupyter draw in Markdown."""
        begin = [f"    [*] --> {label(state)}" for state in self.first]
        steps = [
            f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in self._edges().items()
        ]
        end = [f"    {label(state)} --> [*]" for state in self if self.is_end(state)]
        return "\n".join(["stateDiagram-v2", *begin, *steps, *end, ""])

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with one row per transition: state, event, target."""
        import pandas as pd

        rows = [
            (label(state), label(event), label(target))
            for state, row in self._table.items()
            for event, targets in row.items()
            for target in targets
        ]
        return pd.DataFrame(rows, columns=["state", "event", "target"])

    def steps(self) -> pd.DataFrame:
        """Return the transitions to another state: one row per state, one column per event, and the targets as cells.

        A cell without a target is "".
        """
        found = self.to_pandas()
        found = found[found["state"] != found["target"]]
        grid = found.groupby(["state", "event"], sort=False)["target"].agg(" or ".join).unstack(fill_value="")
        return grid.loc[[label(state) for state in self if label(state) in grid.index]]

    def _repr_html_(self) -> str:
        return notebook_html(self.name, frame_html(self.to_pandas(), NOTEBOOK_ROWS, all_in=".to_pandas()"))

    def __repr__(self) -> str:
        return f"Transitions({self.name}, {len(self)} states)"


def label(what: Any) -> str:
    """Return the label of a state or an event: the text or name of an enum's member, or the name of a class."""
    if isinstance(what, Enum):
        return what.value if isinstance(what.value, str) else what.name
    return what.__name__ if isinstance(what, type) else str(what)


def _tuple(targets: Any) -> tuple[Any, ...]:
    return targets if isinstance(targets, tuple) else (targets,)
