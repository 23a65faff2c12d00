"""The run that pictures are drawn from: a lab, a job on Spark, or a trace that is whole, cut or read from a file.

Every public function of `kit.draw` and of the widgets uses `run_of`, or `shape_of` if it needs only the job's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kit.core.trace.showing import Showing
from kit.core.trace.trace import Trace, TraceRecord
from kit.run.stage import Stage
from kit.stream.graph.epoch_shape import epoch_shape
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph, create_job_graph
from kit.stream.graph.stream_graph import StreamGraph

LONGEST_REPR = 80


@dataclass(frozen=True, slots=True)
class Run:
    """A trace and the shapes of its epochs.

    `notes` are for the reader, each with the number of records before the one that it is about. `step_of` returns the
    lab's step after which the trace had a number of records (`stepped_run_of`); it is None for any other run.
    `keeper` keeps the run's one reading (`kit.run.reading`); None: the trace does.
    """

    trace: Trace
    known: tuple[Stage, ...] = ()
    notes: tuple[tuple[int, str], ...] = ()
    step_of: Callable[[int], int] | None = field(default=None, compare=False)
    keeper: Showing | None = field(default=None, compare=False, repr=False)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The shapes of the epochs. Raises ValueError if they are not known."""
        if not self.known:
            raise ValueError(
                f"{self.trace!r} does not say what the job looks like. Take the trace of a lab or a job whole or cut "
                "(lab.trace[:100]), or give it the shapes: Trace(records, stages=lab.look.stages)"
            )
        return self.known


def run_of(thing: Any) -> Run:
    """Return the run of a Lab, a SparkJob, a Trace, a scenario, or a list of records.

    A lab or a job that has not begun has the shape that it will have. Raises TypeError for anything else.
    """
    if isinstance(thing, Run):
        return thing
    if isinstance(thing, Trace):
        return Run(thing, _stages(thing))
    trace = getattr(thing, "trace", None)
    if isinstance(trace, Trace):
        stages = _stages(trace) or (shape_of(thing.job),)
        return Run(trace, stages, tuple(getattr(thing, "notes", ())), keeper=getattr(thing, "_keeper", None))
    if isinstance(thing, Iterable) and not isinstance(thing, str | bytes):
        records = list(thing)
        if all(isinstance(record, TraceRecord) for record in records):
            return Run(Trace(records))
    hint = "; Lab(env) or SparkJob(env) makes a run of it" if hasattr(thing, "job_graph") else ""
    shown = repr(thing) if len(repr(thing)) <= LONGEST_REPR else f"{repr(thing)[:LONGEST_REPR]}…"
    kind = type(thing).__name__
    article = "an" if kind[0] in "AEIOUaeiou" else "a"
    raise TypeError(f"{shown} is {article} {kind}, not a run: expected a Lab, a SparkJob or a Trace{hint}")


def stepped_run_of(thing: Any) -> Run:
    """Return a run as `run_of` does, which counts steps as the lab does if it is that of a lab or of a scenario."""
    run, past = run_of(thing), getattr(getattr(thing, "lab", thing), "past", None)
    return run if past is None else replace(run, step_of=past.position_of)


def now_ms_of(thing: Any) -> int:
    """Return the time in a lab; 0 for any other run."""
    return int(of_look(thing, "at_ms") or 0)


def of_look(thing: Any, name: str) -> Any:
    """Return the entry of this name in the `look` of a lab or a job on Spark; None for any other run."""
    return getattr(getattr(thing, "look", None), name, None)


def _stages(trace: Trace) -> tuple[Stage, ...]:
    return tuple(map(Stage.of, trace.stages))


def shape_of(thing: Any) -> Stage:
    """Return the newest shape of a run, or the shape that a StreamEnvironment, StreamGraph or JobGraph will have."""
    if isinstance(thing, Stage):
        return thing
    if callable(getattr(thing, "stream_graph", None)):
        thing = thing.stream_graph()  # includes operators that reach no sink yet
    if isinstance(thing, StreamGraph):
        thing = create_job_graph(thing)
    elif callable(getattr(thing, "job_graph", None)):
        thing = thing.job_graph()
    if isinstance(thing, JobGraph):
        return Stage.of(epoch_shape(ExecutionGraph(thing)))
    return max(run_of(thing).stages, key=lambda stage: stage.epoch)
