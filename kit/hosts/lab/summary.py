"""A lab in a few lines, one row per operator, shown if a picture would take too long."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.core.markup import Markup, element
from kit.hosts.lab.world.world import World

if TYPE_CHECKING:
    import pandas as pd

LARGE = 20_000
"""With more records than this, which take half a second to read, a picture is drawn only on request."""


def summary(world: World) -> pd.DataFrame:
    """Return one row per vertex: its operators, the number of subtasks in each state, the number of elements in flight
    to it, and the number of its subtasks that have acknowledged the newest pending checkpoint ("" if there is none).
    """
    import pandas as pd

    pending = max(world.master.checkpoints.pending.values(), key=lambda each: each.checkpoint_id, default=None)
    waiting = {} if pending is None else pending.not_yet_acked_tasks
    on_the_way: Counter[str] = Counter()
    for channel in world.agenda.busy_channels:
        target = world.graph.channels[channel].target_task.rpartition("/")[0]
        on_the_way[target] += len(world.agenda.on_wire(channel))
    rows = []
    for vertex in world.job.vertices:
        tasks = [task.task for task in world.graph.vertex_tasks(vertex.name)]
        states = Counter(world.tasks[task].state.name if task in world.tasks else "gone" for task in tasks)
        acked = "" if pending is None else f"{sum(task not in waiting for task in tasks)} of {len(tasks)}"
        rows.append(
            {
                "operators": " → ".join(operator.name for operator in vertex.operators),
                "subtasks": ", ".join(f"{count} {state}" for state, count in states.items()),
                "on the way to it": on_the_way[vertex.name],
                f"checkpoint {pending.checkpoint_id}" if pending else "checkpoint": acked,
            }
        )
    return pd.DataFrame(rows)


def summary_html(world: World, headline: str) -> str:
    """Return the summary as HTML, with a note on the picture that it replaces."""
    records = f"{len(world.trace):,} records are many to draw at once: here is each operator as a whole."
    said = Markup("<code>lab.look.svg()</code> draws the picture, however long that takes, and then it is shown here.")
    about = element("div", element("b", headline), Markup("<br>"), records, " ", said)
    return notebook_html("", about, frame_html(summary(world), NOTEBOOK_ROWS))
