"""The explorer as Python sees it: buttons are pressed, the cursor moves, and the actions are returned as code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kit
from kit.core.trace.trace import Trace
from kit.hosts.lab import Lab, LabError, open_scenario, ready_job
from kit.hosts.lab.faults.faults import KillWorker
from tests.draw.labs import lab_of, letters
from widgets import Explorer
from widgets.base.action_list import ActionList
from widgets.runs.item import Item
from widgets.runs.targets import HAS_BARRIER, targets

NEXT, FAIL, CLOSER, CODE = "Next", "Faults", "Look closer", "Save"


def run(code: str, **known: Any) -> Lab:
    """The lab that a piece of code makes, as its reader would run it."""
    names: dict[str, Any] = dict(known)
    exec(compile(code, "copied", "exec"), names)
    lab: Lab = names["lab"]
    return lab


def until(explorer: Explorer, what: str) -> None:
    """Choose what to run until, and go."""
    explorer.controls.until.value = what
    explorer.controls.go.click()


def keys(explorer: Explorer, title: str) -> list[str]:
    """Return the keys of the actions that can be pressed in a panel."""
    return [item.key for item in explorer.panel(title).list.items if not item.why_not]


def test_a_step_that_records_nothing_does_not_look_like_a_dead_button() -> None:
    """The step after it is taken as well, and the page counts as the lab does."""
    lab = Lab(ready_job("keyed-sum", rows=40), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    lab.faults.lose("NotifyCheckpointComplete sums/1")
    lab.trigger_checkpoint()
    lab.run_until(lambda lab: any("DropEffects" in each.text for each in lab.enabled()))
    explorer = Explorer(lab)
    steps = 0
    while any("DropEffects" in each.text for each in lab.enabled()):
        records, steps = len(lab.trace), steps - lab.position
        explorer.step()
        steps += lab.position
        assert len(lab.trace) > records
        assert explorer.stepper.film["frames"][-1]["step"] == lab.position
    assert f"for _ in range({steps}):\n    lab.step()" in explorer.code


def test_each_door_opens_it_on_the_run(tmp_path: Path) -> None:
    lab = lab_of(seed=3)
    lab.run_until(checkpoint=1)
    saved = Trace.load(lab.trace.save(tmp_path / "run.jsonl"))
    assert lab.show().lab is lab
    for thing in (saved, saved[:100]):
        assert thing.show().lab is None
        assert thing.show().explored.n == len(thing)
    assert kit.show(letters()).lab.position == 1
    assert kit.show("pipeline").lab.job.name == "pipeline"
    assert kit.show(open_scenario("late-ack").run()).lab.position > 1
    with pytest.raises(TypeError, match="not a run"):
        kit.show(3)
    with pytest.raises(LabError, match="no ready job is called 'pipelin'"):
        kit.show("pipelin")


def test_buttons_lead_the_lab_on_and_the_stage_follows() -> None:
    explorer = kit.show("keyed-sum")
    explorer.step()
    assert explorer.lab.position == 2
    assert explorer.explored.n == len(explorer.lab.trace)
    explorer.controls.checkpoint.click()
    until(explorer, "the next checkpoint is complete")
    assert explorer.error == ""
    assert list(explorer.lab.checkpoints()["status"]) == ["COMPLETED"]
    position, code = explorer.lab.position, explorer.code
    until(explorer, "the next checkpoint is complete")  # the job ends before: no error, and nothing is used up
    assert explorer.error == ""
    said = explorer.controls.why_not.value
    assert "Not before the job ends: the next checkpoint is complete. The run has not moved." in said
    assert (explorer.lab.position, explorer.code) == (position, code)
    explorer.lab.run()
    explorer.stepper.refresh()
    assert "The job is finished" in explorer.controls.why_not.value
    explorer.controls.savepoint.click()
    assert explorer.error != ""


def test_the_next_checkpoint_is_let_come_and_a_failure_is_not() -> None:
    """A mark beyond the end of the run is not there yet, so the stage asks for it."""
    explorer = kit.show("keyed-sum")
    explorer.stepper._heard(None, {"wanted": "mark", "mark": "failure"}, None)
    assert "No failure follows" in explorer.error
    assert explorer.lab.position == 1
    explorer.controls.checkpoint.click()
    explorer.stepper._heard(None, {"wanted": "mark", "mark": "checkpoint"}, None)
    assert explorer.error == ""
    assert list(explorer.lab.checkpoints()["status"]) == ["COMPLETED"]


def test_what_became_of_a_request_is_said() -> None:
    explorer = kit.show("keyed-sum")
    said = explorer.controls.why_not
    explorer.controls.checkpoint.click()
    assert "Checkpoint: Not all required tasks are currently running." in said.value
    until(explorer, "all tasks are running")
    explorer.controls.savepoint.click()
    assert "Savepoint: requested, not done yet" in said.value
    until(explorer, "the next checkpoint is complete")
    assert "Savepoint: /savepoints/savepoint-" in said.value


def test_savepoints_go_to_the_directory_that_is_typed_in() -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "all tasks are running")
    explorer.controls.target.value = " /mine "
    explorer.controls.savepoint.click()
    assert explorer.code.endswith("lab.savepoint('/mine')\n")
    until(explorer, "the next checkpoint is complete")
    assert "Savepoint: /mine/savepoint-" in explorer.controls.why_not.value
    explorer.controls.drain.click()
    assert explorer.code.endswith("lab.stop('/mine', drain=True)\n")


def test_until_a_task_has_its_barrier() -> None:
    explorer = kit.show("keyed-sum")
    explorer.controls.checkpoint.click()
    until(explorer, "sums/1 has its barrier")
    assert explorer.lab.moment().tasks["sums/1"].checkpoint == (1, "aligning")
    assert explorer.lab.moment().checkpoints[1].status == "pending"
    assert run(explorer.code).past.actions == explorer.lab.past.actions


def test_a_person_chooses_what_happens_and_what_fails() -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "all tasks are running")
    chosen = keys(explorer, NEXT)[-1]
    explorer.panel(NEXT).list.press(chosen)
    assert explorer.lab.past.last_action.key == chosen
    assert "kill:1" not in keys(explorer, FAIL)
    explorer.turn_to(FAIL).list.press("kill:1")
    assert explorer.lab.past.last_action == KillWorker(1)
    thawing = next(item for item in explorer.panel(FAIL).list.items if item.key == "thaw:0")
    assert thawing.why_not == "worker 0 is not frozen"
    with pytest.raises(ValueError, match="not frozen"):
        explorer.panel(FAIL).list.press("thaw:0")


def test_what_may_not_happen_says_why() -> None:
    explorer = kit.show(letters())
    until(explorer, "a checkpoint begins")
    waiting = {item.label: item.why_not for item in explorer.panel(NEXT).list.items if item.why_not}
    assert any("due at" in why for label, why in waiting.items() if label.startswith("Let timer"))
    assert any("no input" in why for label, why in waiting.items() if label.startswith("Give"))


def test_a_list_is_searched_by_words() -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "all tasks are running")
    listed = explorer.turn_to(FAIL).list
    listed.query = "kill 1"
    assert [item["label"] for group in listed.groups for item in group["items"]] == ["Kill worker 1"]
    listed.query = "nothing of the kind"
    assert listed.groups == []


def test_what_is_done_in_the_past_begins_a_fork() -> None:
    explorer = kit.show("keyed-sum")
    for _ in range(30):
        explorer.step()
    before = explorer.lab.past.actions
    explorer.stepper.n = 20
    there = explorer.explored.position
    assert len(explorer.explored.lab_at_cursor.trace) >= 20
    assert explorer.explored.lab_at_cursor.position == there < len(before)
    explorer.step()
    assert len(explorer.explored_runs) == 2
    assert explorer.lab.position == there + 1
    assert explorer.explored_runs[0].lab.past.actions == before
    explorer.runs.value = explorer.explored_runs[0].name
    assert explorer.lab.past.actions == before


def test_the_lab_itself_may_go_on_from_the_past() -> None:
    explorer = kit.show("keyed-sum")
    for _ in range(30):
        explorer.step()
    explorer.stepper.n = 12
    there = explorer.explored.position
    explorer.go_on.click()
    assert (explorer.lab.position, len(explorer.explored_runs)) == (there, 1)
    assert explorer.explored.is_present
    explorer.fork_here.click()
    assert len(explorer.explored_runs) == 2


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "with a part undone"])
def test_what_was_done_is_code_that_does_it_again(cut: bool) -> None:
    explorer = kit.show("keyed-sum")
    explorer.step()
    explorer.step()
    explorer.controls.checkpoint.click()
    until(explorer, "the next checkpoint is complete")
    explorer.panel(NEXT).list.press(keys(explorer, NEXT)[0])
    explorer.turn_to(FAIL).list.press("freeze:0")
    explorer.lab.step()
    explorer.lab.faults.thaw(0)
    explorer.controls.savepoint.click()
    if cut:
        explorer.stepper.n = 40
        explorer.go_on.click()
    assert run(explorer.code).past.actions == explorer.lab.past.actions
    assert ("lab.run_until(checkpoint=1)" in explorer.code) is not cut
    assert "for _ in range(2):\n    lab.step()" in explorer.code


def test_code_for_a_lab_of_ones_own_names_the_job() -> None:
    lab = lab_of(seed=5)
    lab.run_until(checkpoint=1)
    explorer = lab.show()
    explorer.step()
    assert "lab = Lab(env, seed=5)  # env is the job 'letters'" in explorer.code
    assert run(explorer.code, env=letters()).past.actions == lab.past.actions


def test_a_fork_knows_its_past_as_code() -> None:
    explorer = kit.show("keyed-sum")
    explorer.controls.checkpoint.click()
    until(explorer, "the next checkpoint is complete")
    explorer.stepper.n = 60
    explorer.step()
    assert run(explorer.code).past.actions == explorer.lab.past.actions


def test_where_nothing_can_be_done_buttons_say_why() -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "the job has ended")
    explorer.lab.run()
    explorer.stepper.refresh()
    while explorer.stepper.goes_on:
        explorer.step()
    assert explorer.controls.go.disabled
    assert explorer.controls.go.tooltip.startswith("The job is finished")
    explorer.stepper.value = 0  # nor does it continue while its past is shown
    assert not explorer.stepper.goes_on
    recorded = explorer.lab.trace.show()
    assert recorded.controls.widget.layout.display == "none"


def test_a_step_on_from_the_end_is_the_labs_own() -> None:
    """There is one transport: the stage asks the lab for a step at its last frame."""
    explorer = kit.show("keyed-sum")
    assert explorer.stepper.goes_on
    explorer.stepper._handle_custom_msg({"wanted": "step"}, [])
    assert explorer.lab.position == 2
    assert explorer.explored.is_present
    assert explorer.code.endswith("lab.step()\n")


def test_it_is_saved_as_a_page_a_scenario_and_a_trace(tmp_path: Path) -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "all tasks are running")
    panel = explorer.turn_to(CODE)
    assert panel.code.text == explorer.code
    for name in ("run.html", "run.scenario", "run.jsonl"):
        panel.path.value = str(tmp_path / name)
        panel.save.click()
        assert explorer.error == ""
        assert (tmp_path / name).stat().st_size > 1000
    panel.path.value = str(tmp_path / "run.txt")
    panel.save.click()
    assert "expected a file that ends in .html, .scenario or .jsonl" in explorer.error
    assert list(Trace.load(tmp_path / "run.jsonl")) == list(explorer.lab.trace)


def test_a_picture_stays_where_no_app_can_be_shown() -> None:
    explorer = kit.show("keyed-sum")
    bundle = explorer._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["image/svg+xml"].startswith("<svg")
    assert data["text/plain"] == repr(explorer) == "Explorer(keyed-sum: 0 ms, created)"


def test_a_search_finds_the_beginnings_of_words_and_says_when_there_are_none() -> None:
    listed = ActionList(lambda key: None)
    listed.offer([Item("a", "Hold it back"), Item("b", "Lose AcknowledgeCheckpoint of chk-12")])
    found = {}
    for query in ("ack", "check", "12", "2", "hold", "back acknow"):
        listed.query = query
        found[query] = "".join(each["key"] for group in listed.groups for each in group["items"])
    assert found == {"ack": "b", "check": "b", "12": "b", "2": "", "hold": "a", "back acknow": ""}
    assert listed.more == "None of 2 has words that begin so at this moment: back acknow."
    listed.offer([])
    assert listed.more == "There is nothing at this moment."


def test_what_was_asked_of_a_run_is_told_of_that_run_alone() -> None:
    explorer = kit.show("keyed-sum")
    explorer.controls.checkpoint.click()
    until(explorer, "all tasks are running")
    explorer.controls.savepoint.click()
    assert "Savepoint: requested" in explorer.controls.why_not.value
    other = Lab(explorer.lab.job)
    while other.position < explorer.lab.position - 1:
        other.step()
    other.savepoint()  # it has the same number in its run
    explorer.session.begin("another", other, "")
    assert explorer.controls.why_not.value == ""
    explorer.runs.value = "the run"
    assert "Savepoint: requested" in explorer.controls.why_not.value
    explorer.fork()
    assert "Savepoint: requested" in explorer.controls.why_not.value


def test_a_file_that_was_written_is_not_said_of_another_run(tmp_path: Path) -> None:
    explorer = kit.show("keyed-sum")
    panel = explorer.turn_to("Save")
    panel.path.value = str(tmp_path / "run.scenario")
    panel.save.click()
    assert panel.said.value.startswith("Written: ")
    panel.update()
    assert panel.said.value.startswith("Written: ")
    explorer.fork()
    panel.update()
    assert panel.said.value == ""


ACTIONS: dict[str, Callable[[Explorer], object]] = {
    "a step": lambda explorer: explorer.step(),
    "the cursor": lambda explorer: setattr(explorer.stepper, "value", 0),
    "a click on a thing": lambda explorer: setattr(explorer.stepper, "selected", "job"),
    "another tab": lambda explorer: explorer.turn_to("Faults"),
    "a fork": lambda explorer: explorer.fork(),
    "a button": lambda explorer: explorer.controls.checkpoint.click(),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_a_message_is_about_the_last_action_alone(name: str, tmp_path: Path) -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "all tasks are running")
    panel = explorer.turn_to("Save")
    panel.path.value = str(tmp_path / "a.scenario")
    panel.save.click()
    assert panel.said.value.startswith("Written: ")
    panel.path.value = str(tmp_path / "x.txt")
    panel.save.click()
    assert "expected a file that ends in" in explorer.error
    assert panel.said.value == "", "x.txt was not written"
    explorer.session.go_to_next("restore")
    assert "No restore follows" in explorer.error
    assert "expected a file" not in explorer.error
    ACTIONS[name](explorer)
    assert explorer.error == ""


def test_what_the_app_does_by_itself_leaves_the_message() -> None:
    explorer = kit.show("keyed-sum")
    explorer.session.go_to_next("failure")
    explorer._soon.ask()
    explorer._look_again()
    assert "No failure follows" in explorer.error
    explorer.lab.faults.kill_driver()
    explorer.stepper.refresh()
    explorer.step()
    assert explorer.error, "the step was refused, and what it led to is said"


@pytest.mark.parametrize("name", ["run.html", "run.scenario", "run.jsonl"])
def test_saving_makes_no_directories(name: str, tmp_path: Path) -> None:
    explorer = kit.show("keyed-sum")
    panel = explorer.turn_to("Save")
    panel.path.value = str(tmp_path / "nope" / name)
    panel.save.click()
    assert explorer.error == f"there is no directory {tmp_path / 'nope'}: create it first, or save to one that exists"
    assert not any(tmp_path.iterdir())
    panel.path.value = str(tmp_path / name)
    panel.save.click()
    assert explorer.error == ""
    assert (tmp_path / name).exists()


def test_an_acknowledgement_can_be_waited_for_and_is_marked_when_it_is_lost() -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "all tasks are running")
    explorer.controls.checkpoint.click()
    until(explorer, "an acknowledgement is in flight")
    (name, sent), *_ = [each for each in explorer.lab.moment().messages.items() if each[1].mail == "ack"]
    assert run(explorer.code).past.actions == explorer.lab.past.actions
    explorer.lab.faults.lose(name)
    explorer.stepper.refresh()
    moment = explorer.lab.moment()
    assert moment.tasks[sent.task].phases[1] == "unheard"
    assert "its ack of 1 was lost" in str(explorer.svg())
    assert moment.checkpoints[1].acked == ()
    told = explorer.lab.why(checkpoint=1)
    assert f"the acknowledgement of {sent.task} to the JobMaster was lost" in str(told)


def test_of_a_job_that_has_ended_nothing_is_asked() -> None:
    explorer = kit.show("keyed-sum")
    until(explorer, "all tasks are running")
    explorer.lab.cancel()
    explorer.lab.run_until(ended=True)
    explorer.stepper.refresh()
    explorer.controls.update()
    assert explorer.controls.stop.disabled
    assert explorer.controls.savepoint.tooltip.startswith("The job is canceled")


def test_a_panel_is_made_when_it_is_first_shown() -> None:
    """A run opens without waiting for the widgets of all panels."""
    explorer = kit.show("keyed-sum")

    def made() -> list[str]:
        return [explorer.tabs.get_title(n) for n, box in enumerate(explorer.tabs.children) if box.children]

    assert made() == ["Next"]
    explorer.turn_to("Compare")
    explorer.step()
    assert made() == ["Next", "Compare"]
    explorer.tabs.selected_index = 0
    assert made() == ["Stage", "Next", "Compare"]
    assert explorer.error == ""


def test_items_are_drawn_by_group_and_found_by_all_words() -> None:
    pressed: list[str] = []
    listed = ActionList(pressed.append)
    listed.offer(
        [
            Item("a", "Kill worker 0", "Workers", "as a crash does"),
            Item("b", "Lose it", "Messages", why_not="it has arrived"),
            Item("c", "Kill worker 1", "Workers"),
        ]
    )
    workers = [
        {"key": "a", "label": "Kill worker 0", "hint": "as a crash does"},
        {"key": "c", "label": "Kill worker 1"},
    ]
    messages = [{"key": "b", "label": "Lose it", "why_not": "it has arrived"}]
    assert listed.groups == [{"title": "Workers", "items": workers}, {"title": "Messages", "items": messages}]
    listed.query = "kill 1"
    assert listed.groups == [{"title": "Workers", "items": workers[1:]}]
    listed.press("c")
    listed._handle_custom_msg({"do": "a"}, [])
    listed._handle_custom_msg({"do": "b"}, [])
    assert pressed == ["c", "a"]
    with pytest.raises(ValueError, match="Lose it: it has arrived"):
        listed.press("b")
    with pytest.raises(KeyError, match="there is a, b, c"):
        listed.press("d")


def test_the_conditions_are_those_of_the_newest_epoch_and_of_the_next_checkpoint() -> None:
    explorer = Explorer(Lab(ready_job("keyed-sum", rows=120, max_parallelism=8), seed=1))
    lab = explorer.lab
    lab.run_until(record="AllTasksRunning")
    lab.rescale(3, wait=True)
    lab.run_until(lambda lab: all(task.state == "RUNNING" for task in lab.moment().tasks.values()))
    for _ in range(2):
        lab.trigger_checkpoint()
        lab.run_until(checkpoint=lab.look.master.checkpoints.store.latest_id + 1)
    explorer.stepper.refresh()
    explorer.controls.update()
    waits = {each for each in explorer.controls.until.options if each.endswith(" has its barrier")}
    assert waits == {f"{task} has its barrier" for task in lab.look.stages[-1].tasks()}
    assert len(waits) > len(lab.look.stages[0].tasks())
    latest = lab.look.master.checkpoints.store.latest_id
    lab.trigger_checkpoint()
    target, _ = targets(lab)["sums/2 has its barrier"]
    target(lab)
    phases = lab.moment().tasks["sums/2"].phases
    assert max(number for number, phase in phases.items() if phase in HAS_BARRIER) == latest + 1
    assert latest + 1 in {each.checkpoint_id for each in lab.moment().pending}
