"""The job that a checkpoint is checked against: its operators, their parallelism and, if known, its exchanges.

A kit job has all of these. A checkpoint of a newer version of a job, or a list of uids, has no exchanges and no chains.
Each operator is then a vertex of its own, and in-flight data cannot be checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kit.core.metadata import CheckpointMetadata
from kit.core.state.key_groups import check_parallelism, default_max_parallelism
from kit.machines.job.task_restores import assignment_edges, assignment_vertices
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex
from kit.stream.api import StreamEnvironment
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.hashing import operator_id_of_uid
from kit.stream.graph.job_graph import JobGraph

_OPERATOR_ID = re.compile(r"[0-9a-f]{32}")

Parallelism = int | Mapping[str, int] | None
"""One parallelism for all operators, or a parallelism for some of them, by uid or by the name of their vertex."""


@dataclass(frozen=True, slots=True, repr=False)
class JobShape:
    """The vertices of a job and its exchanges; `edges` is None if they are not known."""

    vertices: tuple[AssignmentVertex, ...]
    edges: tuple[AssignmentEdge, ...] | None

    def __repr__(self) -> str:
        exchanges = "exchanges unknown" if self.edges is None else f"{len(self.edges)} exchanges"
        return f"JobShape({len(self.vertices)} vertices, {exchanges})"

    def with_parallelism(self, parallelism: Parallelism) -> JobShape:
        """Return the job at another parallelism. Raises ValueError for an operator that it does not have."""
        if parallelism is None:
            return self
        if isinstance(parallelism, int):
            check_parallelism(parallelism)
            return replace(self, vertices=tuple(replace(v, parallelism=parallelism) for v in self.vertices))
        left = dict(parallelism)
        vertices = tuple(_at(vertex, left) for vertex in self.vertices)
        if left:
            known = sorted({name for vertex in self.vertices for name in _names(vertex)})
            raise ValueError(
                f"parallelism names {', '.join(map(repr, left))}, but the job has only {', '.join(map(repr, known))}"
            )
        return replace(self, vertices=vertices)

    def with_max_parallelism(self, max_parallelism: int) -> JobShape:
        """Return the job with this maximum parallelism configured for all operators. Raises ValueError."""
        check_parallelism(max_parallelism)
        return replace(self, vertices=tuple(replace(v, max_parallelism=max_parallelism) for v in self.vertices))


Job = (
    StreamEnvironment | JobGraph | ExecutionGraph | CheckpointMetadata | JobShape | Mapping[str, object] | Iterable[str]
)
"""The accepted forms of a job: a job of the kit, another checkpoint, or uids with parallelism and its maximum."""


def shape_of(job: Job, parallelism: Parallelism = None) -> JobShape:
    """Return the shape of a job, at another parallelism if one is given.

    A mapping of uids gives for each the parallelism, a pair of parallelism and maximum parallelism, or a mapping of
    these names and `states`. An operator id of 32 hex digits is accepted in place of a uid. Raises ValueError for an
    invalid parallelism, and TypeError for anything else.
    """
    return _shape_of(job).with_parallelism(parallelism)


def _shape_of(job: Job) -> JobShape:
    if isinstance(job, JobShape):
        return job
    if isinstance(job, StreamEnvironment):
        job = job.job_graph()
    if isinstance(job, JobGraph):
        job = ExecutionGraph(job)
    if isinstance(job, ExecutionGraph):
        return JobShape(tuple(assignment_vertices(job)), tuple(assignment_edges(job.job_graph)))
    if isinstance(job, CheckpointMetadata):
        return JobShape(tuple(_of_checkpoint(job)), None)
    if isinstance(job, Mapping):
        return JobShape(tuple(_of_uid(uid, numbers) for uid, numbers in job.items()), None)
    if isinstance(job, str | bytes) or not isinstance(job, Iterable):
        raise TypeError(
            f"expected a StreamEnvironment, another checkpoint, or uids such as {{'totals': 4}} as the job, not "
            f"{type(job).__name__} {job!r}"
        )
    return JobShape(tuple(_of_uid(uid, 1) for uid in job), None)


def _of_checkpoint(metadata: CheckpointMetadata) -> Iterable[AssignmentVertex]:
    """Yield a vertex per operator. A maximum parallelism that is Flink's default counts as not configured."""
    for state in metadata.operator_states:
        pair = OperatorIDPair(state.operator_id, None, state.name, state.uid)
        is_default = state.max_parallelism == default_max_parallelism(state.parallelism)
        yield AssignmentVertex(state.label, state.parallelism, (pair,), None if is_default else state.max_parallelism)


_OF_UID = ("parallelism", "max_parallelism", "states")
"""The settings of a uid; `Checkpoint.check` compares the types of `states`."""


def operator_id_of(uid: str) -> str:
    """Return the id of an operator by its uid, or the id itself if it is given instead."""
    return uid if _OPERATOR_ID.fullmatch(uid) else operator_id_of_uid(uid)


def _of_uid(uid: object, numbers: object) -> AssignmentVertex:
    if isinstance(numbers, Mapping):
        unknown = [str(each) for each in numbers if each not in _OF_UID]
        if unknown:
            raise TypeError(f"uid {uid!r} is given {', '.join(unknown)}, but may have {', '.join(_OF_UID)}")
        numbers = (numbers.get("parallelism", 1), numbers.get("max_parallelism"))
    parallelism, maximum = numbers if isinstance(numbers, tuple) and len(numbers) == 2 else (numbers, None)
    if not (isinstance(uid, str) and isinstance(parallelism, int) and isinstance(maximum, int | None)):
        raise TypeError(
            "expected a uid with a parallelism, with (parallelism, maximum parallelism), or with a mapping of "
            f"{', '.join(_OF_UID)}, but found "
            f"{uid!r}: {numbers!r}"
        )
    check_parallelism(parallelism)
    known = _OPERATOR_ID.fullmatch(uid)
    pair = OperatorIDPair(operator_id_of(uid), None, None, None if known else uid)
    return AssignmentVertex(uid, parallelism, (pair,), maximum)


def _at(vertex: AssignmentVertex, left: dict[str, int]) -> AssignmentVertex:
    found = {left.pop(name) for name in _names(vertex) if name in left}
    if len(found) > 1:
        raise ValueError(
            f"the operators of '{vertex.name}' are one task: expected one parallelism, found {sorted(found)}"
        )
    for parallelism in found:
        check_parallelism(parallelism)
        return replace(vertex, parallelism=parallelism)
    return vertex


def _names(vertex: AssignmentVertex) -> set[str]:
    return {vertex.name} | {pair.uid for pair in vertex.operators if pair.uid}
