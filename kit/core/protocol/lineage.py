"""The lineage of a run: one run that started from scratch, and those that resumed, one after the other, from snapshots.

    run a, from scratch:        publishes with checkpoints 1, 2, ..., takes savepoint 5, goes on to 9
    run b, from savepoint 5:    publishes with checkpoints 6, 7, 8, and is cancelled
    run c, from savepoint 5:    would publish again what a published after 5, and b after that

Every file that a sink publishes carries the name of its *writer*: the lineage's first run and the run itself. Every
snapshot with a sink lists the output that it covers: the runs that led to it, each with the last checkpoint whose
output it accounts for. So output that is later than a snapshot can be distinguished from output that the snapshot
covers, even if the snapshot has been moved. It can also be distinguished from the output of other jobs, whose lineage
has another first run.

Flink has no counterpart: its sinks do not notice that an older savepoint was restored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = re.compile(r"[0-9A-Za-z_-]{1,64}")


@dataclass(frozen=True, slots=True)
class RunOutput:
    """The output that one run has published up to and with checkpoint `checkpoint_id`.

    It is `kept` if the snapshot did not lead to this output, and the user chose to keep it nevertheless.

    Raises ValueError for a name that cannot be part of a file's name: a snapshot may come from a stranger.
    """

    run: str
    checkpoint_id: int
    kept: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.run, str) and _NAME.fullmatch(self.run)):
            raise ValueError(f"{self.run!r} is not the name of a run: expected 1 to 64 letters, digits, - and _")
        if type(self.checkpoint_id) is not int or type(self.kept) is not bool:
            raise ValueError(
                f"expected a checkpoint id and a bool for `kept`, but found ({self.checkpoint_id!r}, {self.kept!r})"
            )


@dataclass(frozen=True, slots=True)
class CoveredOutput:
    """The output that a snapshot accounts for, by the runs that led to it, the first one first.

    Raises ValueError if there is none.
    """

    runs: tuple[RunOutput, ...]

    def __post_init__(self) -> None:
        if not self.runs or not all(isinstance(each, RunOutput) for each in self.runs):
            raise ValueError(f"expected at least one RunOutput, but found {self.runs!r}")

    @property
    def first_run(self) -> str:
        """The run that started from scratch, after which the lineage is named."""
        return self.runs[0].run

    def is_of(self, writer: str) -> bool:
        """Return True if this writer belongs to the lineage."""
        return _runs_of(writer)[0] == self.first_run

    def includes(self, writer: str, checkpoint_id: int, *, kept: bool = True) -> bool:
        """Return True if the rows that `writer` published with this checkpoint are accounted for.

        Without `kept`, only the output that led to the snapshot counts.
        """
        first_run, run = _runs_of(writer)
        return first_run == self.first_run and any(
            each.run == run and checkpoint_id <= each.checkpoint_id and (kept or not each.kept) for each in self.runs
        )

    def encode(self) -> str:
        """Return the runs as JSON."""
        return json.dumps([[each.run, each.checkpoint_id, *[True] * each.kept] for each in self.runs])

    @classmethod
    def decode(cls, text: str) -> CoveredOutput:
        """Read what `encode` wrote. Raises ValueError for anything else."""
        try:
            return cls(tuple(RunOutput(*run) for run in json.loads(text)))
        except TypeError as error:
            raise ValueError(f"{text[:80]!r} names no runs and checkpoints: {error}") from None

    def extended(self, run: str, checkpoint_id: int, *, kept: bool = False) -> CoveredOutput:
        """Return the same with a run's output up to this checkpoint, and with no less of it than before."""
        same = [each for each in self.runs if (each.run, each.kept) == (run, kept)]
        latest = RunOutput(run, max([checkpoint_id, *(each.checkpoint_id for each in same)]), kept)
        if same:
            return CoveredOutput(tuple(latest if each in same else each for each in self.runs))
        return CoveredOutput((*self.runs, latest))

    def keeping(self, parts: Iterable[tuple[str, int]]) -> CoveredOutput:
        """Return the same with later output that is kept, each part of it given by its writer and its checkpoint."""
        covered = self
        for writer, checkpoint_id in parts:
            covered = covered.extended(_runs_of(writer)[1], checkpoint_id, kept=True)
        return covered


@dataclass(frozen=True, slots=True)
class Lineage:
    """A run's place in its lineage: its name, and the output that the snapshot it resumed from covers.

    `before` is None for a run that started from scratch.
    """

    run: str
    before: CoveredOutput | None = None

    @property
    def writer(self) -> str:
        """The run's name in the names of files: after the first run's, if that is another."""
        first_run = self.run if self.before is None else self.before.first_run
        return self.run if first_run == self.run else f"{first_run}.{self.run}"

    def covered_at(self, checkpoint_id: int) -> CoveredOutput:
        """Return the output that a snapshot of this run covers."""
        if self.before is None:
            return CoveredOutput((RunOutput(self.run, checkpoint_id),))
        return self.before.extended(self.run, checkpoint_id)

    def led_to(self, writer: str, checkpoint_id: int) -> bool:
        """Return True if this run's output includes that part: it wrote it, or resumed from a snapshot after it."""
        return writer == self.writer or (
            self.before is not None and self.before.includes(writer, checkpoint_id, kept=False)
        )


def _runs_of(writer: str) -> tuple[str, str]:
    """Return the first run of a writer's lineage, and its own run."""
    first_run, _, run = writer.rpartition(".")
    return first_run or run, run
