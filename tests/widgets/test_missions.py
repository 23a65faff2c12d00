"""The twelve missions: each is run through the explorer, and none is accomplished before it was."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

import kit
from kit.course.missions.mission_page import export_mission
from kit.hosts.lab.errors import LabError
from tests.widgets.test_explorer import run
from widgets import Explorer

NAMES = list(kit.missions()["name"])


@pytest.fixture
def app() -> Explorer:
    explorer = kit.show("keyed-sum")
    explorer.turn_to("Missions")
    return explorer


@pytest.mark.parametrize("name", NAMES)
def test_a_mission_is_played_through_the_explorer(app: Explorer, name: str) -> None:
    panel = app.panel("Missions")
    panel.choice.value = name
    panel.start.click()
    assert app.explored.name == panel.mission.title
    assert panel.state.value.startswith(f"<p>○ {panel.mission.title}: ")
    lines = len(panel.mission.solution)
    for number in range(lines):
        assert name not in app.session.accomplished, f"line {number} of the solution is not needed"
        panel.show.click()
        assert app.error == ""
    assert app.session.accomplished == {name}
    assert panel.state.value.startswith(f"<p>✓ {panel.mission.title}: ")
    assert "✓" in {value: label for label, value in panel.choice.options}[name]
    assert run(app.code).past.actions == app.lab.past.actions


def test_a_mission_goes_on_in_a_fork(app: Explorer) -> None:
    panel = app.panel("Missions")
    panel.start.click()
    for _ in range(4):
        panel.show.click()
    app.fork()
    assert app.session.mission is panel.mission
    panel.show.click()
    assert app.session.accomplished == {"two-checkpoints"}
    app.runs.value = "the run"
    assert app.session.mission is None
    assert app.session.verdict() == ""


def test_hints_come_one_by_one(app: Explorer) -> None:
    panel = app.panel("Missions")
    panel.choice.value = "duplicate"
    for count in (1, 2):
        panel.hint.click()
        assert panel.task.value.count("<li>") == count
    assert panel.hint.disabled
    panel.choice.value = "rescale"
    assert "<li>" not in panel.task.value
    assert not panel.hint.disabled


@pytest.mark.parametrize("name", NAMES)
def test_a_mission_is_played_without_widgets(name: str) -> None:
    mission = kit.mission(name)
    lab = mission.lab()
    undone = mission.check(lab)
    for _, act in mission.solution:
        act(lab)
    found = mission.check(lab)
    assert (undone.done, found.done) == (False, True)
    assert undone.says != found.says
    for says in (undone.says, found.says):
        assert says.endswith(".")


def test_nothing_done_is_no_mission_accomplished() -> None:
    for name in NAMES:
        mission = kit.mission(name)
        lab = mission.lab()
        try:
            lab.run_until(ended=True)
        except LabError:
            assert lab.ended
        assert not mission.check(lab).done, name


def test_an_unknown_mission_is_refused_with_its_neighbours() -> None:
    with pytest.raises(LabError, match="there is no mission 'expires': expected one such as expire"):
        kit.mission("expires")


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(each, marks=pytest.mark.soak) for each in NAMES[1:])])
def test_a_mission_is_a_page(name: str, tmp_path: Path) -> None:
    """With its hints, the recorded answer and its run; and it says what a page cannot do."""
    mission = kit.mission(name)
    text = unescape(Path(export_mission(mission, str(tmp_path / "mission.html"))).read_text("utf-8"))
    for told in (mission.task, *mission.hints, mission.setup_code, *(code for code, _ in mission.solution)):
        assert told in text
    lab = mission.lab()
    for _, act in mission.solution:
        act(lab)
    assert f"The recorded answer: {mission.check(lab).says}" in text
    assert "cannot take other steps or check them" in text


def test_a_page_of_a_mission_under_way_says_how_far_it_has_come(app: Explorer, tmp_path: Path) -> None:
    panel = app.panel("Missions")
    panel.start.click()
    text = unescape(app.save(str(tmp_path / "run.html")).read_text("utf-8"))
    assert f"The run on this page: {app.session.verdict()}" in text
    assert panel.mission.hints[0] in text
    app.runs.value = "the run"
    assert "The run on this page" not in app.save(str(tmp_path / "other.html")).read_text("utf-8")
