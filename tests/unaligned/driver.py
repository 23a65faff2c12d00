"""Drives a lab at random, with slow tasks, and injects faults.

`Driver` chooses among the possible actions by its own seed. Tasks in `slow` rarely get a turn, so their queues fill up.
The driver takes up to `burst` of the possible actions, in any order, before it lists them again; that makes large jobs
affordable. `lab.past.actions` has all its actions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Any

from kit.core.metadata import read_metadata
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.actions import Action, DeliverMessage, LetTimePass, TakeTurn
from kit.machines.job.status import JobStatus
from tests.hosts.lab.jobs import referenced_files, state_files
from tests.unaligned.jobs import Plan, problems
from tests.unaligned.topologies import TOPOLOGIES, environment

MOST_STEPS = 150_000
EVERYTHING = 1_000_000
"""As `burst`: all that may happen at a look."""
SLOWNESS = 0.05
"""How often a slow task gets its turn when it is chosen."""


class BreakingDisk(dict[str, bytes]):
    """The lab's disk; after `breaks_in` more files it refuses one."""

    breaks_in: int | None = None

    def __setitem__(self, path: str, data: bytes) -> None:
        if self.breaks_in is not None:
            self.breaks_in -= 1
            if self.breaks_in < 0:
                self.breaks_in = None
                raise OSError(f"{path}: no space left on device")
        super().__setitem__(path, data)


class Driver:
    """A lab and the one who decides what happens in it."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        *,
        slow: Collection[str] = (),
        burst: int = 4,
        after: Driver | None = None,
        restore_path: str | None = None,
        **checkpoint: Any,
    ) -> None:
        self.plan = plan
        self.random = Random(seed)
        self.slow = tuple(slow)
        self.burst = burst
        before = None if after is None else after.lab
        self.lab = Lab(environment(plan, **checkpoint), restore_path=restore_path, after=before)
        self.lab.look.files.contents = self.disk = BreakingDisk(self.lab.look.files.contents)
        self.lab.trace.detailed = burst < EVERYTHING
        self.held: Callable[[str], bool] = lambda task: False
        """The tasks that get no turn at present."""
        self.relents = False
        """Whether those get one when nothing else can happen but that time passes, sources last."""

    @property
    def restored_from(self) -> str | None:
        """The path of the snapshot that the job restored last."""
        restored = self.lab.look.master.checkpoints.statistics.restored
        return None if restored is None else restored.path

    # ---- going on

    def run_until(self, condition: Callable[[], bool], *, or_rest: bool = False) -> bool:
        """Act until the condition holds; return False if no action is left before that (an error unless `or_rest`)."""
        while not condition():
            if not self.turn():
                assert or_rest, f"the job came to rest: {self.lab!r}, {self.lab.look.master.error}"
                return False
            assert self.lab.position < MOST_STEPS, f"no end in sight: {self.lab!r}, {self.lab.look.master.error}"
        return True

    def advance(self, steps: int) -> None:
        """Take `steps` actions, or fewer if the job ends or comes to rest before."""
        end = self.lab.position + steps
        self.run_until(lambda: self.lab.position >= end or self.lab.ended, or_rest=True)

    def run(self) -> None:
        """Run to the end of the job, and take the actions that remain after it."""
        self.run_until(lambda: self.lab.ended)
        self.settle()

    def settle(self) -> None:
        """Take all actions that remain; timers that are not due stay."""
        while any(not isinstance(action, LetTimePass) for action in self.enabled()):
            self.turn()

    def enabled(self) -> list[Action]:
        """Return the possible actions, without turns of held tasks."""
        actions = self.lab.enabled()
        return [each for each in actions if not isinstance(each, TakeTurn) or not self._is_held(each.subject)]

    def turn(self) -> bool:
        """Do some of what may happen now; False when nothing may."""
        enabled = self.enabled()
        now = [action for action in enabled if not isinstance(action, LetTimePass)]
        if not now and self.relents:
            turns = [action for action in self.lab.enabled() if isinstance(action, TakeTurn)]
            now = sorted(turns, key=lambda turn: turn.subject.startswith("source"))[:1]
        if not now:
            if enabled:
                self.perform(enabled[-1])
            return bool(enabled)
        self.random.shuffle(now)
        for action in now[: self.burst]:
            if self._is_possible(action) and (len(now) == 1 or not self._is_skipped(action)):
                self.perform(action)
        return True

    def perform(self, action: Action) -> None:
        """Do this; now and then the world is checked as a whole."""
        self.lab._world.perform(action)
        self.lab._done.append(action)
        if self.lab.position % 200 == 0:
            self.lab.look.validate()

    def _is_skipped(self, action: Action) -> bool:
        return isinstance(action, TakeTurn) and action.subject.startswith(self.slow) and self.random.random() > SLOWNESS

    def _is_held(self, task: str) -> bool:
        """A held task still takes what overtakes records."""
        return self.held(task) and not self._has_priority(task)

    def _has_priority(self, task: str) -> bool:
        return any(channel.has_priority for channel in self.lab._world.tasks[task].inputs)

    def _is_possible(self, action: Action) -> bool:
        return self.lab._world.agenda.allows(action)

    # ---- what happens to the job

    def kill(self, worker: int) -> None:
        """Kill a worker, if it runs at present."""
        if not self.lab.ended and any(task.subtask == worker for task in self.lab._world.tasks.values()):
            self.lab.faults.kill(worker)

    def newest(self) -> str | None:
        """Return the path of the newest snapshot on the disk."""
        contents = self.lab.look.files.contents
        found = {
            read_metadata(contents[path], "")[0].checkpoint_id: path.removesuffix("/_metadata")
            for path in contents
            if path.endswith("/_metadata")
        }
        return found[max(found)] if found else None

    def cancel(self) -> None:
        """Cancel the job; its last checkpoint stays."""
        self.lab.cancel()
        self.held = lambda task: False
        self.run_until(lambda: self.lab.ended)
        self.settle()
        assert self.lab.look.master.status is JobStatus.CANCELED
        self.check_nothing_left()

    def rescaled(self, parallelism: int, path: str | None, mode: str | None = None, **checkpoint: Any) -> Driver:
        """The job from there, at another parallelism."""
        plan = self.plan.rescaled(parallelism, mode)
        seed = self.random.randrange(2**32)
        return Driver(plan, seed, slow=self.slow, burst=self.burst, after=self, restore_path=path, **checkpoint)

    # ---- what must be so

    def check_nothing_left(self) -> None:
        """Check that the ended job left no unreferenced file, and nothing in flight."""
        lab, world = self.lab, self.lab._world
        assert lab.ended
        assert state_files(lab) == referenced_files(lab)
        assert world.tasks == {}
        assert not world.agenda.work
        assert not any(isinstance(action, DeliverMessage) for action in world.agenda)
        lab.look.validate()

    def check_finished(self) -> None:
        """The job has finished, and kept its promise."""
        lab = self.lab
        assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
        topology = TOPOLOGIES[self.plan.topology]
        found = problems(self.plan, lab.output("rows"), topology.sources, topology.counted)
        assert not found, found
        self.check_nothing_left()
