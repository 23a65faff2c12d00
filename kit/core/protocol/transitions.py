"""A machine's table of transitions: the code steps by it, its errors quote it, and its figure is drawn from it.

    LIGHT = Transitions("light", "red", {"red": {"timer": "green"}, "green": {"timer": "red"}})
    state = LIGHT.follow("the light", state, "timer")

A state or an event is an enum's member, a class or a text. Where an event may lead to several states the code chooses,
and `check` holds the choice against the table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kit.core.protocol.words import ProtocolError

if TYPE_CHECKING:
    import pandas as pd

S = TypeVar("S", bound=Hashable)
NEW_LINE = "\\n"
"""As Graphviz writes it."""


class Transitions(Generic[S]):
    """By state and event, the states that may follow; `first` is where the machine begins, or a tuple of such states.

    Raises ValueError for a target that is no state of the table, and for a state that no path from `first` leads to.
    """

    def __init__(self, name: str, first: S | tuple[S, ...], table: Mapping[S, Mapping[Any, S | tuple[S, ...]]]) -> None:
        self.name = name
        self.first = _tuple(first)
        self._table: dict[S, dict[Any, tuple[S, ...]]] = {
            state: {event: _tuple(targets) for event, targets in row.items()} for state, row in table.items()
        }
        named = {*self.first, *(target for state in self._table for target in self.targets(state))}
        if unknown := sorted(label(state) for state in named - self._table.keys()):
            raise ValueError(f"{self!r}: {', '.join(unknown)} is no state of the table; give it a row, if an empty one")
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
        """The states that may follow this one, whatever the event; () for an end."""
        return tuple(dict.fromkeys(target for targets in self._table[state].values() for target in targets))

    def events(self, state: S) -> tuple[Any, ...]:
        """The events that this state takes."""
        return tuple(self._table[state])

    def is_end(self, state: S) -> bool:
        """Whether nothing follows."""
        return not self._table[state]

    def allows(self, state: S, target: S, event: Any = None) -> bool:
        """Whether the table has this step, at `event` if one is given."""
        return target in (self.targets(state) if event is None else self._table[state].get(event, ()))

    def check(self, who: object, state: S, target: S, event: Any = None) -> None:
        """Raise ProtocolError, which quotes the table, when `who` may not take this step."""
        if not self.allows(state, target, event):
            when = "" if event is None else f" at {label(event)!r}"
            raise ProtocolError(f"{who} is {label(state)} and cannot become {label(target)}{when}; {self._row(state)}")

    def follow(self, who: object, state: S, event: Any) -> S:
        """The state that follows; raises ProtocolError, which quotes the table, when `who` cannot take the event now.

        Raises ValueError where the table leaves a choice: that is the code's to make.
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
        """The events that lead from one state to another, by the labels of both."""
        edges: dict[tuple[str, str], list[str]] = {}
        for state, row in self._table.items():
            for event, targets in row.items():
                for target in targets:
                    edges.setdefault((label(state), label(target)), []).append(label(event))
        return edges

    def dot(self) -> str:
        """The figure in Graphviz' language; ends have two circles."""
        ends = "".join(f'  "{label(state)}" [peripheries=2]\n' for state in self if self.is_end(state))
        edges = "".join(
            f'  "{source}" -> "{target}" [label="{NEW_LINE.join(events)}"]\n'
            for (source, target), events in self._edges().items()
        )
        return f'digraph "{self.name}" {{\n  node [shape=box, style=rounded]\n{ends}{edges}}}\n'

    def mermaid(self) -> str:
        """The figure in the language that GitHub and Jupyter draw in Markdown."""
        begin = [f"    [*] --> {label(state)}" for state in self.first]
        steps = [
            f"    {source} --> {target}: {', '.join(events)}" for (source, target), events in self._edges().items()
        ]
        end = [f"    {label(state)} --> [*]" for state in self if self.is_end(state)]
        return "\n".join(["stateDiagram-v2", *begin, *steps, *end, ""])

    def to_pandas(self) -> pd.DataFrame:
        """One row per step: state, event, target."""
        import pandas as pd

        rows = [
            (label(state), label(event), label(target))
            for state, row in self._table.items()
            for event, targets in row.items()
            for target in targets
        ]
        return pd.DataFrame(rows, columns=["state", "event", "target"])

    def steps(self) -> pd.DataFrame:
        """The steps that lead elsewhere: a row per state, a column per event, in it the targets, "" for none."""
        found = self.to_pandas()
        found = found[found["state"] != found["target"]]
        grid = found.groupby(["state", "event"], sort=False)["target"].agg(" or ".join).unstack(fill_value="")
        return grid.loc[[label(state) for state in self if label(state) in grid.index]]

    def _repr_html_(self) -> str:
        return f"<p>{self.name}</p>{self.to_pandas().to_html(index=False)}"

    def __repr__(self) -> str:
        return f"Transitions({self.name}, {len(self)} states)"


def label(what: Any) -> str:
    """What to call a state or an event: an enum's member by its text, else its name, a class by its name."""
    if isinstance(what, Enum):
        return what.value if isinstance(what.value, str) else what.name
    return what.__name__ if isinstance(what, type) else str(what)


def _tuple(targets: Any) -> tuple[Any, ...]:
    return targets if isinstance(targets, tuple) else (targets,)
