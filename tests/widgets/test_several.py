"""The explorer on a run that has several pending checkpoints, channels that are held back, and requests."""

from __future__ import annotations

import re

import pytest

from kit.hosts.lab import Lab
from kit.hosts.lab.world.schedulers import Adversarial
from kit.run.durations import duration
from tests.several_run import moments
from tests.stored_parts import compare
from tests.widgets.several import STORED, parts
from widgets import Explorer, Stepper
from widgets.panels.place import Place
from widgets.runs.details import held_back, offers, what_if
from widgets.runs.targets import HAS_BARRIER, NEXT_CHECKPOINT, targets


@pytest.fixture(scope="module")
def two_pending() -> Lab:
    """The run while checkpoints 6 and 7 are pending."""
    return next(lab for moment, lab, _ in moments() if moment == "6 and 7 are pending")


@pytest.fixture
def explorer(two_pending: Lab) -> Explorer:
    return Explorer(two_pending.fork())


def test_a_death_undoes_all_pending_checkpoints_and_the_reads_of_all_sources(two_pending: Lab) -> None:
    assert list(what_if(two_pending, 1)) == [
        "All tasks would restart from checkpoint 5.",
        "Checkpoint 6, which is pending, would be lost.",
        "Checkpoint 7, which is pending, would be lost.",
        "left/0 would read 12 rows of rows-0 again, from row 20 on.",
        "right/0 would read 14 rows of rows-0 again, from row 15 on.",
        "out would discard 56 rows that it has not published.",
        "No published row would be lost or repeated.",
    ]


def test_what_is_offered_on_a_checkpoint_is_about_it(explorer: Explorer) -> None:
    keys = {number: [each["key"] for each in offers(explorer.explored, f"checkpoint:{number}")] for number in (6, 7)}
    for number, other in ((6, 7), (7, 6)):
        assert keys[number]
        assert all(f"chk-{number}" in key and f"chk-{other}" not in key for key in keys[number])


def test_of_several_channels_that_are_held_back_one_is_let_go(explorer: Explorer) -> None:
    words = []
    for channel in (0, 1, 2):
        explorer.stepper.selected = f"channel:{channel}"
        (offer,) = (each for each in explorer.stepper.offers if each["label"] == "Hold it back")
        words.append(offer["key"].partition("|")[2])
        explorer.stepper._handle_custom_msg({"do": offer["key"]}, [])
    assert held_back(explorer.lab) == tuple(words)
    explorer.stepper.selected = "channel:1"
    (offer,) = (each for each in explorer.stepper.offers if each["label"] == "Release it")
    explorer.stepper._handle_custom_msg({"do": offer["key"]}, [])
    assert held_back(explorer.lab) == (words[0], words[2])
    assert isinstance(explorer.lab.scheduler, Adversarial)


def test_a_task_that_has_one_barrier_gets_the_next(two_pending: Lab) -> None:
    lab = two_pending.fork()
    assert max(lab.moment().tasks["right/0"].phases) == 6
    lab.faults.freeze(1)
    target, _ = targets(lab)["right/0 has its barrier"]
    target(lab)
    assert lab.moment().tasks["right/0"].phases[7] in HAS_BARRIER
    assert {each.checkpoint_id for each in lab.moment().pending} == {6, 7}


def test_a_fork_knows_the_requests_before_it_and_no_later_ones(explorer: Explorer) -> None:
    for request in ("Checkpoint", "Savepoint"):
        button = explorer.controls.checkpoint if request == "Checkpoint" else explorer.controls.savepoint
        button.click()
    first, second = explorer.explored.asked
    fork = explorer.explored.fork("fork")
    assert fork.asked == {first: "Checkpoint", second: "Savepoint"}
    explorer.step()
    before = len(explorer.lab.trace)
    explorer.controls.checkpoint.click()
    third = max(explorer.explored.asked)
    explorer.stepper.n = before
    assert third not in explorer.explored.fork("earlier").asked
    assert set(explorer.explored.fork("earlier").asked) == {first, second}


def test_a_checkpoint_tells_its_own_figures(explorer: Explorer) -> None:
    told = {}
    for number in (4, 5):
        explorer.stepper.selected = f"checkpoint:{number}"
        told[number] = explorer.stepper.item_details["html"]
    facts = [frame.get("facts", {}) for frame in explorer.stepper.film["frames"]]
    for number, html in told.items():
        known = explorer.lab.moment().checkpoints[number]
        shown = [each[f"checkpoint:{number}"] for each in facts if each.get(f"checkpoint:{number}")][-1]
        assert (shown["acked"], shown["expected"]) == (len(known.acked), len(known.expected))
        assert not re.search(r"\d tasks have acknowledged", html), "the page says it"
    for column in ("task", "status", "start_delay_ms", "end_to_end_ms", "checkpointed_bytes", "persisted_bytes"):
        assert column in told[5]
    assert "checkpoint 4 was aborted after " in told[4]
    assert "worker 0 is lost with all its tasks" in told[4]


def test_an_explorer_is_at_the_end_of_its_run_and_waits_for_the_next_checkpoint(explorer: Explorer) -> None:
    assert explorer.explored.end == duration(explorer.lab.moment().elapsed_ms)
    assert explorer.controls.until.value == NEXT_CHECKPOINT


def test_each_detail_offer_and_panel_is_about_its_own_of_several() -> None:
    compare(STORED, parts())


def test_a_condition_that_is_missed_is_said_until_the_next_action_or_run(explorer: Explorer) -> None:
    explorer.session.run_until("the job has ended")
    assert explorer.session.missed == ""
    for condition in ("a checkpoint ends badly", "all tasks are running"):
        explorer.stepper.n = explorer.lab.moment().n - 50
        before = explorer.lab
        explorer.session.run_until(condition)
        assert explorer.session.missed == condition
        assert explorer.lab is not before, "in the past it is a fork that misses it"
        assert f"Not before the job ends: {condition}." in explorer.controls.why_not.value
        assert explorer.error == ""
        explorer.step()
        assert explorer.session.missed == ""
        assert "Not before" not in explorer.controls.why_not.value
    explorer.session.run_until("a checkpoint ends badly")
    assert explorer.session.missed
    explorer.session.show(explorer.explored_runs[0])
    assert explorer.session.missed == ""


def test_each_panel_has_the_room_of_its_place(explorer: Explorer) -> None:
    classes = {f"kit-{each.value}" for each in Place}
    seen = set()
    for title in (*explorer._panels.titles, *reversed(explorer._panels.titles)):
        panel = explorer.turn_to(title)
        shown = classes & set(explorer._inside._dom_classes)
        assert shown == {f"kit-{panel.place.value}"}, title
        seen |= shown
    assert seen == classes


def test_vertices_are_opened_and_closed_one_by_one_and_the_cursor_stays(two_pending: Lab) -> None:
    stepper = Stepper(two_pending)
    stepper.n = shown = 700
    for vertex, closed in (("totals", ["totals"]), ("left", ["left", "totals"]), ("totals", ["left"])):
        edition = stepper.film["edition"]
        assert stepper.turn(vertex) is stepper
        assert stepper.film["stages"][-1]["closed"] == closed
        assert (stepper.n, stepper.film["edition"]) == (shown, edition + 1)
        assert stepper.film["frames"][stepper.value]["n"] <= shown < stepper.film["frames"][stepper.value + 1]["n"]
    with pytest.raises(ValueError, match=r"no vertex 'none': expected one of left, right, totals, out$"):
        stepper.turn("none")
