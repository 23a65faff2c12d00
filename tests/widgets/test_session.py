"""A session without its widgets: what a user does, as one object that can be observed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.hosts.lab import Lab, ready_job
from tests.widgets.test_explorer import run
from widgets.runs.details import choose, details_html, offers
from widgets.runs.saving import save
from widgets.runs.session import Session
from widgets.runs.targets import ALL_RUNNING, NEXT_CHECKPOINT

WITHOUT_WIDGETS = """
import sys
for name in ("ipywidgets", "anywidget", "traitlets", "IPython"):
    sys.modules[name] = None
from kit.hosts.lab import Lab, ready_job
from widgets.runs.session import Session
from widgets.runs.targets import NEXT_CHECKPOINT
session = Session(Lab(ready_job("keyed-sum")))
session.step()
session.ask("Checkpoint", "trigger_checkpoint")
session.run_until(NEXT_CHECKPOINT)
print(session.error or session.run.history.code)
"""


@pytest.fixture
def session() -> Session:
    return Session(Lab(ready_job("keyed-sum", rows=40)), "env = ready_job('keyed-sum', rows=40)\nlab = Lab(env)")


def lab_of(session: Session) -> Lab:
    """The lab that is shown."""
    assert session.run.lab is not None
    return session.run.lab


def test_a_session_needs_no_widgets() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_WIDGETS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("lab.step()\nlab.trigger_checkpoint()\nlab.run_until(checkpoint=1)\n\n")


def test_the_answer_is_that_of_the_last_of_several_requests_also_after_the_run_went_back() -> None:
    session = Session(Lab(ready_job("keyed-sum", rows=400, interval_ms=10_000), seed=1))
    session.run_until(ALL_RUNNING)
    before = lab_of(session).position
    session.ask("First", "savepoint", "/first")
    lab_of(session).run_until(lambda lab: session.run.answer.startswith("First: /first/savepoint-"))
    between, records = lab_of(session).position, len(lab_of(session).trace)
    session.ask("Second", "savepoint", "/second")
    assert session.run.answer == "Second: requested, not done yet"
    lab_of(session).run_until(lambda lab: session.run.answer.startswith("Second: /second/savepoint-"))
    session.move(records)
    assert session.run.fork("a fork").answer.startswith("First: /first/savepoint-")
    session.move(None)
    for position, label in ((between, "Third"), (before, "Fourth")):
        lab_of(session).goto(position)
        session.changed()
        session.ask(label, "savepoint", f"/{label}")
        assert session.run.answer == f"{label}: requested, not done yet"
    fork = session.run.fork("the fork")
    assert fork.answer == session.run.answer
    assert [*fork.asked.values()] == ["Fourth"]


def test_what_is_done_is_code_that_does_it_again(session: Session, tmp_path: Path) -> None:
    session.step()
    session.run_until(ALL_RUNNING)
    session.ask("Savepoint", "savepoint", "/mine")
    assert session.run.answer == "Savepoint: requested, not done yet"
    session.run_until(NEXT_CHECKPOINT)
    assert session.run.answer.startswith("Savepoint: /mine/savepoint-")
    assert session.error == ""
    assert session.run.history is not None
    assert run(session.run.history.code).past.actions == lab_of(session).past.actions
    assert save(session, str(tmp_path / "run.scenario")).exists()


def test_the_cursor_follows_the_end_of_the_run_or_stays_in_its_past(session: Session) -> None:
    session.run_until(ALL_RUNNING)
    assert (session.run.n, session.run.is_present) == (len(lab_of(session).trace), True)
    assert session.run.moment.n == session.run.n
    session.move(12)
    assert session.run.moment.n == 12
    assert session.run.headline[1].startswith(f"{session.run.at} of {session.run.end}, ")
    lab_of(session).step()
    assert session.run.n == 12
    session.go_on_from_here()
    assert session.run.is_present
    assert lab_of(session).position == session.run.position < 20


def test_an_action_in_the_past_begins_a_fork(session: Session) -> None:
    session.run_until(ALL_RUNNING)
    first, before = session.run, lab_of(session).past.actions
    session.move(12)
    session.step()
    assert session.runs == (first, session.run)
    assert session.run is not first
    assert before == first.lab.past.actions  # type: ignore[union-attr]
    session.show(first)
    assert session.run is first


def test_in_a_fork_a_condition_is_about_the_fork(session: Session) -> None:
    """Not about the run that it was forked from, which has more checkpoints."""
    session.run_until(ALL_RUNNING)
    session.ask("Checkpoint", "trigger_checkpoint")
    pending = session.run.n
    session.run_until(NEXT_CHECKPOINT)
    session.move(pending)
    session.run_until(NEXT_CHECKPOINT)
    assert (len(session.runs), session.missed) == (2, "")
    assert list(lab_of(session).checkpoints()["status"]) == ["COMPLETED"]
    assert session.run.history is not None
    assert session.run.history.code.endswith("lab.run_until(checkpoint=1)\n")


ACTIONS: dict[str, Callable[[Session], object]] = {
    "a step": lambda session: session.step(),
    "a run": lambda session: session.run_until(NEXT_CHECKPOINT),
    "a request": lambda session: session.ask("Checkpoint", "trigger_checkpoint"),
    "the cursor": lambda session: session.move(3),
    "a click": lambda session: session.pick("task:sums/0"),
    "a fork": lambda session: session.fork(),
    "another run": lambda session: session.begin("another", Lab(ready_job("keyed-sum")), ""),
    "an action that raises": lambda session: session.do(lambda lab: lab.step("nothing"), ""),
    "several in one": lambda session: session.attempt(lambda: [session.step() for _ in range(3)]),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_the_observers_are_called_once_for_an_action(session: Session, name: str) -> None:
    session.run_until(ALL_RUNNING)
    positions: list[int] = []
    session.observe(lambda: positions.append(lab_of(session).position))
    ACTIONS[name](session)
    assert positions == [lab_of(session).position], "once, and after everything"
    assert bool(session.error) == (name == "an action that raises")


def test_what_changes_nothing_calls_no_observer(session: Session) -> None:
    calls: list[Any] = []
    session.observe(lambda: calls.append(1))
    session.go_to_next("failure")
    assert session.error.startswith("No failure follows.")
    session.attempt(lambda: None)
    assert (calls, session.error) == ([], "")


def test_an_observer_that_raises_is_a_message(session: Session) -> None:
    said: list[tuple[str, bool]] = []
    session.listen(lambda text, is_error: said.append((text, is_error)))
    session.observe(lambda: 1 / 0)
    session.step()
    assert said == [("", True), ("ZeroDivisionError: division by zero", True)]
    assert lab_of(session).position == 2


def test_an_offer_on_an_item_is_an_action(session: Session) -> None:
    session.run_until(ALL_RUNNING)
    session.pick("task:sums/0")
    labels = {each["label"]: each["key"] for each in offers(session.run, session.run.selected)}
    choose(session, labels["What if worker 0 died now?"])
    assert "If worker 0 died now" in session.answer
    assert "sums/0" in details_html(session.run, session.run.selected)
    choose(session, labels["Freeze worker 0"])
    assert session.answer == "", "it was asked before"
    assert lab_of(session).past.last_action.key == "freeze:0"
