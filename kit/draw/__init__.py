"""Pictures of runs and graphs: a moment as SVG, a whole run as a page to step through, charts, tables.

Every picture is drawn from a trace and the stages of its epochs (`kit.run.stage.Stage`) alone. So each function here
takes a Lab, a SparkJob or a Trace; the trace may be complete, cut short, or read from a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.lazily import offer as _offer

if TYPE_CHECKING:
    from kit.draw.charts.comparison import Comparison as Comparison
    from kit.draw.charts.comparison import compare as compare
    from kit.draw.charts.gantt import gantt as gantt
    from kit.draw.charts.over_time import OverTimeChart as OverTimeChart
    from kit.draw.charts.over_time import over_time as over_time
    from kit.draw.charts.rescale_plan import RescalePlan as RescalePlan
    from kit.draw.charts.rescale_plan import rescale_plan as rescale_plan
    from kit.draw.graphviz_objects import Dot as Dot
    from kit.draw.page.page import export_html as export_html
    from kit.draw.picture import Chart as Chart
    from kit.draw.picture import Svg as Svg
    from kit.draw.protocol.protocol_sheet import protocol_sheet as protocol_sheet
    from kit.draw.space_time.space_time import SpaceTime as SpaceTime
    from kit.draw.space_time.space_time import space_time as space_time
    from kit.draw.space_time.space_time_data import space_time_data as space_time_data
    from kit.draw.stage.film import film as film
    from kit.draw.stage.frames import Frame as Frame
    from kit.draw.stage.frames import frames as frames
    from kit.draw.stage.frames import last_frame as last_frame
    from kit.draw.stage.frames import moment_svg as moment_svg
    from kit.draw.views.at_risk import AtRisk as AtRisk
    from kit.draw.views.at_risk import at_risk as at_risk
    from kit.draw.views.barriers import Barriers as Barriers
    from kit.draw.views.barriers import barriers as barriers
    from kit.draw.views.chains import Chains as Chains
    from kit.draw.views.chains import chains as chains
    from kit.draw.views.chains import chains_svg as chains_svg
    from kit.draw.views.checkpoint_life import LifeOfCheckpoint as LifeOfCheckpoint
    from kit.draw.views.checkpoint_life import checkpoint_life as checkpoint_life
    from kit.draw.views.checkpoints.shared_state import SharedState as SharedState
    from kit.draw.views.checkpoints.shared_state import shared_state as shared_state
    from kit.draw.views.checkpoints.snapshot_contents import SnapshotContents as SnapshotContents
    from kit.draw.views.checkpoints.snapshot_contents import snapshot_contents as snapshot_contents
    from kit.draw.views.execution_graph import ExecutionGraphPicture as ExecutionGraphPicture
    from kit.draw.views.execution_graph import execution_graph as execution_graph
    from kit.draw.views.rescaling import Rescaling as Rescaling
    from kit.draw.views.rescaling import rescaling as rescaling
    from kit.draw.views.state_machines import StateMachine as StateMachine
    from kit.draw.views.state_machines import StateMachines as StateMachines
    from kit.draw.views.state_machines import state_machines as state_machines
    from kit.run.journeys import Crossing as Crossing
    from kit.run.journeys import Journeys as Journeys
    from kit.run.journeys import journeys as journeys
    from kit.run.moments.job_state import Moment as Moment
    from kit.run.moments.moment import advance as advance
    from kit.run.moments.moment import moments as moments
    from kit.run.reading import moment_at as moment_at
    from kit.run.redistribution import redistribution as redistribution
    from kit.run.redistribution import restores_of as restores_of
    from kit.run.stage import Stage as Stage
    from kit.snapshots.key_moves import KeyMove as KeyMove
    from kit.why.phases import phases as phases

_offer(__name__)
