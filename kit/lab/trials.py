"""One trial of a swarm: a job, an order of things, and what is done to the job on its way; then it is left in peace.

Whatever happens, these hold, or the trial ends in a `Violation` of one of these kinds:

    output       what was put out in the end is what a run without faults puts out
    restorable   whenever a checkpoint has completed, every file that it needs is there
    ids          checkpoint ids grow, from that of the snapshot the job began with, over restarts and drivers
    files        when the job has ended, nothing is left behind that no snapshot refers to, and nothing is under way
    invariant    every machine's own invariants
    ends         once it is left in peace, the job completes a checkpoint and comes to its end
    failed       it fails only where it says which savepoint to go on from

A trial has several *lives*, one `Lab` each: a job that was stopped, cancelled or lost its driver goes on in the next.
A trial is a value, and told twice it is the same: so it can be made smaller (`kit.lab.shrinking`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

import pandas as pd

from kit.api.environment import StreamEnvironment
from kit.graph.job_graph import JobGraph
from kit.job.status import JobStatus
from kit.lab.actions import Action, Fault, LetTimePass, TakeTurn
from kit.lab.faults import (
    DelayMessage,
    DropMessage,
    DuplicateMessage,
    FailCommand,
    FreezeWorker,
    MissHeartbeat,
    ThawWorker,
)
from kit.lab.lab import SAVEPOINTS, Lab
from kit.lab.possible_faults import failing_commands, failing_reads, message_faults, workers
from kit.lab.step import Step
from kit.metadata import read_metadata
from kit.protocol.commands import CompleteRequest
from kit.protocol.properties import RetentionPolicy

MOST_STEPS = 3_000
"""A life that has not ended after so many steps in peace will not."""
GO_ON = re.compile(r"go on from this savepoint, restore_path='([^']+)', and from no older checkpoint")
MOMENTS = ("", "", "CheckpointPending", "TaskAcknowledged", "CheckpointFinalizing", *["CheckpointCompleted"] * 3)
"""The kinds of record that a deed may await: most often, something to go back to."""
MOST_AWAITED = 400
"""So many steps are taken for such a record to come."""
_MASK = (1 << 64) - 1


class TriedJob(Protocol):
    """What a trial asks of its job."""

    @property
    def parallelism(self) -> int:
        """How many subtasks an operator has."""

    def environment(self) -> StreamEnvironment | JobGraph:
        """The job, to be run."""

    def at(self, parallelism: int) -> TriedJob:
        """The same job at another parallelism, if it has others."""

    @property
    def has_last_words(self) -> bool:
        """Whether draining it would bring other rows."""

    def problems(self, output: Callable[[str], pd.DataFrame]) -> Iterator[str]:
        """What is wrong with what was put out, when all input has been."""

    def simpler(self) -> Iterator[TriedJob]:
        """Jobs that are a little simpler, the boldest first."""


class Violation(Exception):
    """Something that should hold does not; `kind` is one of those above."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Deed:
    """After so many steps, `what` (a key of `DEEDS`) is done to the job; `argument` chooses among several of it. With
    `awaits` the steps are counted from the next record of this kind in the trace.
    """

    after: int
    what: str
    argument: int = 0
    awaits: str = ""

    def __str__(self) -> str:
        since = f" after the next {self.awaits}" if self.awaits else ""
        return f"{self.after} steps{since}: {DEEDS[self.what].text.format(self.argument)}"


@dataclass(frozen=True)
class Trial:
    """One trial; `seed` decides the order of things, where steps are not `calm`: there the first of what may happen
    does. `slow` tasks get their turn rarely until the last deed is done.
    """

    job: TriedJob
    seed: int = 0
    deeds: tuple[Deed, ...] = ()
    slow: tuple[str, ...] = ()
    calm: tuple[tuple[int, int], ...] = ()
    """The first and the last step of each stretch that is calm."""

    @classmethod
    def drawn(cls, job: TriedJob, seed: int, chance: Random, kinds: Iterator[str] | tuple[str, ...]) -> Trial:
        """One of all there are. Each kind of deed is left out as a whole half of the time, so that the others get
        room: swarm testing finds more than trials that are all alike.
        """
        some = [kind for kind in kinds if chance.random() < 0.5]
        number = chance.choice([1, 2, 2, 3, 4, 6]) if some else 0
        pace = chance.choice([5, 20, 80])
        weights = [DEEDS[kind].weight for kind in some]
        deeds = tuple(
            Deed(
                int(chance.expovariate(1 / pace)),
                chance.choices(some, weights)[0],
                chance.randrange(36),
                chance.choice(MOMENTS),
            )
            for _ in range(number)
        )
        return cls(job, seed, deeds, (chance.choice(["rows", "map", "tally", "numbered", ""]),))

    def is_calm(self, step: int) -> bool:
        """Whether the first of what may happen does at this step."""
        return any(first <= step <= last for first, last in self.calm)

    def choose(self, step: int, choices: int, again: int = 0) -> int:
        """Which of so many things happens at a step: a number that looks random, the same each time."""
        mixed = (self.seed * 0x9E3779B97F4A7C15 + (step * 4 + again) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % choices

    def run(self) -> Telling:
        """Run it to its end, or to the first violation."""
        telling = Telling(self)
        try:
            telling.tell()
        except Violation as violation:
            telling.violation = violation
        except AssertionError as error:
            telling.violation = Violation("invariant", str(error))
        except Exception as error:
            telling.violation = Violation("error", f"{type(error).__name__}: {error}")
        return telling


class Telling:
    """A trial while it runs; afterwards what came of it: `labs`, one for each life, and the `violation`, if any.
    `happened` counts what did happen.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.job = trial.job
        self.labs: list[Lab] = []
        self.steps = 0
        self.violation: Violation | None = None
        self.happened: Counter[str] = Counter()
        self.stops: list[int] = []
        """The requests to stop that this life's driver was given."""
        self.next_parallelism: int | None = None
        self.in_peace = False
        self._path: str | None = None
        self._latest_id = -1
        self._highest_id = 0

    @property
    def lab(self) -> Lab:
        """The present life."""
        return self.labs[-1]

    def tell(self) -> None:
        """All deeds, then peace; raises Violation, or whatever breaks."""
        self.begin()
        left = list(self.trial.deeds)
        over = False
        while not over:
            if left:
                deed = left.pop(0)
                self._await(deed.awaits)
                self._steps(deed.after)
                if not self.lab.finished:
                    self.thaw()
                    DEEDS[deed.what].do(self, deed.argument)
                    self._look()
            else:
                self.in_peace = True
                self.thaw()
                self._steps_in_peace()
            if self.lab.finished:
                over = self._end_of_life()
        for problem in self.job.problems(self.lab.output):
            raise Violation("output", problem)

    # --- a life ---------------------------------------------------------------------------------------------------

    def begin(self, *, recover: bool = False) -> None:
        """Start a job. One whose end could not be noted in the store is gone on with, as the refusal says."""
        self._start(recover=recover)
        while self.lab.status == "CREATED" and self._is_durable:
            self._step()
        if "start with recover=True to go on with it" in self.lab.error:
            self._start(recover=True)

    def _start(self, *, recover: bool) -> None:
        self.stops = []
        before = self.labs[-1] if self.labs else None
        lab = Lab(self.job.environment(), restore_path=self._path, after=before, recover=recover)
        self.labs.append(lab)
        self._latest_id = -1
        if not recover:
            self._highest_id = 0 if self._path is None else _snapshot_id(lab, self._path)

    @property
    def _is_durable(self) -> bool:
        return self.lab.job.settings.checkpoint.is_durable

    def driver_dies(self) -> None:
        """Another driver takes over, if the job's store outlives this one."""
        if self._is_durable:
            self.happened["driver dies"] += 1
            self.begin(recover=True)

    def _end_of_life(self) -> bool:
        """The job has ended: whether that was the last of it, or it goes on from a snapshot."""
        lab = self.lab
        while lab._world.agenda:
            self._step()
        lab.validate()
        self._check_ids()
        self.happened["restored"] += sum(record.kind == "CheckpointRestored" for record in lab.trace)
        self._check_nothing_left()
        goes_on = self._goes_on_from()
        if goes_on is None:
            if lab.status != "FINISHED":
                raise Violation("failed", f"the job ended {lab.status}: {lab.error or 'it was cancelled'}")
            return True
        self._path = goes_on
        self.job = self.job.at(self.next_parallelism or self.job.parallelism)
        self.happened["goes on from a snapshot"] += 1
        self.begin()
        return False

    def _goes_on_from(self) -> str | None:
        """The snapshot that the next life begins with."""
        lab = self.lab
        answers = [answer for request in self.stops if (answer := self._answer(request)) is not None]
        if lab.status == "FAILED":
            found = GO_ON.search(lab.error)
            return found[1] if found else None
        stopped = [str(answer.path) for answer in answers if not answer.error]
        if stopped:
            return stopped[0]
        stood = [found[1] for answer in answers if (found := GO_ON.search(answer.error))]
        if stood:
            return stood[0]
        return newest_snapshot(lab) if lab.status == "CANCELED" else None

    def _answer(self, request: int) -> CompleteRequest | None:
        return self.lab._world.answers.get(request)

    # --- faults ---------------------------------------------------------------------------------------------------

    def inflict(self, faults: Sequence[Fault], argument: int) -> bool:
        """Let one of these faults happen, if any may."""
        possible = [fault for fault in faults if self.lab.refusal(fault) is None]
        if not possible:
            return False
        fault = possible[argument % len(possible)]
        self.lab.step(fault)
        if isinstance(fault, FailCommand):
            self.happened[f"{fault.command} fails ({fault.failure})"] += 1
        else:
            self.happened[type(fault).__name__] += 1
        return True

    def thaw(self) -> bool:
        """Whoever stands still goes on, or is taken for dead; whether there was anybody."""
        ends = MissHeartbeat if self.trial.choose(self.steps, 2) else ThawWorker
        ended = [self.inflict([ends(worker)], 0) for worker in workers(self.lab._world)]
        return any(ended)

    # --- steps ----------------------------------------------------------------------------------------------------

    def _steps(self, number: int) -> None:
        for _ in range(number):
            if self.lab.finished:
                return
            self._step()

    def _await(self, kind: str) -> None:
        for _ in range(MOST_AWAITED if kind else 0):
            if self.lab.finished or any(record.kind == kind for record in self._step().records):
                return

    def _steps_in_peace(self) -> None:
        """To the end of this life, in which a checkpoint must complete."""
        most = self._most_steps
        end = self.steps + most
        while not self.lab.finished:
            if self.steps > end:
                raise Violation("ends", f"left in peace for {most} steps, the job has not ended: {self.lab!r}")
            self._step()
        if self.lab.master.status is JobStatus.FINISHED and not self._completed:
            raise Violation("ends", "left in peace, the job has ended without a checkpoint")

    @property
    def _most_steps(self) -> int:
        """More than a job may take: while something lost is waited for, its timers go on."""
        checkpoint = self.lab.job.settings.coordinator
        return MOST_STEPS + 4 * (checkpoint.timeout_ms // max(1, checkpoint.interval_ms))

    @property
    def _completed(self) -> int:
        return sum(record.kind == "CheckpointCompleted" for record in self.lab.trace)

    def _step(self) -> Step:
        lab, agenda = self.lab, self.lab._world.agenda
        self.steps += 1
        if agenda:
            step = lab._do(self._chosen(agenda))
        elif agenda.wait is not None:
            step = lab._do(agenda.wait)
        elif self.thaw():
            return self._step()
        else:
            raise Violation("ends", f"nothing can happen any more, and the job has not ended: {lab!r}")
        self._look()
        return step

    def _chosen(self, agenda: Any) -> Action:
        trial, step = self.trial, self.steps
        if trial.is_calm(step):
            return agenda[0]
        action = agenda[trial.choose(step, len(agenda))]
        for again in (1, 2, 3):
            if self.in_peace or not (isinstance(action, TakeTurn) and action.task.startswith(trial.slow)):
                break
            action = agenda[trial.choose(step, len(agenda), again)]
        return action

    # --- what must hold -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """After each step: a checkpoint that has completed meanwhile can be restored."""
        store = self.lab.master.checkpoints.store
        if store.latest is None or store.latest_id == self._latest_id:
            return
        self._latest_id = store.latest_id
        contents = self.lab.files.contents
        for state in store.latest.operator_states.values():
            for file in state.files():
                if file not in contents:
                    raise Violation("restorable", f"checkpoint {self._latest_id} is complete without {file}")
        if store.latest.path not in contents:
            raise Violation("restorable", f"checkpoint {self._latest_id} is complete without its _metadata")

    def _check_ids(self) -> None:
        for record in self.lab.trace:
            if record.kind == "CheckpointPending" and record.checkpoint_id is not None:
                if record.checkpoint_id <= self._highest_id:
                    raise Violation("ids", f"checkpoint {record.checkpoint_id} begins after {self._highest_id}")
                self._highest_id = record.checkpoint_id

    def _check_nothing_left(self) -> None:
        world = self.lab._world
        if world.tasks:
            raise Violation("files", f"the job has ended, but {sorted(world.tasks)} are still there")
        if world.agenda.pending_io:
            raise Violation("files", f"the job has ended, but there is still to be done: {world.agenda.pending_io}")
        if self.happened["driver dies"] or any("PossibleInconsistentState" in what for what in self.happened):
            return  # what a driver's last moment left goes at the next start; what may be in the store has to stay
        left = sorted(_state_files(self.lab) - _referenced_files(self.lab))
        if left:
            raise Violation("files", f"nothing refers to {left}")


# --- what may be done to a job --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeedKind:
    """One thing that may be done to a job: how, a sentence, and how often it is drawn beside the others."""

    do: Callable[[Telling, int], None]
    text: str
    weight: int = 1


def _trigger(telling: Telling, argument: int) -> None:
    telling.lab.trigger_checkpoint(full=argument == 0)
    telling.happened["checkpoint"] += 1


def _savepoint(telling: Telling, argument: int) -> None:
    telling.lab.savepoint()
    telling.happened["savepoint"] += 1


def _kill(telling: Telling, argument: int) -> None:
    workers = sorted({task.subtask for task in telling.lab._world.tasks.values()})
    if workers:
        telling.lab.kill(workers[argument % len(workers)])
        telling.happened["kill"] += 1


def _let_time_pass(telling: Telling, argument: int) -> None:
    """Timers are due before anything else happens: checkpoints expire, or alignments take too long."""
    for _ in range(1 + argument % 3):
        wait: LetTimePass | None = telling.lab._world.agenda.wait
        if wait is not None:
            telling.lab.wait_until(wait.until_ms)
            telling.happened["time"] += 1


def _stop(telling: Telling, argument: int) -> None:
    drain = argument % 2 == 1 and not telling.job.has_last_words
    telling.next_parallelism = 1 + argument // 2 % 3
    telling.stops.append(telling.lab.stop(drain=drain))
    telling.happened["stop"] += 1


def _cancel(telling: Telling, argument: int) -> None:
    master = telling.lab.master
    keeps = master.job.settings.checkpoint.retention is RetentionPolicy.RETAIN_ON_CANCELLATION
    if keeps and master.checkpoints.store.latest is not None:
        telling.next_parallelism = 1 + argument % 3
        telling.lab.cancel()
        telling.happened["cancel"] += 1


FAILING = (
    "AllocateCheckpointId",
    "InitializeLocation",
    "ScheduleCoordinatorCheckpoint",
    "WriteSnapshot",
    "WriteChannelStateFile",
    "WriteMetadata",
    "StoreCheckpoint",
    "CommitEffects",
    "ReadState",
    "ReadSplit",
)
"""The commands that may fail without failing the job for good. A deletion that fails leaves something behind."""
LOST = ("TriggerTaskCheckpoint", "AcknowledgeCheckpoint", "DeclineCheckpoint")
"""The messages that may be lost: what waits for them expires."""


def _fail(telling: Telling, argument: int) -> None:
    """The next command of one of these kinds fails, in one of its ways."""
    kind = FAILING[argument % len(FAILING)]
    for _ in range(MOST_AWAITED):
        world = telling.lab._world
        reads = (fault for fault in failing_reads(world) if kind == "ReadSplit" and fault.failure == "io")
        found = [*(fault for fault in failing_commands(world) if fault.command == kind), *reads]
        begins = telling.lab.status == "CREATED"
        if telling.lab.finished or (not begins and telling.inflict(found, argument // len(FAILING))):
            return
        telling._step()


def _lose(telling: Telling, argument: int) -> None:
    found = [fault for fault in message_faults(telling.lab._world, DropMessage) if fault.message in LOST]
    telling.inflict(found, argument)


def _duplicate(telling: Telling, argument: int) -> None:
    telling.inflict([*message_faults(telling.lab._world, DuplicateMessage)], argument)


def _delay(telling: Telling, argument: int) -> None:
    until_ms = telling.lab.at_ms + 10 * (1 + argument % 7)
    found = message_faults(telling.lab._world, DelayMessage)
    held = [replace(fault, until_ms=until_ms) for fault in found if isinstance(fault, DelayMessage)]
    telling.inflict(held, argument)


def _freeze(telling: Telling, argument: int) -> None:
    telling.inflict([FreezeWorker(worker) for worker in workers(telling.lab._world)], argument)


DEEDS: dict[str, DeedKind] = {
    "checkpoint": DeedKind(_trigger, "a checkpoint is asked for"),
    "savepoint": DeedKind(_savepoint, "a savepoint is asked for"),
    "kill": DeedKind(_kill, "a worker is killed ({})", 3),
    "time": DeedKind(_let_time_pass, "time passes before anything else happens ({})"),
    "stop": DeedKind(_stop, "the job is stopped with a savepoint, to go on from there ({})", 2),
    "cancel": DeedKind(_cancel, "the job is cancelled, to go on from its newest snapshot ({})", 2),
    "driver": DeedKind(lambda telling, _: telling.driver_dies(), "the driver dies, and another one takes over", 2),
    "fail": DeedKind(_fail, "the next command of a kind fails ({})", 6),
    "lose": DeedKind(_lose, "a message is lost ({})", 2),
    "duplicate": DeedKind(_duplicate, "a message comes twice ({})"),
    "delay": DeedKind(_delay, "a message is held back ({})"),
    "freeze": DeedKind(_freeze, "a worker stands still until the next deed ({})"),
}
"""What may be done to a job, by the name of its kind."""


# --- the disk -------------------------------------------------------------------------------------------------------


def newest_snapshot(lab: Lab) -> str | None:
    """Where the newest snapshot is that lies on the lab's disk, None when there is none."""
    found = {
        read_metadata(data, "")[0].checkpoint_id: path.removesuffix("/_metadata")
        for path, data in lab.files.contents.items()
        if path.endswith("/_metadata")
    }
    return found[max(found)] if found else None


def _snapshot_id(lab: Lab, location: str) -> int:
    return int(read_metadata(lab.files.contents[f"{location}/_metadata"], location)[0].checkpoint_id)


def _state_files(lab: Lab) -> set[str]:
    """The files in checkpoints and savepoints, except for `_metadata`, and for what a durable store notes there."""
    config = lab.job.settings.checkpoint
    below = {config.directory or "/", config.savepoint_directory or SAVEPOINTS}
    found = {path for each in below for path in lab.files.paths(each)}
    return {path for path in found if not path.endswith("/_metadata") and "/store/" not in path}


def _referenced_files(lab: Lab) -> set[str]:
    """The files that the `_metadata` on the disk refer to."""
    found: set[str] = set()
    for path, data in lab.files.contents.items():
        if path.endswith("/_metadata"):
            metadata, _ = read_metadata(data, path.rpartition("/")[0])
            for state in metadata.operator_states:
                found |= set(state.files())
    return found
