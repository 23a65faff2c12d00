"""The scenarios that come with the kit come out as they say and are found by Flink's names; errors name file and
line.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from re import sub
from typing import Any

import pytest

from kit import Lab
from kit.core.arguments.allowed import SettingError
from kit.core.protocol.events import RequestStop
from kit.draw.stage.film import film
from kit.hosts.lab import save_scenario
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.faults import DelayMessage
from kit.hosts.lab.jobs.ready_jobs import MOST_ROWS, READY_JOBS, ready_job, ready_jobs
from kit.hosts.lab.scenarios.scenario import (
    DIRECTORY,
    Scenario,
    all_scenarios,
    find_scenario,
    list_scenarios,
    open_scenario,
    read_scenario,
)
from kit.hosts.lab.scenarios.scenario_commands import VERBS, scenario_commands
from kit.hosts.lab.scenarios.scenario_outcome import NOTHING
from kit.hosts.lab.scenarios.scenario_text import ScenarioError, parse
from kit.hosts.lab.scenarios.scenario_views import VIEWS
from kit.hosts.lab.scenarios.scenario_writing import fault_of
from kit.hosts.lab.world.schedulers import First
from scripts.scenarios import PAGE, page
from tests.behaviours import catalogue

LATE = """title: A late acknowledgement
question: What becomes of it?
flink: CheckpointCoordinatorTest.testStateCleanupForLateOrUnknownMessages
job: keyed-sum, rows=4

# It begins.
run until AllTasksRunning
----
job        > JobStatusChanged: RUNNING
job        > StartEpoch: epoch 1
"""


@pytest.mark.parametrize("name", all_scenarios())
def test_a_scenario_comes_out_as_it_says(name: str) -> None:
    scenario = open_scenario(name).run()
    assert not scenario.differences, scenario.differences
    for lab in scenario.labs:
        lab.look.validate()


@pytest.mark.parametrize("name", all_scenarios())
def test_a_scenario_is_written_as_all_are(name: str) -> None:
    text = all_scenarios()[name]
    assert str(text) == (DIRECTORY / f"{name}.scenario").read_text(encoding="utf-8")
    assert text.question.endswith("?")
    assert [each for each in text.flink if each not in catalogue()] == []
    for block in text.blocks:
        assert block.outcome, f"nothing comes of {block.commands[0].text!r}"
        for command in block.commands:
            assert any(command.text.removeprefix("try ").startswith(verb.usage.split()[0]) for verb in VERBS) or (
                command.text.startswith("closely ")
            )


def test_titles_and_questions_are_each_scenarios_own() -> None:
    frame = list_scenarios()
    assert frame["name"].is_unique
    assert frame["title"].is_unique
    assert frame["question"].is_unique
    assert len(frame) == len(list(DIRECTORY.iterdir()))


def test_a_scenario_is_found_by_its_name_and_by_each_of_flinks() -> None:
    for text in all_scenarios().values():
        assert find_scenario(text.name) is text
        for full in text.flink:
            assert full in find_scenario(full).flink
            method = full.partition(".")[2]
            assert method.lower() in {each.partition(".")[2].lower() for each in find_scenario(method).flink}
    assert find_scenario("Late_Ack").name == "late-ack"
    assert find_scenario("NotifyCheckpointAbortedAfterAsync").name == "late-ack"
    with pytest.raises(LabError, match=r"late-ack.*list_scenarios\(\) lists"):
        find_scenario("lateack")


def test_a_scenario_goes_block_by_block_and_its_lab_goes_on() -> None:
    scenario = open_scenario("late-ack")
    assert isinstance(scenario, Scenario)
    first = scenario.next()
    assert (first.begin, first.end) == (0, len(scenario.trace))
    assert first.outcome == first.block.outcome
    assert str(first) == str(scenario.text.blocks[0])
    assert scenario.lab.status == "RUNNING"
    scenario.lab.back(3)
    scenario.run()
    with pytest.raises(LabError, match="at its end"):
        scenario.next()


def test_twice_is_the_same() -> None:
    runs = [open_scenario("late-ack").run() for _ in range(2)]
    assert runs[0].lab.trace.to_pandas().equals(runs[1].lab.trace.to_pandas())


def test_what_comes_out_otherwise_is_shown_as_a_diff() -> None:
    changed = Scenario(parse("late", LATE.replace("epoch 1", "epoch 7"))).run().differences
    assert "-job        > StartEpoch: epoch 7\n+job        > StartEpoch: epoch 1" in changed
    assert Scenario(parse("late", LATE)).run().differences == ""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "title:",
            "tilte:",
            "late.scenario:1: 'tilte: A late acknowledgement' is no entry of a scenario's head; expected title",
        ),
        ("question: What becomes of it?\n", "", "late.scenario:1: the head has no question"),
        ("job:", "title: again\njob:", "late.scenario:4: 'title' is in the header twice"),
        ("----\n", "", "late.scenario:6: '----' stands not at all in this block"),
        ("run until AllTasksRunning\n", "", "late.scenario:6: this block has no command"),
        ("run until AllTasksRunning\n", "run until AllTasksRunning\n# late\n", "late.scenario:8: prose stands above"),
        ("keyed-sum", "keyed-some", "late.scenario:1: the job 'keyed-some, rows=4': no ready job.*keyed-sum"),
        ("rows=4", "row=4", "ready job 'keyed-sum' has no setting 'row'; did you mean rows"),
        ("rows=4", "parallelism=0", "late.scenario:1: the job.*parallelism"),
        ("run until AllTasksRunning", "run till", "late.scenario:7: 'run till' is no command; did you mean"),
        ("run until AllTasksRunning", "run until AllTaskRunning", "late.scenario:7: no record.*AllTasksRunning"),
        (
            "run until AllTasksRunning",
            "deliver Nothing",
            "late.scenario:7: 'deliver Nothing' cannot happen now; what can",
        ),
        ("run until AllTasksRunning", "try settle", "late.scenario:7: 'try settle': this was expected to be refused"),
        ("run until AllTasksRunning", "release it", "late.scenario:7: 'it' is not held back"),
        ("run until AllTasksRunning", "show files of it", "late.scenario:7: there is no 'show files of it'"),
        ("run until AllTasksRunning", "restore chk-7", "late.scenario:7: there is no chk-7 on the disk"),
        ("run until AllTasksRunning", "hold letters\nrun to the end\nsettle\nrun until finished", "nothing can happen"),
    ],
)
def test_an_error_names_file_and_line(old: str, new: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        Scenario(parse("late", LATE.replace(old, new, 1))).run()


def test_what_is_refused_is_an_outcome_after_try() -> None:
    scenario = Scenario(parse("late", LATE.replace("run until AllTasksRunning", "try kill worker 9"))).run()
    assert "refused: no worker 9 runs now; there are 0, 1" not in scenario.text.blocks[0].outcome
    assert any(line.startswith("refused: no worker 9 runs now") for line in scenario.block_runs[0].outcome)


def test_a_scenario_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.scenario"
    file.write_text(LATE)
    assert str(read_scenario(file)) == LATE
    assert open_scenario(file).run().differences == open_scenario(str(file)).run().differences == ""


def test_ready_jobs_run_to_their_end_with_a_checkpoint() -> None:
    for name in READY_JOBS:
        lab = Lab(ready_job(name, rows=3), scheduler=First())
        lab.run_until(record="AllTasksRunning")
        lab.trigger_checkpoint()
        lab.run_until(checkpoint=1)
        assert lab.look.master.checkpoints.store.latest_id == 1
    assert list(ready_jobs()["name"]) == list(READY_JOBS)


def test_tables_name_all_commands_and_views() -> None:
    assert len(scenario_commands()) == len(VERBS)
    assert NOTHING not in VIEWS


def test_a_scenario_opens_in_the_player_with_its_prose() -> None:
    scenario = open_scenario("scale-out")
    first, second = scenario.pages()
    assert [block.prose in first for block in scenario.text.blocks] == [True, True, False]
    assert [block.prose in second for block in scenario.text.blocks] == [False, True, True]
    assert scenario._repr_html_().count("<iframe") == 2
    assert not scenario.block_runs
    scenario.next()
    assert film(scenario)["notes"] == [[0, scenario.text.blocks[0].prose]]
    before = len(scenario.trace)
    scenario.next()
    assert film(scenario)["notes"] == [[0, scenario.text.blocks[1].prose]]
    assert scenario.runs[0].notes == ((0, scenario.text.blocks[0].prose), (before, scenario.text.blocks[1].prose))


def test_a_block_that_was_played_shows_the_job_as_it_left_it() -> None:
    """Its HTML has the prose, the picture of that moment, and its log, whatever happened later."""
    scenario = open_scenario("alignment")
    scenario.next()
    second = scenario.next()
    shown = second._repr_html_()
    assert escape(second.block.prose) in shown
    assert "Alignment: 2 of 3" in shown
    assert "waits for right/0" in shown
    assert "blocked until the other barriers came" in shown
    scenario.run()
    scenario.lab.back(20)
    assert second._repr_html_() == shown


def test_a_block_shows_itself_as_a_card() -> None:
    """It shows the actions, the events and commands of each machine, and the notes, each where a reader finds it."""
    scenario = open_scenario("late-ack")
    first, second = (" ".join(sub("<[^>]+>", " ", scenario.next()._repr_html_()).split()) for _ in range(2))
    assert f"{scenario.text.title}: 2 of 4" in second
    assert "hold AcknowledgeCheckpoint from sums/1 trigger checkpoint" in first
    assert "job gives JobStatusChanged : RUNNING" in first
    assert "chk-1 waits for sums/1" in first
    assert "job notes CheckpointAborted chk-1 : CHECKPOINT_EXPIRED" in second
    assert "letters/0, letters/1, sums/0, sums/1 takes NotifyCheckpointAborted chk-1" in second


def test_the_lines_that_matter_are_outside_the_fold() -> None:
    """A long log shows the records that the text names, faults, and short answers; a fold has all of it."""
    scenario = open_scenario("lost-ack")
    shown = [scenario.next()._repr_html_().partition("The whole log") for _ in range(3)]
    assert [folded.count('</span></summary><div class="kit-scroll"><table') for _, _, folded in shown if folded] == [
        1,
        1,
    ]
    first, second, third = (" ".join(sub("<[^>]+>", " ", each).split()) for each, _, _ in shown)
    assert "lab fault lose AcknowledgeCheckpoint of chk-1 from sums/0 to job" in first
    assert "the acknowledgement of sums/0 to the JobMaster was lost" in first
    assert "StartEpoch" not in first
    assert "CheckpointAborted chk-1 : CHECKPOINT_EXPIRED" in second
    assert "job notes CheckpointCompleted chk-2" in third
    assert "TriggerTaskCheckpoint" not in third
    assert "k=a rows=4 total=32" not in third, "an output of 16 rows is in the fold"


def a_run(seed: int) -> Lab:
    """A lab in which all kinds of things were done, in any order."""
    lab = Lab(ready_job("keyed-sum", **SETTINGS), seed=seed)
    lab.run_until(at_ms=20)
    lab.trigger_checkpoint()
    lab.run_until(record="AcknowledgeCheckpoint")
    lab.faults.delay(next(fault for fault in lab.faults.possible() if isinstance(fault, DelayMessage)))
    lab.savepoint("/elsewhere")
    lab.run_until(at_ms=90)
    lab.wait_until(200)
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    lab.faults.turn_clock("job", 30)
    lab.run_until(record="StoreCheckpoint")
    lab.faults.fail("StoreCheckpoint", "PossibleInconsistentState")
    lab.run_until(at_ms=lab.look.at_ms + 20)
    lab.stop()
    lab.run()
    return lab


SETTINGS: dict[str, Any] = {"rows": 8, "restart": 5, "tolerable_failures": 9, "interval_ms": 50}
AS_TEXT = "keyed-sum, rows=8, restart=5, tolerable_failures=9, interval_ms=50"


@pytest.mark.parametrize("seed", range(3))
def test_any_run_is_saved_as_a_scenario_that_does_it_again(tmp_path: Path, seed: int) -> None:
    lab = a_run(seed)
    path = save_scenario(lab, tmp_path / "mine.scenario", AS_TEXT, title="Mine")
    scenario = open_scenario(path).run()
    assert scenario.text.title == "Mine"
    assert scenario.differences == ""
    assert list(scenario.trace) == list(lab.trace)
    assert scenario.lab.look.files.contents == lab.look.files.contents
    own = save_scenario(lab, tmp_path / "own.scenario")
    assert open_scenario(own, ready_job("keyed-sum", **SETTINGS)).run().trace[-1] == lab.trace[-1]


def test_what_is_no_scenario_of_a_run_is_refused(tmp_path: Path) -> None:
    lab = a_run(0)
    with pytest.raises(LabError, match=r"mine.txt is to hold a scenario: let its name end in '.scenario'"):
        save_scenario(lab, tmp_path / "mine.txt")
    with pytest.raises(LabError, match=r"comes out otherwise|cannot happen now"):
        save_scenario(lab, tmp_path / "mine.scenario", "keyed-sum, rows=8, restart=5, tolerable_failures=9")
    after = Lab(ready_job("keyed-sum", **SETTINGS), after=lab, restore_path=str(lab.look.answer(_request(lab))))
    with pytest.raises(LabError, match="went on from another lab's"):
        save_scenario(after, tmp_path / "mine.scenario")
    with pytest.raises(LabError, match="is no fault; there are"):
        fault_of("KillWorker(who=1)")


def _request(lab: Lab) -> int:
    """The number of the request to stop."""
    return next(number for number, action in enumerate(lab.past.actions, 1) if isinstance(action, RequestStop))


def test_the_page_lists_the_scenarios_there_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make scenarios REWRITE=1"


@pytest.mark.parametrize("job", ["keyed-sum", "random"])
@pytest.mark.parametrize("size", ["rows", "splits"])
def test_a_scenario_cannot_ask_for_more_rows_than_a_lab_can_hold(job: str, size: str) -> None:
    """A scenario may come from anybody, and its job is built before its first step."""
    head = f"title: Huge\nquestion: Is it built?\njob: {job}, {size}=2000000000"
    text = parse("huge", f"{head}\n\nrun until AllTasksRunning\n----\n")
    with pytest.raises((SettingError, ScenarioError), match=rf"{size} = 2000000000: expected .*100000"):
        Scenario(text).run()


def test_the_largest_input_is_allowed() -> None:
    assert ready_job("keyed-sum", rows=MOST_ROWS, parallelism=1).job_graph()
