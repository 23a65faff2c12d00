"""A mission as a page that works offline: its task, its hints, its recorded answer, and the run to step through.

A page has no kernel. So it can replay a run, but it cannot take other steps, and cannot check them; it says so.
"""

from __future__ import annotations

from kit.core.markup import Markup, element
from kit.course.missions.mission import Mission
from kit.draw.page.page import export_html

LIMIT = (
    "This page replays a run. It cannot take other steps or check them: for that, open a notebook, run kit.show(), and "
    "choose the panel Missions."
)


def export_mission(mission: Mission, path: str) -> str:
    """Write the mission and the run of its recorded answer as one HTML file, and return its path.

    The page opens at the start of the run. Raises FileNotFoundError when the file's directory does not exist.
    """
    lab = mission.lab()
    for _, act in mission.solution:
        act(lab)
    notes = mission_notes(mission, f"The recorded answer: {mission.check(lab).says}")
    return str(export_html(lab, path, f"Mission: {mission.title}", notes=notes))


def mission_notes(mission: Mission, outcome: str) -> Markup:
    """Return the task, the hints and the recorded answer, both folded, and the `outcome` of the page's run."""
    hints = [_fold(f"Hint {number}", element("p", hint)) for number, hint in enumerate(mission.hints, 1)]
    lines = "\n".join([mission.setup_code, *(code for code, _ in mission.solution)])
    answer = _fold("The recorded answer as Python", element("pre", lines))
    head = element("p", element("b", mission.task))
    parts = (head, *hints, answer, element("p", outcome), element("p", LIMIT, class_="kit-as-of"))
    return element("section", *parts, class_="kit-mission", aria_label=f"mission: {mission.title}")


def _fold(title: str, inside: Markup) -> Markup:
    return element("details", element("summary", title), inside)
