"""Somebody at the explorer in JupyterLab: the mouse, the menus and the search, each move awaited."""

from __future__ import annotations

import ast
import io
import re

from PIL import Image
from playwright.sync_api import Locator, expect

from tests.draw.looks import are_kept
from tests.widgets.jupyter import Notebook

ASK = """
async (code) => {
  const { kernel } = window.panel.sessionContext.session;
  const { content } = await kernel.requestExecute({ code: "", silent: true, user_expressions: { told: code } }).done;
  return content.user_expressions.told.data["text/plain"];
}
"""
"""Ask the kernel for a value. It may be in the middle of what was pressed before."""
FOLDED = re.compile(r"^\d+ (more|things that may fail)$")
"""The summary of the offers that are shown on request."""
MOST_STEPS, MOST_LOOKS, LOOK_MS = 300, 400, 50
RUNNING, COMPLETE = "all tasks are running", "the next checkpoint is complete"
ACKNOWLEDGED, ABORTED = "an acknowledgement is in flight", "a checkpoint ends badly"
BEGINS, ENDED = "a checkpoint begins", "the job has ended"


class Player:
    """Somebody who plays a mission with the mouse. Each move waits until the kernel has carried it out."""

    def __init__(self, notebook: Notebook, app: Locator) -> None:
        self.notebook, self.app, self.page = notebook, app, notebook.page
        self.frames: list[Image.Image] = []
        self.at: object = None
        """The step at which the last move ended."""

    def ask(self, code: str) -> object:
        """Return the value of an expression in the kernel."""
        return ast.literal_eval(str(self.page.evaluate(ASK, code)))

    def done(self, *, moved: bool = True) -> None:
        """Wait until the page shows the step at which the kernel rests, and take a picture of it."""
        count = self.app.locator(".kit-count")
        for _ in range(MOST_LOOKS):  # the kernel answers while an action is in progress
            step = self.ask("explorer.lab.position")
            if (not moved or step != self.at) and f"step {step:,} of" in count.inner_text():
                break
            self.page.wait_for_timeout(LOOK_MS)
        else:
            raise AssertionError(f"the page shows {count.inner_text()}, and the kernel is at step {step}")
        self.at = step
        assert self.ask("explorer.error") == ""
        self.look()

    def look(self) -> None:
        """Take a picture for the film, if screenshots are asked for."""
        if not are_kept():
            return
        shot = Image.open(io.BytesIO(self.page.screenshot()))
        self.frames.append(shot.convert("RGB"))

    # --- what a hand can do -------------------------------------------------------------------------------------------

    def tab(self, name: str) -> None:
        self.app.locator(".lm-TabBar-tab", has_text=name).click()

    def press(self, name: str, within: str = ".jupyter-button") -> None:
        self.app.locator(within).and_(self.app.get_by_role("button", name=name)).first.click()

    def until(self, condition: str) -> None:
        self.app.get_by_label("until", exact=True).select_option(condition)
        self.press("Go")
        self.done()

    def trigger(self) -> None:
        self.press("Checkpoint")
        self.done()

    def step(self) -> None:
        count = self.app.locator(".kit-count")
        before = count.inner_text()
        self.app.get_by_role("button", name="Step", exact=True).click()
        expect(count).not_to_have_text(before)

    def step_until_done(self) -> None:
        for _ in range(MOST_STEPS):
            if self.is_done:
                break
            self.step()
        self.done(moved=False)

    def close_details(self) -> None:
        self.app.get_by_role("button", name="close the details").click()

    def offered(self, item: str, name: str | re.Pattern[str], *, moved: bool = True) -> None:
        """Click an item of the stage, and what its details offer; unfold the offers that are folded."""
        self.app.locator(f".kit-viewport {item}").first.dispatch_event("click")
        details = self.app.locator(".kit-details")
        action = details.get_by_role("button", name=name, include_hidden=True).first
        action.wait_for(state="attached")
        if not action.is_visible():
            details.locator(".kit-offers summary", has_text=FOLDED).click()
        action.click()
        if not moved:
            expect(self.app.locator(".kit-details")).to_contain_text("Release it")
        self.done(moved=moved)
        self.close_details()

    def channel(self, sender: str, receiver: str) -> str:
        ends = self.ask("{number: ends for number, ends in explorer.lab.look.stages[-1].ends().items()}")
        assert isinstance(ends, dict)
        number = next(number for number, each in ends.items() if tuple(each) == (sender, receiver))
        lanes = self.ask("{name: lane[2] for name, lane in explorer.stepper.film['stages'][-1]['lanes'].items()}")
        assert isinstance(lanes, dict)
        return f'[data-name="{next(name for name, numbers in lanes.items() if numbers == [number])}"]'

    def fault(self, words: str) -> None:
        """Search for a fault, and let the first one that is found happen."""
        self.tab("Faults")
        search = self.app.locator(".kit-actions-search:visible")
        search.fill(words)
        first = self.app.locator(".kit-action:visible:enabled").first
        expect(first).to_contain_text(re.compile(words.rsplit(maxsplit=1)[-1], re.IGNORECASE))
        first.click()
        self.done()
        search.fill("")

    @property
    def is_done(self) -> bool:
        return str(self.ask("explorer.session.verdict()")).startswith("✓")
