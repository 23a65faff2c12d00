"""Opening a lab: checks of its arguments, and its files and output."""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.arguments.checks import Choice, no_job, one_of
from kit.core.protocol.events import StartJob
from kit.files.master_hooks import MasterHook, MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.output_checks import begin_new_output, check_new_output, free_run_name
from kit.filesystems.memory import MemoryFiles
from kit.hosts.lab.errors import LabError, whole_number
from kit.hosts.lab.recordings.snapshot_on_disk import Before
from kit.hosts.lab.world.edge import LabEdge
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.parts import Parts


def job_graph(job: object, parts: Parts | None = None) -> JobGraph:
    """Return the job to run, with the user's own parts, if any. Raises LabError for anything but a job, and GraphError
    for an incomplete one.
    """
    if isinstance(job, StreamEnvironment):
        job = job.job_graph()
    if not isinstance(job, JobGraph):
        raise LabError(no_job(job))
    return job.checked_to_act().with_parts(parts)


def run_name(job: JobGraph, before: LabEdge | None) -> str:
    """Return a name for the run that comes after the lab that had `before`."""
    return job.job_id if before is None else free_run_name(job, before.output)


def open_edge(
    job: JobGraph, start: StartJob, hooks: Sequence[MasterHook], before: LabEdge | Before | None, checkpoints: str = ""
) -> LabEdge:
    """Return the files and the output of a lab, after the lab that had `before`. Raises LabError or FileExistsError if
    the job cannot start like this.
    """
    files = MemoryFiles() if before is None else before.files.copy()
    output = MemoryOutput() if before is None else before.output.copy()
    edge = LabEdge(job, MasterHooks(hooks), files, output, checkpoints=checkpoints)
    edge.for_job.begin_run(start.run or job.job_id)
    if start.restore_path is None and not start.recover:
        durable = job.settings.checkpoint.is_durable
        (check_new_output if durable else begin_new_output)(job, output)
    if start.restore_path is not None:
        edge.check_restore_path(start.restore_path)
    edge.for_tasks.forget_local_state()  # a new driver has new workers
    return edge


def checked_seed(seed: object) -> int:
    """Return the seed. Raises LabError if it is not an integer."""
    return whole_number("seed", seed, "the same one gives the same run")


def checked_choice(kind: type[Choice], setting: str, found: object) -> Choice:
    """Return a choice of this kind, given by itself or by its value. Raises LabError for another."""
    try:
        return one_of(kind, setting, found)
    except ValueError as error:
        raise LabError(str(error)) from None
