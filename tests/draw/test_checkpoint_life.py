"""The life of a checkpoint and the machines' present states, against what the machines themselves say."""

from __future__ import annotations

import pytest

from kit.core.trace.trace import Trace, keeps_record
from kit.draw.views.checkpoint_life import checkpoint_life
from kit.draw.views.state_machines import handlers_of, phase_of, state_machines
from kit.draw.views.views import VIEWS
from kit.hosts.lab import Lab, open_scenario
from kit.run.checkpoint_log import CheckpointLog
from kit.run.subject import Subject
from kit.why.evidence import Evidence
from tests.draw.geometry import crossings
from tests.draw.labs import lab_of
from tests.draw.test_barriers import played
from tests.draw.test_chains import texts
from tests.hosts.lab.test_region_failover import two_pipelines

SCENARIOS = (
    "hook-state",
    "expiry-during-a-coordinator",
    "queued-requests",
    "savepoint-overtakes-the-queue",
    "two-at-a-time",
    "subsumption",
    "metadata-failure",
    "stop-with-savepoint",
    "driver-death-while-finalizing",
    "abort-during-unaligned",
    "unaligned-by-upstream",
    "timed-out-on-the-announcement",
    "cancel-marker-against-barrier",
    "restart-strategy-exhausted",
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_states_and_queue_are_those_of_the_machines(name: str) -> None:
    scenario = open_scenario(name)
    while not scenario.done:
        scenario.next()
        assert_as_the_machines_say(scenario.lab)


@pytest.mark.parametrize("settings", [{}, {"unaligned": True, "aligned_timeout_ms": 3}], ids=["aligned", "timeout"])
def test_states_are_those_of_the_machines_all_along(settings: dict[str, int]) -> None:
    lab = lab_of(6, rows=30, interval_ms=20, **settings)
    while not lab.ended:
        for _ in range(9):
            if not lab.ended:
                lab.step()
        assert_as_the_machines_say(lab)


def test_a_savepoint_that_overtakes_the_queue_leaves_the_other_requests_in_it() -> None:
    lab = lab_of(6, rows=60, interval_ms=None, max_concurrent=1)
    lab.run_until(record="AllTasksRunning")
    for _ in range(3):
        lab.trigger_checkpoint()
    lab.run_until(record="CheckpointTriggered")
    lab.savepoint()
    for _ in range(3):
        lab.step()
        assert_as_the_machines_say(lab)
    log = CheckpointLog(Subject(lab).reading)
    assert len(log.queue) == 2
    assert log.lives[2].request.startswith("Savepoint")
    assert log.lives[2].asked_ms == log.lives[2].begun_ms > log.queue[0].at_ms


def assert_as_the_machines_say(lab: Lab) -> None:
    log, master, stage = CheckpointLog(Subject(lab).reading), lab.look.master, lab.look.stages[-1]
    evidence = Evidence(lab)
    states = {number: life.state for number, life in log.lives.items() if not life.ended}
    assert states == {number: pending.state for number, pending in master.checkpoints.pending.items()}
    assert [each.label for each in log.queue] == [each.label for each in master.checkpoints.decider.queue]
    assert phase_of(evidence) is master.phase
    for task, state in handlers_of(evidence, stage, stage.tasks()).items():
        machine = lab._world.machine(task)
        if machine is not None:
            assert state == repr(machine.barriers.state), task  # type: ignore[attr-defined]


def test_the_bar_of_several_acknowledgements_ends_with_the_last_whichever_task_sent_it() -> None:
    orders = set()
    for seed in range(4):
        lab = lab_of(seed, rows=60, parallelism=3)
        lab.run_until(checkpoint=1)
        acks = [record for record in lab.trace.story(kind="TaskAcknowledged") if record.checkpoint_id == 1]
        for row in checkpoint_life(lab, checkpoint=1).rows():
            if row.name.startswith("acks of "):
                times = {record.data["task"]: record.at_ms for record in acks if row.name[8:] in record.data["task"]}
                assert row.bars[0].end_ms == max(times.values())
                assert sorted(row.ticks_ms) == sorted(times.values())
                orders.add(max(times, key=lambda task: times[task])[-1])
    assert len(orders) > 1, "the last subtask is the last to acknowledge each time"


def test_a_late_acknowledgement_is_named_with_how_long_and_how_long_it_may() -> None:
    view = checkpoint_life(played("late-ack", 1))
    assert view.answer() == (
        "Checkpoint 1 has been pending for 38 ms and waits for 1 of 4 acknowledgements, of sums/1: the acknowledgement "
        "of sums/1 has been under way for 1 ms. It expires in 162 ms."
    )
    assert [(row.name, row.says) for row in view.rows()][-2:] == [
        ("acks of letters", "2 of 2, the last after 6 ms"),
        ("acks of sums", "1 of 2, the last after 18 ms"),
    ]
    (clock,) = view.clocks()
    assert (clock.name, clock.says) == ("timeout", "expires in 162 ms (38 ms of 200 ms gone)")
    assert repr(view) == "LifeOfCheckpoint(checkpoint 1: COLLECTING)"
    page = view._repr_html_()
    for text in ("What it went through", "Clocks", "not answered yet", "time that is left", "3 of 4"):
        assert text in page


def test_an_aborted_one_says_what_had_not_come() -> None:
    view = checkpoint_life(played("late-ack", 2))
    assert view.answer().startswith("Checkpoint 1 was aborted: checkpoint expired after 200 ms. 1 of 4")
    assert "did not come in time" in view._repr_html_()
    assert view.clocks() == []


def test_coordinators_hooks_and_lengths_are_rows() -> None:
    lab = played("hook-state", 1)
    table = checkpoint_life(lab, checkpoint=1).to_pandas()
    assert table[["step", "of"]].values.tolist()[:4] == [
        ["number", ""],
        ["directory", ""],
        ["coordinator", "letters"],
        ["hook", "log"],
    ]
    assert (table.took_ms.dropna() == (table.end_ms - table.start_ms).dropna()).all()
    waits = checkpoint_life(played("expiry-during-a-coordinator", 1))
    assert "waits for the operator coordinator letters, for 1 ms" in waits.answer()


def test_requests_wait_with_their_reason() -> None:
    lab = lab_of(1, interval_ms=20)
    lab.run_until(record="RequestQueued")
    view = checkpoint_life(lab)
    (row,) = view.requests().itertuples(index=False)
    assert (row.request, row.why) == ("Checkpoint (periodic)", "1 checkpoint is pending, and at most 1 may be")
    assert "Requests that wait" in view._repr_html_()


def test_the_minimum_pause_and_the_interval_are_clocks() -> None:
    lab = lab_of(1, interval_ms=20, min_pause_ms=15)
    lab.run_until(checkpoint=1)
    view = checkpoint_life(lab)
    clocks = {row.name: row.says for row in view.clocks()}
    done = next(record.at_ms for record in lab.trace if record.kind == "CheckpointCompleted")
    left = done + 15 - lab.look.at_ms
    assert clocks["minimum pause"] == f"over in {left} ms ({15 - left} ms of 15 ms gone)"
    assert clocks["interval"].endswith("of 20 ms gone)")


def test_before_and_beside_the_checkpoints_there_are() -> None:
    lab = lab_of(1)
    assert checkpoint_life(lab).answer().startswith("No checkpoint has a number yet.")
    assert "No checkpoint has a number yet" in checkpoint_life(lab)._repr_html_()
    lab.run()
    with pytest.raises(ValueError, match=r"no checkpoint 99 after \d+ records; there are: 1, 2"):
        checkpoint_life(lab, checkpoint=99)
    assert checkpoint_life(lab, checkpoint=1).answer().startswith("Checkpoint 1 was completed after ")
    told = [row for row in checkpoint_life(lab, checkpoint=1).rows() if row.name == "tasks notified"]
    assert [row.says for row in told] == ["4 of 4 notified"]


def test_many_tasks_are_rows_by_vertex() -> None:
    lab = lab_of(1, rows=400, parallelism=50)
    lab.run_until(record="CheckpointTriggered")
    view = checkpoint_life(lab)
    assert [row.says for row in view.rows()[-2:]] == ["0 of 50", "0 of 50"]
    assert "waits for 100 of 100 acknowledgements, of 50 of letters, 50 of totals" in view.answer()
    assert view._repr_html_().count("<tr") < 80
    assert len(view.to_pandas()) == 103


# --- the machines -----------------------------------------------------------------------------------------------------


def test_the_present_state_is_lit_and_those_before_are_marked() -> None:
    machines = state_machines(played("late-ack", 1))
    nodes = {node.name: node for node in machines["checkpoint"].graph().nodes}
    assert [name for name, node in nodes.items() if node.meaning == "lit"] == ["COLLECTING"]
    assert [name for name, node in nodes.items() if node.meaning == "been"] == [
        "LOCATING",
        "COORDINATORS",
        "HOOKS",
        "TRIGGERING",
    ]
    assert nodes["ABORTED"].lines == ("ABORTED", "from any state but", "STORING: it is aborted")
    assert machines.to_pandas().values.tolist() == [
        ["checkpoint", "COLLECTING", "checkpoint 1"],
        ["job", "RUNNING", "the job"],
        ["task", "RUNNING", "letters/0, 1, sums/0, 1"],
        ["barrier handler", "WaitingForFirstBarrier", "sums/0, 1"],
    ]


def test_one_task_may_be_chosen() -> None:
    lab = played("alignment", 2)
    assert state_machines(lab, task="sums/0")["barrier handler"].lit == {"CollectingBarriers": "sums/0"}
    assert state_machines(lab, task="left/0")["task"].lit == {"RUNNING": "left/0"}
    assert "barrier handler" not in state_machines(lab, task="left/0")
    with pytest.raises(ValueError, match=r"no task 'sums/9'; there are: left/0, right/0, sums/0"):
        state_machines(lab, task="sums/9")


@pytest.mark.parametrize("settings", [{}, {"unaligned": True}], ids=["aligned", "unaligned"])
def test_no_label_of_a_machine_lies_on_an_arrow(settings: dict[str, bool]) -> None:
    lab = lab_of(3, **settings)
    lab.run_until(checkpoint=1)
    machines = state_machines(lab)
    assert {"checkpoint", "job", "task", "barrier handler"} == set(machines)
    for machine in machines.values():
        assert crossings(machine.graph()) == []
        assert set(machine.lit) <= set(texts(machine.svg()))
        assert machine.dot().source.count("->") == len(machine.graph().edges)


def test_every_step_of_the_table_is_told() -> None:
    """On an arrow, in a box, or where the mouse rests: nothing of the table is left out."""
    for machine in state_machines(played("alignment", 2)).values():
        graph = machine.graph()
        boxes = {node.name: " ".join((*node.lines, node.tip)) for node in graph.nodes}
        arrows = {(edge.source, edge.target): " ".join(edge.lines) for edge in graph.edges}
        for row in machine.to_pandas().itertuples(index=False):
            if row.state in boxes and row.target in boxes:
                assert row.event in arrows.get((row.state, row.target), "") or row.event in boxes[row.target]


def test_a_restart_of_some_regions_is_a_state_of_the_job_that_other_runs_do_not_show() -> None:
    """The phase is that of the JobMaster at each step, through two such restarts and one of the whole job."""
    lab = Lab(two_pipelines())
    assert "FAILING_OVER" not in state_machines(lab)["job"].graph().caption
    assert "FAILING_OVER" not in {node.name for node in state_machines(lab)["job"].graph().nodes}
    seen = []
    for fault in (1, 1, 0, None):
        lab.run_until(record="AllTasksRunning")
        for _ in range(9):
            lab.step()
        if fault is not None:
            lab.faults.kill(fault)
        while lab.status != "RUNNING" or fault is None:
            phase = lab.look.master.phase
            assert phase_of(Evidence(lab)) is phase
            seen.append(str(phase.value))
            if lab.status == "FINISHED":
                break
            lab.step()
    assert {"FAILING_OVER", "RUNNING", "FINISHED"} < set(seen)
    graph = state_machines(lab)["job"].graph()
    assert "FAILING_OVER" in {node.name for node in graph.nodes}
    assert crossings(graph) == []


def test_barriers_that_are_counted_have_no_such_machine() -> None:
    lab = lab_of(3, mode="at_least_once")
    lab.run_until(checkpoint=1)
    assert "barrier handler" not in state_machines(lab)


@pytest.mark.parametrize("kind", ["CheckpointIdAllocated", "LocationInitialized", "CheckpointCompleted", "SlotLost"])
def test_a_moment_in_the_middle_of_an_event_can_be_drawn(kind: str) -> None:
    """The records of one event come one by one, and any of them may be the last that is looked at."""
    lab = lab_of(2, rows=20)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    (first, *_) = (number for number, record in enumerate(lab.trace) if record.kind == kind)
    for n in range(first, first + 5):
        for view in VIEWS:
            if view.name in ("barriers", "life"):
                assert view.draw(Subject(lab, n))._repr_html_()


def test_a_clusters_trace_is_enough() -> None:
    """The trace has no turns and no single buffers."""
    lab = played("alignment", 2)
    trace = Trace([record for record in lab.trace if keeps_record(record)], stages=lab.look.stages)
    assert len(trace) < len(lab.trace) / 4
    view = checkpoint_life(trace)
    assert "waits for 2 of 3 acknowledgements, of right/0, sums/0: the trigger to right/0 has been" in view.answer()
    assert [row.name for row in view.clocks()] == ["timeout"]
    assert state_machines(trace).to_pandas().equals(state_machines(lab).to_pandas())
