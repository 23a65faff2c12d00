"""The explorer in a real JupyterLab, from the first look to the notebook that is opened again without a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook

CELL = 'import kit\nexplorer = kit.show("flights")\nexplorer'
SAVE_AND_END = """
async () => {
  await window.jupyterapp.commands.execute("docmanager:save");
  await window.panel.sessionContext.shutdown();
}
"""
OVERLAPS = """
(root) => {
  const seen = [...root.querySelectorAll("button, select, input, .kit-head span")]
    .filter((node) => node.checkVisibility() && !node.closest(".kit-st, .kit-actions-list, .lm-TabBar"));
  const boxes = seen.map((node) => [node.textContent.trim() || node.tagName, node.getBoundingClientRect()]);
  const room = root.getBoundingClientRect();
  const wrong = boxes.filter(([, box]) => box.left < room.left - 1 || box.right > room.right + 1).map(([name]) => name);
  boxes.forEach(([name, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 1) wrong.push(`${name} | ${other}`);
  }));
  return wrong;
}
"""
NAMELESS = """
(root) => [...root.querySelectorAll("button, select, input:not([type=range])")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.textContent.trim() || node.ariaLabel || node.title || node.labels?.length))
  .map((node) => node.outerHTML.slice(0, 120))
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("explorer")
    write_notebook(folder / "notebooks" / "n.ipynb", [CELL])
    with jupyter_lab(folder) as address:
        yield address


def new_page(browser: Browser, wrong: list[str]) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 1300})
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return page


def says(notebook: Notebook, code: str) -> str:
    """What a cell prints."""
    return notebook.run(f"print({code})").inner_text().strip()


def press(app: Locator, name: str) -> None:
    app.get_by_role("button", name=name, exact=False).and_(app.locator(".jupyter-button")).first.click()


def tab(app: Locator, name: str) -> None:
    app.locator(".lm-TabBar-tab", has_text=name).click()


def test_from_the_first_look_to_a_notebook_without_a_kernel(address: str, browser: Browser, tmp_path: Path) -> None:
    wrong: list[str] = []
    page = new_page(browser, wrong)
    notebook = Notebook(page, address, "n.ipynb")
    notebook.run_all()
    app = page.locator(".kit-explorer")
    where = app.locator(".kit-head span")
    expect(where).to_have_text("step 1, 0 ms, CREATED")
    press(app, "Step")
    expect(where).to_have_text(re.compile("^step 2,"))
    app.get_by_label("until").select_option("all tasks are running")
    press(app, "Go")
    press(app, "Checkpoint")
    app.get_by_label("until").select_option("totals/1 has its barrier")
    press(app, "Go")
    expect(app.locator(".kit-words, .kit-player").first).to_contain_text("totals/1")
    assert app.evaluate(OVERLAPS) == []
    assert app.evaluate(NAMELESS) == []

    # a click on a thing tells of it and offers what may befall it
    app.locator('svg [data-name="t:totals/1:name"]').first.click()
    expect(app.get_by_text("What it holds")).to_be_visible()
    app.locator(".kit-player").get_by_role("button", name="Freeze worker 1").click()
    expect(app.locator(".kit-player").get_by_role("button", name="Freeze worker 1")).to_be_disabled()

    # the space-time diagram and the views have the stage's cursor
    tab(app, "Space-time")
    expect(app.locator(".kit-st canvas").first).to_be_visible()
    tab(app, "Look closer")
    expect(app.locator(".kit-question").first).to_be_visible()

    # in the past the stage goes back, and an action begins a fork
    app.locator(".kit-player").focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(app.get_by_text("You look at step")).to_be_visible()
    tab(app, "Next")
    expect(app.get_by_text("in the past: what is done here begins a fork")).to_be_visible()
    app.locator(".kit-action:enabled").first.click()
    expect(app.get_by_role("button", name=re.compile("^fork 1"))).to_be_visible()
    assert says(notebook, "explorer.told") == ""
    tab(app, "Compare")
    app.get_by_role("button", name="the runs above").click()

    notebook.theme("Dark")
    app.screenshot(path=tmp_path / "dark.png")
    for width in (700, 2400):
        page.set_viewport_size({"width": width, "height": 1300})
        page.wait_for_timeout(300)
        app.screenshot(path=tmp_path / f"{width}.png")
        assert app.evaluate(OVERLAPS) == [], width
    notebook.theme("Light")

    # what was done is code, and all stays in the notebook
    code = says(notebook, "explorer.branches[0].deeds.code")
    assert "lab.trigger_checkpoint()" in code
    assert "lab.freeze(1)" in code
    page.evaluate(SAVE_AND_END)
    page.close()
    again = new_page(browser, wrong)
    Notebook(again, address, "n.ipynb")
    picture = again.locator(".jp-Notebook .jp-Cell").first.locator(".jp-OutputArea-output img")
    expect(picture).to_be_visible()
    again.screenshot(path=tmp_path / "again.png")
    again.close()
    assert wrong == []
