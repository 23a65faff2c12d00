"""The changes from one checkpoint to another: operators, states, keys and values.

Values are compared state by state, some key groups at a time. Equal rows are found column by column and dropped; only
the others are looked at one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
MOST_BYTES = 1 << 25
"""The bytes of keyed state that are compared at a time, if key groups are alike; at least one key group."""


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
    def state(self, operator: str, name: str, *, key_groups: Collection[int] | None = None) -> pa.Table: ...


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
        import pandas as pd

        found = [differ for differ, _ in self._differences(name, (operator, operator))]
        differ = pd.concat(found, ignore_index=True) if len(found) > 1 else found[0]
        return differ.drop(columns=GROUP).reset_index(drop=True)

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
        counts: Counter[str] = Counter(dict.fromkeys(("rows_before", "rows_after", *CHANGES), 0))
        of_subtask: _OfSubtask = Counter()
        try:
            for differ, rows in self._differences(name, ids):
                counts.update({"rows_before": rows[0], "rows_after": rows[1], **differ["change"].value_counts()})
                of_subtask.update(self._of_subtask(differ, ids))
        except KeyError:
            return
        except CheckpointError as error:
            yield {**named, "error": str(error)}, Counter()
            return
        yield {**named, **counts, "error": ""}, of_subtask

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

    def _differences(self, name: str, ids: _Ids) -> Iterator[tuple[pd.DataFrame, tuple[int, int]]]:
        """Yield the rows that differ, side by side with their change, and how many rows both sides have: those of some
        key groups at a time. Raises KeyError if neither side has the state, and CheckpointError.
        """
        for groups in self._parts(ids):
            sides = zip((self._before, self._after), ids, strict=True)
            before, after = (None if each is None else _table(found, each, name, groups) for found, each in sides)
            if before is None and after is None:
                raise KeyError("neither checkpoint has the state")
            rows = tuple(0 if each is None else each.num_rows for each in (before, after))
            yield _side_by_side(*map(_frame, _apart(before, after))), (rows[0], rows[1])
            if not any(GROUP in each.column_names for each in (before, after) if each is not None):
                return  # operator state, which has no key groups

    def _parts(self, ids: _Ids) -> list[Collection[int] | None]:
        """Return which key groups to compare at a time; None for all at once, as where the key groups differ."""
        both = zip((self._before, self._after), ids, strict=True)
        frames = [found.operators for found, each in both if each is not None]
        named = ["operator_id", "uid", "operator", "name"]
        rows = [row for frame, each in zip(frames, filter(None, ids), strict=True) for row in _of(frame, named, each)]
        maximums = {row["max_parallelism"] for row in rows}
        parts = ceil(max((row["keyed_bytes"] + row["raw_keyed_bytes"] for row in rows), default=0) / MOST_BYTES)
        if len(maximums) != 1 or parts < 2:
            return [None]
        groups = np.arange(maximums.pop())
        return [part.tolist() for part in np.array_split(groups, min(parts, len(groups)))]

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


def _of(operators: pd.DataFrame, names: list[str], operator: str) -> list[dict[str, Any]]:
    """Return the rows of operators that one of these columns names so."""
    return operators[operators[names].eq(operator).any(axis="columns")].to_dict("records")


def _table(found: Opened, operator: str, name: str, groups: Collection[int] | None) -> pa.Table | None:
    """Return the rows of a state in these key groups; None if the checkpoint does not have it."""
    try:
        return found.state(operator, name, key_groups=groups)
    except KeyError:
        return None


def _frame(table: pa.Table | None) -> pd.DataFrame | None:
    import pandas as pd

    if table is None:
        return None
    columns = {column: python_values(table.column(column)) for column in table.column_names}
    return pd.DataFrame({column: pd.Series(values, dtype=object) for column, values in columns.items()})


def _apart(before: pa.Table | None, after: pa.Table | None) -> tuple[pa.Table | None, pa.Table | None]:
    """Return both sides without rows that are equal; without any change if that cannot be said column by column."""
    if before is None or after is None or before.schema != after.schema:
        return before, after
    if before.equals(after):
        return before.slice(0, 0), after.slice(0, 0)
    keys = [name for name in before.column_names if name not in (*VALUES, GROUP)]
    if not keys or not all(_is_plain(before.schema.field(name).type) for name in keys):
        return before, after
    sides = [
        each.select(keys).append_column(f"_{side}", pa.array(np.arange(each.num_rows)))
        for side, each in (("before", before), ("after", after))
    ]
    both = sides[0].join(sides[1], keys, join_type="inner")
    places = [both[f"_{side}"].to_numpy() for side in ("before", "after")]
    if any(np.bincount(each).max(initial=0) > 1 for each in places):
        return before, after  # several rows of one key
    is_same = np.ones(len(places[0]), bool)
    for name in (name for name in VALUES if name in before.column_names):
        is_same &= _same(before[name].take(places[0]), after[name].take(places[1]))
    kept = [np.ones(each.num_rows, bool) for each in (before, after)]
    for keep, place in zip(kept, places, strict=True):
        keep[place[is_same]] = False
    return before.filter(kept[0]), after.filter(kept[1])


_PLAIN = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def _is_plain(kind: pa.DataType) -> bool:
    """Return True for types whose values Arrow joins and compares as their texts would be."""
    return any(is_one(kind) for is_one in _PLAIN)


def _same(old: pa.ChunkedArray, new: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return where two columns have the same value; null is the same as null, and no number the same as no number."""
    if _is_plain(old.type):
        return pc.fill_null(pc.equal(old, new), pc.and_(pc.is_null(old), pc.is_null(new))).to_numpy()
    texts = (np.array(list(map(_text, python_values(each))), dtype=object) for each in (old, new))
    return next(texts) == next(texts)


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
    found = pd.DataFrame({"change": change, **shown, **sides_of, GROUP: groups})
    return found[change != "unchanged"]


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
