"""A plan of parallelisms: the recommendation, and the load of the busiest subtask for each candidate."""

from __future__ import annotations

from kit.advice.plan import ParallelismPlan
from kit.draw.view_html import answer, fold, frame, table, view_html


def plan_html(plan: ParallelismPlan) -> str:
    """Show the recommendation, the candidates, the hottest key groups and keys."""
    groups = plan.hot_groups()
    groups = groups.assign(share=[f"{share:.2%}" for share in groups["share"]])
    keys = table(("key", "share"), [(str(key), f"{share:.2%}") for key, share in plan.keys])
    return view_html(
        "Parallelism and its maximum",
        answer(plan.verdict),
        frame(plan.table),
        fold("Hottest key groups", f"of {len(plan.loads[plan.recommended_max_parallelism]):,}", frame(groups)),
        fold("Largest keys", f"{len(plan.keys)}", keys) if plan.keys else "",
    )
