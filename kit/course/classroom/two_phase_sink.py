"""Checks of the lab "a two-phase sink": a sink's operator written by the student, with failures at bad moments.

`SinkFrame` provides what is not part of the lesson: names of files, and the checkpoint's state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from kit.core.protocol.snapshots import Effect
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import WANTED, letters, output, reached, walked
from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors.part_writer import PendingFile
from kit.stream.connectors.sink import COMMITTABLES_STATE, CollectSink, HeldOutput, SinkOperator, SinkSpec, StagedPart

ORDERS = range(5)


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


@check
def publishes_all_rows(operator: type[SinkFrame]) -> str:
    """Check that without faults every row is published once."""
    for seed in ORDERS:
        _complete(walked(Lab(job(operator), seed=seed)), "Nothing was made to fail.")
    return f"{len(WANTED)} rows in {len(ORDERS)} orders, none missing, none twice"


@check
def publishes_nothing_too_early(operator: type[SinkFrame]) -> str:
    """Check that no row is visible before a checkpoint that covers it is complete."""

    def look(lab: Lab) -> None:
        published = sum(output(lab).values())
        if published and not _completed(lab):
            raise NotYet(
                f"{published} rows are published and no checkpoint is complete. If a worker dies now the job begins "
                "again from nothing, and publishes them a second time: staged files are published in "
                "`notify_checkpoint_complete`, not before.",
                lab,
            )

    for seed in ORDERS:
        walked(Lab(job(operator), seed=seed), look)
    return f"looked at after each step, in {len(ORDERS)} orders"


def _completed(lab: Lab) -> bool:
    return "COMPLETED" in lab.look.master.checkpoints.ledger.ended.values()


@check
def survives_a_death(operator: type[SinkFrame]) -> str:
    """Check that all rows are published once if a worker dies a little after a checkpoint."""
    for seed in ORDERS:
        _disturbed(operator, seed, lambda lab: lab.faults.kill(lab.past.seed % 2), "CheckpointCompleted", seed)
    return f"{len(ORDERS)} orders, in each a worker died a little after a checkpoint"


@check
def publishes_again_what_was_staged(operator: type[SinkFrame]) -> str:
    """Check a worker that dies after the checkpoint is complete, but before any task is notified."""
    for seed in ORDERS:
        _disturbed(operator, seed, lambda lab: lab.faults.kill(0), "CheckpointCompleted", 0)
    return f"{len(ORDERS)} orders, in each a worker died before it heard that its checkpoint was complete"


@check
def loses_nothing_with_an_aborted_checkpoint(operator: type[SinkFrame]) -> str:
    """Check a checkpoint that is aborted after everything has been staged."""
    for seed in ORDERS:
        _disturbed(operator, seed, lambda lab: lab.faults.fail("StoreCheckpoint of chk-1"), "StoreCheckpoint", 0)
    return f"{len(ORDERS)} orders, in each the first checkpoint was aborted at the last moment"


def _disturbed(operator: type[SinkFrame], seed: int, disturb: Callable[[Lab], object], record: str, later: int) -> None:
    lab = reached(Lab(job(operator), seed=seed), record, later=later)
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
