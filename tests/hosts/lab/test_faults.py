"""Every fault by name: each hits a real job once, which comes to the end that it must, with the rows that it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from kit.core.protocol import messages
from kit.core.protocol.commands import DiscoverSplits, StoreCheckpoint, WriteRows
from kit.core.protocol.duties import Command, Duty
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import ProtocolMessage
from kit.hosts.lab import Lab, LabError
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.faults import (
    DelayMessage,
    DropMessage,
    DuplicateMessage,
    FailCommand,
    FailNextRead,
    ForgeMessage,
    FreezeWorker,
    MissHeartbeat,
    ReplaceDriver,
    ThawWorker,
    TurnClock,
)
from kit.hosts.lab.world.actions import DeliverMessage
from kit.hosts.lab.world.message_rules import MESSAGE_RULES
from kit.machines.job.status import JobStatus
from kit.stream.connectors.part_names import PublishedName
from tests.hosts.lab.jobs import CHECKPOINTS, Shape, environment, settle, wrong

SHAPE = Shape("totals", rows=24, splits=4, batch_rows=3, parallelism=2)


class Text:
    """Serializes texts."""

    version = 1

    def serialize(self, value: str) -> bytes:
        return value.encode()

    def deserialize(self, version: int, data: bytes) -> str:
        return data.decode()


@dataclass(frozen=True)
class Hook:
    """A master hook with a state."""

    identifier: str = "hook"
    serializer: Any = field(default_factory=Text)

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> str:
        return str(checkpoint_id)

    def restore_checkpoint(self, checkpoint_id: int, value: Any) -> None:
        assert int(value) == checkpoint_id

    def reset(self) -> None: ...

    def close(self) -> None: ...


def a_lab(seed: int = 0, *, shape: Shape = SHAPE, after: Lab | None = None, recover: bool = False, **job: Any) -> Lab:
    path, later_output = job.pop("restore_path", None), job.pop("later_output", "error")
    env = environment(shape, store="filesystem", directory=CHECKPOINTS, **job)
    options = {"after": after, "recover": recover, "restore_path": path, "later_output": later_output}
    return Lab(env, seed=seed, hooks=[Hook()], **options)


def kinds(lab: Lab) -> list[str]:
    return [record.kind for record in lab.trace]


def statuses(lab: Lab) -> dict[int, str]:
    """Return the final status of each checkpoint."""
    return dict(lab.checkpoints()[["id", "status"]].itertuples(index=False))


def under_way(lab: Lab, what: str) -> bool:
    """Return True if a command, or a message that can be delivered next, is in flight."""
    return any(what in (getattr(each, "command", ""), getattr(each, "message", "")) for each in lab.enabled())


def until(lab: Lab, what: str) -> Lab:
    """Go on until that may happen."""
    if not under_way(lab, what):
        lab.run_until(lambda lab: under_way(lab, what) or lab.ended)
    assert under_way(lab, what), f"no {what} came"
    return lab


def finish(lab: Lab, shape: Shape = SHAPE) -> Lab:
    """Go on to the end, at which every row has come once."""
    if not lab.ended:
        lab.run()
    settle(lab)
    lab.look.validate()
    assert wrong(lab, shape) == {}
    return lab


# --- commands -------------------------------------------------------------------------------------------------------


def restored_lab() -> Lab:
    """A lab that begins from a checkpoint of another one."""
    before = a_lab()
    before.run_until(record="AllTasksRunning")
    path = before.stop(wait=True)
    settle(before)
    return a_lab(after=before, restore_path=path, later_output="discard")


FAILURES = [(command, failure.name) for command in COMMANDS for failure in command.failures]
ENDS_THE_JOB = {
    ("EnumerateSplits", "io"): "the input cannot be listed",
    ("ResolveSnapshot", "io"): "the checkpoint cannot be read",
    ("DiscardLaterOutput", "io"): "the files cannot be deleted",
    ("RecoverCheckpoints", "store"): "the store cannot be reached",
    ("ResetMasterHooks", "hook"): "the hook raised",
    ("ReadSplit", "parse"): "the input does not parse",
}
RESTARTS = {"ReadState", "ReadSplit", "CommitEffects", "RestoreMasterHooks"}


ELSEWHERE = {DiscoverSplits: "tests/hosts/lab/test_discovered_splits.py", WriteRows: "tests/hosts/spark/test_driver.py"}
"""Commands that these small jobs do not give, and where they are made to fail."""


@pytest.mark.parametrize(
    ("command", "failure"),
    [f for f in FAILURES if f[0] not in ELSEWHERE],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_documented_failure_of_a_command(command: type[Command], failure: str) -> None:
    name = command.__name__
    lab = restored_lab() if name in ("ResolveSnapshot", "DiscardLaterOutput") else a_lab(2, unaligned=True)
    if name in ("ReadState", "RestoreMasterHooks"):
        lab.run_until(checkpoint=1)
        lab.faults.kill(0)
    if name == "ReadSplit":
        lab.run_until(record="AllTasksRunning")
        lab.faults.fail("read of rows/0", failure)
    else:
        if name == "StoreParallelism":
            lab.run_until(record="AllTasksRunning")
            lab.rescale(1, wait=False)
        until(lab, name)
        failing = [each for each in lab.faults.possible() if isinstance(each, FailCommand) and each.command == name]
        lab.step(next(each for each in failing if each.failure == failure))
    answers = {each.__name__ for each in command.answers}
    said = next(each.text for each in command.failures if each.name == failure)
    if (name, failure) in ENDS_THE_JOB:
        with pytest.raises(LabError, match=ENDS_THE_JOB[name, failure]):
            lab.run()
        assert lab.status == "FAILED"
    else:
        finish(lab)
        assert lab.status == "FINISHED"
    told = [record for record in lab.trace if record.kind in answers and record.role == "event"]
    assert [record for record in told if said in record.data.get("error", "")]
    assert name not in RESTARTS or (name, failure) in ENDS_THE_JOB or lab.look.master.epoch > 1


def test_a_command_says_how_it_fails_and_each_way_is_an_answer_that_it_declares() -> None:
    failing = [each for each in COMMANDS if each.fails_with is not None or each.failures]
    assert [each.__name__ for each in failing if not each.failures] == []
    assert len(failing) == len({command for command, _ in FAILURES}) > 15
    ways = {each.name: (each.text, each.done) for each in StoreCheckpoint.failures}
    assert ways == {
        "store": ("the store cannot be reached", False),
        "PossibleInconsistentState": ("the connection broke", False),
        "PossibleInconsistentState-stored": ("the connection broke", True),
    }


def test_a_failure_after_the_deed_leaves_what_was_done() -> None:
    lab = until(a_lab(), "StoreCheckpoint")
    lab.faults.fail("StoreCheckpoint", "possibleinconsistentstate-stored")
    (failed,) = lab.trace.story(kind="CheckpointStoreFailed")
    assert failed.data["possibly_inconsistent"] is True
    after = Lab(lab.job, after=lab, recover=True, hooks=[Hook()])
    after.run_until(record="CheckpointsRecovered")
    (recovered,) = after.trace.story(kind="CheckpointsRecovered")
    assert len(recovered.data["checkpoints"]) == 1


def test_a_write_that_is_never_answered_lets_its_checkpoint_expire() -> None:
    lab = until(a_lab(timeout_ms=60), "WriteSnapshot")
    lab.faults.never(next(each for each in lab.enabled() if getattr(each, "command", "") == "WriteSnapshot"))
    finish(lab)
    (aborted, *_) = lab.trace.story(kind="CheckpointAborted")
    assert aborted.data["reason"] == "CHECKPOINT_EXPIRED"
    assert kinds(lab).count("NeverAnswer") == 1


def test_a_command_whose_answer_is_lost_is_carried_out() -> None:
    lab = until(a_lab(), "StoreCheckpoint")
    lab.faults.lose("answer of StoreCheckpoint")
    lab.run_until(at_ms=lab.look.at_ms + 100)
    assert "CheckpointStored" not in kinds(lab)
    lab.faults.kill_driver()
    after = finish(a_lab(after=lab, recover=True))
    assert [record.checkpoint_id for record in after.trace.story(kind="CheckpointRestored")] == [1]


# --- messages -------------------------------------------------------------------------------------------------------


def acked(lab: Lab, task: str) -> Lab:
    """Go on until an ack of this task is the next to arrive."""
    lab.run_until(lambda lab: DeliverMessage("AcknowledgeCheckpoint", 1, task, "job") in lab.enabled())
    return lab


def test_a_lost_ack_lets_its_checkpoint_expire_and_the_next_one_completes() -> None:
    lab = acked(a_lab(timeout_ms=60), "totals/1")
    lab.faults.lose("ack of totals/1")
    finish(lab)
    assert statuses(lab)[1] == "FAILED"
    assert "COMPLETED" in statuses(lab).values()
    assert kinds(lab).count("DropMessage") == 1


def test_a_doubled_ack_is_ignored() -> None:
    lab = acked(a_lab(), "totals/1")
    lab.faults.duplicate("ack of totals/1")
    finish(lab)
    assert statuses(lab)[1] == "COMPLETED"
    ignored = lab.trace.story(kind="AcknowledgeIgnored")
    assert [record.data["task"] for record in ignored] == ["totals/1"]


def test_an_ack_that_comes_late_is_of_a_checkpoint_that_is_over() -> None:
    lab = acked(a_lab(timeout_ms=60), "totals/1")
    lab.faults.delay("ack of totals/1", until_ms=400)
    (held,) = [each for each in lab.trace if each.role == "fault"]
    assert held.data["until_ms"] == 400
    ack = DeliverMessage("AcknowledgeCheckpoint", 1, "totals/1", "job")
    assert lab.look.refusal(ack) == "it is held back until 400 ms"
    finish(lab)
    late = [r for r in lab.trace.story(kind="AcknowledgeCheckpoint", checkpoint=1) if r.role == "event"]
    assert late[-1].at_ms >= 400
    assert statuses(lab)[1] == "FAILED"


def test_what_is_behind_a_message_that_is_held_back_comes_after_it() -> None:
    lab = acked(a_lab(max_concurrent=2, timeout_ms=10_000), "totals/1")
    lab.faults.delay("ack of totals/1", by_ms=200)
    lab.run_until(at_ms=lab.look.at_ms + 150)
    waiting = [m.word for (sender, _), _, m in lab._world.agenda.messages() if sender == "totals/1"]
    assert len(waiting) > 1
    assert not any(getattr(each, "sender", "") == "totals/1" for each in lab.enabled())
    finish(lab)
    heard = [
        r for r in lab.trace.story(kind="AcknowledgeCheckpoint") if r.role == "event" and r.data["task"] == "totals/1"
    ]
    assert [r.checkpoint_id for r in heard] == sorted(r.checkpoint_id for r in heard)  # type: ignore[type-var]


def test_a_lost_notification_is_covered_by_the_next() -> None:
    lab = until(a_lab(interval_ms=10), "NotifyCheckpointComplete")
    lab.faults.lose("NotifyCheckpointComplete of checkpoint 1 to rows/0")
    finish(lab)
    told = [r for r in lab.trace.story(kind="NotifyCheckpointComplete", machine="rows/0") if r.role == "event"]
    assert told
    assert 1 not in [record.checkpoint_id for record in told]


def test_the_notification_of_the_last_checkpoint_is_not_lost() -> None:
    lab = a_lab()
    lab.run_until(lambda lab: lab.look.master.checkpoints.ledger.took_last_checkpoint)
    until(lab, "NotifyCheckpointComplete")
    with pytest.raises(LabError, match="no other checkpoint will follow that could cover it"):
        lab.faults.lose("NotifyCheckpointComplete to rows/0")
    finish(lab)


def test_nor_is_that_of_the_savepoint_that_a_job_stops_with() -> None:
    lab = a_lab(interval_ms=None)
    lab.run_until(record="AllTasksRunning")
    lab.stop()
    until(lab, "NotifyCheckpointComplete")
    with pytest.raises(LabError, match="no other checkpoint will follow that could cover it"):
        lab.faults.lose("NotifyCheckpointComplete to rows/0")


def test_a_message_that_the_protocol_cannot_do_without_is_not_lost() -> None:
    lab = until(a_lab(), "DeployTask")
    with pytest.raises(LabError, match="DeployTask cannot be lost: nothing would notice; on a cluster it is lost"):
        lab.faults.lose("DeployTask to rows/0")
    with pytest.raises(LabError, match="DeployTask cannot be doubled: a connection never doubles it"):
        lab.faults.duplicate("DeployTask to rows/0")
    refused = {(type(fault).__name__, fault.subject): why for fault, why in lab.faults.possible().refused}
    assert refused["DropMessage", "rows/0"].startswith("DeployTask cannot be lost")


AFTER_A_FAILURE = {"DeclineCheckpoint", "NotifyCheckpointAborted", "ReportCheckpointMetrics"}


def with_message(name: str) -> tuple[Lab, DeliverMessage]:
    """A lab in which such a message is the next to arrive, though none that no other follows."""
    lab = a_lab(1, timeout_ms=30 if name in AFTER_A_FAILURE else 100, interval_ms=10)
    if name in AFTER_A_FAILURE:
        until(lab, "WriteSnapshot")
        lab.faults.fail(next(each for each in lab.enabled() if getattr(each, "command", "") == "WriteSnapshot"))
    until(lab, name)
    return lab, next(each for each in lab.enabled() if isinstance(each, DeliverMessage) and each.message == name)


@pytest.mark.parametrize("kind", MESSAGE_RULES, ids=lambda kind: kind.__name__)
def test_what_a_rule_allows_harms_no_row(kind: type[ProtocolMessage]) -> None:
    rule = MESSAGE_RULES[kind]
    if kind is messages.CancelTask:  # nobody says it: workers are ended whole
        return
    for allowed, method in ((rule.lost, "lose"), (rule.doubled, "duplicate")):
        lab, message = with_message(kind.__name__)
        if not allowed:
            with pytest.raises(LabError, match="cannot be"):
                getattr(lab.faults, method)(message)
            continue
        assert isinstance(getattr(lab.faults, method)(message).action, DropMessage | DuplicateMessage)
        finish(lab)
        assert lab.look.master.epoch == (2 if kind is messages.OperatorEventToTask else 1)


def test_there_is_a_rule_for_every_message() -> None:
    between = {each for each in COMMANDS if each.duty in (Duty.TELL_JOB, Duty.TELL_TASK)}
    assert set(MESSAGE_RULES) == between - {messages.JobMessage, messages.TaskMessage}
    for rule in MESSAGE_RULES.values():
        assert bool(rule.lost) != bool(rule.why_not_lost)
        assert bool(rule.doubled) != bool(rule.why_not_doubled)


# --- forged reports ---------------------------------------------------------------------------------------------------

CLAIMS: dict[str, dict[str, Any]] = {
    "UNKNOWN": {"task": "stranger/0"},
    "UNKNOWN_CHECKPOINT": {"checkpoint": 99},
    "WRONG_JOB": {"job": "another"},
}


@pytest.mark.parametrize("result", CLAIMS)
def test_a_forged_acknowledgement_changes_nothing_and_its_files_go(result: str) -> None:
    lab = a_lab(interval_ms=10, memory_threshold_bytes=0)
    until(lab, "AcknowledgeCheckpoint")
    before = set(lab.look.files.contents)
    lab.faults.forge("AcknowledgeCheckpoint", **CLAIMS[result])
    copies = set(lab.look.files.contents) - before
    assert bool(copies) == (result != "WRONG_JOB"), "files of another job are not ours to copy, nor to delete"
    finish(lab)
    ignored = [record.data["result"] for record in lab.trace.story(kind="AcknowledgeIgnored")]
    assert ignored == [result]
    assert not copies & set(lab.look.files.contents)
    assert lab.checkpoints().set_index("id")["status"][1] == "COMPLETED"
    assert lab.look.master.epoch == 1


def test_many_forged_reports_harm_no_checkpoint_that_a_job_goes_back_to() -> None:
    random = Random(17)
    lab = a_lab(interval_ms=10, memory_threshold_bytes=0)
    forged, killed = 0, False
    while not lab.ended:
        reports = [each for each in lab.faults.possible() if isinstance(each, ForgeMessage)]
        if forged < 40 and reports and random.random() < 0.3:
            lab.step(random.choice(reports))
            forged += 1
        elif not killed and lab.look.master.checkpoints.store.latest_id == 2:
            lab.faults.kill(1)
            killed = True
        else:
            lab.step()
    finish(lab)
    assert forged > 20
    assert killed
    assert lab.look.master.epoch == 2
    assert not [path for path in lab.look.files.contents if "forged" in path]


def test_only_a_report_on_a_checkpoint_can_be_forged_and_only_with_claims_it_can_make() -> None:
    lab = a_lab(interval_ms=10)
    until(lab, "AcknowledgeCheckpoint")
    with pytest.raises(LabError, match=r"task is 'stranger', expected a name with a subtask's index"):
        lab.faults.forge("AcknowledgeCheckpoint", task="stranger")
    with pytest.raises(LabError, match="nothing that could be forged now is 'DeployTask'"):
        lab.faults.forge("DeployTask")
    report = next(each for each in lab.faults.possible() if isinstance(each, ForgeMessage))
    assert "'colour' was given" in str(lab.look.refusal(replace(report, claims="colour=red")))
    assert "checkpoint is 'x', expected a number" in str(lab.look.refusal(replace(report, claims="checkpoint=x")))


# --- workers, the driver, files, clocks -----------------------------------------------------------------------------


def test_a_frozen_worker_does_nothing_and_goes_on_where_it_stood() -> None:
    lab = a_lab(timeout_ms=10_000)
    lab.run_until(record="CheckpointTriggered")
    lab.faults.freeze(1)
    before = [r.id for r in lab.trace if r.machine.endswith("/1")]
    lab.run_until(at_ms=lab.look.at_ms + 300)
    assert [r.id for r in lab.trace if r.machine.endswith("/1")] == before
    assert not any(str(each.subject).endswith(("/1", "slot 1")) for each in lab.enabled())
    lab.faults.thaw(1)
    finish(lab)
    assert lab.look.master.epoch == 1
    assert statuses(lab)[1] == "COMPLETED"


def test_a_frozen_worker_whose_heartbeat_is_missed_is_taken_for_dead() -> None:
    lab = a_lab()
    lab.run_until(checkpoint=1)
    with pytest.raises(LabError, match="worker 1 is not frozen"):
        lab.faults.miss_heartbeat(1)
    lab.faults.freeze(1)
    lab.faults.miss_heartbeat(1)
    finish(lab)
    assert lab.look.master.epoch == 2
    (lost,) = lab.trace.story(kind="SlotLost")
    assert lost.data["error"] == "its heartbeat was missed"


def test_a_lab_that_stands_still_says_why() -> None:
    lab = Lab(environment(SHAPE, interval_ms=None))
    lab.run_until(record="AllTasksRunning")
    lab.faults.freeze(0)
    lab.faults.freeze(1)
    with pytest.raises(LabError, match=r"frozen: worker 0, 1; lab.faults.thaw\(\)"):
        lab.run()


def test_a_driver_that_is_killed_is_followed_by_the_next() -> None:
    lab = a_lab()
    lab.run_until(checkpoint=1)
    lab.faults.kill_driver()
    assert not lab.enabled()
    for door in (lab.step, lab.run, lab.cancel, lambda: lab.faults.kill(0)):
        with pytest.raises(LabError, match="the driver was killed"):
            door()
    after = Lab(lab.job, after=lab, recover=True, hooks=[Hook()])
    finish(after)
    assert len(after.trace.story(kind="CheckpointRestored")) == 1
    assert kinds(lab)[-1] == "KillDriver"


def test_a_driver_that_is_replaced_stops_at_its_next_use_of_the_store() -> None:
    lab = a_lab()
    lab.run_until(checkpoint=1)
    lab.faults.replace_driver()
    with pytest.raises(LabError, match="it has not begun, or another driver has replaced it already"):
        lab.faults.replace_driver()
    with pytest.raises(
        LabError, match=r"(?s)SUSPENDED at step .*driver 2 \(another driver\) has taken over.*recover=True"
    ):
        lab.run()
    assert lab.look.master.status is JobStatus.SUSPENDED
    assert "COMPLETED" not in {status for number, status in statuses(lab).items() if number > 1}
    parts = filter(None, map(PublishedName.parse, lab._world.edge.output.published))
    assert {part.checkpoint_id for part in parts} <= {1}
    with pytest.raises(LabError, match="the job is SUSPENDED: no other driver takes it over"):
        lab.faults.replace_driver()
    after = Lab(lab.job, after=lab, recover=True, hooks=[Hook()])
    finish(after)
    assert len(after.trace.story(kind="CheckpointRestored")) == 1
    replaced = next(n for n, action in enumerate(lab.past.actions) if isinstance(action, ReplaceDriver))
    lab.goto(replaced)
    finish(lab)


def test_a_driver_whose_job_nobody_else_knows_cannot_be_replaced() -> None:
    lab = Lab(environment(SHAPE))
    lab.run_until(checkpoint=1)
    assert [each for each in lab.faults.possible() if type(each).__name__ == "ReplaceDriver"] == []
    with pytest.raises(LabError, match="it needs a durable store"):
        lab.faults.replace_driver()


HARM = {
    ("lose", "managed_keyed"): "checkpoint 1 cannot be read: Cannot read",
    ("truncate", "managed_keyed"): "it was cut off",
    ("corrupt", "managed_keyed"): "its checksum does not match: bytes were changed",
    ("lose", "metadata"): "/_metadata is not there: put it back",
    ("truncate", "metadata"): "the file is damaged",
    ("corrupt", "metadata"): "is damaged in key group",
}


@pytest.mark.parametrize(("harm", "file"), HARM)
def test_a_file_that_is_harmed_is_not_taken_for_whole(harm: str, file: str) -> None:
    lab = a_lab()
    lab.run_until(checkpoint=1)
    getattr(lab.faults, harm)("metadata of chk-1" if file == "metadata" else "keyed state of totals/0 in chk-1")
    (record,) = [record for record in lab.trace if record.role == "fault"]
    assert "/chk-1/" in record.data["path"]
    assert file in record.data["path"]
    if file == "metadata":
        lab.faults.kill_driver()
        lab = a_lab(after=lab, recover=True)
    else:
        lab.faults.kill(0)
    with pytest.raises(LabError, match=HARM[harm, file]):
        lab.run()


def test_a_state_file_of_which_there_is_a_local_copy_may_be_lost() -> None:
    lab = a_lab(local_recovery=True)
    lab.run_until(checkpoint=1)
    for path in [path for path in lab.look.files.paths(CHECKPOINTS) if "/chk-1/" in path and "managed" in path]:
        lab.faults.lose(path)
    lab.faults.kill(0)
    finish(lab)
    assert lab.look.master.epoch == 2


@pytest.mark.parametrize("by_ms", [60_000, -60_000, -20])
@pytest.mark.parametrize("machine", ["job", "totals/1", "rows/0"])
def test_a_clock_that_is_turned_harms_nobody(machine: str, by_ms: int) -> None:
    lab = a_lab(unaligned=True, aligned_timeout_ms=5)
    lab.run_until(record="CheckpointTriggered")
    before_ms = lab._world.at_ms
    lab.faults.turn_clock(machine, by_ms)
    finish(lab)
    times = [record.at_ms for record in lab.trace if record.machine == machine]
    assert times == sorted(times)
    if by_ms > 0:
        assert times[-1] > before_ms + by_ms
    assert lab.look.master.epoch == 1
    assert "COMPLETED" in statuses(lab).values()


def test_a_timer_keeps_its_length_when_the_clock_is_turned() -> None:
    lab = a_lab(interval_ms=10)
    lab.run_until(record="CheckpointTriggered")
    lab.faults.turn_clock("job", 60_000)
    turned_ms, before = lab.look.at_ms, len(lab.trace.story(kind="PeriodicTriggerScheduled"))
    lab.run_until(lambda lab: len(lab.trace.story(kind="PeriodicTriggerScheduled")) == before + 2)
    assert turned_ms < lab.look.at_ms < turned_ms + 200


def test_a_coordinator_that_cannot_take_its_snapshot_fails_the_checkpoint_and_not_the_job() -> None:
    lab = until(a_lab(), "ScheduleCoordinatorCheckpoint")
    lab.faults.fail("ScheduleCoordinatorCheckpoint")
    (aborted,) = lab.trace.story(kind="CheckpointAborted", checkpoint=1)
    assert aborted.data["reason"] == "TRIGGER_CHECKPOINT_FAILURE"
    assert aborted.data["detail"].endswith("failed: RuntimeError: it cannot take its snapshot")
    finish(lab)
    assert lab.look.master.epoch == 1


# --- all of them ----------------------------------------------------------------------------------------------------

ANY = (DropMessage, DuplicateMessage, DelayMessage, FailCommand, FailNextRead, FreezeWorker, MissHeartbeat, TurnClock)
MODES: list[dict[str, Any]] = [
    {"max_concurrent": 2},
    {"unaligned": True},
    {"unaligned": True, "aligned_timeout_ms": 5},
    {"local_recovery": True},
]


def with_faults(seed: int) -> Lab:
    """A job in which now and then something fails, until it ends; what is frozen thaws."""
    random = Random(seed)
    lab = Lab(environment(SHAPE, timeout_ms=300, **random.choice(MODES)), seed=seed)
    lab.run_until(record="AllTasksRunning")
    faults = 0
    while not lab.ended:
        frozen = (
            [fault for fault in lab.faults.possible() if isinstance(fault, ThawWorker)] if random.random() < 0.1 else []
        )
        if frozen or not lab.enabled():
            lab.step(frozen[0] if frozen else ThawWorker(min(lab._world.frozen)))
        if faults < 6 and random.random() < 0.04:
            kind = random.choice(ANY)
            possible = [each for each in lab.faults.possible() if isinstance(each, kind) and "parse" not in each.text]
            if possible:
                lab.step(random.choice(possible))
                faults += 1
        lab.step()
    return lab


@pytest.mark.parametrize("seed", range(12))
def test_whatever_fails_every_row_comes_once(seed: int) -> None:
    lab = finish(with_faults(seed))
    again = Lab(lab.job, seed=lab.past.seed).replay(lab.past.actions[1:])
    assert [repr(record) for record in again.trace] == [repr(record) for record in lab.trace]
    assert [record.id for record in again.trace] == [record.id for record in lab.trace]


DOORS: dict[str, Callable[[Lab], object]] = {
    "lose": lambda lab: lab.faults.lose("ack of totals/1"),
    "duplicate": lambda lab: lab.faults.duplicate("ack of totals/1"),
    "delay": lambda lab: lab.faults.delay("ack of totals/1", by_ms=50),
    "freeze": lambda lab: lab.faults.freeze(1),
    "turn_clock": lambda lab: lab.faults.turn_clock("job", 500),
    "kill_driver": lambda lab: lab.faults.kill_driver(),
    "fail": lambda lab: lab.faults.fail("read of rows/0"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_fault_is_a_step_that_is_undone_and_done_again_and_that_a_fork_keeps(door: str) -> None:
    lab = acked(Lab(environment(SHAPE)), "totals/1")
    before, there = [action.key for action in lab.enabled()], lab.position
    DOORS[door](lab)
    fault = lab.past.actions[-1]
    assert isinstance(fault, Fault)
    after = [action.key for action in lab.enabled()]
    other = lab.fork()
    lab.back(1)
    assert [action.key for action in lab.enabled()] == before
    lab.goto(there + 1)
    for each in (lab, other, lab.fork().back(1).replay([fault])):
        assert [action.key for action in each.enabled()] == after
        assert each.past.actions[-1] == fault
