"""What must hold whatever happens to a job, whoever does it: a swarm's trial, or a play's `check`.

    output       what was put out in the end is what a run without faults puts out
    restorable   whenever a checkpoint has completed, every file that it needs is there
    ids          checkpoint ids grow, from that of the snapshot the job began with, over restarts and drivers
    files        when the job has ended, nothing is left behind that no snapshot refers to, and nothing is under way
    invariant    every machine's own invariants
    ends         once it is left in peace, the job completes a checkpoint and comes to its end
    failed       it fails only where it says which savepoint to go on from
    parallelism  what a durable store holds of the parallelism that is wanted is what was asked for last
    tolerance    as many checkpoints have failed in a row as the job says when it fails or restarts for that reason

A file that the disk has lost or damaged may be missed by nobody. Whoever needs it says so, by its name, and that is the
end of what can be asked of the job (`DamageTold`): what must not be is that it goes on and its output is wrong.

A job may have several *lives*, one `Lab` each: one that was stopped or cancelled, or lost its driver, goes on in the
next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pandas as pd

from kit.core.metadata import read_metadata
from kit.core.protocol.events import RequestStop, StartJob
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.faults import FailCommand, FileFault
from kit.hosts.lab.lab import SAVEPOINTS, Lab
from kit.machines.coordinator.master_hooks import MasterHook
from kit.machines.job.status import JobStatus
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph

VALIDATED_EVERY = 50
"""Steps between two checks of the machines' own invariants: what is wrong with one of them stays so for a while."""
MOST_STEPS = 6_000
"""A life that has not ended after so many steps in peace will not."""
GO_ON = re.compile(r"go on from this savepoint, restore_path='([^']+)', and from no older checkpoint")
IN_A_ROW = re.compile(r"(\d+) checkpoints? failed in a row")
REFUSED = "start with recover=True to resume it"
"""What the refusal of a job says whose end could not be noted in the store."""
INCONSISTENT = "PossibleInconsistentState"
FAILED = ("CheckpointAborted", "TriggeringFailed")
"""The kinds of record of a checkpoint that failed."""
ERRORS = ("error", "detail")
"""Where a record says what went wrong."""
METADATA, STORE = "/_metadata", "/store/"


class TriedJob(Protocol):
    """What is asked of a job that is tried."""

    @property
    def parallelism(self) -> int:
        """How many subtasks an operator has."""

    def environment(self) -> StreamEnvironment | JobGraph:
        """The job, to be run."""

    def master_hooks(self) -> Sequence[MasterHook]:
        """Return new master hooks for one life of the job."""

    def at(self, parallelism: int) -> TriedJob:
        """The same job at another parallelism, if it has others."""

    @property
    def rescales(self) -> bool:
        """Return True if the job can run at other parallelisms."""

    @property
    def has_last_words(self) -> bool:
        """Whether draining it would bring other rows."""

    def problems(self, output: Callable[[str], pd.DataFrame]) -> Iterator[str]:
        """What is wrong with what was put out, when all input has been."""

    def small(self) -> Iterator[TriedJob]:
        """The same job in small."""

    def simpler(self) -> Iterator[TriedJob]:
        """Jobs that are a little simpler, the boldest first."""

    @property
    def text(self) -> str:
        """The job as the head of a play names it."""


class Violation(LabError):
    """Something that should hold does not; `kind` is one of those above."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class DamageTold(Exception):
    """The job has said that a file is damaged, or gone, that was made so: nothing more can be asked of it."""


class Safety:
    """What must hold of a job's lives, held against the newest."""

    def __init__(self) -> None:
        self.damaged: set[str] = set()
        """The files that were lost or damaged, in any life."""
        self.clean = True
        """Whether what nobody needs has to be gone in the end: what a driver's last moment left goes at the next start,
        and what may be in the store has to stay.
        """
        self._seen = 0
        self._records_seen = 0
        self._latest_id = -1
        self._highest_id = 0

    def begin(self, lab: Lab) -> None:
        """Another life begins."""
        start = lab.past.actions[0]
        assert isinstance(start, StartJob)
        self._seen = self._records_seen = 0
        self._latest_id = -1
        if start.recover:
            self.clean = False
        elif start.restore_path is None:
            self._highest_id = 0
        else:
            self._highest_id = _snapshot_id(lab, str(start.restore_path))

    def look(self, lab: Lab) -> None:
        """After each step: a checkpoint that has completed meanwhile can be restored. Raises Violation, and DamageTold
        where the job has come upon a file that was damaged.
        """
        for action in lab._done[self._seen :]:
            if isinstance(action, FileFault):
                self.damaged.add(action.path)
            if isinstance(action, FileFault) or (isinstance(action, FailCommand) and action.failure == INCONSISTENT):
                self.clean = False
        self._seen = lab.position
        if lab.position % VALIDATED_EVERY == 0:
            self.look_closely(lab)
        if self.damaged:
            self._look_for_tellers(lab)
        store = lab.look.master.checkpoints.store
        if store.latest is None or store.latest_id == self._latest_id:
            return
        self._latest_id = store.latest_id
        there = lab.look.files.contents.keys() | self.damaged
        for state in store.latest.operator_states.values():
            for file in state.files():
                if file not in there:
                    raise Violation("restorable", f"checkpoint {self._latest_id} is complete without {file}")
        if store.latest.path not in there:
            raise Violation("restorable", f"checkpoint {self._latest_id} is complete without its _metadata")

    def look_closely(self, lab: Lab) -> None:
        """Check what takes too long after each step: every machine's invariants, and the parallelism in the store."""
        lab.look.validate()
        master = lab.look.master
        is_under_way = master.status is not JobStatus.CREATED and not master.status.is_terminal
        if is_under_way and master.rescaling.is_noted and not self.damaged:
            noted = lab._world.edge.store.wanted()
            if noted and noted != master.rescaling.wanted:
                raise Violation("parallelism", f"the store holds {noted}, but wanted is {master.rescaling.wanted}")

    def _check_tolerance(self, lab: Lab) -> None:
        """A checkpoint that completed, or a savepoint, begins the count of failures again."""
        failures = 0
        for record in lab.trace:
            if record.kind == "CheckpointCompleted":
                failures = 0
            elif record.kind in FAILED:
                failures += 1
            for name in ERRORS:
                told = IN_A_ROW.search(str(record.data.get(name, "")))
                if told is not None and int(told[1]) > failures:
                    raise Violation("tolerance", f"{failures} failed in a row when the job said: {told.string}")

    def _look_for_tellers(self, lab: Lab) -> None:
        self.told(lab.error)
        records = lab.trace.since(self._records_seen)
        self._records_seen = len(lab.trace)
        for record in records:
            for name in ERRORS:
                self.told(str(record.data.get(name, "")))

    def told(self, error: str) -> None:
        """Raises DamageTold if an error names a damaged file."""
        for path in self.damaged if error else ():
            directory, _, name = path.rpartition("/")
            below, _, record = path.partition(STORE)
            record = record.partition("/")[2]  # without the leader's directory
            names = {path: "", f"{directory}'": name, f"{record} in {below}{STORE[:-1]}": ""}
            if any(one in error and other in error for one, other in names.items()):
                raise DamageTold(error)

    def run_in_peace(self, lab: Lab, step: Callable[[], object]) -> None:
        """Take steps to the end of this life, in which a checkpoint must complete."""
        checkpoint = lab.job.settings.coordinator
        # More than a job may take: while something lost is waited for, its timers go on.
        most = MOST_STEPS + 4 * (checkpoint.timeout_ms // max(1, checkpoint.interval_ms))
        for _ in range(most):
            if lab.ended:
                break
            step()
        else:
            raise Violation("ends", f"left in peace for {most} steps, the job has not ended: {lab!r}")
        if lab.look.master.status is JobStatus.FINISHED and not any(
            each.kind == "CheckpointCompleted" for each in lab.trace
        ):
            raise Violation("ends", "left in peace, the job has ended without a checkpoint")

    def end(self, lab: Lab) -> str | None:
        """A life has ended, and nothing is under way any more: where the next one begins, None for the last one."""
        lab.look.validate()
        self._check_ids(lab)
        self._check_tolerance(lab)
        self._check_nothing_left(lab)
        goes_on = self.goes_on_from(lab)
        if goes_on is None and lab.status != "FINISHED":
            raise Violation("failed", f"the job ended {lab.status}: {lab.error or 'it was cancelled'}")
        return goes_on

    def check_output(self, job: TriedJob, lab: Lab) -> None:
        """All has been put out."""
        for problem in job.problems(lab.output):
            raise Violation("output", problem)

    def _check_ids(self, lab: Lab) -> None:
        for record in lab.trace:
            if record.kind == "CheckpointPending" and record.checkpoint_id is not None:
                if record.checkpoint_id <= self._highest_id:
                    raise Violation("ids", f"checkpoint {record.checkpoint_id} begins after {self._highest_id}")
                self._highest_id = record.checkpoint_id

    def _check_nothing_left(self, lab: Lab) -> None:
        world = lab._world
        if world.tasks:
            raise Violation("files", f"the job has ended, but {sorted(world.tasks)} are still there")
        if world.agenda.pending_io:
            raise Violation("files", f"the job has ended, but there is still to be done: {world.agenda.pending_io}")
        left = sorted(_state_files(lab) - _referenced_files(lab)) if self.clean else []
        if left:
            raise Violation("files", f"nothing refers to {left}")

    # --- the next life --------------------------------------------------------------------------------------------

    def goes_on_from(self, lab: Lab) -> str | None:
        """The snapshot that the next life begins with: that to which the job was stopped, or which its failure names,
        or, when it was cancelled, the newest.
        """
        answers = [answer for request in _stops(lab) if (answer := lab._world.answers.get(request)) is not None]
        if lab.status == "FAILED":
            found = GO_ON.search(lab.error)
            return found[1] if found else None
        stopped = [str(answer.path) for answer in answers if not answer.error]
        if stopped:
            return stopped[0]
        stood = [found[1] for answer in answers if (found := GO_ON.search(answer.error))]
        if stood:
            return stood[0]
        return self._newest_snapshot(lab) if lab.status == "CANCELED" else None

    def _newest_snapshot(self, lab: Lab) -> str | None:
        """Whoever looks for it on the disk sees a `_metadata` that is damaged, and misses one that is gone."""
        for path in self.damaged:
            if path.endswith(METADATA):
                raise DamageTold(f"{path} is damaged, or gone")
        return newest_snapshot(lab)


def newest_snapshot(lab: Lab) -> str | None:
    """Where the newest snapshot is that lies on the lab's disk, None when there is none."""
    found = {
        read_metadata(data, "")[0].checkpoint_id: path.removesuffix(METADATA)
        for path, data in lab.look.files.contents.items()
        if path.endswith(METADATA)
    }
    return found[max(found)] if found else None


def _stops(lab: Lab) -> list[int]:
    """The requests to stop that this life's driver was given."""
    return [action.request_id for action in lab._done if isinstance(action, RequestStop)]


def _snapshot_id(lab: Lab, location: str) -> int:
    return int(read_metadata(lab.look.files.contents[f"{location}{METADATA}"], location)[0].checkpoint_id)


def _state_files(lab: Lab) -> set[str]:
    """The files in checkpoints and savepoints, except for `_metadata`, and for what a durable store notes there."""
    config = lab.job.settings.checkpoint
    below = {config.directory or "/", config.default_savepoint_directory or SAVEPOINTS}
    found = {path for each in below for path in lab.look.files.paths(each)}
    return {path for path in found if not path.endswith(METADATA) and STORE not in path}


def _referenced_files(lab: Lab) -> set[str]:
    """The files that the `_metadata` on the disk refer to."""
    found: set[str] = set()
    for path, data in lab.look.files.contents.items():
        if path.endswith(METADATA):
            metadata, _ = read_metadata(data, path.rpartition("/")[0])
            for state in metadata.operator_states:
                found |= set(state.files())
    return found
