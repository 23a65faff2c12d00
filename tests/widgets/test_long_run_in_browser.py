"""A long run in the stepper's own page, with the kernel behind it: pictures and steps come when they are asked for.

The page is the widget's module with a model that stands in for Jupyter's: what it sends is handed to the stepper by the
test, and what the stepper sends to the page.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from kit import Lab
from kit.draw.assets import stage_css, stage_js
from tests.draw.labs import lab_of
from widgets import Stepper

MODEL = """
window.said = [];
const heard = {};
const values = JSON.parse(document.getElementById("state").textContent);
const model = {
  get: (name) => values[name],
  set: (name, value) => { values[name] = value; },
  save_changes: () => window.said.push({ values: { value: values.value, n: values.n } }),
  send: (content) => window.said.push({ content }),
  on: (name, act) => (heard[name] ??= []).push(act),
  off: () => {},
};
window.tell = (content) => (heard["msg:custom"] ?? []).forEach((act) => act(content));
window.become = (name, value) => {
  values[name] = value;
  (heard[`change:${name}`] ?? []).forEach((act) => act());
};
stage.initialize({ model });
stage.render({ model, el: document.getElementById("stage") });
"""


class Kernel:
    """Between a stepper and a page that shows it."""

    def __init__(self, stepper: Stepper, page: Page) -> None:
        self.stepper, self.page = stepper, page
        stepper.send = lambda content, buffers=None: self._tell("tell", content)  # type: ignore[method-assign]
        stepper.send_state = lambda key=None: self._tell("become", "film", stepper.film)  # type: ignore
        names = ("film", "value", "n", "selected", "item_details", "offers")
        data = json.dumps({name: getattr(stepper, name) for name in names}).replace("</", "<\\/")
        script = stage_js().replace("export default {", "const stage = {")
        page.set_content(
            f'<style>{stage_css()}</style><div id="stage"></div><script type="application/json" id="state">{data}'
            f'</script><script type="module">{script}{MODEL}</script>'
        )
        page.wait_for_function("window.said && document.querySelector('.kit-player [data-name]')")

    def _tell(self, name: str, *content: Any) -> None:
        self.page.evaluate("([name, content]) => window[name](...content)", [name, json.loads(json.dumps(content))])

    def hear(self) -> list[dict[str, Any]]:
        """Pass the page's messages to the stepper, send the stepper's value back, and return the messages."""
        said: list[dict[str, Any]] = self.page.evaluate("window.said.splice(0)")
        for each in said:
            if "content" in each:
                self.stepper._heard(None, each["content"], None)
                self._tell("become", "value", self.stepper.value)
            else:
                self.stepper.set_state(each["values"])
        return said


def lab_with_many_steps(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """More records and steps than are shown at once: here that is few."""
    monkeypatch.setattr("widgets.pictures.stepper.DEFER_FROM", 500)
    film = sys.modules["kit.draw.stage.film"]
    monkeypatch.setattr(film, "MOST_FRAMES", 200)
    monkeypatch.setattr(film, "WELL_FILLED", 150)
    lab = lab_of(rows=150)
    lab.run_until(lambda lab: lab.position > 600)  # type: ignore[misc]
    return lab


def test_a_long_run_is_shown_at_once_and_each_of_its_steps_when_somebody_comes_to_it(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Stepper(lab_with_many_steps(monkeypatch))
    with browser.new_page() as page:
        assert sum("set" in frame for frame in stepper.film["frames"]) == 1
        kernel = Kernel(stepper, page)
        drawn = page.locator(".kit-stage [data-name]").count()
        assert drawn > 10
        page.locator(".kit-player").press("Home")
        expect(page.locator(".kit-player.kit-awaits")).to_have_count(1)
        kernel.hear()
        expect(page.locator(".kit-player.kit-awaits")).to_have_count(0)
        assert all("set" in frame for frame in stepper.film["frames"])
        gap = next(number for number, frame in enumerate(stepper.film["frames"]) if frame.get("skipped"))
        skipped = stepper.film["frames"][gap]["skipped"]
        assert f" of {stepper.film['frames'][-1]['step']:,}, " in page.locator(".kit-count").inner_text()
        page.locator(".kit-player").press("e")
        stepper.value = gap - 1
        kernel._tell("become", "value", gap - 1)
        for there in (gap, gap + 1):
            page.locator(".kit-player").press("ArrowRight")
            kernel.hear()
            assert (
                page.locator(".kit-count").inner_text().startswith(f"step {stepper.film['frames'][there]['step']:,} of")
            )
        assert stepper.film["frames"][gap]["n"] < stepper.film["frames"][gap + min(skipped, 200)]["n"]
        assert page.locator(".kit-words .what").inner_text() == stepper.film["frames"][gap + 1]["words"][0]
