"""Pictures of runs and graphs: a moment as SVG, a whole run as a page to step through, charts, tables.

Everything is drawn from a trace and the stages of its epochs (`kit.draw.stage.Stage`), nothing else; so each name here
takes a Lab, a SparkJob or a Trace, whole or cut or read back from a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.draw import shown as _shown
from kit.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.draw.at_risk import AtRisk, at_risk
    from kit.draw.barriers import Barriers, barriers
    from kit.draw.chains import Chains, chains, chains_svg
    from kit.draw.checkpoint_life import LifeOfCheckpoint, checkpoint_life
    from kit.draw.comparison import Comparison, compare
    from kit.draw.execution_graph import ExecutionGraphPicture, execution_graph
    from kit.draw.film import film
    from kit.draw.frames import Frame, frames, last_frame, moment_svg
    from kit.draw.gantt import gantt, phases
    from kit.draw.graphviz_objects import Dot
    from kit.draw.job_state import Moment
    from kit.draw.journeys import Crossing, Journeys, journeys
    from kit.draw.key_moves import KeyMove
    from kit.draw.list_growth import ListGrowth, list_growth
    from kit.draw.moment import advance, moment_at, moments
    from kit.draw.page import export_html
    from kit.draw.picture import Chart, Svg
    from kit.draw.redistribution import redistribution, restores_of
    from kit.draw.rescale_plan import RescalePlan, rescale_plan
    from kit.draw.rescaling import Rescaling, rescaling
    from kit.draw.shared_state import SharedState, shared_state
    from kit.draw.snapshot_contents import SnapshotContents, snapshot_contents
    from kit.draw.space_time import SpaceTime, space_time
    from kit.draw.space_time_data import space_time_data
    from kit.draw.stage import Stage
    from kit.draw.state_machines import StateMachine, StateMachines, state_machines

_offer(
    __name__,
    {
        "kit.draw.at_risk": ["AtRisk", "at_risk"],
        "kit.draw.barriers": ["Barriers", "barriers"],
        "kit.draw.chains": ["Chains", "chains", "chains_svg"],
        "kit.draw.checkpoint_life": ["LifeOfCheckpoint", "checkpoint_life"],
        "kit.draw.comparison": ["Comparison", "compare"],
        "kit.draw.execution_graph": ["ExecutionGraphPicture", "execution_graph"],
        "kit.draw.film": ["film"],
        "kit.draw.frames": ["Frame", "frames", "last_frame", "moment_svg"],
        "kit.draw.gantt": ["gantt", "phases"],
        "kit.draw.graphviz_objects": ["Dot"],
        "kit.draw.job_state": ["Moment"],
        "kit.draw.journeys": ["Crossing", "Journeys", "journeys"],
        "kit.draw.key_moves": ["KeyMove"],
        "kit.draw.list_growth": ["ListGrowth", "list_growth"],
        "kit.draw.moment": ["advance", "moment_at", "moments"],
        "kit.draw.page": ["export_html"],
        "kit.draw.picture": ["Chart", "Svg"],
        "kit.draw.redistribution": ["redistribution", "restores_of"],
        "kit.draw.rescale_plan": ["RescalePlan", "rescale_plan"],
        "kit.draw.rescaling": ["Rescaling", "rescaling"],
        "kit.draw.shared_state": ["SharedState", "shared_state"],
        "kit.draw.snapshot_contents": ["SnapshotContents", "snapshot_contents"],
        "kit.draw.space_time": ["SpaceTime", "space_time"],
        "kit.draw.space_time_data": ["space_time_data"],
        "kit.draw.stage": ["Stage"],
        "kit.draw.state_machines": ["StateMachine", "StateMachines", "state_machines"],
    },
)

_shown.CAPTION.is_at("kit.draw.captions", "caption_of")
_shown.DRAW_STAGE.is_at("kit.draw.chains", "chains_svg")
_shown.DRAW_SPACE_TIME.is_at("kit.draw.space_time_svg", "space_time_svg")

__all__ = [
    "AtRisk",
    "Barriers",
    "Chains",
    "Chart",
    "Comparison",
    "Crossing",
    "Dot",
    "ExecutionGraphPicture",
    "Frame",
    "Journeys",
    "KeyMove",
    "LifeOfCheckpoint",
    "ListGrowth",
    "Moment",
    "RescalePlan",
    "Rescaling",
    "SharedState",
    "SnapshotContents",
    "SpaceTime",
    "Stage",
    "StateMachine",
    "StateMachines",
    "Svg",
    "advance",
    "at_risk",
    "barriers",
    "chains",
    "chains_svg",
    "checkpoint_life",
    "compare",
    "execution_graph",
    "export_html",
    "film",
    "frames",
    "gantt",
    "journeys",
    "last_frame",
    "list_growth",
    "moment_at",
    "moment_svg",
    "moments",
    "phases",
    "redistribution",
    "rescale_plan",
    "rescaling",
    "restores_of",
    "shared_state",
    "snapshot_contents",
    "space_time",
    "space_time_data",
    "state_machines",
]
