"""Pictures of runs and graphs: a moment as SVG, a whole run as a page to step through, charts, tables.

Everything is drawn from a trace and the stages of its epochs (`kit.draw.stage.Stage`), nothing else.
"""

from __future__ import annotations

from kit.draw.chains import chains, chains_svg
from kit.draw.frames import Frame, film, frames, last_frame
from kit.draw.gantt import gantt, phases
from kit.draw.job_state import Moment
from kit.draw.moment import advance, moment_at, moments
from kit.draw.page import export_html
from kit.draw.redistribution import redistribution, redistribution_svg, restores_of
from kit.draw.stage import Stage
from kit.draw.svg import moment_svg

__all__ = [
    "Frame",
    "Moment",
    "Stage",
    "advance",
    "chains",
    "chains_svg",
    "export_html",
    "film",
    "frames",
    "gantt",
    "last_frame",
    "moment_at",
    "moment_svg",
    "moments",
    "phases",
    "redistribution",
    "redistribution_svg",
    "restores_of",
]
