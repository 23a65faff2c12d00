"""The checks of missions: each reads the facts of a run, and says what is still missing."""

from __future__ import annotations

from collections.abc import Callable

from kit.core.protocol.messages import AcknowledgeCheckpoint, NotifyCheckpointComplete
from kit.core.protocol.notes import CheckpointAborted
from kit.core.protocol.words import ProtocolMessage
from kit.course.missions.mission import Verdict
from kit.hosts.lab import Lab
from kit.run.faults import DROP_MESSAGE
from kit.run.moments.job_state import ABORTED, COMPLETED, PENDING
from kit.run.reason_words import ended_because
from kit.stream.operators.sources.source_spec import SourceSpec

Check = Callable[[Lab], Verdict]
EXPIRED = "CHECKPOINT_EXPIRED"
FAILOVER = "JOB_FAILOVER_REGION"
NOT_WRITTEN = "CHECKPOINT_ASYNC_EXCEPTION"


def all_of(*checks: Check) -> Check:
    """Return a check that is passed when all of these are; it reports the first that is not."""

    def check(lab: Lab) -> Verdict:
        found = [each(lab) for each in checks]
        return next((each for each in found if not each.done), found[-1])

    return check


def completed(*ids: int) -> Check:
    """Return a check that these checkpoints are complete."""

    def check(lab: Lab) -> Verdict:
        known = lab.moment().checkpoints
        for each in ids:
            if each not in known or known[each].status != COMPLETED:
                return Verdict(False, f"Checkpoint {each} {_now(lab, each)}.")
        return Verdict(True, f"{_named(ids)} complete.")

    return check


def aborted(reason: str, words: str, checkpoint_id: int | None = None) -> Check:
    """Return a check that a checkpoint was aborted for this reason."""

    def check(lab: Lab) -> Verdict:
        for each in lab.moment().checkpoints.values():
            if each.status == ABORTED and each.reason == reason and checkpoint_id in (None, each.checkpoint_id):
                return Verdict(True, f"Checkpoint {each.checkpoint_id} was aborted: {words}.")
        if checkpoint_id is not None:
            return Verdict(False, f"Checkpoint {checkpoint_id} {_now(lab, checkpoint_id)}.")
        return Verdict(False, f"No checkpoint was aborted yet because {words}.")

    return check


def later_completed(lab: Lab) -> Verdict:
    """Check that a checkpoint completed after one was aborted."""
    known = lab.moment().checkpoints.values()
    lost = min((each.checkpoint_id for each in known if each.status == ABORTED), default=None)
    later = [each.checkpoint_id for each in known if each.status == COMPLETED and each.checkpoint_id > (lost or 0)]
    if lost is None or not later:
        return Verdict(False, "No checkpoint has completed after the aborted one yet.")
    return Verdict(True, f"Checkpoint {later[0]} is complete, although checkpoint {lost} was aborted.")


def message_lost(kind: type[ProtocolMessage], words: str) -> Check:
    """Return a check that a message of this kind was lost."""

    def check(lab: Lab) -> Verdict:
        lost = any(each.is_a(DROP_MESSAGE) and each.data["message"] == kind.__name__ for each in lab.trace)
        return Verdict(lost, f"{words} was lost." if lost else f"{words} has not been lost yet.")

    return check


def every_record_once(lab: Lab) -> Verdict:
    """Check that the job has finished, and that each record was counted exactly once."""
    counted, there = _counted(lab), _there(lab)
    if lab.status != "FINISHED":
        return Verdict(False, f"The job is {lab.status.lower()}: run it to its end.")
    return Verdict(counted == there, f"The job has finished, and {counted} of {there} records were counted.")


def counted_twice(lab: Lab) -> Verdict:
    """Check that more records were counted than the sources have."""
    counted, there = _counted(lab), _there(lab)
    if counted > there:
        return Verdict(True, f"The sources have {there} records, and {counted} were counted.")
    return Verdict(False, f"{counted} of {there} records were counted so far, none of them twice.")


def records_wait_behind_a_barrier(lab: Lab) -> Verdict:
    """Check that two buffers are in a blocked channel, behind the barrier that blocked it."""
    blocked = [each for each in lab.moment().channels.values() if each.blocked]
    for channel in blocked:
        count = sum(item.kind == "buffer" for item in channel.arrived)
        if count > 1:
            return Verdict(True, f"{count} buffers of {channel.sender} wait in front of {channel.receiver}.")
    if not blocked:
        return Verdict(False, "No channel is blocked.")
    return Verdict(False, f"The channel {blocked[0].sender} → {blocked[0].receiver} is blocked, with too few buffers.")


def in_flight_data_is_stored(lab: Lab) -> Verdict:
    """Check that a complete checkpoint contains in-flight data."""
    done = [each.checkpoint_id for each in lab.moment().checkpoints.values() if each.status == COMPLETED]
    for each in done:
        size = int(lab.statistics.subtasks(each)["persisted_bytes"].sum())
        if size:
            return Verdict(True, f"Checkpoint {each} contains {size:,} bytes of in-flight data.")
    return Verdict(False, "A checkpoint is complete, without in-flight data." if done else "No checkpoint is complete.")


def restored(checkpoint_id: int) -> Check:
    """Return a check that all tasks run again after a restore from this checkpoint."""

    def check(lab: Lab) -> Verdict:
        moment = lab.moment()
        if not any(each.checkpoint_id == checkpoint_id for each in moment.restores):
            return Verdict(False, f"Nothing was restored from checkpoint {checkpoint_id} yet.")
        if not all(each.state == "RUNNING" for each in moment.tasks.values()):
            return Verdict(False, f"The job is restored from checkpoint {checkpoint_id}, and not all tasks run yet.")
        return Verdict(True, f"All tasks run again, with the state of checkpoint {checkpoint_id}.")

    return check


def late_acknowledgement(lab: Lab) -> Verdict:
    """Check that an acknowledgement arrived after its checkpoint had ended."""
    ended: set[int | None] = set()
    for record in lab.trace:
        if record.is_a(CheckpointAborted):
            ended.add(record.checkpoint_id)
        elif (
            record.checkpoint_id in ended
            and record.is_a(AcknowledgeCheckpoint)
            and (record.machine, record.role) == ("job", "event")
        ):
            return Verdict(True, f"An acknowledgement arrived after checkpoint {record.checkpoint_id} had expired.")
    return Verdict(False, "No acknowledgement has arrived too late yet.")


def published_later(lab: Lab) -> Verdict:
    """Check that a task which missed a notification published its output with a later checkpoint."""
    tasks = lab.moment().tasks
    for record in lab.trace:
        if not record.is_a(DROP_MESSAGE) or record.data["message"] != NotifyCheckpointComplete.__name__:
            continue
        task = tasks.get(record.data["receiver"])
        if task is not None and (task.published or 0) > (record.checkpoint_id or 0):
            return Verdict(True, f"{record.data['receiver']} published its output with checkpoint {task.published}.")
    return Verdict(False, "No task that missed a notification has published its output yet.")


def parallelism(vertex: str, wanted: int) -> Check:
    """Return a check that a vertex runs with this many subtasks."""

    def check(lab: Lab) -> Verdict:
        found = {each.name: each.parallelism for each in lab.look.stages[-1].vertices}[vertex]
        return Verdict(found == wanted, f"{vertex} has {found} subtasks.")

    return check


# --- facts ------------------------------------------------------------------------------------------------------------


def _now(lab: Lab, checkpoint_id: int) -> str:
    known = lab.moment().checkpoints.get(checkpoint_id)
    if known is None:
        return "has not begun"
    if known.status == PENDING:
        return f"is pending: {len(known.acked)} of {len(known.expected)} tasks have acknowledged"
    if known.status == COMPLETED:
        return "is complete"
    return f"was aborted: {ended_because(known.reason)}"


def _named(ids: tuple[int, ...]) -> str:
    if len(ids) == 1:
        return f"Checkpoint {ids[0]} is"
    return f"Checkpoints {', '.join(map(str, ids[:-1]))} and {ids[-1]} are"


def _counted(lab: Lab) -> int:
    """Return the number of records in the final count of each key."""
    rows = lab.output()
    return 0 if not len(rows) else int(rows.groupby("k")["rows"].max().sum())


def _there(lab: Lab) -> int:
    """Return the number of records of the job's sources."""
    specs = [operator.spec for operator in lab.job.operators]
    return sum(getattr(spec.source, "row_count", 0) for spec in specs if isinstance(spec, SourceSpec))
