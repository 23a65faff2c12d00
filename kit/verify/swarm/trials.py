"""One trial of a swarm: a job, an order of actions, and interventions (faults and requests); then a run without faults.

If a property of `kit.hosts.lab.safety` does not hold, the trial ends in a `Violation`. A trial is a value, and running
it twice gives the same. So it can be shrunk (`kit.verify.swarm.shrinking`), and written as a scenario
(`kit.verify.swarm.trial_scenarios`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.fault import Drawn, Fault
from kit.hosts.lab.faults.faults import FAULTS, MOST_ARGUMENTS, FailCommand, MissHeartbeat, ThawWorker
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.safety import REFUSED, DamageReported, Safety, TriedJob, Violation
from kit.hosts.lab.step import Step
from kit.hosts.lab.world.actions import Action, LetTimePass, TakeTurn
from kit.machines.job.status import JobStatus

MOMENTS = ("", "", "CheckpointPending", "TaskAcknowledged", "CheckpointFinalizing", *["CheckpointCompleted"] * 3)
"""The kinds of record that an intervention may wait for, mostly about checkpoints."""
COUNTED = {"CheckpointCompleted": "checkpoint completed", "CheckpointRestored": "restored"}
"""The kinds of record that are counted in each trial, with their names."""
MOST_AWAITED = 400
"""The most steps to wait for such a record."""
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Intervention:
    """A fault or a request from outside the job: after a number of steps, `what` (a key of `INTERVENTIONS`) is carried
    out; `argument` chooses among candidates. With `awaits`, the steps are counted from the next record of this kind in
    the trace.
    """

    after: int
    what: str
    argument: int = 0
    awaits: str = ""

    def __str__(self) -> str:
        since = f" after the next {self.awaits}" if self.awaits else ""
        return f"{self.after} steps{since}: {INTERVENTIONS[self.what].text.format(self.argument)}"


@dataclass(frozen=True)
class Trial:
    """One trial. At the steps in `wild` (None: at all), `seed` chooses the action; at others, the first enabled action
    is taken. `slow` tasks rarely get a turn until the last intervention.
    """

    job: TriedJob
    seed: int = 0
    interventions: tuple[Intervention, ...] = ()
    slow: tuple[str, ...] = ()
    wild: frozenset[int] | None = None

    @classmethod
    def drawn(cls, job: TriedJob, seed: int, chance: Random, kinds: Iterator[str] | tuple[str, ...]) -> Trial:
        """Return a random trial. Most kinds of interventions are left out completely, which gives the others more room:
        swarm testing finds more than trials that are all alike.
        """
        some = [kind for kind in kinds if chance.random() < INTERVENTIONS[kind].share]
        number = chance.choice([1, 2, 2, 3, 4, 6]) if some else 0
        pace = chance.choice([5, 20, 80])
        weights = [INTERVENTIONS[kind].weight for kind in some]
        interventions = tuple(
            Intervention(
                int(chance.expovariate(1 / pace)),
                chance.choices(some, weights)[0],
                chance.randrange(MOST_ARGUMENTS),
                chance.choice(MOMENTS),
            )
            for _ in range(number)
        )
        return cls(job, seed, interventions, (chance.choice(["rows", "map", "tally", "numbered", ""]),))

    def is_calm(self, step: int) -> bool:
        """Return True if the first enabled action is taken at this step."""
        return self.wild is not None and step not in self.wild

    def choose(self, step: int, choices: int, again: int = 0) -> int:
        """Return the index of the action to take at a step, pseudorandom and the same each time."""
        mixed = (self.seed * 0x9E3779B97F4A7C15 + (step * 4 + again) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) % choices

    def run(self) -> TrialRun:
        """Run the trial to its end, or to the first violation."""
        run = TrialRun(self)
        try:
            run.complete()
        except DamageReported:
            run.happened["damage told"] += 1
        except Violation as violation:
            run.violation = violation
        except AssertionError as error:
            run.violation = Violation("invariant", str(error))
        except Exception as error:
            run.violation = Violation("error", f"{type(error).__name__}: {error}")
        for kind, word in COUNTED.items():
            run.happened[word] += sum(record.kind == kind for lab in run.labs for record in lab.trace)
        return run


class TrialRun:
    """A running trial, and its result: `labs`, one for each life, and the `violation`, if any. `happened` counts the
    interventions.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.job = trial.job
        self.labs: list[Lab] = []
        self.steps = 0
        self.violation: Violation | None = None
        self.happened: Counter[str] = Counter()
        self.parallelisms: list[int] = []
        """For each life how many subtasks an operator has."""
        self.chosen: list[set[int]] = []
        """For each life the actions that were not simply the first of what could happen, by their place in
        `lab.past.actions`.
        """
        self.wild: list[int] = []
        """The same as steps of the trial, where the seed chose."""
        self.safety = Safety()
        self.next_parallelism: int | None = None
        self.in_peace = False
        self._path: str | None = None

    @property
    def lab(self) -> Lab:
        """The lab of the present life."""
        return self.labs[-1]

    def complete(self) -> None:
        """Carry out all interventions, then run without faults. Raises Violation, or any other error."""
        self.begin()
        left = list(self.trial.interventions)
        over = False
        while not over:
            if left:
                intervention = left.pop(0)
                self._await(intervention.awaits)
                self._steps(intervention.after)
                if not self.lab.ended:
                    self.thaw()
                    INTERVENTIONS[intervention.what].do(self, intervention.argument)
                    self.safety.check(self.lab)
                    self.safety.check_closely(self.lab)
            else:
                self.in_peace = True
                self.thaw()
                self.safety.run_in_peace(self.lab, self._step)
            if self.lab.ended:
                over = self._end_of_life()
        self.safety.check_output(self.job, self.lab)

    # --- a life ---------------------------------------------------------------------------------------------------

    def begin(self, *, recover: bool = False) -> None:
        """Start the job; recover it if the end of its last life could not be written to the store."""
        self._start(recover=recover)
        while self.lab.status == "CREATED" and self._is_durable:
            self._step()
        if REFUSED in self.lab.error:
            self._start(recover=True)

    def _start(self, *, recover: bool) -> None:
        before = self.labs[-1] if self.labs else None
        try:
            lab = Lab(
                self.job.environment(),
                hooks=self.job.master_hooks(),
                restore_path=self._path,
                after=before,
                recover=recover,
            )
        except LabError as error:
            self.safety.check_error(str(error))
            raise
        self.labs.append(lab)
        self.parallelisms.append(self.job.parallelism)
        self.chosen.append(set())
        self.safety.begin(lab)

    @property
    def _is_durable(self) -> bool:
        return self.lab.job.settings.checkpoint.is_durable

    def driver_dies(self) -> None:
        """Another driver takes over, if the job's store outlives this one."""
        if self._is_durable:
            self.happened["driver dies"] += 1
            self.begin(recover=True)

    def _end_of_life(self) -> bool:
        """Check the end of a life; return True if it was the last, False after starting the next one."""
        lab = self.lab
        while lab._world.agenda:
            self._step()
        if lab.look.master.status is JobStatus.SUSPENDED:
            self.safety.end_suspended(lab)
            self.begin(recover=True)
            return False
        self._path = self.safety.end(lab)
        if self._path is None:
            return True
        self.job = self.job.at(self.next_parallelism or self.job.parallelism)
        self.happened["goes on from a snapshot"] += 1
        self.begin()
        return False

    # --- faults ---------------------------------------------------------------------------------------------------

    def inflict(self, faults: Sequence[Fault], argument: int) -> bool:
        """Inject one of these faults, if any is possible."""
        possible = [fault for fault in faults if self.lab.look.refusal(fault) is None]
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
        """Thaw frozen workers, or let them be considered dead; return True if there were any."""
        ends = MissHeartbeat if self.trial.choose(self.steps, 2) else ThawWorker
        ended = [self.inflict([ends(worker)], 0) for worker in self.lab._world.workers]
        return any(ended)

    # --- steps ----------------------------------------------------------------------------------------------------

    def _steps(self, number: int) -> None:
        for _ in range(number):
            if self.lab.ended:
                return
            self._step()

    def _await(self, kind: str) -> None:
        for _ in range(MOST_AWAITED if kind else 0):
            if self.lab.ended or any(record.kind == kind for record in self._step().records):
                return

    def _step(self) -> Step:
        lab, agenda = self.lab, self.lab._world.agenda
        self.steps += 1
        if agenda:
            action = self._chosen(agenda)
            if action != agenda[0]:
                self.chosen[-1].add(lab.position)
                self.wild.append(self.steps)
            step = lab._do(action)
        elif agenda.wait is not None:
            step = lab._do(agenda.wait)
        elif self.thaw():
            return self._step()
        else:
            raise Violation("ends", f"nothing can happen any more, and the job has not ended: {lab!r}")
        self.safety.check(lab)
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


# --- what may be done to a job --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InterventionKind:
    """A kind of intervention: its function, a sentence, its frequency relative to the others, and the fraction of
    trials that may have it.
    """

    do: Callable[[TrialRun, int], None]
    text: str
    weight: int = 1
    share: float = 0.5


def _trigger(run: TrialRun, argument: int) -> None:
    run.lab.trigger_checkpoint(full=argument == 0)
    run.happened["checkpoint"] += 1


def _savepoint(run: TrialRun, argument: int) -> None:
    run.lab.savepoint()
    run.happened["savepoint"] += 1


def _let_time_pass(run: TrialRun, argument: int) -> None:
    """Let time pass until timers are due, so that checkpoints expire, or alignments time out."""
    for _ in range(1 + argument % 3):
        wait: LetTimePass | None = run.lab._world.agenda.wait
        if wait is not None:
            run.chosen[-1].add(run.lab.position)
            run.lab.wait_until(wait.until_ms)
            run.happened["time"] += 1


def _stop(run: TrialRun, argument: int) -> None:
    drain = argument % 2 == 1 and not run.job.has_last_words
    run.next_parallelism = 1 + argument // 2 % 3
    run.lab.stop(drain=drain)
    run.happened["stop"] += 1


def _rescale(run: TrialRun, argument: int) -> None:
    """Request a rescale, or two at once, of which the second counts."""
    job = run.lab.job
    if not run.job.rescales:
        return
    for number in (1 + argument % 3, argument // 3 % 4):
        if number:
            run.lab.rescale({each.name: number for each in job.vertices if each.max_parallelism >= number})
            run.happened["rescale"] += 1


def _cancel(run: TrialRun, argument: int) -> None:
    master = run.lab.look.master
    keeps = master.job.settings.checkpoint.retention is RetentionPolicy.RETAIN_ON_CANCELLATION
    if keeps and master.checkpoints.store.latest is not None:
        run.next_parallelism = 1 + argument % 3
        run.lab.cancel()
        run.happened["cancel"] += 1


def _inflict(drawn: Drawn, kinds: Sequence[type[Fault]], run: TrialRun, argument: int) -> None:
    """Inject one of these faults. If the fault waits, the run continues until one is possible."""
    for _ in range(MOST_AWAITED if drawn.waits else 1):
        world = run.lab._world
        every = [fault for kind in kinds for fault in kind.possible(world)]
        found, which = (every, argument) if drawn.choose is None else drawn.choose(world, argument)
        if run.lab.ended or run.inflict(found, which):
            return
        if drawn.waits:
            run._step()


def _of_faults() -> dict[str, InterventionKind]:
    kinds: dict[Drawn, list[type[Fault]]] = {}
    for kind in FAULTS.values():
        if kind.drawn is not None:
            kinds.setdefault(kind.drawn, []).append(kind)
    return {
        drawn.name: InterventionKind(partial(_inflict, drawn, of_drawn), drawn.text, drawn.weight, drawn.share)
        for drawn, of_drawn in kinds.items()
    }


INTERVENTIONS: dict[str, InterventionKind] = {
    "checkpoint": InterventionKind(_trigger, "a checkpoint is requested"),
    "savepoint": InterventionKind(_savepoint, "a savepoint is requested"),
    "time": InterventionKind(_let_time_pass, "time passes before anything else happens ({})"),
    "stop": InterventionKind(_stop, "the job is stopped with a savepoint and resumed from it ({})", 2),
    "cancel": InterventionKind(_cancel, "the job is cancelled and resumed from its newest snapshot ({})", 2),
    "rescale": InterventionKind(_rescale, "a rescale is requested, or two at once ({})"),
    "driver": InterventionKind(lambda run, _: run.driver_dies(), "the driver dies, and another one takes over", 2),
    **_of_faults(),
}
"""The kinds of interventions by name: the requests of a user, and every fault that occurs in random runs."""
