"""The parts of the explorer: the details of an item and its actions, and the settings that build another run."""

from __future__ import annotations

import re

import pytest

import kit
from kit import CheckpointConfig
from kit.hosts.lab import Lab, ready_job
from kit.hosts.lab.faults.faults import FreezeWorker
from kit.hosts.spark import SparkJob
from kit.snapshots.state_tables import KEYED
from tests.draw.labs import lab_of, letters
from tests.widgets.test_explorer import run, until
from widgets import Explorer
from widgets.runs.details import offers, what_if
from widgets.runs.next_actions import next_items

ANOTHER = "Another run"


def text(explorer: Explorer) -> str:
    """Return the details without tags."""
    html = re.sub(r"<style>.*?</style>", "", explorer.stepper.item_details["html"], flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def pick(explorer: Explorer, what: str) -> str:
    """Click on an item, and return its details."""
    explorer.stepper.selected = what
    assert explorer.stepper.item_details["selected"] == what
    assert explorer.stepper.item_details["n"] == explorer.stepper.n
    return text(explorer)


def offered(explorer: Explorer) -> dict[str, str]:
    """Return the actions on the selected item: for each label, why it is not possible."""
    return {offer["label"]: offer["why_not"] for offer in explorer.stepper.offers}


def choose(explorer: Explorer, label: str) -> None:
    """Press an offered action, with the page's message."""
    key = next(offer["key"] for offer in explorer.stepper.offers if offer["label"] == label)
    explorer.stepper._handle_custom_msg({"do": key}, [])


@pytest.fixture
def midway() -> Explorer:
    """The job of flights with one complete checkpoint and one pending."""
    explorer = Explorer(Lab(ready_job("flights", interval_ms=20, rows=24), seed=3))
    until(explorer, "the next checkpoint is complete")
    until(explorer, "a checkpoint begins")
    until(explorer, "totals/1 has its barrier")
    return explorer


def test_what_may_arrive_is_said_in_words() -> None:
    lab = Lab(ready_job("flights", rows=12), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint()
    said: set[str] = set()
    while not lab.ended:
        labels = [each.label for each in next_items(lab) if " receive " in each.label]
        said |= {re.sub(r"-?\d[\d,]*", "n", label.partition(" receive ")[2].partition(" from ")[0]) for label in labels}
        lab.step()
    assert {"a buffer of n row", "barrier n", "watermark n ms", "the end of data", "the end of the stream"} <= said
    assert [each for each in said if "(" in each] == []


def test_a_task_tells_why_it_waits_what_it_holds_and_what_it_did(midway: Explorer) -> None:
    told = pick(midway, "task:totals/0")
    assert "Why does totals/0" in told
    keys = {key for table in midway.lab.state("totals/0").of(KEYED) for key in table.to_pandas()["key"]}
    assert keys
    assert all(key in told for key in keys)
    assert offered(midway)["Kill worker 0"] == ""
    assert offered(midway)["Thaw worker 0"] == "worker 0 is not frozen"


def test_a_channel_tells_its_queue_record_by_record(midway: Explorer) -> None:
    lab = midway.lab
    queues = {number: lab.queue(number) for number in lab.look.stages[-1].ends()}
    number = next(number for number, queue in queues.items() if queue["record"].notna().any())
    told = pick(midway, f"channel:{number}")
    sender, receiver = lab.look.stages[-1].ends()[number]
    assert f"Why is {sender} → {receiver} blocked?" in told
    assert "(channel" not in told, "the number says nothing to a reader"
    for record in queues[number]["record"].dropna():
        assert f"carrier {record['carrier']}, " in told
    assert str(queues[number]["place"].iloc[0]) not in told, "the page says where each element is"


def test_a_checkpoint_tells_who_made_it_slow(midway: Explorer) -> None:
    assert "Why did checkpoint 1 take" in pick(midway, "checkpoint:1")
    assert "no other subtask took longer" in text(midway)
    assert "Why is checkpoint 2 pending?" in pick(midway, "checkpoint:2")


def test_in_the_past_it_is_told_as_it_was(midway: Explorer) -> None:
    now = pick(midway, "task:totals/1")
    midway.stepper.n = 60
    then = text(midway)
    assert then != now
    assert midway.stepper.item_details["n"] == midway.stepper.n
    assert midway.lab.position > midway.explored.position


def test_a_recorded_run_tells_what_its_trace_tells(midway: Explorer) -> None:
    recorded = midway.lab.trace.show()
    assert "Why is checkpoint 2 pending?" in pick(recorded, "checkpoint:2")
    assert recorded.stepper.offers == []


def test_a_fault_is_made_on_the_thing_itself(midway: Explorer) -> None:
    pick(midway, "task:totals/1")
    choose(midway, "Freeze worker 1")
    assert midway.lab.past.last_action == FreezeWorker(1)
    assert offered(midway)["Freeze worker 1"] == "worker 1 is frozen already"


def test_a_message_is_lost_where_it_flies() -> None:
    explorer = Explorer(lab_of(seed=1))
    explorer.lab.run_until(lambda lab: any(each.mail == "ack" for each in lab.moment().messages.values()))
    explorer.stepper.refresh()
    flying = next(name for name, each in explorer.lab.moment().messages.items() if each.mail == "ack")
    pick(explorer, f"message:{flying}")
    choose(explorer, "Lose it")
    assert explorer.error == ""
    assert explorer.lab.past.last_action.verb == "drop"
    assert run(explorer.code, env=letters()).past.actions == explorer.lab.past.actions


def test_a_channel_is_held_back_and_let_go() -> None:
    explorer = Explorer(lab_of(seed=1))
    until(explorer, "all tasks are running")
    pick(explorer, "channel:1")
    choose(explorer, "Hold it back")
    until(explorer, "the next checkpoint is complete")
    arrived = [action.key for action in explorer.lab.past.actions[1:] if action.key.startswith("receive:1:")]
    choose(explorer, "Release it")
    for _ in range(20):
        explorer.step()
    assert run(explorer.code, env=letters()).past.actions == explorer.lab.past.actions
    explorer.stepper.n = explorer.stepper.n - 4
    explorer.go_on.click()
    explorer.step()
    assert run(explorer.code, env=letters()).past.actions == explorer.lab.past.actions
    assert len(arrived) < 20


def test_what_would_be_lost_is_tried_in_a_copy(midway: Explorer) -> None:
    before = midway.lab.past.actions
    pick(midway, "task:totals/1")
    choose(midway, "What if worker 1 died now?")
    told = text(midway)
    assert "If worker 1 died now All tasks would restart from checkpoint 1." in told
    assert "Checkpoint 2, which is pending, would be lost." in told
    assert "No published row would be lost or repeated." in told
    assert midway.lab.past.actions == before


def test_the_death_of_a_worker_that_is_dead_is_not_offered() -> None:
    explorer = kit.show(Lab(ready_job("keyed-sum", rows=40, restart=3)))
    explorer.lab.run_until(checkpoint=1)
    explorer.stepper.refresh()
    asks = {
        worker: lambda worker=worker: [
            each["label"] for each in offers(explorer.explored, f"task:sums/{worker}") if "died now" in each["label"]
        ]
        for worker in (0, 1)
    }
    assert asks[0]()
    assert asks[1]()
    explorer.lab.faults.kill(1)
    assert not asks[1](), "it is dead"
    explorer.lab.run_until(record="AllTasksRunning")
    assert asks[1](), "another one is in its place"
    explorer.lab.run()
    assert not asks[0](), "the job has ended"


def test_what_would_be_read_again_is_counted() -> None:
    lab = Lab(ready_job("keyed-sum", rows=40, restart=3))
    for _ in range(60):
        lab.step()
    read = lab.state()["letters"].set_index("task")["position"]
    told = list(what_if(lab, 1))
    assert told[0] == "All tasks would restart from the beginning, because no checkpoint is complete."
    assert f"letters/0 would read {read['letters/0']} rows of rows-0 again, from row 0 on." in told


# --- another run ------------------------------------------------------------------------------------------------------


def test_only_what_differs_is_set_and_said() -> None:
    explorer = kit.show("flights")
    panel = explorer.panel(ANOTHER)
    assert panel.differences == {}
    panel.fields["unaligned"].value = True
    panel.fields["interval_ms"].value = "40"
    panel.fields["parallelism"].value = "3"
    panel.seed.value = 4
    panel.start.click()
    assert explorer.error == ""
    assert "env = ready_job('flights', parallelism=3, interval_ms=40, unaligned=True)\n" in explorer.code
    assert "lab = Lab(env, seed=4)\n" in explorer.code
    assert explorer.lab.job.settings.checkpoint == CheckpointConfig(
        unaligned=True, interval_ms=40, memory_threshold_bytes=0
    )
    assert len(explorer.explored_runs) == 2
    until(explorer, "the next checkpoint is complete")
    assert run(explorer.code).past.actions == explorer.lab.past.actions


def test_a_run_goes_on_from_a_savepoint_with_another_parallelism() -> None:
    explorer = kit.show("flights")
    for _ in range(120):
        explorer.lab.step()
    explorer.stepper.refresh()
    panel = explorer.panel(ANOTHER)
    panel.begin.value = "from a savepoint taken now"
    panel.fields["parallelism"].value = "3"
    panel.start.click()
    assert explorer.error == ""
    restored = explorer.lab.look.restores()
    assert set(restored.query("operator == 'totals'")["task"]) == {"totals/0", "totals/1", "totals/2"}
    again = run(explorer.code)
    assert again.past.actions == explorer.lab.past.actions
    assert not explorer.explored_runs[0].lab.ended


def test_ones_own_job_is_run_with_other_settings() -> None:
    lab = lab_of(seed=2)
    explorer = lab.show()
    panel = explorer.panel(ANOTHER)
    panel.fields["parallelism"].value = "3"
    panel.fields["channel_credits"].value = "1"
    panel.restart.value = panel.restart.options[1][1]
    panel.start.click()
    assert explorer.error == ""
    assert [vertex.parallelism for vertex in explorer.lab.job.vertices] == [3, 3]
    assert explorer.lab.job.settings.channel_credits == 1
    explorer.step()
    again = run(explorer.code, env=letters(), NoRestart=kit.NoRestart)
    assert again.past.actions == explorer.lab.past.actions
    assert again.job.settings == explorer.lab.job.settings


def test_what_cannot_be_is_said_in_the_app() -> None:
    explorer = kit.show("keyed-sum")
    panel = explorer.panel(ANOTHER)
    panel.fields["interval_ms"].value = "3"
    panel.start.click()
    assert explorer.error == "interval_ms = 3: expected 10 or more, or None for no periodic checkpoints"
    panel.fields["interval_ms"].value = "three"
    panel.start.click()
    assert explorer.error.startswith("interval is 'three'")
    panel.reset.click()
    assert panel.differences == {}


def test_a_slow_sink_fills_its_channels() -> None:
    explorer = kit.show("slow-sink")
    panel = explorer.panel(ANOTHER)
    panel.scheduler.value = "last"
    panel.start.click()
    for _ in range(100):
        explorer.lab.step()
    held = [len(explorer.lab.queue(number)) for number in explorer.lab.look.stages[-1].ends()]
    assert max(held) >= 3
    assert min(held) > 0
    assert run(explorer.code).past.actions == explorer.lab.past.actions


def test_its_first_checkpoint_waits_long_for_the_barriers_behind_what_is_queued() -> None:
    lab = Lab(ready_job("slow-sink"))
    lab.run_until(lambda lab: any(len(lab.queue(number)) == 3 for number in blocked(lab)))
    lab.run_until(checkpoint=1)
    assert lab.statistics.subtasks(1).set_index("task").loc["out/0", "alignment_ms"] >= 20


def blocked(lab: Lab) -> list[int]:
    """The channels that their receiver keeps shut."""
    return [number for number, channel in lab.moment().channels.items() if channel.blocked]


# --- the space-time diagram -------------------------------------------------------------------------------------------


def test_the_diagram_has_the_stages_cursor_and_each_run_its_own() -> None:
    explorer = kit.show("keyed-sum")
    for _ in range(20):
        explorer.step()
    panel = explorer.turn_to("Space-time")
    first = panel.diagram
    assert first.n == explorer.stepper.n == len(explorer.lab.trace)
    explorer.stepper.n = 30
    assert first.n == 30
    first.n = 12
    assert explorer.stepper.n == 12
    first.selected = "task:sums/0"
    assert explorer.stepper.item_details["selected"] == "task:sums/0"
    explorer.fork_here.click()
    assert panel.diagram is not first
    assert panel.widget.children == (panel.diagram,)
    explorer.step()
    assert panel.diagram.n == len(explorer.lab.trace)


def test_a_job_on_spark_is_watched_and_its_stage_follows() -> None:
    job = SparkJob(letters())
    explorer = job.show()
    assert explorer.lab is None
    panel = explorer.panel("The job on Spark")
    assert panel.widget.job is job
    assert explorer.tabs.selected_index == explorer.panels.index(panel) == 1
    assert "Next" not in [each.title for each in explorer.panels]
    explorer.close()


def test_a_key_is_found_before_and_after_a_rescale() -> None:
    lab = Lab(ready_job("flights", parallelism=2), seed=1)
    for _ in range(200):
        lab.step()
    path = lab.stop(wait=True)
    wider = Lab(ready_job("flights", parallelism=3), restore_path=path, after=lab)
    wider.run_until(record="AllTasksRunning")
    explorer = wider.show()
    finder = explorer.turn_to("Find a key")
    held = wider.state()["totals.totals"].set_index("key")
    before = lab.back(20).state()["totals.totals"].set_index("key")
    for key in ("UA", "AA", "DL"):
        finder.key.value = key
        assert f"{held.loc[key, 'task']} holds totals of {key}" in finder.found.value
        assert f"in key group {held.loc[key, 'key_group']}" in finder.found.value
        moved = "stayed in" if held.loc[key, "task"] == before.loc[key, "task"] else "came from"
        assert f"{key} {moved} {before.loc[key, 'task']}" in finder.found.value
    finder.key.value = "XX"
    assert "no task holds the key XX" in finder.found.value


def test_what_was_asked_of_a_run_is_not_said_of_a_fork_that_came_before() -> None:
    explorer = Explorer(Lab(ready_job("flights"), seed=1))
    until(explorer, "all tasks are running")
    explorer.controls.checkpoint.click()
    assert "requested" in explorer.controls.why_not.value
    explorer.stepper.value = 2
    explorer.fork()
    until(explorer, "all tasks are running")
    assert explorer.controls.why_not.value == ""


def test_a_death_without_a_restart_says_what_is_left() -> None:
    lab = Lab(ready_job("flights"), seed=1)
    lab.run_until(record="AllTasksRunning")
    assert "No checkpoint is complete" in list(what_if(lab, 1))[1]
    lab.trigger_checkpoint(wait=True)
    fails, left = what_if(lab, 1)
    assert "would fail" in fails
    assert "restart strategy is none" in fails
    assert left.startswith("Checkpoint 1 would remain")
