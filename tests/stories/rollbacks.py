"""Chains of runs that resume from each other's snapshots, not only from the newest, and their expected results.

Each row of the input leads to one row of output, and to one key of state. So a snapshot's state shows which rows it
accounts for, independently of the kit's bookkeeping, and the output shows which rows are published. These sets decide
what a restore may do:

- Published rows that the snapshot does not account for would be published again. So would published rows of which the
  snapshot itself has staged copies. The restore is rejected, unless the user says what to do: "discard" deletes these
  rows, and "keep" leaves them there.
- If rows that it accounts for were deleted since it was taken, they would be missing: the restore is rejected.
- Any other restore is accepted. Once its run has finished, each row is there once, beside those that were kept.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from kit import CheckpointConfig, CollectionSource, Lab, ParquetSink, StreamEnvironment, count, open_checkpoint
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.errors import LabError
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobEndedError, JobFailedError
from tests.hosts.spark.jobs import ThreadGang

ROWS = 60
ALL = frozenset(range(ROWS))
AGAIN, MISSING = "their rows would come again", "they would be missing"
COPIED, MOVED, EDITED = "copied", "moved", "edited"
STOP, CANCEL, FINISH = "stop", "cancel", "finish"


def environment(
    out: str, checkpoints: str, *, parallelism: int, durable: bool, mode: str = "error", rows_per_second: int = 200
) -> StreamEnvironment:
    """A job with a row of output and a key of state for each row."""
    settings: dict[str, Any] = {"store": "filesystem"} if durable else {}
    env = StreamEnvironment(
        "rows",
        parallelism=parallelism,
        max_parallelism=16,
        checkpoint=CheckpointConfig(
            interval_ms=40, directory=checkpoints, retention=RetentionPolicy.RETAIN_ON_CANCELLATION, **settings
        ),
    )
    source = CollectionSource([{"n": n} for n in range(ROWS)], batch_rows=1, rows_per_second=rows_per_second)
    counted = env.from_source(source, uid="rows").key_by("n").aggregate(times=count()).uid("counted")
    counted.sink_to(ParquetSink(out, mode=mode), uid="out")
    return env


class InLab:
    """Labs, each with the files and the output of the one before."""

    others: ClassVar = (COPIED, MOVED)

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out, self.checkpoints = "/out", "/checkpoints"
        self.last: Lab | None = None

    def run(self, env: StreamEnvironment, checkpoints: int, ending: str, **start: Any) -> list[str]:
        """Run a job until `checkpoints` are complete, then end it. Returns the snapshots that are left; raises if the
        restore is rejected.
        """
        lab = Lab(env, after=self.last, **start)
        lab.run_until(record="AllTasksRunning")
        self.last = lab
        taken: list[str] = []
        with suppress(LabError):  # the job may come to its end meanwhile
            taken += [self._take(lab, number) for number in range(checkpoints)]
            if ending == STOP:
                taken.append(lab.stop(wait=True))
            elif ending == CANCEL:
                lab.cancel()
        lab.run()
        assert lab.status in ("FINISHED", "CANCELED"), lab.error
        return [path for path in taken if f"{path}/_metadata" in lab.look.files.paths()]

    def _take(self, lab: Lab, number: int) -> str:
        return lab.savepoint(wait=True) if number % 2 else lab.trigger_checkpoint(wait=True)

    def output(self) -> Counter[int]:
        """Return the published rows."""
        return _rows([] if self.last is None else [self.last.output("out")])

    def rows_of(self, snapshot: str) -> frozenset[int]:
        """Return the rows that a snapshot accounts for."""
        copy = self.directory / "looked at"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for path in self._files(snapshot):
            (copy / path.rpartition("/")[2]).write_bytes(self._contents[path])
        return _keys(copy)

    def another(self, snapshot: str, how: str, number: int) -> str:
        """Copy a snapshot, move it, or edit it; returns the new path."""
        target = f"/elsewhere/{how}-{number}"
        for path in self._files(snapshot):
            self._contents[f"{target}/{path.rpartition('/')[2]}"] = self._contents[path]
            if how == MOVED:
                del self._contents[path]
        return target

    def _files(self, snapshot: str) -> list[str]:
        return [path for path in self._contents if path.startswith(f"{snapshot}/")]

    @property
    def _contents(self) -> dict[str, Any]:
        assert self.last is not None
        return self.last._world.edge.files.contents


class OnSlots:
    """Jobs on slots in threads, with real files; for the rest as `InLab`."""

    others: ClassVar = (COPIED, MOVED, EDITED)

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out, self.checkpoints = str(directory / "out"), str(directory / "checkpoints")

    def run(self, env: StreamEnvironment, checkpoints: int, ending: str, **start: Any) -> list[str]:
        taken: list[str] = []
        with SparkJob(env, launch=ThreadGang, **start) as job:
            job.start().wait_until_running(timeout_s=60)
            with suppress(JobFailedError, JobEndedError):  # the job may come to its end meanwhile
                taken += [self._take(job, number) for number in range(checkpoints)]
                if ending == STOP:
                    taken.append(job.stop(self.directory / "savepoints"))
                elif ending == CANCEL:
                    job.cancel()
            assert job.wait(timeout_s=60) in ("FINISHED", "CANCELED"), job.error
        return [path for path in taken if Path(path, "_metadata").exists()]

    def _take(self, job: SparkJob, number: int) -> str:
        return job.savepoint(self.directory / "savepoints") if number % 2 else job.trigger_checkpoint()

    def output(self) -> Counter[int]:
        return _rows(map(pd.read_parquet, sorted(Path(self.out).glob("part-*.parquet"))))

    def rows_of(self, snapshot: str) -> frozenset[int]:
        return _keys(Path(snapshot))

    def another(self, snapshot: str, how: str, number: int) -> str:
        target = self.directory / "elsewhere" / f"{how}-{number}"
        target.parent.mkdir(exist_ok=True)
        if how == EDITED:
            open_checkpoint(snapshot).edit().rename("rows", f"renamed-{number}").rename(
                f"renamed-{number}", "rows"
            ).write(target)
        elif how == MOVED:
            shutil.move(snapshot, target)
        else:
            shutil.copytree(snapshot, target)
        return str(target)


def _rows(parts: Any) -> Counter[int]:
    rows = pd.concat([pd.DataFrame({"n": [], "times": []}), *parts])
    assert set(rows["times"]) <= {1}, "state counts a row twice"
    return Counter(map(int, rows["n"]))


def _keys(snapshot: Path) -> frozenset[int]:
    opened = open_checkpoint(snapshot)
    names = opened.states.query("operator == 'counted'")["name"]
    return frozenset(key for name in names for key in opened.state("counted", name)["key"].to_pylist())


@dataclass
class Snapshot:
    """A checkpoint or savepoint that a run took, and the rows that it accounts for.

    These are published, as far as the run came to it; or only staged; or were published, and deleted since.
    """

    path: str
    run: int
    rows: frozenset[int]
    published: set[int]
    deleted: set[int] = field(default_factory=set)


class Chain:
    """Random runs, each from scratch or from any snapshot so far, and their expected results."""

    def __init__(self, host: InLab | OnSlots, seed: int, policies: tuple[str, ...]) -> None:
        self.host = host
        self.random = random.Random(seed)
        self.policies = policies
        self.is_exact = "keep" not in policies
        self.snapshots: list[Snapshot] = []
        self.visible: Counter[int] = Counter()
        self.runs = self.others = 0
        self.outcomes: Counter[str] = Counter()
        """How restores ended: "again" and "missing" are refusals, "discard" and "keep" had later output."""

    def run(self, runs: int) -> None:
        """Run `runs` jobs, and then one more to its end, from the newest snapshot that can be restored."""
        self._begin("error")
        for _ in range(runs):
            if not self.snapshots or self.random.random() < 0.1:
                self._begin("overwrite")
            else:
                self._restore(self._any_snapshot(), self.random.choice(self.policies), self._ending())
        for snapshot in reversed(self.snapshots):
            if not snapshot.deleted:
                self._restore(snapshot, self.policies[-1], FINISH)
                return

    def _begin(self, mode: str) -> None:
        """Start from scratch; earlier output is deleted."""
        taken = self.host.run(self._environment(mode), self.random.randint(1, 3), self._ending())
        self._deleted(set(self.visible))
        self.snapshots = [each for each in self.snapshots if each.published]  # the others are not known to be older
        self._after(taken)

    def _restore(self, snapshot: Snapshot, policy: str, ending: str) -> None:
        before = Counter(self.visible)
        checkpoints = 0 if ending == FINISH else self.random.randint(1, 3)
        start = {"restore_path": snapshot.path, "later_output": policy}
        refused, taken = "", []
        try:
            taken = self.host.run(self._environment("error"), checkpoints, ending, **start)
        except (JobFailedError, LabError) as error:
            refused = str(error)
        (self._check if self.is_exact else self._check_with_copies)(snapshot, policy, ending, before, refused)
        if not refused:
            self._after(taken)

    def _check(self, snapshot: Snapshot, policy: str, ending: str, before: Counter[int], refused: str) -> None:
        again, missing = before.keys() - snapshot.published, set(snapshot.deleted)
        if refused:
            assert (MISSING if missing else AGAIN) in refused
            assert missing or (again and policy == "error"), f"{snapshot} could have been restored: {refused}"
            assert self.host.output() == before, "a restore that was refused has changed the output"
            self.outcomes["missing" if missing else "again"] += 1
            return
        assert not missing, f"{sorted(missing)} were deleted, and are missed in silence"
        assert not (again and policy == "error"), f"{sorted(again)} came again in silence"
        now, stays = self.host.output(), Counter(before.keys() - again)
        assert not stays - now, "rows that had been published are gone"
        new, owed = now - stays, Counter(ALL - snapshot.published)
        assert not new - owed, f"{new - owed} were published once too often"
        assert ending != FINISH or new == owed, f"{owed - new} were not published"
        self._deleted(again)
        for other in self.snapshots:  # what its run had only staged is published now
            if other.run == snapshot.run:
                other.published |= snapshot.rows & other.rows
        self.outcomes[policy if again else "went on"] += 1

    def _check_with_copies(
        self, snapshot: Snapshot, policy: str, ending: str, before: Counter[int], refused: str
    ) -> None:
        """Check less: once rows were kept, published rows do not show which run published them."""
        now = self.host.output()
        if refused:
            assert MISSING in refused or (AGAIN in refused and policy == "error")
            assert now == before, "a restore that was refused has changed the output"
        else:
            assert policy != "keep" or not before - now, "rows that were to be kept are gone"
            assert ending != FINISH or now.keys() == ALL, f"{sorted(ALL - now.keys())} are missed in silence"
        self.outcomes["refused" if refused else policy] += 1

    def _environment(self, mode: str) -> StreamEnvironment:
        durable, parallelism = self.random.random() < 0.5, self.random.randint(1, 3)
        return environment(self.host.out, self.host.checkpoints, parallelism=parallelism, durable=durable, mode=mode)

    def _ending(self) -> str:
        return self.random.choice([STOP, STOP, CANCEL, CANCEL, FINISH])

    def _any_snapshot(self) -> Snapshot:
        """Return one of those so far, sometimes after it was moved, copied or edited."""
        number = self.random.randrange(len(self.snapshots))
        found = self.snapshots[number]
        how = self.random.choice(["", "", *self.host.others])
        if not how:
            return found
        self.others += 1
        path = self.host.another(found.path, how, self.others)
        other = replace(found, path=path, published=set(found.published), deleted=set(found.deleted))
        if how == MOVED:
            del self.snapshots[number]
        self.snapshots.append(other)
        return other

    def _deleted(self, rows: set[int]) -> None:
        for snapshot in self.snapshots:
            snapshot.deleted |= rows & snapshot.published

    def _after(self, taken: list[str]) -> None:
        self.visible = self.host.output()
        self.runs += 1
        for path in taken:
            rows = self.host.rows_of(path)
            self.snapshots.append(Snapshot(path, self.runs, rows, published=set(rows & self.visible.keys())))
