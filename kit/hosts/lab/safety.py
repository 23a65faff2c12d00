"""The safety properties of a job under any faults, as checked by a swarm's trials and by `check` in a scenario.

| property    | meaning |
|---|---|
| output      | the final output equals that of a run without faults |
| restorable  | every file of a completed checkpoint exists |
| ids         | checkpoint ids grow, from that of the initial snapshot on, over restarts and drivers |
| files       | when the job has ended, every file belongs to a snapshot, and nothing is in flight |
| invariant   | every machine's own invariants hold |
| ends        | without further faults, the job completes a checkpoint and ends |
| failed      | the job fails only with the savepoint to resume from in its error |
| parallelism | the parallelism in a durable store is the one requested last |
| tolerance   | a job that fails over failed checkpoints has had as many of them in a row as it reports |

If the disk loses or damages a file, the job must name the file in an error when it needs it (`DamageReported`). Nothing
more can be asked of the job then. It must not continue with wrong output.

A job may have several *lives*, one `Lab` each. A job that was stopped or cancelled, or whose driver died or was
replaced, resumes in the next life.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kit.core.metadata import read_metadata
from kit.core.protocol.events import RequestStop, StartJob
from kit.core.protocol.notes import CheckpointCompleted, CheckpointPending
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.faults import FailCommand, FileFault
from kit.hosts.lab.jobs.random_jobs import RandomJob
from kit.hosts.lab.jobs.user_jobs import UserJob
from kit.hosts.lab.lab import SAVEPOINTS, Lab
from kit.hosts.lab.world.edge import METADATA
from kit.machines.job.status import JobStatus

VALIDATED_EVERY = 50
"""The number of steps between two checks of the machines' invariants; a broken one stays broken for a while."""
MOST_STEPS = 6_000
"""The most steps without faults after which a life must have ended."""
GO_ON = re.compile(r"go on from this savepoint, restore_path='([^']+)', and from no older checkpoint")
IN_A_ROW = re.compile(r"(\d+) checkpoints? failed in a row")
REFUSED = "start with recover=True to resume it"
"""Part of the error for a job whose end could not be written to the store."""
INCONSISTENT = "PossibleInconsistentState"
FAILED = ("CheckpointAborted", "TriggeringFailed")
"""The kinds of record of a failed checkpoint."""
ERRORS = ("error", "detail")
"""The fields of a record that contain an error."""
STORE = "/store/"


TriedJob = RandomJob | UserJob
"""A job under test."""


class Violation(LabError):
    """A property that does not hold; `kind` is one of those above."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class DamageReported(Exception):
    """The job has reported a file that a fault damaged or removed, so the trial is over."""


class Safety:
    """The properties of a job's lives, checked against the newest life."""

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
        """Start another life."""
        start = lab.past.actions[0]
        assert isinstance(start, StartJob)
        self._seen = self._records_seen = 0
        self._latest_id = -1
        if start.recover:
            self.clean = False
        elif start.restore_path is None:
            self._highest_id = 0
        else:
            location = str(start.restore_path)  # the metadata of other snapshots may be damaged
            metadata, _ = read_metadata(lab.look.files.contents[f"{location}{METADATA}"], location)
            self._highest_id = metadata.checkpoint_id

    def check(self, lab: Lab) -> None:
        """Check, after each step, that a checkpoint completed by it can be restored. Raises Violation, and
        DamageReported if the job has reported a damaged file.
        """
        for action in lab._done[self._seen :]:
            if isinstance(action, FileFault):
                self.damaged.add(action.path)
            if isinstance(action, FileFault) or (isinstance(action, FailCommand) and action.failure == INCONSISTENT):
                self.clean = False
        self._seen = lab.position
        if lab.position % VALIDATED_EVERY == 0:
            self.check_closely(lab)
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

    def check_closely(self, lab: Lab) -> None:
        """Check what takes too long after each step: every machine's invariants, and the parallelism in the store."""
        lab.look.validate()
        master = lab.look.master
        is_under_way = master.status is not JobStatus.CREATED and not master.status.is_terminal
        if is_under_way and master.rescaling.is_noted and not self.damaged and lab._world.edge.leads():
            noted = lab._world.edge.store.wanted()
            if noted and noted != master.rescaling.wanted:
                raise Violation("parallelism", f"the store holds {noted}, but wanted is {master.rescaling.wanted}")

    def _check_tolerance(self, lab: Lab) -> None:
        """Check the count of failed checkpoints, which a completed checkpoint or savepoint resets."""
        failures = 0
        for record in lab.trace:
            if record.is_a(CheckpointCompleted):
                failures = 0
            elif record.kind in FAILED:
                failures += 1
            for name in ERRORS:
                reported = IN_A_ROW.search(str(record.data.get(name, "")))
                if reported is not None and int(reported[1]) > failures:
                    raise Violation("tolerance", f"{failures} failed in a row when the job said: {reported.string}")

    def _look_for_tellers(self, lab: Lab) -> None:
        self.check_error(lab.error)
        records = lab.trace.since(self._records_seen)
        self._records_seen = len(lab.trace)
        for record in records:
            for name in ERRORS:
                self.check_error(str(record.data.get(name, "")))

    def check_error(self, error: str) -> None:
        """Raise DamageReported if an error names a damaged file."""
        for path in self.damaged if error else ():
            directory, _, name = path.rpartition("/")
            below, _, record = path.partition(STORE)
            record = record.partition("/")[2]  # without the leader's directory
            names = {path: "", f"{directory}'": name, f"{record} in {below}{STORE[:-1]}": ""}
            if any(one in error and other in error for one, other in names.items()):
                raise DamageReported(error)

    def run_in_peace(self, lab: Lab, step: Callable[[], object]) -> None:
        """Take steps without faults to the end of this life, in which a checkpoint must complete."""
        checkpoint = lab.job.settings.coordinator
        # More than a job may need: its timers continue while it waits for something lost.
        most = MOST_STEPS + 4 * (checkpoint.timeout_ms // max(1, checkpoint.interval_ms))
        for _ in range(most):
            if lab.ended:
                break
            step()
        else:
            raise Violation("ends", f"left in peace for {most} steps, the job has not ended: {lab!r}")
        if lab.look.master.status is JobStatus.FINISHED and not any(
            each.is_a(CheckpointCompleted) for each in lab.trace
        ):
            raise Violation("ends", "left in peace, the job has ended without a checkpoint")

    def end(self, lab: Lab) -> str | None:
        """Check the end of a life. Return the snapshot that the next one starts from, or None if it was the last."""
        self._check_end(lab)
        goes_on = self.goes_on_from(lab)
        if goes_on is None and lab.status != "FINISHED":
            raise Violation("failed", f"the job ended {lab.status}: {lab.error or 'it was cancelled'}")
        return goes_on

    def end_suspended(self, lab: Lab) -> None:
        """Check the end of a life whose driver was replaced; the next driver removes the files that it left."""
        self.clean = False
        self._check_end(lab)

    def _check_end(self, lab: Lab) -> None:
        lab.look.validate()
        self._check_ids(lab)
        self._check_tolerance(lab)
        self._check_nothing_left(lab)

    def check_output(self, job: TriedJob, lab: Lab) -> None:
        """Check the final output."""
        for problem in job.problems(lab.output):
            raise Violation("output", problem)

    def _check_ids(self, lab: Lab) -> None:
        for record in lab.trace:
            if record.is_a(CheckpointPending) and record.checkpoint_id is not None:
                if record.checkpoint_id <= self._highest_id:
                    raise Violation("ids", f"checkpoint {record.checkpoint_id} begins after {self._highest_id}")
                self._highest_id = record.checkpoint_id

    def _check_nothing_left(self, lab: Lab) -> None:
        world = lab._world
        if world.tasks:
            raise Violation("files", f"the job has ended, but {sorted(world.tasks)} are still there")
        if world.agenda.work:
            raise Violation(
                "files", f"the job has ended, but there is still to be done: {[*world.agenda.work.values()]}"
            )
        left = sorted(_state_files(lab) - _referenced_files(lab)) if self.clean else []
        if left:
            raise Violation("files", f"nothing refers to {left}")

    # --- the next life --------------------------------------------------------------------------------------------

    def goes_on_from(self, lab: Lab) -> str | None:
        """Return the snapshot from which the next life starts: the one with which the job was stopped, the one that its
        failure names, or the newest if it was cancelled.
        """
        stops = (action.request_id for action in lab._done if isinstance(action, RequestStop))
        answers = [answer for request in stops if (answer := lab._world.answers.get(request)) is not None]
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
        """Return the newest snapshot. Raises DamageReported if its `_metadata` is damaged or missing."""
        for path in self.damaged:
            if path.endswith(METADATA):
                raise DamageReported(f"{path} is damaged, or gone")
        return next(reversed(lab._world.edge.snapshots()), None)


def _state_files(lab: Lab) -> set[str]:
    """Return the files of checkpoints and savepoints, except `_metadata` and the records of a durable store."""
    config = lab.job.settings.checkpoint
    below = {config.directory or "/", config.default_savepoint_directory or SAVEPOINTS}
    found = {path for each in below for path in lab.look.files.paths(each)}
    return {path for path in found if not path.endswith(METADATA) and STORE not in path}


def _referenced_files(lab: Lab) -> set[str]:
    """Return the files to which the `_metadata` on the disk refer."""
    snapshots = lab._world.edge.snapshots().values()
    return {file for metadata in snapshots for state in metadata.operator_states for file in state.files()}
