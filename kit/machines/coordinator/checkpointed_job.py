"""The job as the coordinator sees it: its settings, its master hooks, and its graph as deployed now."""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.protocol.lineage import Lineage
from kit.core.protocol.properties import CheckpointProperties
from kit.machines.coordinator.plan import CheckpointPlanCalculator
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.settings.job_settings import CheckpointCoordinatorConfiguration


class CheckpointedJob:
    """One job.

    `operator_coordinators` are the ids of the operators that have a coordinator, `hooks` the identifiers of the master
    hooks.

    The host holds the hooks themselves.
    """

    def __init__(
        self,
        job_id: str,
        graph: ExecutionGraph,
        config: CheckpointCoordinatorConfiguration,
        hooks: Sequence[str],
        operator_coordinators: Sequence[str],
    ) -> None:
        self.job_id = job_id
        self.config = config
        self.hooks = tuple(hooks)
        self.properties = CheckpointProperties.for_checkpoint(config.retention)
        """The properties of the job's own checkpoints."""
        self.lineage: Lineage | None = None
        """The run whose output a checkpoint covers; None as long as it is unknown, or if the job has no output."""
        self._coordinator_ids = tuple(operator_coordinators)
        self.deploy(graph)

    def write_output_as(self, lineage: Lineage) -> None:
        """Set the run whose output the checkpoints cover."""
        self.lineage = lineage

    def deploy(self, graph: ExecutionGraph) -> None:
        """Set the graph that is deployed, with its parallelisms."""
        self.graph = graph
        self.plan_calculator = CheckpointPlanCalculator(
            graph, allow_finished_tasks=self.config.checkpoints_after_tasks_finish
        )
        vertices = graph.job_graph.vertices
        self.operator_order = tuple(operator_id for vertex in vertices for operator_id in vertex.operator_ids)
        self.operator_coordinators = {
            operator_id: graph.vertex_tasks(graph.job_graph.vertex_of(operator_id).name)[0]
            for operator_id in self._coordinator_ids
        }
        """For each operator with a coordinator, one of its tasks, which gives the parallelism."""

    def __repr__(self) -> str:
        return f"CheckpointedJob({self.job_id}, {len(self.graph.tasks)} tasks)"
