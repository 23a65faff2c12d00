"""Updates of the explorer after a press of a button, and its release once it is closed or no longer shown."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances
from jupyter_client.manager import start_new_kernel

import kit
from kit.hosts.lab import Lab, ready_job
from widgets import Explorer, Monitor, SpaceTimeWidget, Stepper

PRESSES: dict[str, Callable[[Explorer], object]] = {
    "Step": lambda explorer: explorer.stepper._handle_custom_msg({"wanted": "step"}, []),
    "Go": lambda explorer: explorer.controls.go.click(),
    "Checkpoint": lambda explorer: explorer.controls.checkpoint.click(),
    "Fork from here": lambda explorer: explorer.fork_here.click(),
    "Continue from here": lambda explorer: explorer.go_on.click(),
    "a step back": lambda explorer: setattr(explorer.stepper, "value", 5),
    "a click on an item": lambda explorer: setattr(explorer.stepper, "selected", "task:sums/0"),
    "another tab": lambda explorer: setattr(explorer.tabs, "selected_index", 2),
    "Rescale": lambda explorer: explorer.panel("Rescale").rescale.click(),
    "Start": lambda explorer: explorer.panel("Another run").start.click(),
    "a mission": lambda explorer: explorer.panel("Missions").start.click(),
}


@pytest.mark.parametrize("name", PRESSES)
def test_a_press_updates_each_part_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = kit.show(Lab(ready_job("keyed-sum", rows=60), seed=1))
    explorer.session.run_until("all tasks are running")
    for panel in explorer.panels:
        panel.update()
    calls: Counter[str] = Counter()

    def count(name: str, act: Callable[[], object]) -> Callable[[], object]:
        def counted() -> object:
            calls[name] += 1
            return act()

        return counted

    for part, target in (("controls", explorer.controls), ("stage", explorer._stages)):
        monkeypatch.setattr(target, "update", count(part, target.update))
    monkeypatch.setattr(explorer._stages, "update_details", count("panel", explorer._stages.update_details))
    read = Stepper.refresh
    monkeypatch.setattr(Stepper, "refresh", lambda self: (calls.update(["film"]), read(self))[1])
    PRESSES[name](explorer)
    assert explorer.error == ""
    assert calls.pop("film", 0) <= 1
    assert calls == {"controls": 1, "stage": 1, "panel": 1}
    explorer.close()


def test_a_closed_explorer_is_collected_with_its_labs() -> None:
    """All its panels were shown and used before, and some of their widgets were replaced."""
    before = set(_instances)
    lab = Lab(ready_job("flights", interval_ms=20, rows=24), seed=3)
    explorer = kit.show(lab)
    explorer.session.run_until("the next checkpoint is complete")
    for panel in explorer.panels:
        explorer.turn_to(panel.title)
    explorer.stepper.selected = "task:totals/0"
    explorer.panel("Find a key").key.value = "UA"
    explorer.panel("Rescale").rescale.click()
    explorer.panel("Rescale").plan.again.click()
    explorer.turn_to("Rescale")
    explorer.stepper.value = 5
    explorer.fork()
    explorer.turn_to("Space-time")
    explorer.step()
    assert explorer.error == ""
    kept = [weakref.ref(each) for each in (explorer, explorer.session, explorer.lab, lab, explorer.stepper)]
    assert len(_instances) - len(before) > 300
    explorer.close()
    assert set(_instances) == before
    explorer.close()
    assert explorer.code, "its session is unchanged"
    del explorer, lab, panel
    gc.collect()
    assert [each() for each in kept] == [None] * len(kept)


@pytest.mark.parametrize("kind", [Stepper, SpaceTimeWidget, Explorer])
def test_a_widget_is_closed_with_its_parts(kind: Any) -> None:
    before = set(_instances)
    lab = Lab(ready_job("keyed-sum", rows=4))
    kind(lab).close()
    assert set(_instances) == before


def test_monitors_share_no_part_that_one_of_them_closes() -> None:
    before = set(_instances)
    first, second = Monitor(), Monitor()
    first.close()
    parts = [second, *second.children, *(each.layout for each in second.children)]
    assert all(each.comm is not None for each in parts)
    second.close()
    assert set(_instances) == before


def test_what_is_no_run_leaves_no_widget() -> None:
    before = set(_instances)
    with pytest.raises(TypeError, match="not a run"):
        Explorer(3)
    gc.collect()
    assert set(_instances) == before


# --- the cells of a notebook ------------------------------------------------------------------------------------------

SETUP = """
import gc, weakref
import kit
from ipywidgets import Output
from ipywidgets.widgets import widget
from kit.hosts.lab import Lab, ready_job
labs = []

def made():
    lab = Lab(ready_job("keyed-sum", rows=4))
    labs.append(weakref.ref(lab))
    return lab

def left():
    gc.collect()
    return len([each for each in widget._instances.values() if type(each).__name__ == "Explorer"]), sum(
        each() is not None for each in labs
    )
"""


class Cells:
    """A kernel whose cells have ids, as a notebook's have."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str, cell: str = "", **expressions: str) -> dict[str, Any]:
        """Run code as this cell; return the values of these expressions."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": expressions}
        content |= {"allow_stdin": False, "stop_on_error": True}
        message = self._client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else {})
        self._client.shell_channel.send(message)
        reply: dict[str, Any] = {}
        while reply.get("parent_header", {}).get("msg_id") != message["header"]["msg_id"]:
            reply = self._client.get_shell_msg(timeout=120)
        told = reply["content"]
        assert told["status"] == "ok", told
        return {name: value["data"]["text/plain"] for name, value in told["user_expressions"].items()}

    def left(self) -> str:
        """The explorers and the labs that are left."""
        return str(self.run("", left="left()")["left"])


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120)
    cells = Cells(client)
    cells.run(SETUP)
    yield cells
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("code", ["kit.show(made())", "lab = made()\nexplorer = kit.show(lab)\nexplorer"])
def test_a_cell_that_is_run_again_releases_what_it_showed(cells: Cells, code: str) -> None:
    for _ in range(3):
        cells.run(code, "cell")
    assert cells.left() == "(1, 1)"
    cells.run("lab = explorer = None", "cell")
    assert cells.left() == "(0, 0)"


def test_what_the_notebook_still_has_or_shows_stays(cells: Cells) -> None:
    cells.run("kept = [kit.show(made())]\ndisplay(kept[0])", "one")
    cells.run("None", "one")
    assert cells.left() == "(1, 1)", "a variable has it"
    cells.run("kept[0]", "two")
    cells.run("del kept", "three")
    assert cells.left() == "(1, 1)", "another cell shows it"
    cells.run("None", "two")
    assert cells.left() == "(0, 0)"


def test_what_another_widget_shows_stays(cells: Cells) -> None:
    cells.run("out = Output()\nwith out:\n    display(kit.show(made()))\nout", "one")
    cells.run("None", "one")
    assert cells.left() == "(1, 1)", "the output may be shown elsewhere"
