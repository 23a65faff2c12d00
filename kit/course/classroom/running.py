"""The jobs of the checks, and how they are run: small, with a limit of steps, and with killed workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kit import CheckpointConfig, CollectionSource, CollectSink, FixedDelay, StreamEnvironment, count, sum_
from kit.course.classroom.checking import NotYet, said_of
from kit.course.classroom.searching import HIDDEN
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from kit.stream.connectors.sink import Sink
from kit.stream.settings.parts import PartError, Parts
from kit.verify.explore import (
    Counterexample,
    complete_checkpoints,
    consistent_checkpoints,
    exactly_once,
    expected_output,
    explore,
)

ROWS = [{"letter": "abc"[number % 3], "n": 1} for number in range(24)]
WANTED = {(letter, total) for letter in "abc" for total in range(1, 9)}
"""The rows that the job publishes: for each letter the sum after each row."""
MOST_STEPS = 1_500
"""A limit far above what any of these jobs needs, with failures."""
MOST_STATES = 60_000
"""A limit above the number of states that a check explores with a correct part."""


def letters(sink: Sink | None = None, *, parallelism: int = 2, splits: int = 2, **checkpoint: Any) -> StreamEnvironment:
    """Return a job that sums letters in two subtasks, so each sum waits for the barriers of two readers.

    With another parallelism and the same number of splits, that many subtasks do.
    """
    settings: dict[str, Any] = {"interval_ms": 40, "timeout_ms": 2_000, "tolerable_failures": 100}
    env = StreamEnvironment(
        "letters",
        parallelism=parallelism,
        max_parallelism=4,
        checkpoint=CheckpointConfig(**(settings | checkpoint)),
        restart=FixedDelay(20, 10),
    )
    stream = env.from_source(CollectionSource(ROWS, splits=splits, batch_rows=1), uid="letters")
    totals = stream.key_by("letter").aggregate(total=sum_("n")).uid("totals")
    totals.sink_to(sink or CollectSink("out"), uid="out")
    return env


def output(lab: Lab) -> Counter[tuple[Any, ...]]:
    """Return what the job has published, with the count of each row."""
    return Counter(lab.output().itertuples(index=False, name=None))


def walked(lab: Lab, each: Callable[[Lab], None] | None = None) -> Lab:
    """Step the lab to the end of its job, calling `each` after each step.

    Raises NotYet with the lab if the student's part breaks, or if the job does not end.
    """
    try:
        while not lab.ended:
            if lab.position >= MOST_STEPS:
                raise NotYet(_stuck(lab), lab)
            lab.step()
            if each is not None and lab.status != "FAILED":
                each(lab)
        lab.run()
    except PartError as error:
        raise NotYet(said_of(error), lab) from error
    except LabError as error:
        at_rest = lab.status == "RUNNING" and not lab.enabled()
        raise NotYet(_stuck(lab) if at_rest else said_of(_why(lab, error)), lab) from error
    return lab


def reached(lab: Lab, record: str, *, later: int = 0) -> Lab:
    """Step the lab until such a record is in its trace, and `later` steps more. Raises NotYet if none comes."""
    seen = len(lab.trace)
    try:
        while not any(each.kind == record for each in lab.trace[seen:]):
            if lab.position >= MOST_STEPS:
                raise NotYet(_stuck(lab), lab)
            seen = len(lab.trace)
            lab.step()
        for _ in range(later):
            lab.step()
    except (PartError, LabError) as error:
        raise NotYet(said_of(_why(lab, error)), lab) from error
    return lab


def reached_in_time(lab: Lab, seed: int, *records: str, later: int = 0) -> bool:
    """Step the lab to these records, one after the other. Return False if the job has finished before.

    Students do not know the orders of hidden seeds, and in some of them a job finishes early. Raises NotYet in others.
    """
    try:
        for record in records:
            reached(lab, record, later=later)
    except NotYet:
        if seed < HIDDEN or lab.status != "FINISHED":
            raise
    return not lab.ended


def _why(lab: Lab, error: Exception) -> Exception:
    """Return the error that failed a job, whatever request raised `error` afterwards."""
    if lab.status == "FAILED":
        try:
            lab.run()
        except LabError as failure:
            return failure
    return error


def _stuck(lab: Lab) -> str:
    pending = sorted(lab.look.master.checkpoints.pending)
    waits = f" Checkpoint {pending[0]} is pending and does not complete." if pending else ""
    blocked = [channel for task in lab.look.tasks.values() for channel in task.inputs if channel.blocked]
    if blocked:
        waits += f" The channel from {blocked[0].source_task} is still blocked."
    return f"The job does not come to its end: it stands at step {lab.position}.{waits}"


def every_schedule(parts: Parts) -> str:
    """Explore every schedule of a job of two rows; a checkpoint is requested at any moment. Return what was tried.

    Raises NotYet at the first state in which exactly once does not hold, with the lab and its steps.
    """
    env = StreamEnvironment(
        "two rows",
        parallelism=1,
        max_parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=None, memory_threshold_bytes=0, max_concurrent=2),
        restart=FixedDelay(3, 1_000),
    )
    rows = env.from_source(CollectionSource([{"letter": "a"}], batch_rows=1), uid="rows").set_parallelism(2)
    rows.key_by("letter").aggregate(n=count()).uid("counts").sink_to(CollectSink("out"), uid="out")
    wanted = expected_output(env.job_graph())
    properties = (*exactly_once(wanted), consistent_checkpoints(wanted), complete_checkpoints(wanted))
    found = explore(env, properties, parts=parts, checkpoints=1, faults=0, most_states=MOST_STATES, progress=False)
    example = found.counterexample
    if example is not None:
        steps = "\n".join(f"  {number} {action}" for number, action in enumerate(example.actions, 1))
        raise NotYet(f"In one schedule this is not true: {example.property}.\nThe run:\n{steps}", _lab_of(example))
    return f"all {found.states:,} states of a job of two rows"


def _lab_of(example: Counterexample) -> Lab | None:
    """Return the lab of a counterexample; None if the part breaks in it."""
    try:
        return example.lab()
    except (LabError, PartError, AssertionError):
        return None


def killed(
    make: Callable[[], StreamEnvironment],
    seeds: Sequence[int],
    *,
    parts: Parts | None = None,
    told: Callable[[Lab], str] | None = None,
) -> list[Lab]:
    """Run the job in another order for each seed, and kill a worker soon after the first checkpoint completes.

    Returns the runs. Raises NotYet unless the rows are those of a run without failures; `told` adds to the message.
    """
    wanted = set(output(walked(Lab(make()))))
    last = {row[0]: row for row in sorted(wanted)}
    runs = []
    for seed in seeds:
        lab = Lab(make(), parts=parts, seed=seed)
        if not reached_in_time(lab, seed, "CheckpointCompleted", later=seed % 7):
            continue
        lab.faults.kill(seed % 2)
        walked(lab)
        try:
            compared(lab, last)
        except NotYet as found:
            if told is None:
                raise
            raise NotYet(f"{found} {told(lab)}", lab) from None
        runs.append(lab)
    return runs


def compared(lab: Lab, last: dict[Any, tuple[Any, ...]]) -> None:
    """Compare each key's rows with exactly once: each once, and the final sum correct. Raises NotYet."""
    found = output(lab)
    for row, times in sorted(found.items()):
        if times > 1:
            raise NotYet(f"A worker was killed, and the row {row} was published {times} times.", lab)
    for key, row in last.items():
        sums = [each for each in found if each[0] == key]
        best = max(sums, default=None)
        if best is None or best[1] != row[1]:
            latest = "nothing" if best is None else best[1]
            wrong = "rows were lost" if best is None or best[1] < row[1] else "rows were counted twice"
            raise NotYet(
                f"A worker was killed and the job went back to its checkpoint. The sum of {key!r} should end at "
                f"{row[1]} and ends at {latest}: {wrong}.",
                lab,
            )
