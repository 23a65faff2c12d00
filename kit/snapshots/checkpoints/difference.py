"""The changes from one checkpoint to another: operators, states, keys and values.

Values are compared state by state: both sides of one state are in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from kit.core.display import display
from kit.core.state.errors import CheckpointError
from kit.core.state.key_groups import operator_index_for_key_group
from kit.snapshots.python_values import python_values

if TYPE_CHECKING:
    import pandas as pd

_Ids = tuple[str | None, str | None]
"""The ids of an operator before and after; None on the side that does not have it."""
_OfSubtask = Counter[tuple[int, str]]
"""Rows by subtask and change."""
CHANGES, GROUP = ("added", "removed", "changed"), "key_group"
VALUES = ("value", "last_access")
"""The columns that are compared; all others except the key group form the key of a row."""


class Opened(Protocol):
    """The members of an opened checkpoint that a comparison uses."""

    @property
    def title(self) -> str: ...
    @property
    def operators(self) -> pd.DataFrame: ...
    @property
    def subtasks(self) -> pd.DataFrame: ...
    @property
    def states(self) -> pd.DataFrame: ...
    def state(self, operator: str, name: str) -> pa.Table: ...


class CheckpointDiff:
    """The difference between two checkpoints: `operators`, `subtasks`, `states`, and the `values` of one state."""

    def __init__(self, before: Opened, after: Opened) -> None:
        self._before, self._after = before, after

    @cached_property
    def operators(self) -> pd.DataFrame:
        """One row per operator of either: operator_id, operator, change, bytes_before, bytes_after, grown_bytes.

        `change` is added, removed, changed or unchanged; changed means another size or parallelism.
        """
        import pandas as pd

        columns = ["operator_id", "operator", "parallelism", "bytes"]
        old, new = (found.operators[columns] for found in (self._before, self._after))
        both = old.merge(new, on="operator_id", how="outer", suffixes=("_before", "_after"), indicator=True)
        sizes = both[["bytes_before", "bytes_after"]].fillna(0).astype("int64")
        same = sizes["bytes_before"].eq(sizes["bytes_after"]) & both["parallelism_before"].eq(both["parallelism_after"])
        names = {"left_only": "removed", "right_only": "added", "both": "changed"}
        change = both["_merge"].astype(str).map(names).where(~(same & both["_merge"].eq("both")), "unchanged")
        grown = sizes["bytes_after"] - sizes["bytes_before"]
        frame = pd.DataFrame(
            {
                "operator_id": both["operator_id"],
                "operator": both["operator_after"].fillna(both["operator_before"]),
                "change": change,
                **sizes,
                "grown_bytes": grown,
            }
        )
        return frame.sort_values("grown_bytes", ascending=False, key=abs, ignore_index=True, kind="stable")

    @cached_property
    def states(self) -> pd.DataFrame:
        """One row per state of either: operator, name, kind, rows_before, rows_after, added, removed, changed, error.

        A row is an entry: of a key, of a key and namespace, or of a list or map in operator state. A state whose values
        cannot be decoded has its `error`, and no numbers.
        """
        import pandas as pd

        counts = ["rows_before", "rows_after", *CHANGES]
        frame = pd.DataFrame([row for row, _ in self._every], columns=["operator", "name", "kind", *counts, "error"])
        return frame.astype(dict.fromkeys(counts, "Int64"))

    @cached_property
    def subtasks(self) -> pd.DataFrame:
        """One row per subtask of either: operator, subtask, its bytes and rows of all states that differ.

        Columns: operator, subtask, bytes_before, bytes_after, grown_bytes, added, removed, changed. Added and changed
        rows count for the subtask that has them after, removed rows for the one that had them before.
        """
        import pandas as pd

        sides = [
            found.subtasks.groupby(["operator", "subtask"])["bytes"].sum() for found in (self._before, self._after)
        ]
        both = pd.concat(sides, axis="columns", keys=["bytes_before", "bytes_after"]).fillna(0).astype("int64")
        both["grown_bytes"] = both["bytes_after"] - both["bytes_before"]
        many: Counter[tuple[str, int, str]] = Counter()
        for row, of_subtask in self._every:
            for (subtask, change), rows in of_subtask.items():
                many[row["operator"], subtask, change] += rows
        for change in CHANGES:
            both[change] = [many[operator, subtask, change] for operator, subtask in both.index]
        return both.sort_index().reset_index()

    @cached_property
    def _every(self) -> list[tuple[dict[str, Any], _OfSubtask]]:
        """The row of each state, and how many rows of it differ in each subtask."""
        import pandas as pd

        known = pd.concat([self._before.states, self._after.states]).drop_duplicates(["operator", "name"])
        rows: list[tuple[dict[str, Any], _OfSubtask]] = []
        done: set[tuple[_Ids, str]] = set()
        for row in known.to_dict("records"):
            for ids in self._ids(row["operator"]):
                if (ids, row["name"]) not in done:
                    done.add((ids, row["name"]))
                    rows += self._compared(row["operator"], row["name"], row["kind"], ids)
        return rows

    def values(self, operator: str, name: str) -> pd.DataFrame:
        """Return the rows of a state that differ: change (added, removed, changed), the key's columns, and each value
        before and after.

        Raises KeyError if neither checkpoint has the state, and CheckpointError if it cannot be read.
        """
        merged = self._merged(name, (operator, operator))
        return merged[merged["change"] != "unchanged"].drop(columns=GROUP).reset_index(drop=True)

    def _ids(self, operator: str) -> Iterator[_Ids]:
        """Yield the ids before and after of each operator of this label: the same id, else one of the same label."""
        before, after = (
            dict(zip(found.operators["operator_id"], found.operators["operator"], strict=True))
            for found in (self._before, self._after)
        )
        old, new = ([each for each, name in found.items() if name == operator] for found in (before, after))
        lost, found = [each for each in old if each not in after], [each for each in new if each not in before]
        yield from ((each, each) for each in dict.fromkeys([*old, *new]) if each in before and each in after)
        yield from zip_longest(lost, found)

    def _compared(self, operator: str, name: str, kind: str, ids: _Ids) -> Iterator[tuple[dict[str, Any], _OfSubtask]]:
        """Yield the row of a state and the differences in each subtask, if one of the operators has it."""
        named = {"operator": operator, "name": name, "kind": kind}
        try:
            merged = self._merged(name, ids)
        except KeyError:
            return
        except CheckpointError as error:
            yield {**named, "error": str(error)}, Counter()
            return
        change = merged["change"]
        counts = {each: int((change == each).sum()) for each in CHANGES}
        before, after = len(change) - counts["added"], len(change) - counts["removed"]
        row = {**named, "rows_before": before, "rows_after": after, **counts, "error": ""}
        yield row, self._of_subtask(merged[change != "unchanged"], ids)

    def _of_subtask(self, differ: pd.DataFrame, ids: _Ids) -> _OfSubtask:
        """Return how many of these rows are in each subtask, by subtask and change."""
        if "subtask" in differ:
            return Counter(zip(differ["subtask"], differ["change"], strict=True))
        sides = zip((self._before, self._after), ids, strict=True)
        shapes = [None if each is None else _shape(found, each) for found, each in sides]
        found: _OfSubtask = Counter()
        for (change, group), rows in differ.groupby(["change", GROUP]).size().items():
            shape = shapes[change != "removed"]
            assert shape is not None
            maximum, parallelism = shape
            found[operator_index_for_key_group(maximum, parallelism, int(group)), change] += int(rows)
        return found

    def _merged(self, name: str, ids: _Ids) -> pd.DataFrame:
        """Return the rows of both, side by side, with their change. Raises KeyError, CheckpointError."""
        sides = zip((self._before, self._after), ids, strict=True)
        return _side_by_side(*(None if each is None else _rows(found, each, name) for found, each in sides))

    @property
    def title(self) -> str:
        """A line that says what is compared."""
        return f"{self._before.title} -> {self._after.title}"

    def __repr__(self) -> str:
        counts = self.operators["change"].value_counts()
        summary = ", ".join(f"{count} {change}" for change, count in counts.items())
        return f"CheckpointDiff({summary or 'no'} operators)"

    def _repr_html_(self) -> str:
        return str(display("checkpoint_diff_html", self))


def _shape(found: Opened, operator_id: str) -> tuple[int, int]:
    """Return the maximum parallelism and the parallelism of an operator."""
    row = found.operators.set_index("operator_id").loc[operator_id]
    return int(row["max_parallelism"]), int(row["parallelism"])


def _rows(found: Opened, operator: str, name: str) -> pd.DataFrame | None:
    """Return the rows of a state; None if the checkpoint does not have it."""
    try:
        table = found.state(operator, name)
    except KeyError:
        return None
    import pandas as pd

    columns = {column: python_values(table.column(column)) for column in table.column_names}
    return pd.DataFrame({column: pd.Series(values, dtype=object) for column, values in columns.items()})


def _side_by_side(before: pd.DataFrame | None, after: pd.DataFrame | None) -> pd.DataFrame:
    import pandas as pd

    if before is None and after is None:
        raise KeyError("neither checkpoint has the state")
    template = after if after is not None else before
    assert template is not None
    keys = [column for column in template.columns if column not in (*VALUES, GROUP)]
    sides = [_keyed(side if side is not None else template.head(0), keys) for side in (before, after)]
    merged = sides[0].merge(sides[1], on="_key", how="outer", suffixes=("_before", "_after"), indicator=True)

    def either(column: str) -> pd.Series:
        return merged[f"{column}_after"].where(merged["_merge"] != "left_only", merged[f"{column}_before"])

    shown = {column: either(column) for column in keys}
    groups = either(GROUP) if GROUP in template.columns else 0
    values = [column for column in VALUES if f"{column}_before" in merged]
    same = pd.Series(True, index=merged.index)
    for column in values:
        old, new = (merged[f"{column}_{side}"].map(_text) for side in ("before", "after"))
        same &= old == new
    change = merged["_merge"].astype(str).map({"left_only": "removed", "right_only": "added", "both": "changed"})
    change = change.where(~(same & merged["_merge"].eq("both")), "unchanged")
    sides_of = {f"{column}_{side}": merged[f"{column}_{side}"] for column in values for side in ("before", "after")}
    return pd.DataFrame({"change": change, **shown, **sides_of, GROUP: groups})


def _keyed(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the rows with one column `_key` that stands for all key columns; equal keys are numbered."""
    import pandas as pd

    texts = [frame[column].map(_text).astype(str) for column in keys]
    key = texts[0].str.cat(texts[1:], sep="\x1f") if texts else pd.Series("", index=frame.index)
    return frame.assign(_key=key + "\x1f" + key.groupby(key).cumcount().astype(str))


def _text(value: Any) -> str:
    """Return a text that is the same for equal values, nested ones too."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_text(each)}" for name, each in sorted(value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    return repr(value)
