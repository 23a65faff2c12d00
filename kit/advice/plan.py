"""A plan of parallelisms: the busiest subtask for given keys, before a job is deployed or rescaled.

The maximum parallelism is the number of key groups. It is fixed once a job has state, so it is chosen for all
parallelisms that the job may ever have. Two things make a subtask busier than the mean: it owns one key group more than
others, or a hot key is in one of its key groups. A larger maximum helps against the first only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.advice.balance import Balance, key_column
from kit.core.display import display
from kit.core.state.key_groups import check_parallelism
from kit.stream.backend.keys.key_hashing import java_hash, key_groups_for_hashes

if TYPE_CHECKING:
    import pandas as pd

CANDIDATES = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""The numbers of key groups that are compared; the last is Flink's limit."""
TOLERANCE = 0.05
"""A larger maximum is recommended only if it lowers the busiest subtask's load by more than this share."""
FEW_KEYS = 10
"""With fewer keys than this for each subtask, chance decides where they are."""
HOT_SHARE = 0.5
"""A key is hot if it has more than this share of what a subtask has on average."""
MOST_HOT = 10
Loads = npt.NDArray[np.float64]


def plan_parallelism(
    keys: Any,
    parallelisms: int | Iterable[int],
    max_parallelisms: int | Iterable[int] | None = None,
    *,
    weights: Sequence[float] | None = None,
) -> ParallelismPlan:
    """Return the load of the busiest subtask for each parallelism and each maximum parallelism.

    Args:
        keys: an Arrow array or column, a pandas Series, a list, or a mapping of keys to their frequencies. A key that
            occurs twice counts twice: a column of records shows the load, its distinct values show the state.
        parallelisms: the candidates.
        max_parallelisms: the candidates; by default the powers of two from 128 on that are not below a parallelism.
        weights: the frequency of each key, instead of 1.

    Raises ValueError for no keys, another number of weights, or a parallelism that cannot be.
    """
    if isinstance(keys, Mapping):
        keys, weights = list(keys), list(keys.values())
    column = key_column(keys)
    if not len(column):
        raise ValueError("there are no keys: pass a column of records, or of distinct keys")
    loads = np.ones(len(column)) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(loads) != len(column):
        raise ValueError(f"there are {len(column)} keys and {len(loads)} weights: give each key its weight")
    wanted = _candidates(parallelisms)
    hashes = java_hash(column)
    maxima = _maxima(max_parallelisms, wanted)
    by_maximum = {
        each: np.bincount(key_groups_for_hashes(hashes, each), loads, minlength=each).astype(np.float64)
        for each in maxima
    }
    return ParallelismPlan(wanted, by_maximum, _largest(column, loads), len(np.unique(hashes)))


def plan_key_groups(loads: Any, parallelisms: int | Iterable[int]) -> ParallelismPlan:
    """Return the same for the loads of key groups, where keys are not known: their number is the only maximum.

    Raises ValueError for a parallelism that cannot be.
    """
    found = np.asarray(loads, dtype=np.float64)
    return ParallelismPlan(_candidates(parallelisms), {len(found): found}, [])


def _candidates(parallelisms: int | Iterable[int]) -> tuple[int, ...]:
    found = (parallelisms,) if isinstance(parallelisms, int) else tuple(parallelisms)
    for each in found:
        check_parallelism(each)
    if not found:
        raise ValueError("there is no parallelism to plan for: give one or several")
    return tuple(sorted(set(found)))


def _maxima(given: int | Iterable[int] | None, parallelisms: Sequence[int]) -> tuple[int, ...]:
    if given is None:
        return tuple(each for each in CANDIDATES if each >= parallelisms[-1])
    found = _candidates(given)
    if found[0] < parallelisms[-1]:
        raise ValueError(f"maximum parallelism {found[0]} is below the parallelism {parallelisms[-1]}")
    return found


def _largest(column: pa.Array, loads: Loads) -> list[tuple[Any, float]]:
    """Return the keys with most load, and their shares of all."""
    table = pa.table({"key": column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column})
    try:
        summed = table.append_column("load", pa.array(loads)).group_by("key").aggregate([("load", "sum")])
    except pa.ArrowException:  # keys that Arrow does not group, such as structs
        return []
    top = summed.sort_by([("load_sum", "descending")]).slice(0, MOST_HOT).to_pylist()
    return [(row["key"], row["load_sum"] / loads.sum()) for row in top]


@dataclass(frozen=True, eq=False)
class ParallelismPlan:
    """The load of key groups for each maximum parallelism, and of subtasks for each parallelism.

    `loads` has the load of each key group, by maximum parallelism; `keys` the largest keys with their shares, 0 to 1.
    """

    parallelisms: tuple[int, ...]
    loads: Mapping[int, Loads]
    keys: Sequence[tuple[Any, float]]
    distinct_keys: int | None = None
    """The number of different keys; None if the keys are not known."""

    def subtask_loads(self, parallelism: int, max_parallelism: int) -> Loads:
        """Return the load of each subtask."""
        return self.balance(parallelism, max_parallelism).by_subtask

    def balance(self, parallelism: int, max_parallelism: int) -> Balance:
        """Return the balance of the keys at a parallelism and a maximum parallelism."""
        return Balance(self.loads[max_parallelism], parallelism)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per maximum parallelism and parallelism.

        Columns: max_parallelism, parallelism, busiest (load of the busiest subtask by the mean), by_key_groups (the
        same if all key groups were equal), idle (subtasks without load), headroom (how many times the job can grow).
        """
        import pandas as pd

        rows = []
        for most in self.loads:
            for parallelism in self.parallelisms:
                if parallelism > most:
                    continue
                found = self.balance(parallelism, most)
                busiest, by_key_groups = round(found.imbalance, 3), round(found.group_imbalance, 3)
                rows.append((most, parallelism, busiest, by_key_groups, found.idle, round(found.headroom, 1)))
        columns = ["max_parallelism", "parallelism", "busiest", "by_key_groups", "idle", "headroom"]
        return pd.DataFrame(rows, columns=columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return `table`."""
        return self.table

    @property
    def recommended_max_parallelism(self) -> int:
        """The smallest maximum with which the busiest subtask has little more to do than with any other."""
        worst = self.table.groupby("max_parallelism")["busiest"].max()
        enough = worst[worst <= worst.min() * (1 + TOLERANCE)]
        return int(min(enough.index))

    def hot_groups(self, max_parallelism: int | None = None) -> pd.DataFrame:
        """Return the key groups with most load: key_group, load, share, by_mean (their load by the mean's)."""
        import pandas as pd

        loads = self.loads[max_parallelism or self.recommended_max_parallelism]
        order = np.argsort(-loads, kind="stable")[:MOST_HOT]
        total = loads.sum() or 1.0
        rows = [
            (int(each), float(loads[each]), round(loads[each] / total, 4), round(loads[each] * len(loads) / total, 3))
            for each in order
        ]
        return pd.DataFrame(rows, columns=["key_group", "load", "share", "by_mean"])

    @property
    def verdict(self) -> str:
        """The recommendation in sentences."""
        most = self.recommended_max_parallelism
        rows = self.table[self.table["max_parallelism"] == most]
        worst = rows.loc[rows["busiest"].idxmax()]
        sentences = (
            f"With maximum parallelism {most}, the busiest subtask has at most {worst['busiest']:.2f} times the mean "
            f"(at parallelism {int(worst['parallelism'])})."
        )
        if len(self.loads) > 1:
            sentences = f"Use maximum parallelism {most}. {sentences}"
        if self.distinct_keys is not None and self.distinct_keys < FEW_KEYS * self.parallelisms[-1]:
            sentences += (
                f" These are only {self.distinct_keys} keys for up to {self.parallelisms[-1]} subtasks, so chance "
                "decides where they are, and with other keys another maximum would be best: plan with the keys that "
                "the job will have, or keep the default."
            )
        hot = [(key, share) for key, share in self.keys if share * self.parallelisms[-1] > HOT_SHARE]
        if hot:
            key, share = hot[0]
            sentences += (
                f" Key {key!r} alone has {share:.1%} of the load, and one key is always in one subtask: beyond "
                f"parallelism {max(1, int(1 / share))}, more subtasks do not make it faster."
            )
        return sentences

    def __repr__(self) -> str:
        return f"ParallelismPlan(parallelism {', '.join(map(str, self.parallelisms))}: {self.verdict})"

    def _repr_html_(self) -> str:
        return str(display("plan_html", self))
