"""The records that a driver leaves for a later one: the id counter, the completed checkpoints, the end of the job.

    MemoryStore     nothing outlives the driver (Flink's `EmbeddedCompletedCheckpointStore` and
                    `StandaloneCheckpointIDCounter`)
    DurableStore    over `Records`, which are small values by name, each replaced in one step: files beside the
                    checkpoints (`kit.files.stores.file_records`), an object in an object store, nodes of
                    ZooKeeper, rows of a database; `kit.stream.settings.store_addresses` lists them

The records of a job:

    checkpoints/0000000000000000012    a completed checkpoint: where its `_metadata` is, and who owns it
    checkpointID                       the next id; no id is allocated twice, whatever driver asks
    run                                the first id of this run of the job; its name, and the output that led to it;
                                       how it ended, if it has, and what stays
    parallelism                        the parallelism that the user has requested from this run
    leader                             the driver that leads the job, with its fencing token; with files these two are
                                       the name of the directory that the other records are in

A *run* is one execution of a job, with any number of drivers. What an earlier run left (checkpoints that its user
retained) has ids below the first of this one, and is never touched.

After a write whose outcome is unknown (the connection broke before the answer came) the record is read again. If that
fails too, the checkpoint may or may not be complete, and must not be deleted: `InconsistentStoreError`.

**One driver leads.** `begin` takes the leadership: the fencing token is incremented. From then on the store itself
rejects every operation of the driver that held the previous token, even if it was frozen in the middle of a write
(`LeadershipLostError`). That suffices for exactly-once output. Sinks publish only what a stored checkpoint covers, the
next driver resumes from the newest stored checkpoint and publishes the same files, and publishing a file twice has no
further effect.

Follows Flink's `DefaultCompletedCheckpointStore`, `ZooKeeperCheckpointStoreUtil`, `ZooKeeperCheckpointIDCounter` and
`JobResultStore`. Flink keeps the requested parallelism beside the job's graph
(`ExecutionPlanStore.putJobResourceRequirements`). The token replaces the leader session id of
`LeaderElectionService`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from kit.core.protocol.lineage import CoveredOutput, Lineage
from kit.core.protocol.properties import RecoveryClaimMode
from kit.core.protocol.stored import JobResult, StoredCheckpoint
from kit.files.stores.errors import InconsistentStoreError, LeadershipLostError, StoreError

FIRST_CHECKPOINT_ID = 1
CHECKPOINTS, COUNTER, RUN, PARALLELISM = "checkpoints", "checkpointID", "run", "parallelism"
LEADER = "leader"
ID_DIGITS = 19
"""Ids are padded to this many digits, as in Flink, so that names sort like numbers."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The driver that leads a job: its fencing token, counted from 1, and its name."""

    token: int
    driver: str = ""

    def encode(self) -> bytes:
        """Return the value of the record."""
        return json.dumps({"token": self.token, "driver": self.driver}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Leader:
        """Read the value of the record. Raises StoreError."""
        try:
            fields = json.loads(data)
            return cls(int(fields["token"]), str(fields["driver"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"the record {LEADER!r} cannot be read ({error}): {data[:80]!r}; remove it") from error

    def __str__(self) -> str:
        return f"driver {self.token}" + (f" ({self.driver})" if self.driver else "")


class CheckpointStore(Protocol):
    """The driver's interface to a store. All methods raise StoreError.

    A store that keeps nothing inherits the methods that return nothing.

    Follows Flink's `CheckpointIDCounter` and the part of a `CompletedCheckpointStore` that outlives a driver; the
    coordinator's counter is its `checkpointIdCounter`.
    """

    def begin(self, *, recover: bool, driver: str = "", run: str = "") -> str:
        """Make this driver the leader; with `recover` it resumes the run in the store, else it starts one named `run`.

        `driver` is its name in the errors of others. Returns the status in which that run has ended, "" if it has not.
        """

    def lineage(self) -> Lineage | None:
        """Return the run that the store holds, and the output that led to it; None if it does not know."""

    def resume_from(self, covered: CoveredOutput) -> None:
        """Record the output that the snapshot covers from which the run resumes."""
        return

    def leads(self) -> Leader | None:
        """Return the driver that leads an unfinished run, or None if no run is unfinished."""

    def check_leadership(self) -> None:
        """Raise LeadershipLostError if another driver has taken over since `begin`."""
        return

    def next_id(self) -> int:
        """Allocate an id. Flink: `CheckpointIDCounter.getAndIncrement`."""

    def raise_counter(self, next_id: int) -> None:
        """Allocate no id below this from now on. Flink: `CheckpointIDCounter.setCount`, which also lowers it."""

    def ids(self) -> range:
        """Return the ids that this run has allocated."""

    def checkpoints(self) -> list[StoredCheckpoint]:
        """Return all entries, oldest first."""

    def add(self, checkpoint: StoredCheckpoint) -> None:
        """Add an entry. Raises InconsistentStoreError if it is unknown whether that succeeded."""
        return

    def remove(self, checkpoint_id: int) -> None:
        """Remove an entry, if it exists."""
        return

    def want(self, parallelism: Mapping[str, int]) -> None:
        """Record the parallelism that the run should have."""
        return

    def wanted(self) -> dict[str, int]:
        """Return the recorded parallelism; empty if there is none."""

    def end(self, result: JobResult) -> None:
        """Record that the run has ended."""
        return

    def result(self) -> JobResult | None:
        """Return how the run has ended, None if it has not."""

    def close(self) -> None:
        """Close connections, if there are any."""
        return


class MemoryStore(CheckpointStore):
    """A store that ends with its driver: only its counter has an effect, and no other driver can know of it.

    Flink: `StandaloneCompletedCheckpointStore` and `StandaloneCheckpointIDCounter`.
    """

    def __init__(self, next_id: int = FIRST_CHECKPOINT_ID, first_id: int | None = None) -> None:
        self._next_id = next_id
        self._first_id = next_id if first_id is None else first_id

    def begin(self, *, recover: bool, driver: str = "", run: str = "") -> str:
        return ""

    def lineage(self) -> Lineage | None:
        return None

    def leads(self) -> Leader | None:
        return None

    def next_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def raise_counter(self, next_id: int) -> None:
        if not self.ids():
            self._first_id = max(self._first_id, next_id)
        self._next_id = max(self._next_id, next_id)

    def ids(self) -> range:
        """Return all ids: no other run of the job is known."""
        return range(self._first_id, self._next_id)

    def checkpoints(self) -> list[StoredCheckpoint]:
        """Return no entries: the JobMaster has them, and others find them by their `_metadata`."""
        return []

    def wanted(self) -> dict[str, int]:
        return {}

    def result(self) -> JobResult | None:
        return None

    def copy(self) -> MemoryStore:
        """Return another store with the same counter."""
        return MemoryStore(self._next_id, self._first_id)

    def __repr__(self) -> str:
        return f"MemoryStore(next checkpoint {self._next_id})"


class Records(Protocol):
    """Small values by name; a name may contain one `/`. All methods raise StoreError.

    Only a leader writes records: `lead` comes first, and once another driver has called it, every method raises
    LeadershipLostError. A driver that has never led can read them.
    """

    def lead(self, driver: str) -> None:
        """Take the leadership, under the next fencing token. `driver` is recorded for others to read."""

    def leader(self) -> Leader | None:
        """Return the driver that leads now, or None if none ever has."""

    def read(self, name: str) -> bytes | None:
        """Return the value, None if there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Set the value in one step. Raises InconsistentStoreError if it is unknown whether that succeeded."""

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Replace the value by what `change` returns, without interference of others; return the new one."""

    def remove(self, name: str) -> None:
        """Remove the value, if there is one."""

    def names(self, below: str) -> list[str]:
        """Return the names below this one, without it."""

    def close(self) -> None:
        """Close connections, if there are any."""
        return


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a job: its lowest checkpoint id, how it has ended, if it has, and its lineage."""

    first_id: int
    result: JobResult | None = None
    name: str = ""
    before: CoveredOutput | None = None

    @property
    def status(self) -> str:
        """The status in which it ended, "" if it has not."""
        return "" if self.result is None else self.result.status


class DurableStore(CheckpointStore):
    """A store in records that outlive the driver; it caches nothing."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def begin(self, *, recover: bool, driver: str = "", run: str = "") -> str:
        """Take the leadership and resume the run in the store, or start one.

        Raises StoreError, and leaves the leader alone, if an unfinished run would be started again over its own
        checkpoints.
        """
        self._check_beginning(self._run(), recover=recover)
        self.records.lead(driver)
        found = self._run()
        if self._check_beginning(found, recover=recover):
            assert found is not None
            return found.status
        self._want_nothing()  # first: a driver that dies after the next lines has begun the run
        if found is None or found.status:
            first_id = int(self.records.update(COUNTER, lambda data: str(self._id_or_first(found, data)).encode()))
        else:
            first_id = found.first_id
        self._write_run(Run(first_id, name=run))
        return ""

    def lineage(self) -> Lineage | None:
        run = self._run()
        return None if run is None or not run.name else Lineage(run.name, run.before)

    def resume_from(self, covered: CoveredOutput) -> None:
        run = self._run()
        assert run is not None, "the run has begun"
        self._write_run(replace(run, before=covered))

    def _check_beginning(self, run: Run | None, *, recover: bool) -> bool:
        """Return True if the new driver resumes the run. Raises StoreError if it may not start."""
        if run is not None and recover:
            return True
        left = ", ".join(str(entry.checkpoint_id) for entry in self.checkpoints())
        if left and run is None and recover:
            raise StoreError(
                f"{self._where(RUN)} is gone, but there are checkpoint(s) {left} of an unknown run; "
                "start from one of them by its path, with restore_path"
            )
        if left:
            ended = "" if run is None else run.status
            what = f"ended as {ended}, but was not cleaned up" if ended else "has not ended"
            raise StoreError(
                f"{self.records!r} holds checkpoint(s) {left} of a run of this job that {what}: "
                "start with recover=True to resume it, or give the new job another id"
            )
        return False

    def leads(self) -> Leader | None:
        run = self._run()
        return None if run is None or run.status else self.records.leader()

    def check_leadership(self) -> None:
        self.records.read(RUN)

    def next_id(self) -> int:
        """Allocate an id; it is counted before it is returned."""
        return int(self.records.update(COUNTER, lambda data: str(self._id_in(data) + 1).encode())) - 1

    def raise_counter(self, next_id: int) -> None:
        """Allocate no id below this from now on; a run that has used none starts with this one."""
        run = self._run()
        counter = self._counter()
        if next_id > counter:
            if run is not None and run.first_id == counter:
                self._write_run(replace(run, first_id=next_id))
            self.records.update(COUNTER, lambda data: str(max(self._id_in(data), next_id)).encode())

    def ids(self) -> range:
        run, counter = self._run(), self._counter()
        return range(counter if run is None else run.first_id, counter)

    def checkpoints(self) -> list[StoredCheckpoint]:
        """Return all entries, oldest first. An unreadable one is an error: it might be the newest."""
        found = []
        for name in sorted(self.records.names(CHECKPOINTS)):
            data = self.records.read(f"{CHECKPOINTS}/{name}")
            if data is not None:
                found.append(_decode(data, f"checkpoint {name.lstrip('0')}, {self._where(f'{CHECKPOINTS}/{name}')},"))
        return found

    def add(self, checkpoint: StoredCheckpoint) -> None:
        self.records.write(_entry(checkpoint.checkpoint_id), _encode(checkpoint))

    def remove(self, checkpoint_id: int) -> None:
        self.records.remove(_entry(checkpoint_id))

    def want(self, parallelism: Mapping[str, int]) -> None:
        self.records.write(PARALLELISM, json.dumps(dict(parallelism)).encode())

    def wanted(self) -> dict[str, int]:
        data = self.records.read(PARALLELISM)
        try:
            return {str(name): int(number) for name, number in json.loads(data or b"{}").items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise StoreError(f"{self._where(PARALLELISM)} cannot be read ({error}): {data!r}; remove it") from error

    def _want_nothing(self) -> None:
        """Remove what an earlier run recorded; without a record nothing has to be deleted."""
        if self.records.read(PARALLELISM) is not None:
            self.records.remove(PARALLELISM)

    def end(self, result: JobResult) -> None:
        run = self._run() or Run(self.ids().start)
        self._write_run(replace(run, result=result))
        self._want_nothing()

    def result(self) -> JobResult | None:
        run = self._run()
        return None if run is None else run.result

    def close(self) -> None:
        self.records.close()

    def _counter(self) -> int:
        return self._id_or_first(self._run(), self.records.read(COUNTER))

    def _id_or_first(self, run: Run | None, data: bytes | None) -> int:
        return FIRST_CHECKPOINT_ID if run is None and data is None else self._id_in(data)

    def _id_in(self, data: bytes | None) -> int:
        """Return the counter, which exists as long as a run does: a new one would allocate used ids."""
        try:
            return int(data or b"")
        except ValueError as error:
            found = "is gone" if data is None else f"holds {data[:80]!r}, which is no number"
            raise StoreError(f"the counter of checkpoint ids, {self._where(COUNTER)}, {found}") from error

    def _where(self, name: str) -> str:
        return f"{name} in {self.records!r}"

    def _run(self) -> Run | None:
        data = self.records.read(RUN)
        if data is None:
            return None
        try:
            fields = json.loads(data)
            return Run(int(fields["first_id"]), _result_in(fields), str(fields.get("name", "")), _covered_in(fields))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._where(RUN)} cannot be read ({error}): {data[:80]!r}") from error

    def _write_run(self, run: Run) -> None:
        fields: dict[str, Any] = {"first_id": run.first_id, "status": run.status, "name": run.name}
        if run.before is not None:
            fields["before"] = run.before.encode()
        result = {} if run.result is None else {name: value for name, value in asdict(run.result).items() if value}
        self.records.write(RUN, json.dumps(fields | result).encode())

    def __repr__(self) -> str:
        return f"DurableStore({self.records!r})"


def _result_in(fields: Mapping[str, Any]) -> JobResult | None:
    """Return how a run has ended, None if it has not. Raises KeyError, TypeError, ValueError."""
    if not fields["status"]:
        return None
    keep, shared = fields.get("keep", ()), fields.get("shared", ())
    return JobResult(
        str(fields["status"]), str(fields.get("savepoint", "")), tuple(map(int, keep)), tuple(map(str, shared))
    )


def _covered_in(fields: Mapping[str, Any]) -> CoveredOutput | None:
    """Return the output that led to a run, None if it started from scratch. Raises TypeError, ValueError."""
    text = fields.get("before")
    return None if text is None else CoveredOutput.decode(text)


def _entry(checkpoint_id: int) -> str:
    return f"{CHECKPOINTS}/{checkpoint_id:0{ID_DIGITS}d}"


def _encode(checkpoint: StoredCheckpoint) -> bytes:
    mode = checkpoint.claim_mode
    fields = {
        "checkpoint_id": checkpoint.checkpoint_id,
        "metadata": checkpoint.metadata_path,
        "claim_mode": None if mode is None else mode.name,
    }
    return json.dumps(fields).encode()


def _decode(data: bytes, what: str) -> StoredCheckpoint:
    try:
        fields = json.loads(data)
        mode = fields["claim_mode"]
        return StoredCheckpoint(
            int(fields["checkpoint_id"]), str(fields["metadata"]), None if mode is None else RecoveryClaimMode[mode]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{what} cannot be read ({error}): {data[:80]!r}; repair or remove it") from error


def only_reads(records: object) -> StoreError:
    """Return the error of a driver that changes records without having taken the leadership."""
    return StoreError(f"{records!r} can only be read: this driver has not taken the leadership")


def lost(records: object, leader: Leader | None) -> LeadershipLostError:
    """Return the error of a driver whose records another one leads now."""
    return LeadershipLostError(
        f"{'another driver' if leader is None else leader} has taken over this job in {records!r}: this driver stops "
        "and publishes nothing more; what it had not completed is left to the other"
    )


def look_up(records: Records, name: str, data: bytes, error: StoreError) -> None:
    """Check if a write that raised `error` succeeded nevertheless.

    Raises that error if it did not, and InconsistentStoreError if that is unknown.
    """
    try:
        there = records.read(name) == data
    except StoreError as again:  # also if another driver leads by now, which may or may not have found it
        raise InconsistentStoreError(f"{error}; whether it was written is unknown: {again}") from error
    if not there:
        raise error
