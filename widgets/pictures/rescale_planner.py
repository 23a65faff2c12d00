"""The rescale planner: fields for parallelism and maximum parallelism over real keys.

    RescalePlanner(flights["carrier"])       a column of keys, or of records, as for `kit.draw.charts.rescale_plan`
    RescalePlanner(lab)                      the keys in a lab's keyed state, from its present parallelism

It also shows the key group and the subtasks, before and after, of a key that the user types.
"""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets
import pyarrow as pa

from kit.draw.charts.rescale_plan import RescalePlan, rescale_plan
from kit.hosts.lab.lab import Lab
from kit.snapshots import state_tables
from widgets.base.static_form import StaysInNotebook

STEPS = tuple(1 << power for power in range(16))
"""The powers of two up to Flink's maximum number of key groups."""
LABEL = {"description_width": "initial"}


class RescalePlanner(StaysInNotebook, ipywidgets.VBox):
    """The effect of a parallelism and a maximum parallelism on these keys; `plan` is the plan that is shown.

    `keys` are keys, or a lab with keyed state. If several of its operators are keyed, `operator` names one. Raises
    ValueError if there are no keys.
    """

    def __init__(
        self,
        keys: Any,
        parallelism: int = 4,
        max_parallelism: int | None = None,
        *,
        before: int | None = None,
        operator: str | None = None,
    ) -> None:
        if isinstance(keys, Lab):
            keys, found, most = _keys_of(keys, operator)
            before, max_parallelism = before or found, max_parallelism or most
        self.plan: RescalePlan = rescale_plan(keys, parallelism, max_parallelism, before=before)
        most = self.plan.max_parallelism
        choices = sorted({*STEPS, most, self.plan.flinks_default})
        self.parallelism = ipywidgets.BoundedIntText(
            parallelism, 1, most, description="parallelism", style=LABEL, layout={"width": "190px"}
        )
        self.max_parallelism = ipywidgets.Dropdown(
            options=choices, value=most, description="max parallelism", style=LABEL, layout={"width": "220px"}
        )
        self.before = ipywidgets.BoundedIntText(
            before or 0, 0, most, description="from (0: not known)", style=LABEL, layout={"width": "190px"}
        )
        self.key = ipywidgets.Text("", description="where is key", placeholder="UA", style=LABEL)
        self.key_place = ipywidgets.HTML()
        self.picture = ipywidgets.HTML()
        for control in (self.parallelism, self.max_parallelism, self.before, self.key):
            control.observe(self._changed, "value")
        row = {"flex_flow": "row wrap", "grid_gap": "2px 18px"}
        controls = ipywidgets.HBox([self.parallelism, self.max_parallelism, self.before, self.key], layout=row)
        super().__init__([controls, self.key_place, self.picture])
        self._show()

    def where(self, key: Any) -> str:
        """Return where a key would be, and where it was."""
        return self.plan.where(key)

    def _changed(self, change: Any) -> None:
        """Update the plan; if the parallelism exceeds the maximum, adjust the one that was not changed."""
        most = self.max_parallelism.value
        for control in (self.parallelism, self.before):
            control.max = most
        self.plan = self.plan.replaced(self.parallelism.value, most, self.before.value or None)
        if not self.before.value and self.plan.before is not None:
            plan = self.plan
            self.plan = RescalePlan(plan.parallelism, most, plan.counts, plan.key_type, None, plan.hashes)
        self._show()

    def _show(self) -> None:
        self.picture.value = self.plan._repr_html_()
        self.key_place.value = f"<b>{escape(self._where())}</b>" if self.key.value else ""
        self._keep()

    def _where(self) -> str:
        """Return the text about the typed key, parsed as the type of the keys."""
        try:
            return self.where(pa.scalar(self.key.value).cast(self.plan.key_type).as_py())
        except (pa.ArrowException, TypeError, ValueError):
            return f"{self.key.value!r} is no key here: keys are {self.plan.key_type}"

    def _still(self) -> dict[str, str]:
        return {"text/html": self.plan._repr_html_()}

    def __repr__(self) -> str:
        return f"RescalePlanner({self.plan.caption})"


def _keys_of(lab: Any, operator: str | None) -> tuple[pa.Array, int, int]:
    """Return the keys in a lab's keyed state, with the parallelism and the maximum of their operator."""
    tables = [each for each in lab.state().of(state_tables.KEYED) if operator in (None, each.operator)]
    tables = [each for each in tables if each.rows.num_rows]
    if not tables:
        named = "" if operator is None else f" of {operator!r}"
        raise ValueError(f"{lab!r} holds no keyed state{named}: let it run on, or give keys")
    largest = max(tables, key=lambda each: each.rows.num_rows)
    keys = largest.rows["key"].combine_chunks()
    task = largest.rows["task"][0].as_py()
    vertex = lab.look.stages[-1].vertex_of(task)
    return keys, vertex.parallelism, vertex.max_parallelism
