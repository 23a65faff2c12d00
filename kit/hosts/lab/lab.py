"""The lab: run a job one step at a time, look, go back, try another path.

    lab = Lab(env)
    lab.run_until(checkpoint=1)      # until checkpoint 1 is complete
    lab.back(5)                      # five steps back
    lab.enabled()                    # what may happen next
    lab.step(3)                      # do the fourth of these
    other = lab.fork()               # a second lab with the same past

The same job, input, seed and choices give the same run. The lab keeps the list of steps and, at intervals, a copy of
its world. To go to a step, it takes the last copy before that step and repeats the steps in between. After `back`, the
undone steps are kept until another step is taken, so `goto` can also go forward again.

A step is taken completely or not at all. An interrupt waits until the current step is complete
(`kit.hosts.lab.interrupts`). If an exception aborts a step all the same, the lab rebuilds its world: it takes the last
copy, and repeats the steps before the aborted one.
"""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from kit.core.arguments.checks import directory_given, flag_given, path_given
from kit.core.arguments.signposts import LAB, RESTORE_PATH, no_attribute, takes
from kit.core.protocol.events import (
    RequestCancel,
    RequestCheckpoint,
    RequestRescale,
    RequestSavepoint,
    RequestStop,
    StartJob,
)
from kit.core.protocol.properties import LaterOutput, RecoveryClaimMode
from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import Trace
from kit.files.master_hooks import MasterHook
from kit.files.missing_uids import warn_of_missing_uids
from kit.files.output_checks import output_at_risk
from kit.hosts.lab.by_words import chosen
from kit.hosts.lab.choices import Choices
from kit.hosts.lab.conditions import Condition, condition_of
from kit.hosts.lab.errors import LabError, LabJobEndedError, LabWarning, enumerated, said, whole_number
from kit.hosts.lab.failures import for_the_lab, job_failed, why_not_restarted
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.fault_verbs import Faults
from kit.hosts.lab.interrupts import interrupts_deferred
from kit.hosts.lab.live_state import queue_table, state_tables
from kit.hosts.lab.look import Look
from kit.hosts.lab.opening import checked_choice, checked_seed, job_graph, open_edge, run_name
from kit.hosts.lab.past import Past
from kit.hosts.lab.progress import Progress
from kit.hosts.lab.recordings.following import LEAVE, Follow, LeaveRecording, follow, world_of_recording
from kit.hosts.lab.refusals import DRIVER_IS_DEAD, stands_still
from kit.hosts.lab.step import Step
from kit.hosts.lab.summary import LARGE, summary_html
from kit.hosts.lab.world.actions import Action, DisposeSavepoint, LetTimePass
from kit.hosts.lab.world.edge import LabEdge
from kit.hosts.lab.world.garbage import garbage_among_new_objects_only
from kit.hosts.lab.world.keyframes import Keyframes
from kit.hosts.lab.world.schedulers import Enabled, Random, Scheduler, checked_scheduler
from kit.hosts.lab.world.world import World
from kit.run.metrics import metrics_table, state_bytes_of
from kit.run.moments.job_state import Moment
from kit.run.statistics import CheckpointStatistics
from kit.snapshots.state_tables import StateTables
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
"""The number of events between two checks of a machine's invariants. They are also checked at the end of a task and of
a run, and when the world is copied. If one is broken, the lab goes back to the last copy, repeats the steps with a
check after each event, and stops at the event that broke the invariant.
"""
SAVEPOINTS = "/savepoints"
"""The default directory of savepoints in a job without a configured directory."""
_GROUPED = {
    name: f"it is lab.{group}.{name}"
    for group, kind in (("faults", Faults), ("look", Look), ("past", Past))
    for name in dir(kind)
    if not name.startswith("_")
}
"""The group in which to find each name that the lab itself does not have."""
Target = str | os.PathLike[str] | None
"""A directory for a savepoint, None for the configured one."""


logger = logging.getLogger("kit.hosts.lab")


class InALab(Named, total=False):
    """The keyword arguments of `Lab.why`, with those for a value in state."""

    key: Any
    state: str | None


class Lab(Asking):
    """A job in one process.

    `job` is a StreamEnvironment or a JobGraph. `seed` determines all random choices. The job reads real files. It
    writes to the lab's memory, so a run leaves nothing behind and can be rewound.

    `restore_path` is a savepoint or retained checkpoint to start from. `after` is a lab that ran before this one, whose
    savepoints and output exist at the start. FileExistsError is raised if the job starts from scratch and would mix its
    rows with that output (see `ParquetSink(mode=...)`). With `recover`, this lab is the next driver of the same job,
    after the driver of `after` died; the job must have a durable store
    (`CheckpointConfig(store="filesystem", directory=...)`).

    `claim_mode` says who owns the snapshot at `restore_path` from now on: NO_CLAIM (the user; the first checkpoint is a
    full one), CLAIM (the job) or LEGACY. Output that was published after the snapshot
    will be emitted again: with `later_output="error"` the restore is rejected, "discard" deletes that output, and
    "keep" keeps both copies of the rows.

    `hooks` are master hooks. `scheduler` chooses the next action when `step` is called without one, by default
    `Random()` with the seed; see `kit.hosts.lab.world.schedulers`. `parts` are your own implementations of parts of
    the protocol; a PartError names one that breaks its contract.

    Without a `restart` setting, a job with periodic checkpoints is restarted at most ten times, a second after each
    failure, where Flink restarts it forever; any other job is not restarted. If restarts have no limit, the same
    failure three times in a row, without a completed checkpoint in between, fails the job
    (`kit.machines.job.failures`).

    Raises LabError for a job that cannot run, for example if `restore_path` does not exist.
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
        graph, before = for_the_lab(job_graph(job, parts)), _edge_of(after)
        start = StartJob(
            restore_path=directory_given("restore_path", restore_path),
            allow_non_restored_state=flag_given("allow_non_restored_state", allow_non_restored_state),
            claim_mode=checked_choice(RecoveryClaimMode, "claim_mode", claim_mode),
            later_output=checked_choice(LaterOutput, "later_output", later_output),
            recover=flag_given("recover", recover),
            run=run_name(graph, before),
        )
        if risk := output_at_risk(graph):
            warnings.warn(LabWarning(risk), stacklevel=3)  # the decorator `takes` is between this frame and the caller
        self._open(World(graph, open_edge(graph, start, hooks, before)), seed, scheduler)
        self._do(start)

    def _open(self, world: World, seed: int, scheduler: Scheduler | None) -> None:
        self.job = world.job
        self._seed = checked_seed(seed)
        self.scheduler = checked_scheduler(scheduler)
        world.check_every = CHECK_EVERY
        self._world = world
        self._done: list[Action | ProtocolMessage] = []
        self._undone: list[Action | ProtocolMessage] = []
        self._keyframes = Keyframes()

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

        The lab is at the end of the run. `back` and `goto` lead to any moment of it, with the details of single
        buffers. A step taken there departs from the recording, and the run continues from it.

        Raises LabError at the first record that differs, or if a recorded event cannot happen, and ValueError if the
        trace is not a recording.
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
        """The world after the last complete step. Rebuilds it if a step was aborted."""
        at, world = self._keyframes.last_before(self.position)
        with interrupts_deferred() as interrupts, garbage_among_new_objects_only():
            for position, action in enumerate(self._done[at:], at + 1):
                interrupts.deliver()
                _perform(world, action)
                self._keyframes.take(position, world)
        return world

    # --- looking --------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # otherwise mypy would accept every attribute

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
        """The reason why the job has failed or is being restarted; "" otherwise."""
        return self._world.master.error

    @property
    def look(self) -> Look:
        """Less common information: `lab.look.tasks`, `.files`, `.waiting()`, `.why_not(...)`, `.svg()`, ..."""
        return Look(self)

    @property
    def past(self) -> Past:
        """The steps so far: `lab.past.actions`, which `replay` repeats in another lab."""
        return Past(self)

    @property
    def faults(self) -> Faults:
        """The faults: `lab.faults.kill(0)` injects one, `lab.faults.possible()` lists those that are possible now."""
        return Faults(self)

    def enabled(self) -> Choices:
        """Return the actions that may happen next, by group. Empty if the job has ended and nothing is in flight."""
        return Choices(self._world.enabled(), what="things may happen next")

    def output(self, sink: str = "") -> pd.DataFrame:
        """Return the rows that a sink has committed so far.

        `sink` is its path, the end of its path, or its uid; it may be left out if there is only one. If the job has
        failed, these are the rows committed before the failure, and a LabWarning gives the reason. Raises LabError if
        no sink matches, or more than one.
        """
        path = self._world.edge.sink_path(sink)
        if self._world.master.status.is_failure:
            warnings.warn(LabWarning(str(job_failed(self._world, self.position))), stacklevel=2)
        return self._world.edge.rows(path)

    def checkpoints(self) -> pd.DataFrame:
        """Return one row per checkpoint: id, kind, status, trigger time, duration, size, acknowledgements."""
        return self._world.master.checkpoints.statistics.to_pandas()

    def state(self, task: str | None = None, *, position: int | None = None) -> StateTables:
        """Return the present state of the tasks as tables: keyed state, windows, timers, operator state by its mode,
        source positions, unpublished output, in-flight data.

        `task` is one task (`sums/1`) or a vertex (`sums`). `lab.state()["totals"]` is the DataFrame of one state.
        With `position`, it is the state after that step; the lab itself does not move.

        Raises LabError for an unknown task or position.
        """
        here = position is None or position == self.position
        return state_tables(self._world if here else self._world_at(position or 0), task)

    def queue(self, channel: int | str) -> pd.DataFrame:
        """Return the present contents of a channel, the next to be taken first, a row per record.

        The columns are task, source, channel, place (where it waits), element (its number in the queue), kind,
        checkpoint_id and timestamp_ms (of a barrier or watermark), bytes, record. `channel` is a number, or
        "left/0 -> sums/0".

        Raises LabError for an unknown channel.
        """
        return queue_table(self._world, channel).to_pandas()

    def metrics(self) -> pd.DataFrame:
        """Return the metrics of each operator in the present epoch, or in the last one that ended. See
        `job.metrics`.

        There is one row per metric: operator, subtask, metric, value, own (True if the user's function keeps it).
        """
        world = self._world
        return metrics_table(world.metrics, state_bytes_of(world.master), world.master)

    @property
    def statistics(self) -> CheckpointStatistics:
        """The checkpoint statistics that Flink's UI shows, and more: `.counts`, `.history`, `.subtasks(3)`."""
        world = self._world
        snapshot = world.master.checkpoints.statistics.snapshot()
        return CheckpointStatistics(snapshot, world.job, world.trace, world.late_rows)

    def moment(self) -> Moment:
        """Return the present moment, for pictures. The first call reads the whole run, later ones only what is new."""
        from kit.run.reading import moment_at

        return moment_at(self)

    @named_by(InALab)
    def why(self, about: object = None, **named: Unpack[InALab]) -> Why:
        """Explain something by its chain of causes, as `kit.why.why` does.

        With `key`, it is the value of this key in the keyed state named `state` of the task or operator `about`. Either
        may be left out if only one state has the key. The lab finds the steps that changed the value by repeating the
        steps of this epoch.

        For an action, see `lab.look.why_not`. Raises WhyError for something that the run does not have.
        """
        if isinstance(about, Action):
            return self.look.why_not(about)
        if "key" in named:
            from kit.hosts.lab.recordings.state_history import why_value

            of = named.get("task") if about is None else str(about)
            return why_value(self, self._evidence(), named["key"], named.get("state"), of)
        asked: Any = {name: value for name, value in named.items() if name != "state"}
        return super().why(about, **asked)

    # --- stepping -------------------------------------------------------------------------------------------------

    def step(self, action: Action | int | str | None = None) -> Step:
        """Take one step: the given action, or one that the scheduler chooses.

        `action` is an action, its index in `enabled()`, its key, or a few words such as "turn sums/0".

        Raises LabError if the action cannot happen now, or if no action can.
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
        """Step until a condition holds; return the last step.

        `checkpoint`: that checkpoint is complete; `record`: a record of this kind was added to the trace; `at_ms`:
        this time was reached; `ended`: the job has ended; `until`: any function of the lab returns True.

        Raises LabError if no step is possible before, with the reason if the job has failed; with `ended`, also
        if the job fails.
        """
        step = self._step_until(condition_of(self, until, checkpoint, record, at_ms, ended=ended))
        if step is None:
            raise self._came_to_rest(checkpoint, record)
        if ended and self._world.master.status.is_failure:
            raise job_failed(self._world, self.position)
        return step

    def run(self) -> Step:
        """Step until the job has ended and nothing is left to do. Raises LabError, with the reason, if it fails."""
        step = self._step_until(lambda before: self._world.is_at_rest)
        if self._world.master.status.is_failure:
            raise job_failed(self._world, self.position)
        if not self.ended:
            raise self._came_to_rest()
        for operator, rows in self.look.late_rows_dropped.items():
            warnings.warn(LabWarning(late_rows_said(operator, rows)), stacklevel=2)
        return step or Step(self.position, self._done[-1], self.trace, 0, 0)

    def _step_until(self, condition: Condition) -> Step | None:
        """Step until the condition holds; return None if no step is possible before."""
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
        """Return the error for a condition that can no longer become true."""
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
        """Return the scheduler's choice. Letting time pass is a choice only if nothing else can happen."""
        if self._world.follows:
            return LEAVE
        agenda = self._world.agenda
        if type(self.scheduler) is Random and agenda:
            return agenda[self.scheduler.number(len(agenda), self._seed, len(self._done))]
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
        """Request a checkpoint now; return the number of the request, for `lab.look.answer`.

        With `wait`, here and in the two methods below, the lab steps until there is an answer, and returns the path of
        the snapshot, as a `SparkJob` does. Raises JobFailedError if the snapshot fails.
        """
        flag_given("full", full)
        return self._ask(lambda number: RequestCheckpoint(request_id=number, full=full), wait=wait)

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[True]) -> str: ...

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[False] = False) -> int: ...

    def savepoint(self, target: Target = None, *, wait: bool = False) -> int | str:
        """Request a savepoint below `target`, by default in the configured directory, or else in `/savepoints`."""
        path = self._savepoints(target)
        warn_of_missing_uids(self.job, logger)
        return self._ask(lambda number: RequestSavepoint(request_id=number, target=path), wait=wait)

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[True]) -> str: ...

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[False] = False) -> int: ...

    def stop(self, target: Target = None, *, drain: bool = False, wait: bool = False) -> int | str:
        """Request stop-with-savepoint; the answer arrives when the job has ended."""
        path = self._savepoints(target)
        flag_given("drain", drain)
        warn_of_missing_uids(self.job, logger)
        return self._ask(lambda number: RequestStop(request_id=number, target=path, drain=drain), wait=wait)

    def dispose_savepoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a savepoint on the lab's disk: its `_metadata` and its files. It is a step, so `back()` undoes it.

        Raises CheckpointInUseError for a checkpoint that the job may restore, SavepointNotFoundError, CheckpointError
        if the metadata is damaged, and StorageError if it refers to files outside the snapshot's own directory.
        """
        self._do(DisposeSavepoint(path_given("path", path)))

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
        """Request another parallelism. The answer, when all tasks run again, is the checkpoint that the job resumed
        from.

        A number applies to all vertices that have the highest parallelism. A mapping gives the parallelism of single
        vertices, by the vertex' name or by the uid or name of an operator in it.

        A checkpoint is taken now for the rescale. Unless `at_once`, the job waits for the cooldown, the stabilization
        time (`RescaleConfig`), and the next checkpoint. Raises ValueError for an impossible parallelism.
        """
        wanted = parallelism_of(self.job, parallelism)
        flag_given("at_once", at_once)
        return self._ask(
            lambda number: RequestRescale(request_id=number, parallelism=wanted, at_once=at_once), wait=wait
        )

    def cancel(self) -> str:
        """Cancel the job; return its status. Its workers shut down in the next steps."""
        self._do(RequestCancel())
        return self.status

    def wait_until(self, at_ms: int) -> Step:
        """Let time pass until `at_ms` without any action, as if every task were busy; timers due meanwhile fire late.

        A time in the past has no effect. Raises LabError for a negative time.
        """
        at_ms = whole_number("at_ms", at_ms, "a time of the lab, as lab.look.at_ms is", 0)
        return self._do(LetTimePass(at_ms))

    def _ask(self, make: Callable[[int], ProtocolMessage], *, wait: bool) -> int | str:
        number = self.position + 1
        flag_given("wait", wait)
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

    def replay(self, actions: Iterable[Action | ProtocolMessage]) -> Lab:
        """Repeat the steps of another lab, its `past.actions`. Raises LabError at an action that cannot happen."""
        if isinstance(actions, str) or not isinstance(actions, Iterable):
            raise LabError(f"replay takes the actions of a lab, other.past.actions; found {actions!r}")
        with interrupts_deferred() as interrupts:
            for action in actions:
                interrupts.deliver()
                if not isinstance(action, Action | ProtocolMessage):
                    raise LabError(f"replay takes the actions of a lab, other.past.actions; found {action!r}")
                if isinstance(action, Action) and not isinstance(action, LetTimePass | DisposeSavepoint):
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
        """Go to the moment after `position` steps, back or forward among the steps taken.

        If this is interrupted on the way back, the lab stays where it was; on the way forward, it stops at a step in
        between.
        """
        path = self._done + self._undone
        whole_number("position", position, "the number of a step, such as lab.position - 1")
        if not 1 <= position <= len(path):
            raise LabError(
                f"there is no step {position}: {len(path)} steps have been taken, the first started the job; "
                f"goto(1) to goto({len(path)}) are possible, and run_until() continues"
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
        """Return a second lab with the same past and a future of its own; another `seed` leads to other choices."""
        seed = self._seed if seed is None else checked_seed(seed)
        with interrupts_deferred():
            other = self._with(copy.deepcopy(self._world), self.position, self._keyframes.copy())
            other._seed, other._undone = seed, list(self._undone)
        return other

    def _world_at(self, position: int) -> World:
        """Return the world as it was after a step; this lab stays where it is."""
        return self.fork().goto(position)._world

    def _with(self, world: World, position: int, keyframes: Keyframes) -> Lab:
        """Return a lab with the same past up to `position`, which takes over this world and these copies."""
        other = copy.copy(self)
        other._world, other._keyframes = world, keyframes
        other._done, other._undone = self._done[:position], []
        return other

    def _rewind(self, position: int) -> None:
        """Go back. Another lab repeats the steps, and this one takes over its state at the end, all at once."""
        keyframes = self._keyframes.copy()
        at, world = keyframes.last_before(position)
        other = self._with(world, at, keyframes)
        with interrupts_deferred() as interrupts:
            for action in self._done[at:position]:
                interrupts.deliver()
                other._do(action)
        other.trace._reading = self.trace._reading
        vars(self).update(_world=other._world, _done=other._done, _keyframes=keyframes)

    def _do(self, action: Action | ProtocolMessage) -> Step:
        before = self._take(action)
        return Step(self.position, action, self.trace, before, len(self.trace))

    def _take(self, action: Action | ProtocolMessage) -> int:
        """Take one step; return the number of records before it."""
        if self._world.follows and not isinstance(action, Follow | LeaveRecording):
            self._take(LEAVE)
        world, undone = self._world, self._undone
        position, before = self.position, len(world.trace)
        try:
            _perform(world, action)
            self._done.append(action.remembered if isinstance(action, Action) else action)
            if undone:
                self._undone = _after(undone, action)
            if self._keyframes.take(self.position, world) and world.trace._reading is not None:
                self.moment()  # so that the next look costs the same however many steps there were since the last
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
            interrupt.add_note(f"{self!r}: its last step is complete, and run() continues from there")
            raise

    def _find_breach(self, path: list[Action | ProtocolMessage]) -> None:
        """Find the event that broke an invariant: repeat the steps since the last copy, checking after each event."""
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
        """Return the picture, or None if it would take long and `lab.look.svg` was never called; then see the table."""
        return None if self._is_much_to_draw else self.look.svg()._repr_svg_()

    def _repr_html_(self) -> str:
        if self._is_much_to_draw:
            return summary_html(self._world, repr(self))
        return self.look.svg()._repr_html_()

    @property
    def _is_much_to_draw(self) -> bool:
        trace = self.trace
        return (len(trace) if trace._reading is None else trace._reading.unread(trace)) > LARGE

    def __repr__(self) -> str:
        late_rows = sum(self.look.late_rows_dropped.values())
        return (
            f"Lab({self.job.name}, step {self.position}, {self._world.at_ms} ms, {self.status}"
            + (f": {shorten(self.error.splitlines()[0])}" if self.error else "")
            + f", {self._world.enabled_count} enabled"
            + (f", {late_rows_counted(late_rows)}" if late_rows else "")
            + ")"
        )


def _perform(world: World, action: Action | ProtocolMessage) -> None:
    """Take one step in a world."""
    if isinstance(action, Action):
        world.perform(action)
    elif world.driver_is_dead:
        raise LabError(DRIVER_IS_DEAD)
    else:
        world.deliver(world.master, action)


def _after(undone: list[Action | ProtocolMessage], action: Action | ProtocolMessage) -> list[Action | ProtocolMessage]:
    """Return the undone steps that can still be repeated after this one."""
    return undone[1:] if undone and undone[0] == action else []


def _edge_of(after: Lab | None) -> LabEdge | None:
    if after is not None and not isinstance(after, Lab):
        raise LabError(f"after is a {type(after).__name__}, but must be the lab that ran before this one")
    return None if after is None else after._world.edge
