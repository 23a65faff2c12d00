"""The cases of the lab "find the lost euro", each with its planted bug. For teachers: students get the cases alone.

    python notebooks/labs/teacher/lost_euro.py DIRECTORY "a sentence that students do not know" anna ben ...

writes a case for each of these students. `answer_to(seed)` runs the same job again and returns the right answer, so
nothing about a case needs to be kept.

A case is a run of the bank `transfers` in the lab. One part of it is wrong during one checkpoint, and after this
checkpoint a worker dies. The run is chosen so that exactly one posting is affected.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from kit.core.protocol.elements import DataElement
from kit.course.bank import Audit, audit
from kit.course.classroom.lost_euro import (
    BEHIND,
    LEFT_OUT,
    STORED_TOO_LATE,
    Answer,
    Case,
    file_name,
    tables_of,
    transfers_of,
)
from kit.course.grading.notebooks import seed_of
from kit.hosts.lab.jobs.ready_jobs import ready_job
from kit.hosts.lab.lab import Lab
from kit.machines.channel.channel_state.channel_state_capture import ChannelStateCapture
from kit.machines.task.barrier_states import WaitingForFirstBarrier
from kit.machines.task.single_barrier_handler import SingleCheckpointBarrierHandler
from kit.stream.settings.parts import Parts

ROWS, INTERVAL_MS, CREDITS = 40, 40, 4
TRIES = 400
"""The number of runs to look at before giving up; less than ten are usual."""


class Once:
    """A bug that acts once in a run; copies of a part share it."""

    def __init__(self, kind: str, checkpoint: int) -> None:
        self.kind, self.checkpoint = kind, checkpoint
        self.is_over = False

    def __deepcopy__(self, memo: Any) -> Once:
        return self

    def acts(self, kind: str, checkpoint: int) -> bool:
        """Return True if the bug acts now, for the only time."""
        acts = not self.is_over and (kind, checkpoint) == (self.kind, self.checkpoint)
        self.is_over |= acts
        return acts


class Handler(SingleCheckpointBarrierHandler):
    """A handler that aligns; once, it reads on behind the first barrier until a posting has come."""

    def __init__(self, gates: Any, actions: Any, *, once: Once, **settings: Any) -> None:
        super().__init__(gates, actions, WaitingForFirstBarrier, **settings)
        self.once = once
        self.open: Any = None

    def process_barrier(self, barrier: Any, channel: Any, *, is_rpc: bool = False) -> None:
        """Handle a barrier."""
        super().process_barrier(barrier, channel, is_rpc=is_rpc)
        if self.pending_checkpoint_id is None:
            self.open = None
        elif self.once.acts(BEHIND, barrier.checkpoint_id):
            self._gates.resume([channel])
            self.open = channel

    def add_processed_bytes(self, size_bytes: int) -> None:
        """Block the channel again once something was read."""
        if self.open is not None:
            self.open.block()
            self.open = None
        super().add_processed_bytes(size_bytes)

    def validate(self) -> None:
        """Do nothing, so the bug is not reported."""


class Capture(ChannelStateCapture):
    """The rules of lab 5; once, a posting is left out, or one is stored that came behind the barrier."""

    def __init__(self, writer: Any, *, once: Once) -> None:
        super().__init__(writer)
        self.once = once
        self.under_way: dict[Any, int] = {}
        self.late: set[Any] = set()
        """The channels on which one more posting is stored."""

    def checkpoint_started(self, checkpoint_id: int, channel: Any, queue: Any) -> None:
        """Store what is ahead of the barrier, and wait for the rest if the barrier has not come."""
        ahead: list[Any] = []
        came = False
        for element in queue:
            if getattr(element, "checkpoint_id", None) == checkpoint_id:
                came = True
                break
            if isinstance(element, DataElement):
                ahead.append(element)
        single = [each for each in ahead if _is_single(each)]
        if len(ahead) > 1 and single and self.once.acts(LEFT_OUT, checkpoint_id):
            ahead.remove(single[0])
        self.writer.add_input_data(checkpoint_id, channel, ahead)
        if not came:
            self.under_way[channel] = checkpoint_id

    def element_received(self, channel: Any, element: Any) -> None:
        """Store what comes ahead of the barrier."""
        checkpoint_id = self.under_way.get(channel)
        if checkpoint_id is None:
            return
        if getattr(element, "checkpoint_id", None) == checkpoint_id:
            if self.once.acts(STORED_TOO_LATE, checkpoint_id):
                self.late.add(channel)
            else:
                del self.under_way[channel]
        elif isinstance(element, DataElement):
            self.writer.add_input_data(checkpoint_id, channel, [element])
            if channel in self.late:
                self.late.discard(channel)
                del self.under_way[channel]

    def checkpoint_stopped(self, checkpoint_id: int, channel: Any) -> None:
        """Wait for nothing more."""
        if self.under_way.get(channel) == checkpoint_id:
            del self.under_way[channel]
            self.late.discard(channel)

    def barrier_overtakes(self, checkpoint_id: int, subpartition: Any, queue: Any) -> None:
        """Store what is overtaken."""
        data = [each for each in queue if isinstance(each, DataElement)]
        self.writer.add_output_data(checkpoint_id, subpartition, data)


def _is_single(element: Any) -> bool:
    batch = getattr(element, "batch", None)
    return batch is not None and batch.num_rows == 1


@dataclass(frozen=True)
class Solved:
    """A case with its answer."""

    case: Case
    answer: Answer


def answer_to(seed: int) -> Answer:
    """Return the right answer of the student with this seed; 0 is the case for practice."""
    return solved(seed).answer


@cache
def solved(seed: int) -> Solved:
    """Return the case of this seed. Raises RuntimeError if none of many runs affects exactly one posting."""
    chance = Random(f"lost euro {seed}")
    for _ in range(TRIES):
        kind = chance.choice((BEHIND, LEFT_OUT, STORED_TOO_LATE))
        found = _tried(kind, chance.choice((1, 2, 2, 3)), chance.randrange(1_000_000))
        if found is not None:
            return found
    raise RuntimeError(f"no run of the bank with seed {seed} affects exactly one posting")


def _parts(kind: str, wrong: int) -> Parts:
    once = Once(kind, wrong)
    if kind == BEHIND:
        return Parts(barrier_handler=partial(Handler, once=once))
    return Parts(channel_state_capture=partial(Capture, once=once))


def _tried(kind: str, wrong: int, seed: int) -> Solved | None:
    """Run the bank with this bug during checkpoint `wrong`; None unless exactly one posting is affected."""
    env = ready_job(
        "transfers",
        rows=ROWS,
        interval_ms=INTERVAL_MS,
        channel_credits=CREDITS,
        restart=3,
        unaligned=kind != BEHIND,
        max_concurrent=1,
    )
    lab = Lab(env.job_graph().with_parts(_parts(kind, wrong)), seed=seed)
    tables: dict[str, Any] = {}
    for checkpoint in range(1, wrong + 1):
        lab.run_until(until=lambda now, least=checkpoint: _latest(now) >= least or now.ended)
        if _latest(lab) != checkpoint or not _open_books(lab):
            return None
        tables[str(checkpoint)] = tables_of(lab, checkpoint)
        if abs(audit(lab, checkpoint).difference) != (checkpoint == wrong):
            return None
    bad = audit(lab, wrong)
    posting = _posting(bad, tables[str(wrong)])
    event = _event(lab, kind, wrong, tables[str(wrong)], posting) if posting else ""
    if posting is None or not event:
        return None
    lab.faults.kill(seed % 2)
    latest = wrong
    while not lab.ended:
        lab.run_until(until=lambda now, before=latest: _latest(now) > before or now.ended)
        if _latest(lab) > latest and _open_books(lab):
            tables[str(_latest(lab))] = tables_of(lab, _latest(lab))
        latest = _latest(lab)
    lab.run()
    rows = lab.output().to_dict("records")
    case = Case(lab.trace, {"checkpoints": tables, "output": rows})
    euros = bad.created
    if lab.status != "FINISHED" or not euros:
        return None
    return Solved(case, Answer(euros, wrong, posting, event, kind))


def _latest(lab: Lab) -> int:
    return int(lab.look.master.checkpoints.store.latest_id or 0)


def _open_books(lab: Lab) -> bool:
    """Return True if the last checkpoint has the positions of both branches."""
    try:
        audit(lab)
    except KeyError:
        return False
    return True


def _posting(bad: Audit, tables: Any) -> tuple[str, str, int] | None:
    """Return the posting that the checkpoint has too many or too few, if only one branch sends such a posting."""
    state = {row["account"]: row for row in tables["state"]}
    sent: dict[str, list[int]] = {account: [] for account in state}
    for position in tables["positions"]:
        for row in transfers_of(position["branch"], position["position"]):
            for account, amount in ((row["payer"], -row["amount"]), (row["payee"], row["amount"])):
                sent.setdefault(account, []).append(amount)
    for row in tables["in flight"]:
        if row["amount"] in sent.get(row["account"], []):
            sent[row["account"]].remove(row["amount"])
        else:
            sent.setdefault(row["account"], []).append(-row["amount"])
    wrong = [
        (account, row["balance"] - 100 - sum(sent[account]))
        for account, row in state.items()
        if row["balance"] - 100 != sum(sent[account])
    ]
    if len(wrong) != 1:
        return None
    account, euros = wrong[0]
    amount = euros * bad.difference
    branches = [branch for branch in ("east", "west") if (account, amount) in _all_postings(branch)]
    return (branches[0], account, amount) if len(branches) == 1 else None


def _all_postings(branch: str) -> set[tuple[str, int]]:
    rows = transfers_of(branch, 6)
    return {(row["payer"], -row["amount"]) for row in rows} | {(row["payee"], row["amount"]) for row in rows}


def _event(lab: Lab, kind: str, wrong: int, tables: Any, posting: tuple[str, str, int]) -> str:
    """Return the event that affected the posting, in the task that keeps its account; "" if there are several."""
    task = next(row["task"] for row in tables["state"] if row["account"] == posting[1])
    records = [record for record in lab.trace if record.machine.partition("@")[0] == task]
    found = {
        BEHIND: lambda: _read_behind(records, wrong),
        LEFT_OUT: lambda: _snapshots(records, wrong),
        STORED_TOO_LATE: lambda: _stored_behind(records, wrong),
    }[kind]()
    return found[0] if len(found) == 1 else ""


def _event_of(record: Any) -> str:
    machine, _, number = record.id.rpartition("#")
    return f"{machine}#{number.partition('.')[0]}"


def _snapshots(records: list[Any], wrong: int) -> list[str]:
    return [_event_of(each) for each in records if each.kind == "WriteSnapshot" and each.checkpoint_id == wrong]


def _read_behind(records: list[Any], wrong: int) -> list[str]:
    """Return the events that read a channel after its barrier had come, before the snapshot."""
    closed: set[int] = set()
    found = []
    for record in records:
        if record.kind == "BarrierAligned" and record.checkpoint_id == wrong:
            closed.add(record.data["channel"])
        elif record.kind == "WriteSnapshot" and record.checkpoint_id == wrong:
            break
        elif record.kind == "GrantCredit" and record.data["channel"] in closed:
            found.append(_event_of(record))
    return found


def _stored_behind(records: list[Any], wrong: int) -> list[str]:
    """Return the events that stored what came on a channel behind its barrier."""
    came: set[int] = set()
    received: dict[str, int] = {}
    found = []
    for record in records:
        if record.kind == "ElementReceived":
            received[record.id] = record.data["channel"]
            if record.data["element"].get("checkpoint_id") == wrong:
                came.add(record.data["channel"])
        elif record.kind == "SubmitChannelState" and record.checkpoint_id == wrong:
            written = record.data["request"]["type"] == "WriteInputRequest"
            if written and received.get(_event_of(record)) in came:
                found.append(_event_of(record))
    return found


def write(directory: Path, course: str, students: list[str]) -> Iterator[Path]:
    """Write the case of each student, and the one for practice."""
    directory.mkdir(parents=True, exist_ok=True)
    for student in ("practice", *students):
        path = directory / file_name(student)
        solved(seed_of(student, course) if student != "practice" else 0).case.save(path)
        yield path


if __name__ == "__main__":
    for path in write(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]):
        print(path)
