"""A trigger that arrives while a task closes its operators, or after it closed them or left, is answered. The job
finishes with the same rows as without the trigger.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    Lab,
    StreamEnvironment,
    count,
)
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.trace.trace import TraceRecord
from kit.hosts.lab.world.actions import Action, DeliverMessage, LetTimePass, TakeTurn
from kit.hosts.lab.world.schedulers import First

pytestmark = pytest.mark.filterwarnings("ignore:job closing. with checkpoints_after_tasks_finish=False")

ROWS = [{"k": f"k{number % 5}", "n": number} for number in range(40)]
SOURCES = "rows/0", "rows/1"
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def a_lab(*, after_finish: bool) -> Lab:
    """`rows` x2, each a source with a map behind it, -> `counts` x2, which sends its rows to a collecting sink."""
    env = StreamEnvironment(
        "closing",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=5_000, checkpoints_after_tasks_finish=after_finish),
    )
    rows = env.from_source(CollectionSource(ROWS, SCHEMA), uid="rows").map(lambda row: row, returns=SCHEMA)
    rows.key_by("k").aggregate(rows=count()).uid("counts").sink_to(CollectSink("out"), uid="out")
    return Lab(env, scheduler=First())


def advance(lab: Lab, until: Callable[[], bool], *, without: Callable[[Action], bool]) -> None:
    """Step without the excluded actions until the condition holds."""
    for _ in range(5_000):
        if until():
            return
        lab.step(next(action for action in lab.enabled() if not (without(action) or isinstance(action, LetTimePass))))
    raise AssertionError("it did not come to that")


def records(lab: Lab, kind: str) -> list[TraceRecord]:
    return [record for record in lab.trace if record.kind == kind]


def is_trigger(action: Action) -> bool:
    return isinstance(action, DeliverMessage) and action.message == "TriggerTaskCheckpoint"


def a_trigger_under_way(*, after_finish: bool) -> Lab:
    """Return a lab with one complete checkpoint, and a second one whose triggers are on their way to both sources. The
    sources have been notified of the end of their splits, but have not ended their data yet.
    """
    lab = a_lab(after_finish=after_finish)
    turns = {TakeTurn(source) for source in SOURCES}
    lab.run_until(record="SplitRead")
    lab.trigger_checkpoint()
    advance(lab, lambda: bool(records(lab, "CheckpointCompleted")), without=turns.__contains__)

    def knows_its_end(action: Action) -> bool:
        told = [record for record in records(lab, "OperatorEventToTask") if record.machine == action.subject]
        return action in turns and len(told) == 2

    advance(lab, lambda: all(map(knows_its_end, turns)), without=knows_its_end)
    lab.trigger_checkpoint()
    advance(lab, lambda: sum(map(is_trigger, lab.enabled())) == 2, without=lambda a: a in turns or is_trigger(a))
    return lab


def let_rows_0_close(lab: Lab, turns: int) -> None:
    """Let `rows/0` end its data and take this many turns before its trigger arrives; `rows/1` does not change."""

    def turns_taken() -> int:
        mine = [record for record in lab.trace if record.machine == "rows/0"]
        ends = [i for i, record in enumerate(mine) if record.data.get("end_of_data")]
        return sum(record.kind == "ProcessInput" for record in mine[ends[0] :]) if ends else -1

    others_turn = TakeTurn("rows/1")
    advance(lab, lambda: turns_taken() == turns, without=lambda a: is_trigger(a) or a == others_turn)


def deliver_the_trigger(lab: Lab) -> list[TraceRecord]:
    (trigger,) = [action for action in lab.enabled() if is_trigger(action) and action.subject == "rows/0"]
    return list(lab.step(trigger).records)


def sent_on(step: list[TraceRecord]) -> set[str]:
    return {record.data["element"]["type"] for record in step if record.kind == "SendElement"}


def declined(step: list[TraceRecord]) -> list[str]:
    return [record.data["reason"] for record in step if record.kind == "DeclineCheckpoint"]


def counted(lab: Lab) -> dict[str, int]:
    return lab.output().groupby("k")["rows"].max().to_dict()


def goes_on_to_the_end_with_checkpoint_1(lab: Lab, reason: str) -> None:
    """Checkpoint 2 is given up for this reason; in 1.11 what came behind the last checkpoint is not published."""
    lab.run()
    assert lab.ended
    assert [(row.id, row.status) for row in lab.checkpoints().itertuples()][::-1] == [(1, "COMPLETED"), (2, "FAILED")]
    assert CheckpointFailureReason[reason].message in lab.checkpoints()["failure"][0]
    assert counted(lab) == {f"k{number}": 4 for number in range(5)}


def test_a_trigger_before_the_operators_are_closed_takes_the_checkpoint() -> None:
    lab = a_trigger_under_way(after_finish=False)
    let_rows_0_close(lab, 0)
    step = deliver_the_trigger(lab)
    assert (sent_on(step), declined(step)) == ({"CheckpointBarrier"}, [])
    lab.run()
    assert [row.status for row in lab.checkpoints().itertuples()] == ["COMPLETED", "COMPLETED"]


def test_a_chain_with_a_closed_operator_sends_the_barrier_on_and_declines() -> None:
    lab = a_trigger_under_way(after_finish=False)
    let_rows_0_close(lab, 1)
    step = deliver_the_trigger(lab)
    assert sent_on(step) == {"CheckpointBarrier"}
    assert declined(step) == ["CHECKPOINT_DECLINED_TASK_CLOSING"]
    goes_on_to_the_end_with_checkpoint_1(lab, "CHECKPOINT_DECLINED_TASK_CLOSING")
    assert "rows is closed" in lab.checkpoints()["failure"][0]


def test_a_task_that_no_longer_runs_sends_a_cancel_marker_and_declines() -> None:
    lab = a_trigger_under_way(after_finish=False)
    let_rows_0_close(lab, 2)
    step = deliver_the_trigger(lab)
    assert sent_on(step) == {"CancelCheckpointMarker"}
    assert declined(step) == ["CHECKPOINT_DECLINED_TASK_NOT_READY"]
    goes_on_to_the_end_with_checkpoint_1(lab, "CHECKPOINT_DECLINED_TASK_NOT_READY")


def test_the_slot_declines_for_a_task_that_it_does_not_know_any_more() -> None:
    lab = a_trigger_under_way(after_finish=False)
    let_rows_0_close(lab, 3)
    assert deliver_the_trigger(lab) == []
    goes_on_to_the_end_with_checkpoint_1(lab, "TASK_CHECKPOINT_FAILURE")
    (decline,) = [record for record in records(lab, "DeclineCheckpoint") if record.data["task"] == "rows/0"]
    assert (decline.machine, decline.data["task"]) == ("job", "rows/0")
    assert "TriggerTaskCheckpoint" in [cause.kind for cause in lab.trace.causes(decline)]
    assert "the slot knows no task rows/0@1" in lab.checkpoints()["failure"][0]


def test_with_checkpoints_after_the_end_no_trigger_meets_a_task_that_is_closing() -> None:
    """As in 2.x: it stays until a checkpoint of its end is complete, then closes all operators at once."""
    lab = a_trigger_under_way(after_finish=True)
    let_rows_0_close(lab, 0)
    advance(lab, lambda: is_held_back(lab), without=lambda a: is_trigger(a) or a.subject == "rows/1")
    step = deliver_the_trigger(lab)
    assert (sent_on(step), declined(step)) == ({"CheckpointBarrier"}, [])
    lab.run()
    assert records(lab, "DeclineCheckpoint") == []
    assert counted(lab) == {f"k{number}": 8 for number in range(5)}


def is_held_back(lab: Lab) -> bool:
    """Return True if only triggers and `rows/1` can proceed."""
    return all(is_trigger(a) or a.subject == "rows/1" or isinstance(a, LetTimePass) for a in lab.enabled())
