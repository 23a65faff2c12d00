"""The lab: run a job one step at a time, look, go back, try another path.

    lab = Lab(env)
    lab.run_until(checkpoint=1)      # until checkpoint 1 is complete
    lab.back(5)                      # five steps back
    lab.enabled()                    # what may happen next
    lab.step(3)                      # do the fourth of these
    other = lab.fork()               # a second lab with the same past

The same job, input, seed and choices give the same run. The lab keeps the list of what was done and, every so often,
a copy of its world; going to a step means taking the last copy before it and doing the rest again. After `back` the
undone steps are kept until another one is taken, so `goto` leads forward again as well.

A step is taken as a whole or not at all. An interrupt waits until the current step is complete
(`kit.hosts.lab.interrupts`). If an exception breaks a step off all the same, the lab makes its world again: it takes
the last copy, and repeats the steps up to the one that was broken off.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from kit.core.protocol.events import (
    RequestCancel,
    RequestCheckpoint,
    RequestRescale,
    RequestSavepoint,
    RequestStop,
    StartJob,
)
from kit.core.protocol.properties import LaterOutput, RecoveryClaimMode
from kit.core.protocol.signposts import LAB, RESTORE_PATH, no_attribute, takes
from kit.core.protocol.trace import Trace
from kit.core.protocol.words import Word
from kit.files.given import directory_given
from kit.files.output import output_at_risk
from kit.hosts.lab.by_words import chosen
from kit.hosts.lab.choices import Choices
from kit.hosts.lab.conditions import Condition, condition_of
from kit.hosts.lab.errors import LabError, LabJobEndedError, LabWarning, enumerated, said, whole_number
from kit.hosts.lab.failures import for_the_lab, job_failed, why_not_restarted
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.fault_verbs import Faults
from kit.hosts.lab.interrupts import interrupts_deferred
from kit.hosts.lab.look import Look
from kit.hosts.lab.opening import checked_seed, claim_mode_of, job_graph, later_output_of, open_edge
from kit.hosts.lab.past import Past
from kit.hosts.lab.progress import Progress
from kit.hosts.lab.recordings.following import LEAVE, Follow, LeaveRecording, follow, world_of_recording
from kit.hosts.lab.refusals import DRIVER_IS_DEAD, stands_still
from kit.hosts.lab.step import Step
from kit.hosts.lab.summary import LARGE, summary_html
from kit.hosts.lab.world.actions import Action, LetTimePass
from kit.hosts.lab.world.edge import LabEdge
from kit.hosts.lab.world.garbage import garbage_among_new_objects_only
from kit.hosts.lab.world.keyframes import Keyframes
from kit.hosts.lab.world.schedulers import Enabled, Random, Scheduler, checked_scheduler
from kit.hosts.lab.world.world import World
from kit.machines.coordinator.master_hooks import MasterHook
from kit.run.latest import Latest
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.parallelism import parallelism_of
from kit.stream.operators.spec import shorten
from kit.stream.operators.windows.late_rows import late_rows_counted, late_rows_said
from kit.stream.settings.parts import Parts
from kit.why.asking import Asking, Named, named_by

if TYPE_CHECKING:
    import pandas as pd

    from kit.why.answer import Why

MOST_STEPS = 1_000_000
CHECK_EVERY = 16
"""A machine's invariants are checked after every so many of its events, at the end of a task and of a run, and when the
world is copied. When one is broken the lab goes back to the last copy, does the rest again with a check after each
event, and stands where it broke.
"""
SAVEPOINTS = "/savepoints"
"""The directory of savepoints that are given none, in a job without any directory."""
_GROUPED = {
    name: f"it is lab.{group}.{name}"
    for group, kind in (("faults", Faults), ("look", Look), ("past", Past))
    for name in dir(kind)
    if not name.startswith("_")
}
"""Where to find the names that a lab has in a group."""
Target = str | os.PathLike[str] | None
"""A directory for a savepoint, None for the configured one."""


class InALab(Named, total=False):
    """The names by which a lab is asked; they include those of a value in state."""

    key: Any
    state: str | None


class Lab(Asking):
    """A job in one process. `job` is a StreamEnvironment or a JobGraph; `seed` decides between equals.

    `restore_path` begins from a savepoint or retained checkpoint. Files that the job reads are real ones; what it
    writes stays in the lab's memory, so that a run leaves nothing behind and can be rewound. `after` is a lab that
    ran before this one: what it wrote (savepoints, output) is there at the start; FileExistsError when the job begins
    anew and would mix its rows with those (see `ParquetSink(mode=...)`). With `recover` this lab is the driver
    that comes after that one's, which died where it stands now; the job must have a durable store
    (`CheckpointConfig(store="filesystem", directory=...)`). `claim_mode` says whose the snapshot at `restore_path` is
    from now on: NO_CLAIM (the user's; the first checkpoint is a full one), CLAIM (the job's) or LEGACY. `later_output`
    says what becomes of output that was published after the snapshot, whose rows come again: "error" rejects the
    restore, "discard" deletes that output, "keep" has those rows twice.

    `hooks` are master hooks. `scheduler` chooses what happens next when `step` is not told: by default `Random()`,
    by the seed; see `kit.hosts.lab.world.schedulers`. `parts` are parts of the protocol of your own; a PartError names
    one that breaks its contract.

    A job whose environment was given no `restart` is restarted ten times at most, a second after each failure, if it
    takes periodic checkpoints, and not at all otherwise; Flink goes on forever. A failure that comes three times in the
    same way, with no checkpoint completed in between, ends a job whose restarts nobody counts
    (`kit.machines.job.failures`).

    Raises LabError for what cannot be run, a `restore_path` that leads nowhere among it.
    """

    @takes(**dict.fromkeys(("path", "savepoint", "checkpoint"), RESTORE_PATH))
    def __init__(
        self,
        job: StreamEnvironment | JobGraph,
        *,
        seed: int = 0,
        restore_path: str | os.PathLike[str] | None = None,
        allow_non_restored_state: bool = False,
        claim_mode: RecoveryClaimMode | str = RecoveryClaimMode.NO_CLAIM,
        later_output: LaterOutput | str = LaterOutput.ERROR,
        after: Lab | None = None,
        recover: bool = False,
        hooks: Sequence[MasterHook] = (),
        scheduler: Scheduler | None = None,
        parts: Parts | None = None,
    ) -> None:
        start = StartJob(
            restore_path=directory_given("restore_path", restore_path),
            allow_non_restored_state=allow_non_restored_state,
            claim_mode=claim_mode_of(claim_mode),
            later_output=later_output_of(later_output),
            recover=recover,
        )
        graph = for_the_lab(job_graph(job, parts))
        if risk := output_at_risk(graph):
            warnings.warn(LabWarning(risk), stacklevel=3)  # `takes` is between this and the caller
        self._open(World(graph, open_edge(graph, start, hooks, _edge_of(after))), seed, scheduler)
        self._do(start)

    def _open(self, world: World, seed: int, scheduler: Scheduler | None) -> None:
        self.job = world.job
        self._seed = checked_seed(seed)
        self.scheduler = checked_scheduler(scheduler)
        world.check_every = CHECK_EVERY
        self._world = world
        self._done: list[Action | Word] = []
        self._undone: list[Action | Word] = []
        self._keyframes = Keyframes()
        self._latest = Latest()

    @classmethod
    def follow(
        cls,
        job: StreamEnvironment | JobGraph,
        recording: Trace | str | os.PathLike[str],
        *,
        after: Lab | None = None,
        hooks: Sequence[MasterHook] = (),
    ) -> Lab:
        """Return a lab that has repeated a recorded run of a lab or of Spark.

        `recording` is the run's trace, or the path to which `Trace.save_recording` wrote it, or the result of
        `kit.hosts.spark.recorded` for a driver that died. `job` must read the same input. A run that resumed from a
        snapshot needs this snapshot on the disk, or `after`, the lab whose run left it.

        The lab stands at the end. `back` and `goto` lead to any moment of the run, which then has all that happened to
        single buffers too; whatever is done there is done otherwise than recorded, and the run goes on from it.

        Raises LabError at the first record that differs, or when what was recorded cannot happen; ValueError for a
        trace that is no recording.
        """
        trace = recording if isinstance(recording, Trace) else Trace.load(recording)
        world = world_of_recording(job_graph(job), trace, hooks, _edge_of(after))
        lab = cls.__new__(cls)
        lab._open(world, 0, None)
        try:
            for event in follow(world):
                lab._do(event)
        except AssertionError as error:
            raise LabError(f"the lab cannot do what was recorded, {lab._done[-1]}: {error}") from error
        return lab

    @cached_property
    def _world(self) -> World:
        """The world after the last complete step. This makes it again when a step was broken off."""
        at, world = self._keyframes.last_before(self.position)
        with interrupts_deferred() as interrupts, garbage_among_new_objects_only():
            for position, action in enumerate(self._done[at:], at + 1):
                interrupts.deliver()
                _perform(world, action)
                self._keyframes.take(position, world)
        return world

    # --- looking --------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # mypy would take every attribute for one that exists

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, LAB, _GROUPED)

    @property
    def trace(self) -> Trace:
        """Everything that has happened so far."""
        return self._world.trace

    @property
    def position(self) -> int:
        """The number of steps taken so far."""
        return len(self._done)

    @property
    def status(self) -> str:
        """CREATED, RUNNING, RESTARTING, ... (see `kit.machines.job.status`)."""
        return self._world.master.status.name

    @property
    def ended(self) -> bool:
        """True once the job has ended."""
        return self._world.master.status.is_terminal

    @property
    def error(self) -> str:
        """Why the job has failed, or is being restarted; "" while all is well."""
        return self._world.master.error

    @property
    def look(self) -> Look:
        """All else that a lab holds now: `lab.look.state()`, `.queue(0)`, `.statistics`, `.svg()`, `.tasks`, ..."""
        return Look(self)

    @property
    def past(self) -> Past:
        """The steps so far: `lab.past.actions`, which another lab does again by `replay`."""
        return Past(self)

    @property
    def faults(self) -> Faults:
        """The faults: `lab.faults.kill(0)` injects one, `lab.faults.possible()` lists what may fail now."""
        return Faults(self)

    def enabled(self) -> Choices:
        """What may happen next, by group. Empty when the job has ended and nothing is under way."""
        return Choices(self._world.enabled(), what="things may happen next")

    def output(self, sink: str = "") -> pd.DataFrame:
        """All rows committed so far by a sink: its path, the end of it, or its uid (of the only one nothing is needed).

        When the job has failed these are the rows committed before that: a LabWarning says so, and why. Raises LabError
        when there is no such sink, or more than one.
        """
        path = self._world.edge.sink_path(sink)
        if self._world.master.status.is_failure:
            warnings.warn(LabWarning(str(job_failed(self._world, self.position))), stacklevel=2)
        return self._world.edge.output.read(path)

    def checkpoints(self) -> pd.DataFrame:
        """One row per checkpoint: id, kind, status, trigger time, duration, size, acknowledgements."""
        return self._world.master.checkpoints.statistics.to_pandas()

    @named_by(InALab)
    def why(self, about: object = None, **named: Unpack[InALab]) -> Why:
        """Return why something is as it is: the chain of causes, as `kit.why.why` has it.

        With `key` it is a value in keyed state: that of this key in the state named `state`, of the task or operator
        `about`; either may be left out where only one state holds the key. The steps that changed it are found by
        taking the steps of this epoch again.

        An action is asked about as `lab.look.why_not` does. Raises WhyError for what the run does not have.
        """
        if isinstance(about, Action):
            return self.look.why_not(about)
        if "key" in named:
            from kit.hosts.lab.recordings.state_history import why_value

            of = named.get("task") if about is None else str(about)
            return why_value(self, self._known(), named["key"], named.get("state"), of)
        asked: Any = {name: value for name, value in named.items() if name != "state"}
        return super().why(about, **asked)

    # --- stepping -------------------------------------------------------------------------------------------------

    def step(self, action: Action | int | str | None = None) -> Step:
        """Do one thing: the given action (itself, its place in `enabled()`, its key, or a few words such as
        "turn sums/0"), or whichever the lab chooses.

        Raises LabError when that cannot happen now, or when nothing can.
        """
        if isinstance(action, Fault):
            return self.faults.inflict(action)
        return self._do(self._choose() if action is None else chosen(action, self._world.enabled()))

    def run_until(
        self,
        until: Callable[[Lab], bool] | None = None,
        *,
        checkpoint: int | None = None,
        record: str | None = None,
        at_ms: int | None = None,
        ended: bool = False,
    ) -> Step:
        """Step until something is so; returns the last step.

        `checkpoint`: that checkpoint is complete; `record`: a record of this kind was added to the trace; `at_ms`:
        this time has come; `ended`: the job has ended; `until`: any condition on the lab.

        Raises LabError when the job comes to rest before, with the reason if it has failed; with `ended` also when
        it has failed.
        """
        step = self._step_until(condition_of(self, until, checkpoint, record, at_ms, ended=ended))
        if step is None:
            raise self._came_to_rest(checkpoint, record)
        if ended and self._world.master.status.is_failure:
            raise job_failed(self._world, self.position)
        return step

    def run(self) -> Step:
        """Step until the job has ended and nothing is left to be done. Raises LabError when it fails, and says why."""
        step = self._step_until(lambda before: self._world.is_at_rest)
        if self._world.master.status.is_failure:
            raise job_failed(self._world, self.position)
        if not self.ended:
            raise self._came_to_rest()
        for operator, rows in self.look.late_rows_dropped.items():
            warnings.warn(LabWarning(late_rows_said(operator, rows)), stacklevel=2)
        return step or Step(self.position, self._done[-1], self.trace, 0, 0)

    def _step_until(self, condition: Condition) -> Step | None:
        """Step until it is so; None when nothing can happen any more before."""
        with (
            interrupts_deferred() as interrupts,
            Progress(self._world, self.position) as progress,
            garbage_among_new_objects_only(),
        ):
            for _ in range(MOST_STEPS):
                if interrupts.pending:
                    self._interrupted(interrupts)
                if self._world.is_at_rest:
                    self._validate()
                    return None
                action = self._choose()
                before = self._take(action)
                if condition(before):
                    self._validate()
                    return Step(self.position, action, self.trace, before, len(self.trace))
                progress.step(self.position)
        raise LabError(f"not reached within {MOST_STEPS} steps")

    def _came_to_rest(self, checkpoint: int | None = None, record: str | None = None) -> LabError:
        """What was waited for will not come any more."""
        if self._world.master.status.is_failure:
            return job_failed(self._world, self.position)
        completed = [str(each) for each in sorted(self.checkpoints().query("status == 'COMPLETED'")["id"])]
        return LabError(
            said(
                f"the job came to rest in {self.status} at step {self.position}: nothing can happen",
                ""
                if checkpoint is None
                else f"checkpoint {checkpoint} is not there: {enumerated(completed)} completed",
                "" if record is None else f"no further record {record!r} came",
                *stands_still(self._world),
                "lab.back(n) goes back, lab.goto(n) to step n",
            )
        )

    def _choose(self) -> Action:
        """Whichever the scheduler says; time is among the rest only when nothing else can happen."""
        if self._world.follows:
            return LEAVE
        agenda = self._world.agenda
        if type(self.scheduler) is Random and agenda:
            return agenda[self.scheduler(agenda, self)]  # only how many there are is looked at
        enabled = Enabled(agenda)
        if not enabled:
            what = f"nothing can happen: the job is {self.status}"
            failed = self._world.master.status.is_failure
            why = (self._world.master.error, why_not_restarted(self._world)) if failed else ()
            raise LabError(said(what, *why, *stands_still(self._world)))
        choice = self.scheduler(enabled, self)
        if isinstance(choice, int):
            if -len(enabled) <= choice < len(enabled):
                return enabled[choice]
            raise LabError(f"{self.scheduler!r} chose number {choice} of {len(enabled)}, counted from 0")
        if isinstance(choice, LetTimePass):
            return choice
        return self.faults.checked(choice) if isinstance(choice, Fault) else chosen(choice, self._world.enabled())

    # --- what the user does ---------------------------------------------------------------------------------------

    @overload
    def trigger_checkpoint(self, *, full: bool = False, wait: Literal[True]) -> str: ...

    @overload
    def trigger_checkpoint(self, *, full: bool = False, wait: Literal[False] = False) -> int: ...

    def trigger_checkpoint(self, *, full: bool = False, wait: bool = False) -> int | str:
        """Ask for a checkpoint now; returns the number of the request, for `lab.look.answer`.

        With `wait` the lab steps until there is an answer, here and in the two below, and returns the snapshot's path,
        as a `SparkJob` does. Raises JobFailedError when there is none.
        """
        return self._ask(lambda number: RequestCheckpoint(request_id=number, full=full), wait=wait)

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[True]) -> str: ...

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[False] = False) -> int: ...

    def savepoint(self, target: Target = None, *, wait: bool = False) -> int | str:
        """Ask for a savepoint below `target`, by default in the configured directory, or else in `/savepoints`."""
        path = self._savepoints(target)
        return self._ask(lambda number: RequestSavepoint(request_id=number, target=path), wait=wait)

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[True]) -> str: ...

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[False] = False) -> int: ...

    def stop(self, target: Target = None, *, drain: bool = False, wait: bool = False) -> int | str:
        """Ask for stop-with-savepoint; the answer comes when the job has ended."""
        path = self._savepoints(target)
        return self._ask(lambda number: RequestStop(request_id=number, target=path, drain=drain), wait=wait)

    def _savepoints(self, target: Target) -> str | None:
        path = directory_given("target", target)
        if path is not None:
            return path
        return SAVEPOINTS if self.job.settings.checkpoint.default_savepoint_directory is None else None

    @overload
    def rescale(self, parallelism: int | Mapping[str, int], *, at_once: bool = True, wait: Literal[True]) -> str: ...

    @overload
    def rescale(
        self, parallelism: int | Mapping[str, int], *, at_once: bool = True, wait: Literal[False] = False
    ) -> int: ...

    def rescale(self, parallelism: int | Mapping[str, int], *, at_once: bool = True, wait: bool = False) -> int | str:
        """Ask for another parallelism: of all vertices that are as wide as the widest, or of each by its name, or the
        uid or name of an operator in it. The answer is the checkpoint that the job continued from, and comes when all
        tasks run again.

        A checkpoint is taken for it now; unless `at_once`, it waits for the next one, and before that for the cooldown
        and the stabilization time (`RescaleConfig`). Raises ValueError for an impossible parallelism.
        """
        wanted = parallelism_of(self.job, parallelism)
        return self._ask(
            lambda number: RequestRescale(request_id=number, parallelism=wanted, at_once=at_once), wait=wait
        )

    def cancel(self) -> str:
        """Cancel the job; returns its status. Its workers leave in the next steps."""
        self._do(RequestCancel())
        return self.status

    def wait_until(self, at_ms: int) -> Step:
        """Let time pass in which nothing happens, as when every task is busy; timers due meanwhile fire late.

        A time that has passed already changes nothing. Raises LabError for a negative one.
        """
        at_ms = whole_number("at_ms", at_ms, "a time of the lab, as lab.look.at_ms is", 0)
        return self._do(LetTimePass(at_ms))

    def _ask(self, make: Callable[[int], Word], *, wait: bool) -> int | str:
        number = self.position + 1
        if wait and self.ended and not self._world.master.status.is_failure:
            raise LabJobEndedError(
                f"job {self.job.name!r} has ended, it is {self.status}: lab.back(n) goes back to when it ran"
            )
        self._do(make(number))
        if not wait:
            return number
        if number not in self._world.answers and self._step_until(lambda before: number in self._world.answers) is None:
            raise self._came_to_rest()
        return str(self.look.answer(number))

    def replay(self, actions: Iterable[Action | Word]) -> Lab:
        """Do all this, as another lab's `past.actions` have it. Raises LabError at an action that cannot happen."""
        with interrupts_deferred() as interrupts:
            for action in actions:
                interrupts.deliver()
                if not isinstance(action, Action | Word):
                    raise LabError(f"replay takes the actions of a lab, other.actions; found {action!r}")
                if isinstance(action, Action) and not isinstance(action, LetTimePass):
                    self.step(action)
                else:
                    self._do(action)
        return self

    # --- back and forth -------------------------------------------------------------------------------------------

    def back(self, steps: int = 1) -> Lab:
        """Undo the last steps."""
        steps = whole_number("steps", steps, "how many to undo; lab.goto(n) goes to step n", 0)
        return self.goto(self.position - steps)

    def goto(self, position: int) -> Lab:
        """Go to the moment after `position` steps, back or forth among those that have been taken.

        When this is interrupted, a lab that was to go back stays where it was; one that was to go forward stands at
        one of the steps between.
        """
        path = self._done + self._undone
        whole_number("position", position, "the number of a step, such as lab.position - 1")
        if not 1 <= position <= len(path):
            raise LabError(
                f"there is no step {position}: {len(path)} steps have been taken, the first started the job; "
                f"goto(1) to goto({len(path)}) are possible, and run_until() goes on"
            )
        with interrupts_deferred() as interrupts, garbage_among_new_objects_only():
            if position < self.position:
                self._rewind(position)
            try:
                self._undone = []
                for action in path[self.position : position]:
                    interrupts.deliver()
                    self._do(action)
            finally:
                self._undone = path[self.position :]
        return self

    def fork(self, seed: int | None = None) -> Lab:
        """A second lab with the same past, whose future is its own; with another `seed` it chooses otherwise there."""
        seed = self._seed if seed is None else checked_seed(seed)
        with interrupts_deferred():
            other = self._with(copy.deepcopy(self._world), self.position, self._keyframes.copy())
            other._seed, other._undone = seed, list(self._undone)
        return other

    def _world_at(self, position: int) -> World:
        """Return the world as it was after a step; this lab stays where it is."""
        return self.fork().goto(position)._world

    def _with(self, world: World, position: int, keyframes: Keyframes) -> Lab:
        """Return a lab with the same past up to `position`, which owns this world and these copies."""
        other = copy.copy(self)
        other._world, other._keyframes = world, keyframes
        other._done, other._undone = self._done[:position], []
        other._latest = Latest()
        return other

    def _rewind(self, position: int) -> None:
        """Go back. Another lab repeats the steps, and this one takes everything over at once at the end."""
        keyframes = self._keyframes.copy()
        at, world = keyframes.last_before(position)
        other = self._with(world, at, keyframes)
        with interrupts_deferred() as interrupts:
            for action in self._done[at:position]:
                interrupts.deliver()
                other._do(action)
        vars(self).update(_world=other._world, _done=other._done, _keyframes=keyframes)

    def _do(self, action: Action | Word) -> Step:
        before = self._take(action)
        return Step(self.position, action, self.trace, before, len(self.trace))

    def _take(self, action: Action | Word) -> int:
        """Take one step; returns how many records there were before."""
        if self._world.follows and not isinstance(action, Follow | LeaveRecording):
            self._take(LEAVE)
        world, undone = self._world, self._undone
        position, before = self.position, len(world.trace)
        try:
            _perform(world, action)
            self._done.append(action.remembered if isinstance(action, Action) else action)
            if undone:
                self._undone = _after(undone, action)
            if self._keyframes.take(self.position, world):
                self._latest.keep_up(world.trace)
        except AssertionError:
            self._find_breach([*self._done[:position], action])
            raise
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt: the world is between two steps
                del self._world
                self._undone = undone if self.position == position else _after(undone, action)
            raise
        return before

    def _interrupted(self, interrupts: Any) -> None:
        """Deliver an interrupt between two steps."""
        try:
            interrupts.deliver()
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"{self!r}: its last step is complete, and run() goes on from there")
            raise

    def _find_breach(self, path: list[Action | Word]) -> None:
        """An invariant was found broken: go from the last copy on, which was sound, and check after each event."""
        at, world = self._keyframes.last_before(len(path) - 1)
        world.check_every = 1
        self._world = world
        self._done = path[:at]
        try:
            for action in path[at:]:
                _perform(world, action)
                self._done.append(action)
        except BaseException as error:
            if not isinstance(error, Exception):
                del self._world
                self._done = path[:-1]
            raise

    def _validate(self) -> None:
        try:
            self._world.validate()
        except AssertionError:
            self._find_breach(self._done)
            raise

    # --- pictures -------------------------------------------------------------------------------------------------

    def _repr_svg_(self) -> str | None:
        """The picture, unless that would take long: then it is a table, until `lab.look.svg` was asked for once."""
        return None if self._is_much_to_draw else self.look.svg()._repr_svg_()

    def _repr_html_(self) -> str:
        if self._is_much_to_draw:
            return summary_html(self._world, repr(self))
        return self.look.svg()._repr_html_()

    @property
    def _is_much_to_draw(self) -> bool:
        return self._latest.missing(self.trace) > LARGE

    def __repr__(self) -> str:
        late_rows = sum(self.look.late_rows_dropped.values())
        return (
            f"Lab({self.job.name}, step {self.position}, {self._world.at_ms} ms, {self.status}"
            + (f": {shorten(self.error.splitlines()[0])}" if self.error else "")
            + f", {self._world.enabled_count} enabled"
            + (f", {late_rows_counted(late_rows)}" if late_rows else "")
            + ")"
        )


def _perform(world: World, action: Action | Word) -> None:
    """Do one thing in a world."""
    if isinstance(action, Action):
        world.perform(action)
    elif world.driver_is_dead:
        raise LabError(DRIVER_IS_DEAD)
    else:
        world.deliver(world.master, action)


def _after(undone: list[Action | Word], action: Action | Word) -> list[Action | Word]:
    """Return the undone steps that can still be repeated after this one."""
    return undone[1:] if undone and undone[0] == action else []


def _edge_of(after: Lab | None) -> LabEdge | None:
    if after is not None and not isinstance(after, Lab):
        raise LabError(f"after is a {type(after).__name__}, but must be the lab that ran before this one")
    return None if after is None else after._world.edge
