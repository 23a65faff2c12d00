"""Where a driver notes what a later one must know: the id counter, the completed checkpoints, the end of the job.

    MemoryStore     nothing outlives the driver (Flink's `EmbeddedCompletedCheckpointStore` and
                    `StandaloneCheckpointIDCounter`)
    DurableStore    over `Records`, which are small values by name, each replaced at once: files beside the checkpoints
                    (`kit.hosts.files.stores.file_records`), an object in an object store, nodes of ZooKeeper, rows of a
                    database; `kit.stream.settings.store_addresses` lists them

The records of a job:

    checkpoints/0000000000000000012    a completed checkpoint: where its `_metadata` is, and whose it is
    checkpointID                       the next id; no id is given out twice, whatever driver asks
    run                                the first id of this run of the job, and the status it ended in, if it has
    parallelism                        what the user has wanted of this run since it began
    leader                             the driver that leads the job, with its fencing token

A *run* is one life of a job, whichever number of drivers it takes. What an earlier run left (checkpoints that its user
retained) has ids below the first of this one, and is never touched.

A write whose outcome is unknown (the connection broke before the answer came) is looked up again; where that fails too
the checkpoint may or may not be complete, and nobody may delete it: `InconsistentStoreError`.

**One driver leads.** `begin` takes the leadership: the fencing token goes up by one, and from then on the store itself
refuses every operation of the driver that held the token before, also one that was frozen in the middle of a write
(`LeadershipLostError`). That suffices for exactly-once output: sinks publish only what a stored checkpoint covers, the
next driver resumes from the newest stored checkpoint and publishes the same files, and publishing a file twice is
publishing it once.

Follows Flink's `DefaultCompletedCheckpointStore`, `ZooKeeperCheckpointStoreUtil`, `ZooKeeperCheckpointIDCounter` and
`JobResultStore`; what parallelism is wanted, Flink keeps beside the job's graph
(`ExecutionPlanStore.putJobResourceRequirements`). The token stands in for the leader session id of
`LeaderElectionService`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kit.core.protocol.properties import RecoveryClaimMode
from kit.core.protocol.stored import StoredCheckpoint
from kit.hosts.files.stores.errors import InconsistentStoreError, LeadershipLostError, StoreError

FIRST_CHECKPOINT_ID = 1
CHECKPOINTS, COUNTER, RUN, PARALLELISM = "checkpoints", "checkpointID", "run", "parallelism"
LEADER = "leader"
ID_DIGITS = 19
"""Ids are padded to this many digits, as Flink pads them: names sort as numbers do."""


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
    """What the driver asks of it. All raise StoreError.

    Follows Flink's `CheckpointIDCounter` and the part of a `CompletedCheckpointStore` that outlives a driver; the
    coordinator's counter is its `checkpointIdCounter`.
    """

    def begin(self, *, recover: bool, driver: str = "") -> str:
        """Make this driver the leader; with `recover` it resumes the run that is in the store, else it begins one.

        `driver` names it in the errors of others. Returns the status in which that run has ended, "" if it has not.
        """

    def check_leadership(self) -> None:
        """Raise LeadershipLostError if another driver has taken over since `begin`."""

    def next_id(self) -> int:
        """Give out an id. Flink: `CheckpointIDCounter.getAndIncrement`."""

    def raise_counter(self, next_id: int) -> None:
        """Give out no id below this any more. Flink: `CheckpointIDCounter.setCount`, which also lowers it."""

    def ids(self) -> range:
        """The ids that this run has given out."""

    def checkpoints(self) -> list[StoredCheckpoint]:
        """All entries, oldest first."""

    def add(self, checkpoint: StoredCheckpoint) -> None:
        """Add an entry. Raises InconsistentStoreError when nobody knows whether it is there."""

    def remove(self, checkpoint_id: int) -> None:
        """Remove an entry, if it is there."""

    def want(self, parallelism: Mapping[str, int]) -> None:
        """Note at which parallelism the run goes on."""

    def wanted(self) -> dict[str, int]:
        """What was noted of that; empty when nothing was."""

    def end(self, status: str, savepoint: str = "") -> None:
        """Note that the run has ended, and the savepoint with which it was stopped."""

    def stopped_with(self) -> str:
        """Return the savepoint with which the run was stopped, "" if it was not."""

    def close(self) -> None:
        """Let go of connections."""


class MemoryStore:
    """A store that ends with its driver: only the counter is of any use to anybody.

    Flink: `StandaloneCompletedCheckpointStore` and `StandaloneCheckpointIDCounter`.
    """

    def __init__(self, next_id: int = FIRST_CHECKPOINT_ID, first_id: int | None = None) -> None:
        self._next_id = next_id
        self._first_id = next_id if first_id is None else first_id

    def begin(self, *, recover: bool, driver: str = "") -> str:
        """There never was an earlier driver."""
        return ""

    def check_leadership(self) -> None:
        """No other driver can know of this store."""

    def leads(self) -> Leader | None:
        """No other driver can know of this store."""
        return None

    def next_id(self) -> int:
        """Give out an id."""
        self._next_id += 1
        return self._next_id - 1

    def raise_counter(self, next_id: int) -> None:
        """Give out no id below this any more."""
        if not self.ids():
            self._first_id = max(self._first_id, next_id)
        self._next_id = max(self._next_id, next_id)

    def ids(self) -> range:
        """No run of the job is known but this."""
        return range(self._first_id, self._next_id)

    def checkpoints(self) -> list[StoredCheckpoint]:
        """None: the JobMaster has them."""
        return []

    def add(self, checkpoint: StoredCheckpoint) -> None:
        """Nothing to do: the JobMaster has it, others find it by its `_metadata`."""

    def remove(self, checkpoint_id: int) -> None:
        """Nothing to do."""

    def want(self, parallelism: Mapping[str, int]) -> None:
        """Nobody will ask."""

    def wanted(self) -> dict[str, int]:
        """Nothing outlives the driver."""
        return {}

    def end(self, status: str, savepoint: str = "") -> None:
        """Nobody will ask."""

    def stopped_with(self) -> str:
        """Nothing outlives the driver."""
        return ""

    def close(self) -> None:
        """There is nothing to let go of."""

    def copy(self) -> MemoryStore:
        """Another with the same counter."""
        return MemoryStore(self._next_id, self._first_id)

    def __repr__(self) -> str:
        return f"MemoryStore(next checkpoint {self._next_id})"


class Records(Protocol):
    """Small values by name; a name may have one `/` in it. All methods raise StoreError.

    Records are only written by a leader: `lead` comes first, and once another driver has called it, every method raises
    LeadershipLostError. Records that have never led can be read.
    """

    def lead(self, driver: str) -> None:
        """Take the leadership, under the next fencing token. `driver` is written down for others to read."""

    def leader(self) -> Leader | None:
        """Return the driver that leads now, whichever it is; None if none ever has."""

    def read(self, name: str) -> bytes | None:
        """Return the value, None if there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Make this the value, at once. Raises InconsistentStoreError when nobody knows whether it is."""

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Replace the value by what `change` makes of it, which nobody else changes meanwhile; returns the new one."""

    def remove(self, name: str) -> None:
        """Remove the value, if there is one."""

    def names(self, below: str) -> list[str]:
        """Return the names below this one, without it."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class Run:
    """One life of a job: its lowest checkpoint id, how it ended, "" while it has not, and with which savepoint."""

    first_id: int
    status: str = ""
    savepoint: str = ""


class DurableStore:
    """A store in records that outlive the driver; it keeps nothing itself."""

    def __init__(self, records: Records) -> None:
        self.records = records

    def begin(self, *, recover: bool, driver: str = "") -> str:
        """Take the leadership and resume the run in the store, or begin one.

        Raises StoreError, and leaves the leader alone, when an unfinished run would be begun again over its own
        checkpoints.
        """
        self._check_beginning(self._run(), recover=recover)
        self.records.lead(driver)
        run = self._run()
        if self._check_beginning(run, recover=recover):
            assert run is not None
            return run.status
        if run is None or run.status:
            first_id = int(self.records.update(COUNTER, lambda data: str(self._id_or_first(run, data)).encode()))
            self._write_run(Run(first_id))
        self._want_nothing()
        return ""

    def _check_beginning(self, run: Run | None, *, recover: bool) -> bool:
        """Return True if a driver that begins so resumes the run. Raises StoreError when it may not begin."""
        if run is not None and recover:
            return True
        left = ", ".join(str(entry.checkpoint_id) for entry in self.checkpoints())
        if left and run is None and recover:
            raise StoreError(
                f"{self._where(RUN)} is gone, but there are checkpoint(s) {left}: nobody knows which run they are of; "
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
        """Return the driver that leads an unfinished run, None when no run is unfinished."""
        run = self._run()
        return None if run is None or run.status else self.records.leader()

    def check_leadership(self) -> None:
        """Raise LeadershipLostError if another driver leads."""
        self.records.read(RUN)

    def next_id(self) -> int:
        """Give out an id; it is counted before anybody has it."""
        return int(self.records.update(COUNTER, lambda data: str(self._id_in(data) + 1).encode())) - 1

    def raise_counter(self, next_id: int) -> None:
        """Give out no id below this any more; a run that has used none begins with this one."""
        run = self._run()
        counter = self._counter()
        if next_id > counter:
            if run is not None and run.first_id == counter:
                self._write_run(Run(next_id, run.status))
            self.records.update(COUNTER, lambda data: str(max(self._id_in(data), next_id)).encode())

    def ids(self) -> range:
        run, counter = self._run(), self._counter()
        return range(counter if run is None else run.first_id, counter)

    def checkpoints(self) -> list[StoredCheckpoint]:
        """All entries, oldest first. One that cannot be read is an error: it might be the one that counts."""
        found = []
        for name in sorted(self.records.names(CHECKPOINTS)):
            data = self.records.read(f"{CHECKPOINTS}/{name}")
            if data is not None:
                found.append(_decode(data, f"checkpoint {name.lstrip('0')}, {self._where(f'{CHECKPOINTS}/{name}')},"))
        return found

    def add(self, checkpoint: StoredCheckpoint) -> None:
        """Add an entry."""
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
        """What an earlier run wanted is none of this one's; where there is nothing, nothing has to be deleted."""
        if self.records.read(PARALLELISM) is not None:
            self.records.remove(PARALLELISM)

    def end(self, status: str, savepoint: str = "") -> None:
        self._write_run(Run(self.ids().start, status, savepoint))
        self._want_nothing()

    def stopped_with(self) -> str:
        run = self._run()
        return "" if run is None else run.savepoint

    def close(self) -> None:
        self.records.close()

    def _counter(self) -> int:
        return self._id_or_first(self._run(), self.records.read(COUNTER))

    def _id_or_first(self, run: Run | None, data: bytes | None) -> int:
        return FIRST_CHECKPOINT_ID if run is None and data is None else self._id_in(data)

    def _id_in(self, data: bytes | None) -> int:
        """The counter, which is there as long as a run is: begun anew it would give out ids that are taken."""
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
            return Run(int(fields["first_id"]), str(fields["status"]), str(fields.get("savepoint", "")))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._where(RUN)} cannot be read ({error}): {data[:80]!r}") from error

    def _write_run(self, run: Run) -> None:
        fields = {"first_id": run.first_id, "status": run.status}
        self.records.write(RUN, json.dumps(fields | ({"savepoint": run.savepoint} if run.savepoint else {})).encode())

    def __repr__(self) -> str:
        return f"DurableStore({self.records!r})"


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


def lost(records: object, leader: Leader | None) -> LeadershipLostError:
    """Return the error of a driver whose records another one leads now."""
    return LeadershipLostError(
        f"{'another driver' if leader is None else leader} has taken over this job in {records!r}: this driver stops "
        "and publishes nothing more; what it had not completed is left to the other"
    )


def look_up(records: Records, name: str, data: bytes, error: StoreError) -> None:
    """After a write that ended in an error: was it made all the same? Raises that error when it was not, and
    InconsistentStoreError when nobody knows.
    """
    try:
        there = records.read(name) == data
    except StoreError as again:  # also when another driver leads by now, which has found it, or has not
        raise InconsistentStoreError(f"{error}; whether it was written is unknown: {again}") from error
    if not there:
        raise error
