"""Answers to why a task has no turn: they agree with the machine at every step, and lead to the root cause."""

from __future__ import annotations

from typing import Any

import pytest

from kit import CollectionSource, CollectSink, GeneratorSource, StreamEnvironment
from kit.core.protocol.tasks import ExecutionState
from kit.hosts.lab import Lab
from tests.why.jobs import beginning, letters, roots, running, says, settle_without, turns_of

HAS_TURN = ("has not done so yet", "has not had its turn")


@pytest.mark.parametrize(
    "settings",
    [{}, {"unaligned": True}, {"unaligned": True, "aligned_timeout_ms": 5}, {"mode": "at_least_once"}],
    ids=["aligned", "unaligned", "timeout", "at least once"],
)
def test_it_says_that_a_task_has_a_turn_exactly_when_it_has(settings: dict[str, Any]) -> None:
    """Every task at every few steps of a whole run with a failure in it, by the trace alone."""
    lab = Lab(letters(24, interval_ms=30, **settings), seed=3)
    seen = set()
    while not lab.ended:
        lab.step()
        if lab.position == 150:
            lab.faults.kill(1)
        if lab.position % 41:
            continue
        for name, task in lab._world.tasks.items():
            if task.state is ExecutionState.RUNNING:
                says = lab.why(task=name).answer.says
                has_turn = any(word in says for word in HAS_TURN)
                assert has_turn == task.available, f"step {lab.position}: {name}: {says}"
                seen.add(has_turn)
    assert seen == {True, False}


def test_a_full_output_leads_to_the_sink_two_tasks_further_down() -> None:
    lab = running()
    settle_without(lab, turns_of("out/0", "out/1"))
    why = lab.why("letters/0")
    assert why.question == "Why does letters/0 have no turn?"
    assert why.answer.says.startswith("letters/0 takes no input: its output queue to totals/")
    assert {root.partition(" ")[0] for root in roots(why)} <= {"out/0", "out/1"}
    assert all("has not done so yet" in root for root in roots(why))


def test_no_input_leads_to_the_source_that_sends_none() -> None:
    lab = running()
    settle_without(lab, turns_of("letters/0", "letters/1"))
    told = says(lab.why("out/0"))
    assert told[0] == "out/0 has no input to take"
    assert "totals/1 has sent nothing more to out/0" in told
    assert "the source of letters/1 may be read and has not had its turn" in roots(lab.why("out/0"))


def test_a_source_waits_for_its_time() -> None:
    env = StreamEnvironment("slow", parallelism=1)
    env.from_source(GeneratorSource(100, 5, batch_rows=10, rows_per_second=1_000), uid="rows").sink_to(
        CollectSink("out"), uid="out"
    )
    lab = Lab(env)
    lab.run_until(lambda lab: lab.why("rows/0").answer.says.startswith("the source of rows/0 reads again at "))
    why = lab.why("rows/0")
    timer = why.answer.record
    assert timer is not None
    due_ms = timer.data["due_ms"]
    assert why.answer.says == f"the source of rows/0 reads again at {due_ms} ms, in {due_ms - lab.look.at_ms} ms"
    assert lab.enabled()[-1].key == f"wait:{due_ms}"


def test_before_it_runs_it_is_on_its_way_or_reads_its_state() -> None:
    lab = Lab(letters())
    lab.run_until(record="StartEpoch")
    assert lab.why("totals/0").question == "Why is totals/0 not running?"
    assert says(lab.why("totals/0")) == ["totals/0 is being deployed to its worker"]
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    lab.faults.kill(0)
    lab.run_until(record="StartEpoch")
    settle_without(lab, beginning("carry_out:totals/0:ReadState"))
    (root,) = says(lab.why("totals/0"))
    assert root.startswith("totals/0 has been reading its state of checkpoint 1 for ")


def test_a_task_that_has_failed_tells_why_and_where() -> None:
    env = StreamEnvironment("broken", parallelism=1)
    rows = env.from_source(CollectionSource([{"n": 1}]), uid="rows").rebalance().map(_raises).uid("raises")
    rows.sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run_until(lambda lab: any(known.state == "FAILED" for known in lab.moment().tasks.values()))
    task = next(task for task, known in lab.moment().tasks.items() if known.state == "FAILED")
    told = says(lab.why(task))
    assert told[0] == f"{task} has failed"
    assert "no such row" in told[1]
    assert "in _raises" in told[1]


def _raises(row: dict[str, int]) -> dict[str, int]:
    raise ValueError("no such row")


def test_a_task_that_has_read_all_stays_for_its_last_checkpoint() -> None:
    lab = running(rows=4)
    held = beginning("deliver:AcknowledgeCheckpoint:chk-1:totals/1")
    settle_without(lab, held)
    why = lab.why("letters/0")
    told = says(why)
    assert told[0].startswith("letters/0 has processed all its input, ")
    assert told[1] == "letters/0 stays until it is notified that checkpoint 1 is complete"
    assert told[2].startswith("checkpoint 1 has been pending for ")
    (root,) = roots(why)
    assert root.startswith("the acknowledgement of totals/1 to the JobMaster has been under way for ")
