"""Checks of the lab "a two-phase sink": a sink's operator written by the student, with failures at bad moments.

By hand, rows, barriers, ends of checkpoints and deaths come in every order (`SinkBench`); then whole jobs run in the
lab. `SinkFrame` provides what is not part of the lesson: names of files, and the checkpoint's state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pyarrow as pa

from kit.core.protocol.lineage import Lineage
from kit.core.protocol.snapshots import Effect
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import WANTED, letters, output, reached_in_time, walked
from kit.course.classroom.searching import orders, searched
from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors.part_writer import PendingFile
from kit.stream.connectors.sink import COMMITTABLES_STATE, CollectSink, HeldOutput, SinkOperator, SinkSpec, StagedPart
from kit.stream.operators.base import OperatorContext


class SinkFrame(SinkOperator):
    """A sink's operator without its rules.

    `file(part, checkpoint_id, rows)` returns the file in which checkpoint `checkpoint_id` stages these rows. A part is
    published under the same name, whichever checkpoint staged it, so publishing twice has no further effect.
    `remember({checkpoint_id: files})` adds to the checkpoint what it will have to publish, and `remembered()` returns
    that from the restored one.
    """

    def initialize_state(self) -> None:
        self._state = self.context.operator_state.list_state(COMMITTABLES_STATE)
        self.restored()

    def restored(self) -> None:
        """Take over what was remembered; the state has been restored."""

    def file(self, part: int, checkpoint_id: int, rows: Sequence[pa.RecordBatch]) -> Effect:
        """Return a staged file, with its name once it is published."""
        table = pa.Table.from_batches(rows, schema=self._spec.input_schema)
        return self._effect_of(StagedPart(part, 0, PendingFile("", table.num_rows, table)), checkpoint_id)

    def remember(self, files: Mapping[int, Sequence[Effect]]) -> None:
        """Add to this checkpoint what must be published, by the checkpoint that staged it."""
        self._state.update(
            [
                {"checkpoint_id": number, "staged": each.staged, "final": each.final}
                for number, effects in files.items()
                for each in effects
            ]
        )

    def remembered(self) -> dict[int, list[Effect]]:
        """Return what the restored checkpoint remembered."""
        found: dict[int, list[Effect]] = {}
        for entry in self._state.get():
            effect = Effect(self.context.operator_id, entry["staged"], entry["final"])
            found.setdefault(entry["checkpoint_id"], []).append(effect)
        return found

    def held(self) -> list[HeldOutput]:
        return []

    def close(self) -> None:
        """Keep nothing: everything staged is deleted when the job ends."""


def job(operator: type[SinkFrame], **checkpoint: int) -> StreamEnvironment:
    """Return the job of letters, with the student's sink."""

    class Own(CollectSink):
        """A sink with the student's operator."""

        def create_operator(self, spec: SinkSpec) -> SinkOperator:
            return operator(spec)

    return letters(Own("out"), **checkpoint)


class _State:
    """The list state of a sink's operator: what a checkpoint stores of it."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self.entries = list(entries)

    def list_state(self, descriptor: object) -> _State:
        """Return the only state that there is."""
        return self

    def get(self) -> list[Any]:
        """Return the entries."""
        return list(self.entries)

    def update(self, entries: Sequence[Any]) -> None:
        """Replace the entries."""
        self.entries = list(entries)


@dataclass
class _Checkpoint:
    """A checkpoint of the bench: the rows before its barrier, the files it staged, and its state."""

    number: int
    rows: int
    staged: list[str]
    state: list[Any]
    is_complete: bool = False
    is_over: bool = False
    """True once the operator has been notified of its end."""


class SinkBench:
    """A sink's operator by hand, with the host's files: each row must be published once, and no file left over.

    The rows are numbered. After a death the operator is restored from the last complete checkpoint, and the source
    sends the rows behind that checkpoint again.
    """

    operator_id, name, task, subtask, lineage = "out", "out", "out/0", 0, Lineage("letters")
    processing_time_ms = 0

    def __init__(
        self, operator: type[SinkFrame], *, aborts: bool = False, deaths: int = 0, unheard: bool = False
    ) -> None:
        self._spec = cast(SinkSpec, job(operator).job_graph().vertices[-1].operators[-1].spec)
        self._aborts, self._deaths, self._unheard = aborts, deaths, unheard
        self._checkpoints: dict[int, _Checkpoint] = {}
        self._rows = 0
        self._files: dict[str, list[int]] = {}
        """The rows of each staged file."""
        self._asked: dict[int, dict[str, str]] = {}
        """The files that are to be published, by the checkpoint that staged them: their final names."""
        self._published: dict[str, list[int]] = {}
        self._restore(None)

    @property
    def operator_state(self) -> _State:
        """The state of the operator."""
        return self._state

    @property
    def _latest(self) -> _Checkpoint | None:
        complete = [each for each in self._checkpoints.values() if each.is_complete]
        return max(complete, key=lambda each: each.number, default=None)

    def _restore(self, latest: _Checkpoint | None) -> None:
        self.restored_checkpoint_id = latest and latest.number
        self._state = _State(latest.state if latest else ())
        self._rows = latest.rows if latest else 0
        self._asked.clear()
        kept = {entry["staged"] for entry in self._state.entries}
        self._files = {path: rows for path, rows in self._files.items() if path in kept}
        self._checkpoints = {each.number: each for each in [latest] if each}
        self.operator = self._spec.create()
        self.operator.setup(cast(OperatorContext, self))
        self.operator.initialize_state()
        self.operator.open()

    # --- what the operator calls ------------------------------------------------------------------------------------

    def stage(self, effects: Sequence[Effect]) -> None:
        """Write these files."""
        covered = max(
            (each.rows for each in self._checkpoints.values() if each.is_complete and each.is_over), default=0
        )
        for each in effects:
            assert each.table is not None
            rows = self._files[each.staged] = each.table.column(1).to_pylist()
            if rows and max(rows) <= covered:
                raise NotYet(
                    f"{_file(each.staged)} has rows that a complete checkpoint covers: each checkpoint would write all "
                    "rows of the job again."
                )
            self._staging.append(each.staged)

    def commit(self, checkpoint_id: int, effects: Sequence[Effect]) -> None:
        """Publish these files soon. Raises NotYet if their checkpoint may still be aborted, or if they are gone."""
        checkpoint = self._checkpoints.get(checkpoint_id)
        if checkpoint is not None and not checkpoint.is_complete:
            raise NotYet(
                f"files of checkpoint {checkpoint_id} are published, which has not completed: if the job goes back, "
                "it publishes these rows again. Only `notify_checkpoint_complete` of that checkpoint publishes."
            )
        for each in effects:
            if each.staged not in self._files and each.final not in self._published:
                raise NotYet(f"{_file(each.staged)} is to be published: it was dropped, or never staged.")
            if checkpoint is not None and each.staged not in {
                *checkpoint.staged,
                *(entry["staged"] for entry in checkpoint.state),
            }:
                raise NotYet(
                    f"{_file(each.staged)} is published for checkpoint {checkpoint_id}, which did not stage it."
                )
            self._asked.setdefault(checkpoint_id, {})[each.staged] = each.final

    def drop(self, effects: Sequence[Effect]) -> None:
        """Delete these files. Raises NotYet if a checkpoint needs one."""
        for each in effects:
            for checkpoint in self._checkpoints.values():
                if each.staged in checkpoint.staged and not checkpoint.is_over and not self._subsumed(checkpoint):
                    raise NotYet(
                        f"{_file(each.staged)} is dropped, and checkpoint {checkpoint.number} may still complete."
                    )
            if any(each.staged in asked for asked in self._asked.values()):
                raise NotYet(f"{_file(each.staged)} is dropped before it is published.")
            self._files.pop(each.staged, None)

    def _subsumed(self, checkpoint: _Checkpoint) -> bool:
        latest = self._latest
        return latest is not None and checkpoint.number < latest.number

    # --- steps ------------------------------------------------------------------------------------------------------

    def choices(self) -> list[str]:
        """Return what may happen next."""
        found = ["a row comes"]
        pending = [each for each in self._checkpoints.values() if not each.is_over]
        if len(pending) < (2 if self._aborts else 1):
            found.append(f"the barrier of checkpoint {self._next} comes")
        for each in pending:
            if not self._subsumed(each):
                found.append(f"checkpoint {each.number} completes")
                found += [f"checkpoint {each.number} completes, and the worker dies at once"] * self._unheard
            if self._aborts or self._subsumed(each):
                found.append(f"checkpoint {each.number} is aborted")
        found += [f"the output of checkpoint {number} is published" for number in self._asked]
        return found + ["the worker dies"] * (self._deaths > 0)

    @property
    def _next(self) -> int:
        return max(self._checkpoints, default=0) + 1

    def do(self, step: str) -> None:
        """Do it. Raises NotYet for rows that are lost or come twice, and for files that are left over."""
        number = int(next((word for word in step.replace(",", "").split() if word.isdigit()), 0))
        if step == "a row comes":
            self._rows += 1
            rows = pa.record_batch([pa.array(["a"]), pa.array([self._rows])], schema=self._spec.input_schema)
            self.operator.process_batch(rows)
        elif step.startswith("the barrier"):
            self._staging: list[str] = []
            self.operator.snapshot_state(number)
            self._checkpoints[number] = _Checkpoint(number, self._rows, self._staging, self._state.get())
        elif step.startswith("the output"):
            self._publish(number)
        elif step.endswith("is aborted"):
            self._checkpoints[number].is_over = True
            self.operator.notify_checkpoint_aborted(number)
            self._nothing_left(self._checkpoints[number])
        elif "dies" in step:
            self._deaths -= 1
            if number:
                self._checkpoints[number].is_complete = True
            self._restore(self._latest)
            self._all_there(
                "It is restored from the last complete checkpoint; nobody sends the rows before that again."
            )
        else:
            self._checkpoints[number].is_complete = self._checkpoints[number].is_over = True
            self.operator.notify_checkpoint_complete(number)
            self._all_there("The checkpoint covers them: a failure will not bring them again.")

    def _publish(self, number: int) -> None:
        for staged, final in self._asked.pop(number).items():
            rows = self._files.pop(staged, None)
            if rows is not None:
                self._published[final] = rows
        self.operator.effects_committed(number)
        self._once(self._published.values())

    def _nothing_left(self, checkpoint: _Checkpoint) -> None:
        left = [path for path in checkpoint.staged if path in self._files]
        if left:
            raise NotYet(
                f"{_file(left[0])} is left over: checkpoint {checkpoint.number} will never publish it, so "
                "`self.context.drop(files)` must delete what it staged."
            )

    def _all_there(self, why: str) -> None:
        latest = self._latest
        finals = dict(self._published)
        for asked in self._asked.values():
            finals |= {final: self._files[staged] for staged, final in asked.items() if staged in self._files}
        self._once(finals.values())
        there = {row for rows in finals.values() for row in rows}
        missing = sorted(set(range(1, (latest.rows if latest else 0) + 1)) - there)
        if missing:
            raise NotYet(f"row {missing[0]} is not published and not asked to be: it is lost. {why}")
        early = sorted(there - set(range(1, (latest.rows if latest else 0) + 1)))
        if early:
            raise NotYet(f"row {early[0]} is published, and no complete checkpoint covers it.")

    def _once(self, files: Iterable[Sequence[int]]) -> None:
        twice = [row for row, times in Counter(row for rows in files for row in rows).items() if times > 1]
        if twice:
            raise NotYet(f"row {twice[0]} is published twice: it is in two files.")


def _file(path: str) -> str:
    return f"the file {path.rpartition('/')[2]}"


@check
def publishes_all_rows(operator: type[SinkFrame]) -> str:
    """Check that without faults every row is published once."""
    by_hand = searched(partial(SinkBench, operator), runs=250)
    seeds = orders(3)
    for seed in seeds:
        _complete(walked(Lab(job(operator), seed=seed)), "Nothing was made to fail.")
    return f"{by_hand}; {len(WANTED)} rows in {len(seeds)} orders, none missing, none twice"


@check
def publishes_nothing_too_early(operator: type[SinkFrame]) -> str:
    """Check that no row is visible before a checkpoint that covers it is complete."""

    def look(lab: Lab) -> None:
        published = sum(output(lab).values())
        if published and "COMPLETED" not in lab.look.master.checkpoints.ledger.ended.values():
            raise NotYet(
                f"{published} rows are published and no checkpoint is complete. If a worker dies now the job begins "
                "again from nothing, and publishes them a second time: staged files are published in "
                "`notify_checkpoint_complete`, not before.",
                lab,
            )

    seeds = orders(3)
    for seed in seeds:
        walked(Lab(job(operator), seed=seed), look)
    return f"looked at after each step, in {len(seeds)} orders"


@check
def survives_a_death(operator: type[SinkFrame]) -> str:
    """Check that all rows are published once if a worker dies a little after a checkpoint."""
    by_hand = searched(partial(SinkBench, operator, deaths=2), runs=350)
    seeds = orders(3)
    for seed in seeds:
        _disturbed(operator, seed, lambda lab: lab.faults.kill(lab.past.seed % 2), "CheckpointCompleted", seed % 5)
    return f"{by_hand}; {len(seeds)} orders, in each a worker died a little after a checkpoint"


@check
def publishes_again_what_was_staged(operator: type[SinkFrame]) -> str:
    """Check a worker that dies after the checkpoint is complete, but before any task is notified."""
    by_hand = searched(partial(SinkBench, operator, deaths=2, unheard=True), runs=450)
    seeds = orders(3)
    for seed in seeds:
        _disturbed(operator, seed, lambda lab: lab.faults.kill(0), "CheckpointCompleted", 0)
    return f"{by_hand}; {len(seeds)} orders, in each a worker died before it heard that its checkpoint was complete"


@check
def loses_nothing_with_an_aborted_checkpoint(operator: type[SinkFrame]) -> str:
    """Check a checkpoint that is aborted after everything has been staged."""
    by_hand = searched(partial(SinkBench, operator, aborts=True), runs=450)
    seeds = orders(3)
    for seed in seeds:
        _disturbed(operator, seed, lambda lab: lab.faults.fail("StoreCheckpoint of chk-1"), "StoreCheckpoint", 0)
    return f"{by_hand}; {len(seeds)} orders, in each the first checkpoint was aborted at the last moment"


def _disturbed(operator: type[SinkFrame], seed: int, disturb: Callable[[Lab], object], record: str, later: int) -> None:
    lab = Lab(job(operator), seed=seed)
    if not reached_in_time(lab, seed, record, later=later):
        return
    disturb(lab)
    walked(lab)
    _complete(lab, "One thing has failed, and the job went on.")


def _complete(lab: Lab, what: str) -> None:
    found = output(lab)
    for row, times in sorted(found.items()):
        if times > 1:
            raise NotYet(f"{what} The row {row} was published {times} times.", lab)
    missing = sorted(WANTED - set(found))
    if missing:
        raise NotYet(f"{what} {len(missing)} rows were never published, {missing[0]} among them.", lab)
