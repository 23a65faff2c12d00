"""Pictures of runs and graphs: a moment as SVG, a whole run as a page to step through, charts, tables.

Every picture is drawn from a trace and the stages of its epochs (`kit.run.stage.Stage`) alone. So each function here
takes a Lab, a SparkJob or a Trace; the trace may be complete, cut short, or read from a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.draw.charts.comparison import Comparison, compare
    from kit.draw.charts.gantt import gantt
    from kit.draw.charts.list_growth import ListGrowth, list_growth
    from kit.draw.charts.rescale_plan import RescalePlan, rescale_plan
    from kit.draw.graphviz_objects import Dot
    from kit.draw.page.page import export_html
    from kit.draw.picture import Chart, Svg
    from kit.draw.protocol.protocol_sheet import protocol_sheet
    from kit.draw.space_time.space_time import SpaceTime, space_time
    from kit.draw.space_time.space_time_data import space_time_data
    from kit.draw.stage.film import film
    from kit.draw.stage.frames import Frame, frames, last_frame, moment_svg
    from kit.draw.views.at_risk import AtRisk, at_risk
    from kit.draw.views.barriers import Barriers, barriers
    from kit.draw.views.chains import Chains, chains, chains_svg
    from kit.draw.views.checkpoint_life import LifeOfCheckpoint, checkpoint_life
    from kit.draw.views.checkpoints.shared_state import SharedState, shared_state
    from kit.draw.views.checkpoints.snapshot_contents import SnapshotContents, snapshot_contents
    from kit.draw.views.execution_graph import ExecutionGraphPicture, execution_graph
    from kit.draw.views.rescaling import Rescaling, rescaling
    from kit.draw.views.state_machines import StateMachine, StateMachines, state_machines
    from kit.run.journeys import Crossing, Journeys, journeys
    from kit.run.moments.job_state import Moment
    from kit.run.moments.moment import advance, moment_at, moments
    from kit.run.redistribution import redistribution, restores_of
    from kit.run.stage import Stage
    from kit.snapshots.key_moves import KeyMove
    from kit.why.phases import phases

_offer(
    __name__,
    {
        "kit.draw.views.at_risk": ["AtRisk", "at_risk"],
        "kit.draw.views.barriers": ["Barriers", "barriers"],
        "kit.draw.views.chains": ["Chains", "chains", "chains_svg"],
        "kit.draw.views.checkpoint_life": ["LifeOfCheckpoint", "checkpoint_life"],
        "kit.draw.charts.comparison": ["Comparison", "compare"],
        "kit.draw.views.execution_graph": ["ExecutionGraphPicture", "execution_graph"],
        "kit.draw.stage.film": ["film"],
        "kit.draw.stage.frames": ["Frame", "frames", "last_frame", "moment_svg"],
        "kit.draw.charts.gantt": ["gantt"],
        "kit.why.phases": ["phases"],
        "kit.draw.graphviz_objects": ["Dot"],
        "kit.run.moments.job_state": ["Moment"],
        "kit.run.journeys": ["Crossing", "Journeys", "journeys"],
        "kit.snapshots.key_moves": ["KeyMove"],
        "kit.draw.charts.list_growth": ["ListGrowth", "list_growth"],
        "kit.run.moments.moment": ["advance", "moment_at", "moments"],
        "kit.draw.page.page": ["export_html"],
        "kit.draw.picture": ["Chart", "Svg"],
        "kit.draw.protocol.protocol_sheet": ["protocol_sheet"],
        "kit.run.redistribution": ["redistribution", "restores_of"],
        "kit.draw.charts.rescale_plan": ["RescalePlan", "rescale_plan"],
        "kit.draw.views.rescaling": ["Rescaling", "rescaling"],
        "kit.draw.views.checkpoints.shared_state": ["SharedState", "shared_state"],
        "kit.draw.views.checkpoints.snapshot_contents": ["SnapshotContents", "snapshot_contents"],
        "kit.draw.space_time.space_time": ["SpaceTime", "space_time"],
        "kit.draw.space_time.space_time_data": ["space_time_data"],
        "kit.run.stage": ["Stage"],
        "kit.draw.views.state_machines": ["StateMachine", "StateMachines", "state_machines"],
    },
)


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
    "protocol_sheet",
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
