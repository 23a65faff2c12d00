"""A record much longer than a buffer does not delay a barrier that may overtake it, and is processed exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.metadata import read_metadata
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.actions import Action, LetTimePass, TakeTurn
from kit.machines.job.status import JobStatus
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay
from tests.properties import examples

BUFFER_BYTES = 64
FRAGMENTS = 100
WAYS = ("rebalance", "keyed")


@dataclass(frozen=True)
class Job:
    """`rows` -way-> `same` -> `out`: `lengths` are those of the records' texts, record n begins with its number."""

    way: str
    lengths: tuple[int, ...]
    parallelism: int = 2
    buffer_bytes: int = BUFFER_BYTES
    credits: int = 2
    batch_rows: int = 1
    unaligned: bool = True
    aligned_timeout_ms: int = 0
    interval_ms: int | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [{"n": n, "text": f"{n} ".ljust(length, "x")} for n, length in enumerate(self.lengths)]

    def environment(self, parallelism: int | None = None) -> StreamEnvironment:
        """The job, perhaps at another parallelism."""
        env = StreamEnvironment(
            "long-records",
            parallelism=parallelism or self.parallelism,
            max_parallelism=16,
            checkpoint=CheckpointConfig(
                interval_ms=self.interval_ms,
                unaligned=self.unaligned,
                aligned_timeout_ms=self.aligned_timeout_ms,
                memory_threshold_bytes=0,
                retention=RetentionPolicy.RETAIN_ON_CANCELLATION,
                tolerable_failures=1_000,
            ),
            restart=FixedDelay(10, 5),
            buffer_bytes=self.buffer_bytes,
            channel_credits=self.credits,
        )
        schema = CollectionSource([{"n": 0, "text": ""}]).schema
        source = CollectionSource(self.rows, schema, splits=2, batch_rows=self.batch_rows)
        rows = env.from_source(source, uid="rows")
        partitioned = rows.key_by("n") if self.way == "keyed" else rows.rebalance()
        partitioned.map(dict).uid("same").sink_to(CollectSink("out"), uid="out")
        return env


class Run:
    """A lab in which tasks can be `held`: they get no turn, unless for a barrier that overtakes."""

    def __init__(self, job: Job, lab: Lab) -> None:
        self.job = job
        self.lab = lab
        self.held: Callable[[str], bool] = lambda task: False

    def go_on(self, until: Callable[[], bool]) -> None:
        """Act until the condition holds; raises AssertionError if no action is left before that."""
        while not until():
            assert self.turn(), f"the job came to rest: {self.lab!r} {self.lab.look.master.error}"

    def rest(self) -> None:
        """Act until only time can pass."""
        while any(not isinstance(action, LetTimePass) for action in self.enabled()):
            self.turn()

    def turn(self) -> bool:
        """Take one of the possible actions; time passes only if nothing else is possible."""
        enabled = self.enabled()
        now = [action for action in enabled if not isinstance(action, LetTimePass)]
        if enabled:
            self.lab.step(Random((self.lab.past.seed << 32) + self.lab.position).choice(now) if now else enabled[-1])
        return bool(enabled)

    def enabled(self) -> list[Action]:
        """Return the possible actions, without turns of held tasks."""
        return [each for each in self.lab.enabled() if not isinstance(each, TakeTurn) or not self._waits(each.subject)]

    def _waits(self, task: str) -> bool:
        return self.held(task) and not any(channel.has_priority for channel in self.lab._world.tasks[task].inputs)

    def unfinished(self) -> list[int]:
        """Return the number of fragments taken from each input channel that is in the middle of a record."""
        tasks = self.lab._world.tasks.values()
        counts = [len(channel.assembler.fragments) for task in tasks for channel in task.inputs]
        return [count for count in counts if count]

    @property
    def is_running(self) -> bool:
        """True if all tasks run."""
        return self.lab.look.master.status is JobStatus.RUNNING and self.lab.look.master.tasks.all_running

    def newest(self) -> str | None:
        """Return the path of the newest checkpoint."""
        paths = self.lab.look.files.contents
        found = [path.removesuffix("/_metadata") for path in paths if path.endswith("/_metadata")]
        return max(found, key=lambda path: int(path.rpartition("-")[2]), default=None)

    def path(self, request: int) -> str | None:
        """Return the path of the checkpoint that was requested, once it is complete."""
        return self.lab.look.answer(request)

    def finish(self) -> None:
        """Run to the end: every record must have been committed once, unchanged."""
        self.held = lambda task: False
        self.go_on(lambda: self.lab.ended)
        self.rest()
        assert self.lab.look.master.status is JobStatus.FINISHED, self.lab.look.master.error
        output = self.lab.output("out")
        assert Counter(zip(output["n"], output["text"])) == Counter(map(tuple, map(dict.values, self.job.rows)))
        self.lab.look.validate()


def channel_state(run: Run, path: str) -> tuple[int, int]:
    """Return the numbers of input channels and of outputs for which a checkpoint has in-flight data."""
    metadata, _ = read_metadata(run.lab.look.files.contents[f"{path}/_metadata"], path)
    states = [state for operator in metadata.operator_states for state in operator.subtask_states.values()]
    return (
        sum(len(state.input_channel_state) for state in states),
        sum(len(state.result_subpartition_state) for state in states),
    )


def in_the_middle(job: Job, seed: int = 0) -> Run:
    """Return a run in which receivers stop in the middle of a record, after a third of its fragments."""
    run = Run(job, Lab(job.environment(), seed=seed))
    run.go_on(lambda: run.is_running)
    run.go_on(lambda: any(count > FRAGMENTS // 3 for count in run.unfinished()))
    run.held = lambda task: task.startswith("same")
    run.rest()
    return run


LONG = (BUFFER_BYTES * FRAGMENTS,)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("then", ["killed", 1, 2, 3, 5])
def test_a_barrier_overtakes_the_rest_of_a_record_which_is_there_once_after_a_restore(
    way: str, then: int | str
) -> None:
    job = Job(way, (*LONG, 3, *LONG, 5))
    run = in_the_middle(job)
    before = run.unfinished()
    request = run.lab.trigger_checkpoint()
    run.go_on(lambda: run.path(request) is not None)
    path = run.path(request)
    assert path is not None
    assert run.unfinished() == before, "the checkpoint waited for the record"
    inputs, outputs = channel_state(run, path)
    assert inputs >= len(before)
    assert outputs >= len(before)
    if then == "killed":
        run.lab.faults.kill(0)
    else:
        run.lab.cancel()
        run.rest()
        run = Run(job, Lab(job.environment(int(then)), restore_path=path, after=run.lab))
    run.finish()


def test_a_barrier_that_aligns_waits_for_the_record() -> None:
    run = in_the_middle(Job("rebalance", LONG, unaligned=False))
    before = run.unfinished()
    request = run.lab.trigger_checkpoint()
    run.rest()
    assert run.path(request) is None
    assert run.unfinished() == before
    run.held = lambda task: False
    run.go_on(lambda: run.path(request) is not None)
    assert run.unfinished() == []
    path = run.path(request)
    assert path is not None
    assert channel_state(run, path) == (0, 0)
    run.finish()


def test_a_checkpoint_can_begin_in_the_middle_of_a_recovered_record() -> None:
    """Its fragments are then in two checkpoints, and the record is still processed once."""
    run = in_the_middle(Job("keyed", LONG, parallelism=1))
    for _ in range(3):
        request = run.lab.trigger_checkpoint()
        run.go_on(lambda request=request: run.path(request) is not None)
        run.lab.faults.kill(0)
        run.held = lambda task: False
        run.go_on(lambda: run.is_running)
        taken = max(run.unfinished())
        run.go_on(lambda taken=taken: max(run.unfinished()) >= taken + 5)
        run.held = lambda task: task.startswith("same")
        run.rest()
    run.finish()


# --- any job, any order -----------------------------------------------------------------------------------------------

JOBS = st.builds(
    Job,
    way=st.sampled_from(WAYS),
    lengths=st.lists(st.integers(3, 900), min_size=1, max_size=10).map(tuple),
    parallelism=st.integers(1, 3),
    buffer_bytes=st.integers(30, 400),
    credits=st.integers(1, 3),
    batch_rows=st.integers(1, 4),
    unaligned=st.sampled_from([True, True, False]),
    aligned_timeout_ms=st.sampled_from([0, 0, 15]),
    interval_ms=st.sampled_from([None, 30, 100]),
)
DEEDS = st.lists(st.tuples(st.integers(0, 120), st.sampled_from(["checkpoint", "kill", 1, 2, 3])), max_size=6)


def play(job: Job, deeds: list[tuple[int, str | int]], seed: int) -> None:
    """Let this many turns pass before each deed; a number: go on from the newest checkpoint at this parallelism."""
    run = Run(job, Lab(job.environment(), seed=seed))
    for wait, deed in deeds:
        for _ in range(wait):
            run.turn()
        if run.lab.ended:
            break
        if deed == "checkpoint":
            run.lab.trigger_checkpoint()
        elif deed == "kill":
            workers = {task.subtask for task in run.lab._world.tasks.values()}
            for worker in sorted(workers)[-1:]:
                run.lab.faults.kill(worker)
        elif run.newest() is not None:
            run.lab.cancel()
            run.rest()
            if run.lab.look.master.status is JobStatus.FINISHED:
                break  # the end was quicker, and it keeps no checkpoint
            run = Run(job, Lab(job.environment(int(deed)), seed=seed, restore_path=run.newest(), after=run.lab))
    run.finish()


@given(JOBS, DEEDS, st.integers(0, 2**32 - 1))
@settings(max_examples=examples(50))
def test_every_record_is_there_once_whatever_is_cut_and_whatever_happens(
    job: Job, deeds: list[tuple[int, str | int]], seed: int
) -> None:
    play(job, deeds, seed)


@pytest.mark.soak
@given(JOBS, DEEDS, st.integers(0, 2**32 - 1))
def test_for_long(job: Job, deeds: list[tuple[int, str | int]], seed: int) -> None:
    play(job, deeds, seed)
