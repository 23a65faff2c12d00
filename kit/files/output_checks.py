"""Checks of the output that exists when a run starts: its rows must not be mixed with others, or be published twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import NamedTuple

from kit.core.protocol.lineage import CoveredOutput
from kit.files.output import Output, sinks
from kit.stream.connectors.part_names import PublishedName
from kit.stream.connectors.sink import MEMORY, Sink
from kit.stream.graph.job_graph import JobGraph


def free_run_name(job: JobGraph, output: Output) -> str:
    """Return the job's id, or the first of `<id>-2`, `<id>-3`, ... that no earlier run has, as far as is known."""
    known = {writer.rpartition(".")[2] for writer in output.writers(sinks(job))}
    names = chain([job.job_id], (f"{job.job_id}-{number}" for number in count(2)))
    return next(name for name in names if name not in known)


def output_at_risk(job: JobGraph) -> str:
    """Return a warning about sinks whose last rows no checkpoint will cover, for the start of the job; "" for none."""
    settings, paths = job.settings.checkpoint, [sink.path for sink in sinks(job)]
    if settings.checkpoints_after_tasks_finish or not paths:
        return ""
    return (
        f"job {job.name}: with checkpoints_after_tasks_finish=False no checkpoint completes once a task has finished "
        f"(as in Flink before 1.14). What {', '.join(paths)} holds then is never published, though the job FINISHES. "
        "Leave the setting at True, or end the job with stop()"
    )


def check_new_output(job: JobGraph, output: Output) -> None:
    """Raise FileExistsError, naming the sink, if a run from scratch would mix its rows with another run's."""
    for sink in sinks(job):
        found = output.published_files(sink)
        foreign = [name for name in found if PublishedName.parse(name) is None]
        if sink.mode == "error" and found:
            raise FileExistsError(
                f"{sink.path} already holds {_counted(found)}: the rows of this run would be mixed with those of "
                "another.\n  Write to another directory, or say what is meant: "
                f'{type(sink).__name__}(path, mode="overwrite") deletes what sinks wrote there, mode="append" adds to '
                "it.\n  A job that resumes from a savepoint or checkpoint (restore_path=...) adds to its own output."
            )
        if sink.mode == "overwrite" and foreign:
            raise FileExistsError(
                f'{sink.path} holds {_counted(foreign)}, which no sink wrote: mode="overwrite" does not delete '
                "that.\n  Remove what is not needed, or write to another directory."
            )


def begin_new_output(job: JobGraph, output: Output, check_leadership: Callable[[], None] = lambda: None) -> None:
    """Check as `check_new_output` does, and then delete what the sinks are to overwrite.

    `check_leadership` raises an error if another driver leads. It is called between the listing and the deletion, so
    nothing that the other driver publishes is deleted, however long this process is frozen.
    """
    check_new_output(job, output)
    overwritten = [
        (sink, list(filter(PublishedName.parse, output.published_files(sink))))
        for sink in sinks(job)
        if sink.mode == "overwrite"
    ]
    check_leadership()
    for sink, names in overwritten:
        output.delete_published(sink, names)


class PublishedLater(NamedTuple):
    """The output of a sink after a snapshot: the existing files, and the number of files that readers have removed."""

    sink: Sink
    parts: dict[str, PublishedName]
    """The names of the files, by their paths below the sink's directory."""
    taken_away: int


def later_output(job: JobGraph, output: Output, covered: CoveredOutput) -> Iterator[PublishedLater]:
    """Yield what runs of the same lineage have published that a snapshot does not cover, for sinks with such output.

    What a `CollectSink` has collected belongs to a run and is never later than its snapshot.
    """
    for sink in sinks(job):
        if sink.path.startswith(MEMORY):
            continue
        published = {path: PublishedName.parse(path) for path in output.published_files(sink)}
        later = {
            path: part
            for path, part in published.items()
            if part is not None and covered.is_of(part.writer) and not covered.includes(part.writer, part.checkpoint_id)
        }
        taken_away = output.taken_away(sink, covered)
        if later or taken_away:
            yield PublishedLater(sink, later, taken_away)


def check_not_discarded(job: JobGraph, output: Output, covered: CoveredOutput, snapshot: str) -> None:
    """Raise FileExistsError, naming the sink, if output that a snapshot covers was deleted for another run."""
    for sink in sinks(job):
        for writer, checkpoint_id in output.discarded(sink).items():
            if covered.includes(writer, checkpoint_id):
                raise FileExistsError(
                    f"{snapshot} covers rows in {sink.path} that were deleted there when an older snapshot was "
                    'restored with later_output="discard", or a run from scratch overwrote them: they would be '
                    "missing.\n  Restore a snapshot that was taken since, or write to another directory."
                )


def check_no_later_output(job: JobGraph, output: Output, covered: CoveredOutput, snapshot: str) -> None:
    """Raise FileExistsError, naming the sink, if rows would be published twice."""
    for sink, later, taken_away in later_output(job, output, covered):
        if later:
            raise FileExistsError(
                f"{sink.path} holds {_counted(list(later))} that this job, or a run that resumed a snapshot of it, "
                f"published after {snapshot}, from which it is to be restored: their rows would come again.\n  "
                "Restore the newest snapshot, write to another directory, or say what is meant: "
                'later_output="discard" deletes these files first, later_output="keep" has the rows twice.'
            )
        raise _taken_away(sink, taken_away, snapshot)


def with_later_output_kept(job: JobGraph, output: Output, covered: CoveredOutput) -> CoveredOutput:
    """Return `covered` with the output published after the snapshot: it stays, and its rows are published again."""
    later = [part for each in later_output(job, output, covered) for part in each.parts.values()]
    return covered.keeping((part.writer, part.checkpoint_id) for part in later)


def discard_later_output(
    job: JobGraph, output: Output, covered: CoveredOutput, snapshot: str, check_leadership: Callable[[], None]
) -> None:
    """Delete what sinks have published after a snapshot; `check_leadership` as in `begin_new_output`.

    Raises FileExistsError, before anything is deleted, if readers have removed some of it.
    """
    found = list(later_output(job, output, covered))
    for sink, _, taken_away in found:
        if taken_away:
            raise _taken_away(sink, taken_away, snapshot)
    check_leadership()
    for sink, parts, _ in found:
        output.delete_published(sink, parts)


def _taken_away(sink: Sink, count: int, snapshot: str) -> FileExistsError:
    return FileExistsError(
        f"{count} file{'s' * (count > 1)} published in {sink.path} after {snapshot}, from which the job is to be "
        "restored, have been taken away from there: their rows would come again, and the files cannot be "
        "discarded.\n  Restore the newest snapshot, put the files back, write to another directory, or say what is "
        'meant: later_output="keep" has the rows twice.'
    )


def _counted(names: list[str]) -> str:
    return f"{len(names)} Parquet file{'s' * (len(names) > 1)} ({names[0]}{', ...' * (len(names) > 1)})"
