"""The commands of scenarios: one table from lines of text to their effects in the lab.

In a usage, words in CAPITALS are placeholders, and parts in brackets are optional. WORDS mean the action whose sentence
contains them all, for instance `AcknowledgeCheckpoint from sums/1`: see `lab.enabled()` and
`kit.hosts.lab.by_words`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from kit.core.state.errors import StateError
from kit.core.trace.trace import TraceRecord
from kit.files.disposal import CheckpointInUseError
from kit.files.master_hooks import MasterHook
from kit.hosts.lab.by_words import matching
from kit.hosts.lab.conditions import record_kinds
from kit.hosts.lab.errors import MOST_NAMED, LabError, LabWarning, nearest
from kit.hosts.lab.faults.fault_verbs import VERBS as VERBS_OF_FAULTS
from kit.hosts.lab.faults.fault_verbs import WHAT
from kit.hosts.lab.faults.faults import ThawWorker
from kit.hosts.lab.jobs.incremental_snapshot import leave_incremental_snapshot
from kit.hosts.lab.jobs.random_jobs import NAME as RANDOM
from kit.hosts.lab.jobs.ready_jobs import ReadyHook, job_of, random_job, ready_job, settings_of
from kit.hosts.lab.jobs.user_jobs import UserJob
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.safety import REFUSED, DamageReported, Safety, TriedJob, Violation
from kit.hosts.lab.scenarios.scenario_outcome import in_one_line
from kit.hosts.lab.scenarios.scenario_views import file_path, requested, show, snapshot_path
from kit.hosts.lab.scenarios.scenario_writing import fault_of
from kit.hosts.lab.world.actions import Action, LetTimePass
from kit.machines.job.status import JobStatus
from kit.run.element_kinds import ELEMENTS
from kit.run.kinds import DETAIL, MILESTONE, PLUMBING
from kit.run.run import run_of
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.why import Why

MOST_STEPS = 20_000
LONGEST_WHY = 200
Job = StreamEnvironment | JobGraph | Callable[[int], StreamEnvironment | JobGraph]
"""A job, or a function that makes it for a parallelism."""
_OF_THE_LAB = ("allow_non_restored_state", "claim_mode")


class Scene:
    """The lab of a scenario, with its job (a ready one or the user's `own`) and the actions that commands hold back.
    `said` collects the output of `show`.
    """

    def __init__(self, job: str, own: Job | None = None) -> None:
        self.name, self.settings = job_of(job)
        self._own = own
        self.hooks: Sequence[MasterHook] = ()
        if own is not None or self.name != RANDOM:
            self.hooks = [ReadyHook() for _ in range(self.settings.pop("hooks", 0))]
        self.labs: list[Lab] = []
        self.held: list[str] = []
        self.said: list[str] = []
        self.safety = Safety()
        self.is_over = False
        """Whether the job said that it has come upon a damaged file, so that nothing more can be asked of it."""
        self._how: dict[str, Any] = {}
        self.begin(restore_path=None)

    @property
    def lab(self) -> Lab:
        """The newest lab."""
        return self.labs[-1]

    def standing(self) -> dict[str, Any]:
        """Return everything that commands change, so that `go_back` can restore it."""
        lists = {"labs": list(self.labs), "held": list(self.held), "said": list(self.said)}
        return {**vars(self), **lists, "safety": deepcopy(self.safety), "position": self.lab.position}

    def go_back(self, standing: dict[str, Any]) -> None:
        """Undo all commands since then."""
        position = standing.pop("position")
        vars(self).update(standing)
        self.lab.goto(position)

    def begin(self, **how: Any) -> None:
        """Open another lab of the job, after the present one, if any. Actions held back stay held back."""
        after = self.labs[-1] if self.labs else None
        if self._own is None and self.name == RANDOM:
            self.hooks = random_job(self.settings).master_hooks()
        with warnings.catch_warnings():  # a scenario shows the effects of the settings it chooses
            warnings.simplefilter("ignore", LabWarning)
            self.labs.append(Lab(self._job(), after=after, hooks=self.hooks, **how))
        self._how = how
        self.safety.begin(self.lab)

    def recover(self) -> None:
        """Start another driver of the same job."""
        self.begin(**{**self._how, "recover": True})

    def _job(self) -> StreamEnvironment | JobGraph:
        if self._own is None:
            return ready_job(self.name, **self.settings)
        return self._own(self.settings.get("parallelism", 2)) if callable(self._own) else self._own

    def come_to_the_end(self) -> str | None:
        """Run the job to its end; return where the next one starts. If the driver was replaced, the next one continues.

        Raises Violation and DamageReported.
        """
        self.safety.run_in_peace(self.lab, self.watched_step)
        while self.lab._world.agenda:
            self.watched_step()
        if self.is_replaced:
            self.safety.end_suspended(self.lab)
            self.recover()
            return self.come_to_the_end()
        return self.safety.end(self.lab)

    @property
    def is_replaced(self) -> bool:
        """True if the driver has stopped because another one leads the job."""
        return self.lab.look.master.status is JobStatus.SUSPENDED

    def watched_step(self) -> None:
        """Take the next step; thaw frozen workers if nothing else can happen. Raises Violation and DamageReported."""
        action = self.next_action()
        frozen = sorted(self.lab._world.frozen)
        if action is None and not frozen:
            raise Violation("ends", f"nothing can happen any more, and the job has not ended: {self.lab!r}")
        self.lab.step(ThawWorker(frozen[0]) if action is None else action)
        self.safety.check(self.lab)

    def check_output(self) -> None:
        """Compare the output with the expected output. Raises Violation."""
        if self._own is None and self.name == RANDOM:
            job: TriedJob = random_job(self.settings)
        else:
            job = UserJob.of(self._own or self._job(), None)
        self.safety.check_output(job, self.lab)

    # --- choosing ---------------------------------------------------------------------------------------------------

    def next_action(self, *, waits: bool = True) -> Action | None:
        """Return the first action that is not held back; time passes only if nothing else can happen."""
        for action in self.lab.enabled():
            if (waits or not isinstance(action, LetTimePass)) and not any(
                matching(words, [action]) for words in self.held
            ):
                return action
        return None

    def step(self) -> Sequence[TraceRecord]:
        """Take that action. Raises LabError if there is none."""
        action = self.next_action()
        if action is None:
            held = f" while this is held back: {'; '.join(self.held)}" if self.held else ""
            raise LabError(f"nothing can happen{held}; the job is {self.lab.status}")
        return self.lab.step(action).records

    def step_until(self, condition: Callable[[Sequence[TraceRecord]], bool]) -> None:
        """Step until the records of a step meet the condition."""
        for _ in range(MOST_STEPS):
            if condition(self.step()):
                return
        raise LabError(f"not reached within {MOST_STEPS} steps")

    def find(self, words: str) -> Action:
        """Return the first action that the words name. Raises LabError with the enabled actions if there is none."""
        enabled = self.lab.enabled()
        found = matching(words, enabled)
        if not found:
            known = "; ".join(str(action) for action in enabled[: 3 * MOST_NAMED]) or "nothing"
            raise LabError(f"{words!r} cannot happen now; what can: {known}")
        return found[0]


# ---- commands -------------------------------------------------------------------------------------------------------


def _run_until_checkpoint(scene: Scene, number: str) -> None:
    scene.step_until(lambda records: scene.lab.look.master.checkpoints.store.latest_id >= int(number))


def _run_until_time(scene: Scene, at_ms: str) -> None:
    scene.step_until(lambda records: scene.lab.look.at_ms >= int(at_ms))


def _run_until_finished(scene: Scene) -> None:
    scene.step_until(lambda records: scene.lab.ended)


def _run_until_record(scene: Scene, kind: str, checkpoint: str | None, machine: str | None) -> None:
    if kind not in record_kinds() and kind not in ELEMENTS:
        raise LabError(f"no record is a {kind!r}; did you mean {', '.join(nearest(kind, record_kinds()))}?")
    wanted = None if checkpoint is None else int(checkpoint)
    scene.step_until(
        lambda records: any(
            kind in (record.kind, (record.data.get("element") or {}).get("type"))
            and wanted in (None, record.checkpoint_id)
            and machine in (None, record.machine)
            for record in records
        )
    )


def _settle(scene: Scene) -> None:
    for _ in range(MOST_STEPS):
        action = scene.next_action(waits=False)
        if action is None:
            return
        scene.lab.step(action)
    raise LabError(f"not at rest after {MOST_STEPS} steps")


def _run_to_the_end(scene: Scene) -> None:
    for _ in range(MOST_STEPS):
        if scene.next_action() is None:
            return
        scene.step()
    raise LabError(f"not at its end after {MOST_STEPS} steps")


def _do(scene: Scene, words: str) -> None:
    scene.lab.step(scene.find(words))


def _do_keys(scene: Scene, keys: str) -> None:
    for key in keys.split():
        scene.lab.step(key)


def _turn(scene: Scene, task: str, times: str | None) -> None:
    for _ in range(int(times or 1)):
        scene.lab.step(scene.find(f"give {task} its turn"))


def _release(scene: Scene, words: str) -> None:
    if words == "everything":
        scene.held.clear()
    elif words in scene.held:
        scene.held.remove(words)
    else:
        raise LabError(f"{words!r} is not held back; held back is: {'; '.join(scene.held) or 'nothing'}")


def _trigger_checkpoints(scene: Scene, times: str) -> None:
    for _ in range(int(times)):
        scene.lab.trigger_checkpoint()


def _dispose(scene: Scene, path: str) -> None:
    try:
        scene.lab.dispose_savepoint(path)
    except (StateError, CheckpointInUseError) as error:
        raise LabError(str(error)) from error


def _rescale(scene: Scene, wanted: str, later: str | None) -> None:
    """Ask for `to 3`, or `letters to 3, sums to 1`; with `later` at the next checkpoint."""
    given: dict[str, int] | int
    if wanted.startswith("to "):
        given = int(wanted.removeprefix("to "))
    else:
        given = {name: int(number) for name, _, number in (each.partition(" to ") for each in wanted.split(", "))}
    try:
        scene.lab.rescale(given, at_once=later is None)
    except ValueError as error:
        raise LabError(str(error)) from error


def _break(name: str, scene: Scene, **groups: str | None) -> None:
    """Inject a fault by its method; words that name a file of a snapshot are replaced with its path."""
    given = VERBS_OF_FAULTS[name].arguments(groups)
    if WHAT in given:
        given[WHAT] = file_path(scene.lab, given[WHAT])
    getattr(scene.lab.faults, name)(**given)


def _take(scene: Scene, steps: str) -> None:
    for _ in range(int(steps)):
        if scene.next_action() is None:
            return
        scene.watched_step()


def _follow(scene: Scene, keys: str) -> None:
    for key in keys.split():
        action = next((each for each in scene.lab.enabled() if each.key == key), None)
        if action is not None:
            scene.lab.step(action)
            scene.safety.check(scene.lab)


def _go_on(scene: Scene, settings: str | None) -> None:
    path = scene.come_to_the_end()
    if path is None:
        return
    scene.settings = {**scene.settings, **settings_of(settings or "")}
    _begin_at(scene, path)


def _begin_at(scene: Scene, path: str) -> None:
    try:
        scene.begin(restore_path=path)
    except LabError as error:
        scene.safety.check_error(str(error))
        raise


def _take_over(scene: Scene) -> None:
    if not scene.lab.ended or scene.is_replaced or REFUSED in scene.lab.error:
        scene.recover()


def _check(scene: Scene) -> None:
    while (path := scene.come_to_the_end()) is not None:
        _begin_at(scene, path)
    scene.check_output()
    scene.said.append("all holds")


def _leave_incremental(scene: Scene, path: str, number: str, operator: str) -> None:
    ids = {each.name: each.operator_id for each in scene.lab.job.operators}
    if operator not in ids:
        raise LabError(f"no operator is called {operator!r}; there are {', '.join(ids)}")
    leave_incremental_snapshot(scene.lab.look.files, path, int(number), ids[operator])


def _restore(scene: Scene, name: str, job: str | None, settings: str | None) -> None:
    given = settings_of(settings or "")
    if job is not None:
        scene.name = job
    how = {each: given.pop(each) for each in _OF_THE_LAB if each in given}
    scene.settings = {**scene.settings, **given}
    scene.begin(restore_path=snapshot_path(scene.lab, name), **how)


def _why_request(scene: Scene, number: str) -> None:
    asked = requested(scene.lab)
    if not 0 < int(number) <= len(asked):
        raise LabError(f"there is no request {number}: {len(asked)} were made, counted from 1")
    _say_why(scene, scene.lab.why(request=asked[int(number) - 1][0]))


def _why_channel(scene: Scene, source: str, target: str) -> None:
    ends = run_of(scene.lab).stages[-1].ends()
    found = [number for number, each in ends.items() if each == (source, target)]
    if not found:
        raise LabError(f"there is no channel {source} -> {target}")
    _say_why(scene, scene.lab.why(channel=found[0]))


def _say_why(scene: Scene, why: Why) -> None:
    scene.said += [in_one_line(line, LONGEST_WHY) for line in str(why).splitlines()]


_ARGUMENTS = {"N": r"(\d+)", "RECORD": r"([A-Z]\w+)", **dict.fromkeys(("KEYS", "WORDS", "SETTINGS", "WHAT"), "(.+)")}
"""The patterns of arguments in a usage; any other is a name without spaces."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A command: its form, its effect, and the least level of records in its outcome.

    `form` is the pattern of its line where the usage does not say it.
    """

    usage: str
    what: str
    do: Callable[..., None]
    level: int = PLUMBING
    form: str = ""

    @property
    def pattern(self) -> str:
        """The pattern of its line, with a group for each argument, and for each option without one."""
        if self.form:
            return self.form
        options = re.sub(r" \[([^]A-Z]+)\]", r"( \1)?", self.usage)
        options = re.sub(r" \[([^]]+)\]", r"(?: \1)?", options)
        return re.sub(r"\b[A-Z]+\b", lambda found: _ARGUMENTS.get(found[0], r"(\S+)"), options)


VERBS = (
    Verb("run until checkpoint N", "until it is complete", _run_until_checkpoint, MILESTONE),
    Verb("run until N ms", "until this time is reached", _run_until_time, MILESTONE),
    Verb("run until finished", "until the job has ended", _run_until_finished, MILESTONE),
    Verb(
        "run until RECORD [of chk-N] [at MACHINE]",
        "until the trace has such a record, or one about such an element",
        _run_until_record,
        MILESTONE,
    ),
    Verb("run to the end", "until only actions that are held back can happen", _run_to_the_end, MILESTONE),
    Verb("settle", "everything in flight, without waiting for a timer", _settle, MILESTONE),
    Verb("do KEYS", "take actions by their keys, one after another", _do_keys, DETAIL),
    Verb("deliver WORDS", "let a message arrive", _do, form=r"(deliver .+)"),
    Verb("let TASK receive WORDS", "let an element arrive", _do, form=r"(let \S+ receive .+)"),
    Verb("carry out WORDS", "let a command be carried out and answered", _do),
    Verb("fire WORDS", "let a timer that is due fire", _do),
    Verb("turn TASK [N times]", "let a task take its turn: one element, or one batch", _turn),
    Verb("hold WORDS", "hold these actions back from now on", lambda scene, words: scene.held.append(words)),
    Verb("release WORDS", "no longer hold them back; 'everything' releases all", _release),
    Verb(
        "trigger checkpoint [full]",
        "request a checkpoint",
        lambda scene, full: scene.lab.trigger_checkpoint(full=full is not None),
    ),
    Verb("trigger checkpoint N times", "request N checkpoints", _trigger_checkpoints, MILESTONE),
    Verb("trigger savepoint [at PATH]", "request a savepoint", lambda scene, target: scene.lab.savepoint(target)),
    Verb(
        "stop with savepoint [and drain] [at PATH]",
        "request stop-with-savepoint",
        lambda scene, drain, target: scene.lab.stop(target, drain=drain is not None),
    ),
    Verb(
        "rescale [VERTEX] to N [at the next checkpoint]",
        "request another parallelism, of all vertices or of these",
        _rescale,
        form=r"rescale ((?:to \d+)|(?:\S+ to \d+(?:, \S+ to \d+)*))( at the next checkpoint)?",
    ),
    Verb("cancel", "cancel the job", lambda scene: scene.lab.cancel()),
    Verb("wait until N ms", "let time pass without any action", lambda scene, at_ms: scene.lab.wait_until(int(at_ms))),
    *(
        Verb(each.usage, each.does, partial(_break, name), form=each.pattern.pattern)
        for name, each in VERBS_OF_FAULTS.items()
    ),
    Verb("dispose of PATH", "delete a savepoint: its metadata and its files", _dispose, form=r"dispose of (/\S+)"),
    Verb(
        "inflict FAULT(FIELDS)",
        "inject a fault, in the form of a saved run",
        lambda scene, text: scene.lab.step(fault_of(text)),
        form=r"inflict (.+)",
    ),
    Verb("another driver goes on", "this driver dies now; the next one reads the durable store", Scene.recover),
    Verb(
        "a job of Flink's has left PATH/chk-N with state of OPERATOR",
        "write a checkpoint with incremental keyed state, whose files others may share",
        _leave_incremental,
        form=r"a job of Flink's has left (\S+/chk-(\d+)) with state of (\S+)",
    ),
    Verb(
        "restore NAME [into JOB] [with SETTINGS]",
        "start another run from chk-N or savepoint, perhaps with other settings",
        _restore,
    ),
    Verb("take N steps", "take the first enabled action N times", _take, MILESTONE),
    Verb("follow KEYS", "take actions by their keys; skip those that cannot happen", _follow, DETAIL),
    Verb(
        "go on [with SETTINGS]",
        "run the job to its end; if it was stopped or cancelled, another run resumes from there",
        _go_on,
        MILESTONE,
    ),
    Verb(
        "another driver takes over",
        "unless the job has ended, another driver continues it; this one dies now, with the workers, if it still runs",
        _take_over,
        MILESTONE,
    ),
    Verb(
        "check",
        "run the job to its end without faults, and check its properties (`kit.hosts.lab.safety`)",
        _check,
        MILESTONE,
    ),
    Verb(
        "why chk-N",
        "why a checkpoint is pending, or how it ended",
        lambda scene, number: _say_why(scene, scene.lab.why(checkpoint=int(number))),
    ),
    Verb("why request N", "why a request has no answer, or this one", _why_request),
    Verb("why TASK -> TASK", "why a channel is blocked", _why_channel, form=r"why (\S+/\d+) -> (\S+/\d+)"),
    Verb(
        "why TASK",
        "why a task is in its state",
        lambda scene, task: _say_why(scene, scene.lab.why(task=task)),
        form=r"why (\S+/\d+)",
    ),
    Verb(
        "show WHAT",
        "status, checkpoints, output...: see `VIEWS`",
        lambda scene, what: scene.said.extend(show(scene.lab, what)),
    ),
)
_WATCHED = (_take, _follow, _go_on, _take_over, _check)
"""The commands that check the safety properties after each step."""
_COMPILED = [(re.compile(verb.pattern), verb) for verb in VERBS]
_CLOSELY, _TRY, _PERHAPS = "closely ", "try ", "perhaps "


def carry_out(scene: Scene, text: str) -> int:
    """Carry out a line; return the least level of records in its outcome.

    `closely` lowers that level. After `try`, the error is the outcome, and success is an error. After `perhaps`, a
    command that cannot be carried out is skipped. Raises LabError.
    """
    if text.startswith(_TRY):
        try:
            carry_out(scene, text.removeprefix(_TRY))
        except LabError as error:
            scene.said.append(f"refused: {str(error).splitlines()[0]}")
            return PLUMBING
        raise LabError(f"{text!r}: this was expected to be refused, but was done")
    if text.startswith(_PERHAPS):
        try:
            return carry_out(scene, text.removeprefix(_PERHAPS))
        except Violation:
            raise
        except LabError:
            return PLUMBING
    line = text.removeprefix(_CLOSELY)
    for pattern, verb in _COMPILED:
        found = pattern.fullmatch(line)
        if found is not None:
            _do_verb(scene, verb, found)
            return min(verb.level, DETAIL) if text != line else verb.level
    known = nearest(line, [verb.usage for verb in VERBS])
    raise LabError(f"{text!r} is no command; did you mean: {'; '.join(known)}?")


def _do_verb(scene: Scene, verb: Verb, line: re.Match[str]) -> None:
    if scene.is_over and verb.do in _WATCHED:
        return
    try:
        named = line.groupdict()
        verb.do(scene, **named) if named else verb.do(scene, *line.groups())
    except DamageReported as reported:
        scene.is_over = True
        scene.said.append(in_one_line(f"the damage is told: {reported}", LONGEST_WHY))
    except AssertionError as error:
        raise Violation("invariant", str(error)) from error


def scenario_commands() -> pd.DataFrame:
    """Return the commands of scenarios: one row each with its form and its effect."""
    return pd.DataFrame([(verb.usage, verb.what) for verb in VERBS], columns=["command", "what it does"])
