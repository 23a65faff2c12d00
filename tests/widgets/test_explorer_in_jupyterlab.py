"""The explorer in a real JupyterLab, from the first look to the notebook that is opened again without a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.draw.accessible import barriers
from tests.draw.looks import JOBS, KEEP_TEXTS, SETTLED, THEMES, WIDTHS, WRONG, picture_file
from tests.widgets import five_questions
from tests.widgets.five_questions import QUESTIONS
from tests.widgets.hands import Player
from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook

CELL = 'import kit\nexplorer = kit.show("flights")\nexplorer'
GROUPS = """
from tests.draw.labs import letters
from widgets import RescalePlanner, SpaceTimeWidget, Stepper
wide = kit.show(letters(parallelism=12))
wide.lab.run_until(record="SnapshotWritten")
wide
"""
STILL = ".kit-still .kit-picture svg"
OTHERS = {
    "Stepper(wide.lab)": STILL,
    "SpaceTimeWidget(wide.lab)": STILL,
    "RescalePlanner(['a', 'b', 'c'], 3)": ".kit-still .kit-picture",
}
"""Other widgets, and where their pictures are in a notebook that is opened again."""
LOOKS = "import kit\nfrom tests.draw.looks import run_of_job"
START = """
from pathlib import Path
import tempfile, kit
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import ThreadGang, generator, totals_job
folder = tempfile.TemporaryDirectory()
job = SparkJob(totals_job(Path(folder.name), generator(rows_per_second=30_000)), launch=ThreadGang).start()
job.trigger_checkpoint()
job
"""
ON_SPARK = """
from pathlib import Path
import tempfile, kit
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import generator, totals_job
from pyspark.sql import SparkSession
quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[6]").config(map=quiet).getOrCreate()
folder = tempfile.TemporaryDirectory()
here = Path(folder.name)
rows = generator(rows=2_000_000, rows_per_second=4_000)
env = totals_job(here, rows, interval_ms=1_000, savepoint_directory=str(here / "savepoints"))
job = SparkJob(env).start()
job.show()
"""
SAVE_AND_END = """
async () => {
  await window.jupyterapp.commands.execute("docmanager:save");
  await window.panel.sessionContext.shutdown();
}
"""
DIE = """
() => { window.panel.sessionContext.session.kernel.requestExecute({ code: "import os; os.kill(os.getpid(), 9)" }); }
"""
BROKEN_LINKS = """
(root) => [root, ...root.querySelectorAll(".jupyter-widgets-disconnected")]
  .filter((node) => node.matches(".jupyter-widgets-disconnected"))
  .filter((node) => getComputedStyle(node, "::before").display !== "none").length
"""
LEAVES = re.compile(r"^(?!data:|blob:|\w+://127\.0\.0\.1[:/]).*")
"""The address of whatever is asked of another machine."""
NAMELESS = """
(root) => [...root.querySelectorAll("button, select, input:not([type=range])")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.textContent.trim() || node.ariaLabel || node.title || node.labels?.length))
  .map((node) => node.outerHTML.slice(0, 120))
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One JupyterLab for the tests of this file."""
    folder = tmp_path_factory.mktemp("explorer")
    write_notebook(folder / "notebooks" / "n.ipynb", [CELL, GROUPS, *OTHERS])
    for number in range(len(JOBS) + 1):  # one each: what is saved by itself of one is not beside the next
        write_notebook(folder / "notebooks" / f"looks{number}.ipynb", [LOOKS])
    for name in ("dies", "again"):
        write_notebook(folder / "notebooks" / f"{name}.ipynb", [CELL])
    write_notebook(folder / "notebooks" / "questions.ipynb", [five_questions.CELL])
    write_notebook(folder / "notebooks" / "job.ipynb", [START, "kit.running()"])
    write_notebook(folder / "notebooks" / "spark.ipynb", [ON_SPARK])
    with jupyter_lab(folder) as address:
        yield address


def new_page(browser: Browser, wrong: list[str]) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 1300})
    page.add_init_script(KEEP_TEXTS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.extend(LEAVES.findall(request.url)))
    page.on("websocket", lambda socket: wrong.extend(LEAVES.findall(socket.url)))
    return page


def says(notebook: Notebook, code: str) -> str:
    """Return what a cell prints."""
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
    app = page.locator(".kit-explorer").first
    count = app.locator(".kit-count")
    expect(app.locator(".kit-head")).to_have_text("flights created")
    expect(count).to_have_text("step 1 of 1, 0 ms")
    player = app.locator(".kit-player").first
    player.get_by_role("button", name="Step").click()
    expect(app.locator(".kit-head")).to_have_text("flights running")
    player.get_by_role("button", name="Play").click()  # at the end it continues by itself
    expect(count).to_have_text(re.compile("^step ([4-9]|1[0-9]) of"))
    player.get_by_role("button", name="Pause").click()
    app.get_by_label("until").select_option("all tasks are running")
    press(app, "Go")
    press(app, "Checkpoint")
    app.get_by_label("until").select_option("totals/1 has its barrier")
    press(app, "Go")
    expect(app.locator(".kit-words, .kit-player").first).to_contain_text("totals/1")
    assert app.evaluate(WRONG) == []
    assert app.evaluate(NAMELESS) == []

    fits_a_small_screen(page, app, tmp_path)

    # a click on a thing shows its details and offers the faults that it can suffer
    app.locator('svg [data-name="t:totals/1:name"]').first.click()
    expect(app.get_by_text("What it holds")).to_be_visible()
    app.locator(".kit-player").get_by_role("button", name="Freeze worker 1").click()
    expect(app.locator(".kit-player").get_by_role("button", name="Thaw worker 1")).to_be_enabled()

    # the space-time diagram and the views have the stage's cursor
    tab(app, "Space-time")
    expect(app.locator(".kit-st canvas").first).to_be_visible()
    tab(app, "Look closer")
    expect(app.locator(".kit-question").first).to_be_visible()

    # in the past the stage goes back, and an action begins a fork
    app.locator(".kit-slider input").fill("5")
    expect(app.locator(".kit-count")).to_have_text(re.compile("^step [5-9] of"))
    app.locator(".kit-player").focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(app.get_by_text("You look back at")).to_be_visible()
    tab(app, "Next")
    expect(app.get_by_text("This is the past, at")).to_be_visible()
    app.locator(".kit-action:enabled").first.click()
    expect(app.locator(".kit-title select")).to_have_value(re.compile("^fork 1"))
    assert says(notebook, "explorer.error") == ""
    tab(app, "Compare")
    app.get_by_role("button", name="the runs above").click()
    app.locator(".jupyter-button.mod-primary", has_text="Compare").click()
    expect(app.locator("div.kit-comparison svg")).to_be_visible()
    assert says(notebook, "explorer.error") == ""

    # a message stays while it is about the last action
    tab(app, "Save")
    app.get_by_label("file").fill(str(tmp_path / "nope" / "x.html"))
    app.get_by_label("file").press("Tab")
    app.locator('.jupyter-button[title="write the file"]').click()
    told = app.locator(".kit-explorer-error")
    expect(told).to_contain_text("create it first, or save to one that exists")
    page.wait_for_timeout(600)
    app.screenshot(path=picture_file(tmp_path, "walk save"))
    expect(told).to_contain_text("create it first, or save to one that exists")
    assert not (tmp_path / "nope").exists()
    tab(app, "Next")
    expect(told).to_be_hidden()

    notebook.theme("Dark")
    app.screenshot(path=picture_file(tmp_path, "walk dark"))
    for width in (700, 2400):
        page.set_viewport_size({"width": width, "height": 1300})
        page.wait_for_timeout(300)
        app.screenshot(path=picture_file(tmp_path, "walk", width))
        assert app.evaluate(WRONG) == [], width
    notebook.theme("Light")

    # a vertex with many subtasks is opened, and one of them picked
    many = page.locator(".kit-explorer").nth(1)
    many.scroll_into_view_if_needed()
    expect(many.locator('[data-name="t:totals/3:name"]')).to_have_count(0)
    many.locator('[data-open="totals"]').click()
    many.locator('[data-name="t:totals/3:name"]').click()
    expect(many.locator(".kit-player .kit-details b").first).to_have_text("totals/3")
    many.get_by_role("button", name="close the details").click()
    many.locator('[data-open="totals"]').click()
    expect(many.locator('[data-name="t:totals/3:name"]')).to_have_count(0)
    assert many.evaluate(WRONG) == []

    # the actions are code, and everything stays in the notebook
    code = says(notebook, "explorer.explored_runs[0].history.code")
    assert "lab.trigger_checkpoint()" in code
    assert "lab.faults.freeze(1)" in code
    page.evaluate(SAVE_AND_END)
    page.close()

    # opened again, with a kernel that knows none of its widgets, it has its pictures and nothing else in their place
    page = new_page(browser, wrong)
    notebook = Notebook(page, address, "n.ipynb")
    for cell, place in enumerate((STILL, STILL, *OTHERS.values())):
        shown = notebook.shown(cell)
        expect(shown.locator(place).first).to_be_visible()
        shown.first.scroll_into_view_if_needed()
        page.screenshot(path=picture_file(tmp_path, "opened again", cell))
        expect(shown.get_by_text(re.compile("^(Loading|Error displaying) widget")).first).to_be_hidden()
    page.close()
    assert wrong == []


def test_a_dead_kernel_is_one_sentence(address: str, browser: Browser, tmp_path: Path) -> None:
    """The controls are out of use, no widget shows a broken link, and the picture stays."""
    wrong: list[str] = []
    page = new_page(browser, wrong)
    notebook = Notebook(page, address, "dies.ipynb")
    notebook.run_all()
    app = page.locator(".kit-explorer")
    gone = app.locator(".kit-gone")
    expect(gone).to_be_hidden()
    page.evaluate(DIE)
    expect(gone).to_have_text(re.compile("^The kernel has stopped.* Run the cell again"), timeout=60_000)
    expect(app.locator(".kit-requests")).to_have_attribute("inert", "")
    expect(app.locator('.kit-viewport [data-name^="t:"]').first).to_be_visible()
    assert app.evaluate(BROKEN_LINKS) == 0
    app.screenshot(path=picture_file(tmp_path, "walk dead kernel"))
    page.close()
    assert wrong == []


def test_a_cell_that_is_run_again_leaves_no_explorer_behind(address: str, browser: Browser) -> None:
    wrong: list[str] = []
    page = new_page(browser, wrong)
    notebook = Notebook(page, address, "again.ipynb")
    left = (
        "sum(type(each).__name__ == 'Explorer' for each in __import__('ipywidgets').widgets.widget._instances.values())"
    )
    for _ in range(3):
        notebook.run_all()
        expect(page.locator(".kit-explorer .kit-count")).to_have_text("step 1 of 1, 0 ms")
    app = page.locator(".kit-explorer")
    expect(app).to_have_count(1)
    assert says(notebook, left) == "1"
    app.get_by_role("button", name="Step", exact=True).click()
    expect(app.locator(".kit-head")).to_have_text("flights running")
    expect(page.locator(".jp-OutputArea").get_by_text("Error displaying widget")).to_have_count(0)
    page.close()
    assert wrong == []


def test_the_five_questions_of_a_new_user_are_answered_without_scrolling(
    address: str, browser: Browser, tmp_path: Path
) -> None:
    """The words of each answer fit a small screen, and axe finds no accessibility problem."""
    wrong: list[str] = []
    page = new_page(browser, wrong)
    page.set_viewport_size({"width": 1366, "height": 768})
    notebook = Notebook(page, address, "questions.ipynb")
    notebook.run_all()
    player = Player(notebook, page.locator(".kit-explorer"))
    page.evaluate("document.querySelector('.jp-Cell').scrollIntoView()")
    bottom = box(page.locator("#jp-main-statusbar"))["y"]
    for number, question in enumerate(QUESTIONS, 1):
        answer = question.moves(player)
        expect(answer).to_contain_text(question.says)
        told = box(answer)
        assert told["y"] > 0, question.asks
        assert told["y"] + told["height"] <= bottom, question.asks
        assert told["x"] + told["width"] <= 1366, question.asks
        page.screenshot(path=picture_file(tmp_path, "question", number))
        wrong += [f"{question.asks} {each}" for each in player.app.evaluate(WRONG)]
        wrong += [f"{question.asks} {each}" for each in barriers(page, ".kit-explorer")]
    for theme in THEMES:
        notebook.theme(theme.title())
        player.app.locator('.kit-viewport [data-name^="t:"]').first.dispatch_event("click")
        expect(player.app.locator(".kit-added-details")).to_contain_text("What it holds")
        wrong += [f"{theme} details: {each}" for each in barriers(page, ".kit-explorer")]
        for title in ("Missions", "Look closer", "Save"):
            tab(player.app, title)
            page.evaluate(SETTLED)
            wrong += [f"{theme} {title}: {each}" for each in barriers(page, ".kit-explorer")]
    page.close()
    assert wrong == []


def fits_a_small_screen(page: Page, app: Locator, tmp_path: Path) -> None:
    """At 1366x768 the stage and the answer to a click are seen without scrolling, and nothing moves a button."""
    before = page.viewport_size
    page.set_viewport_size({"width": 1366, "height": 768})
    page.evaluate("document.querySelector('.jp-Cell').scrollIntoView()")
    back = app.get_by_role("button", name="Back", exact=True)
    at = back.bounding_box()
    top, stage = box(app)["y"], box(app.locator(".kit-frame-of-view"))
    assert stage["y"] - top < 200
    assert stage["height"] > 300
    app.locator('svg [data-name="t:totals/1:name"]').first.click()
    answer = app.locator(".kit-details")
    expect(answer.get_by_text("What it holds")).to_be_in_viewport()
    told = box(answer)
    assert told["y"] + told["height"] <= 768
    assert told["x"] >= stage["x"] + stage["width"], "the answer lies beside the stage"
    assert box(app.locator(".kit-frame-of-view")) == stage
    assert back.bounding_box() == at
    app.screenshot(path=picture_file(tmp_path, "walk small"))
    back.click()
    expect(app.get_by_text("You look back at step")).to_be_in_viewport()
    assert back.bounding_box() == at
    app.get_by_role("button", name="Next failure").click()
    message = app.get_by_text("No failure follows")
    expect(message).to_be_in_viewport()
    clicked = box(app.get_by_role("button", name="Next failure"))
    assert 0 < box(message)["y"] - clicked["y"] < 80
    assert back.bounding_box() == at
    assert app.evaluate(WRONG) == []
    app.get_by_role("button", name="Now", exact=True).click()
    expect(app.get_by_text("You look back at step")).to_be_hidden()
    page.keyboard.press("Escape")
    assert before is not None
    page.set_viewport_size(before)


def box(part: Locator) -> dict[str, float]:
    """Return the box of a part on the screen."""
    found = part.bounding_box()
    for _ in range(50):  # it may be drawn again at this moment
        if found is not None:
            break
        part.page.wait_for_timeout(100)
        found = part.bounding_box()
    assert found is not None
    return dict(found)


PANELS = ("Next", "Space-time", "Faults", "Look closer", "Compare", "Rescale", "Find a key", "Another run", "Save")
SIZES = [(width, theme) for width in WIDTHS for theme in THEMES]


@pytest.mark.parametrize(
    ("name", "sizes", "panels"),
    [
        pytest.param("20 subtasks, unaligned", [(390, "dark")], PANELS[:1], id="one-cell"),
        *(pytest.param(name, SIZES, PANELS, id=name, marks=pytest.mark.soak) for name in JOBS),
    ],
)
def test_everything_can_be_read(  # one size in every run of the tests; all in the longer run, and by `make looks`
    address: str,
    browser: Browser,
    name: str,
    sizes: list[tuple[int, str]],
    panels: tuple[str, ...],
    tmp_path: Path,
) -> None:
    wrong: list[str] = []
    page = new_page(browser, wrong)
    number = [*JOBS].index(name) if sizes is SIZES else len(JOBS)
    notebook = Notebook(page, address, f"looks{number}.ipynb")
    notebook.run_all()
    notebook.run(f"explorer = kit.show(run_of_job({name!r}))\nexplorer")
    app = page.locator(".kit-explorer")
    expect(app).to_have_count(1)
    app.locator('.kit-viewport [data-name^="t:"]').first.dispatch_event("click")
    expect(app.get_by_text("What it holds").first).to_be_visible()
    found: list[str] = []
    for width, theme in sizes:
        page.set_viewport_size({"width": width, "height": 2600})  # all of it is on the picture
        notebook.theme(theme.title())
        for title in panels:
            tab(app, title)
            page.evaluate(SETTLED)
            app.screenshot(path=picture_file(tmp_path, "app", name, width, theme, title))
            said = [*app.evaluate(WRONG), *barriers(page, ".kit-explorer")]
            found += [f"{width} {theme} {title}: {each}" for each in said]
    page.close()
    assert found == []
    assert wrong == []


def test_a_job_is_seen(address: str, browser: Browser) -> None:
    """A job on the Spark host: its table, its bar, and what runs."""
    wrong: list[str] = []
    page = new_page(browser, wrong)
    notebook = Notebook(page, address, "job.ipynb")
    notebook.run_all()
    expect(notebook.shown(0).locator("table")).to_contain_text("totals")
    expect(notebook.shown(0).locator("table")).to_contain_text("RUNNING")
    expect(notebook.shown(1).locator("table")).to_contain_text("kit.running()[0].cancel()")
    bar = notebook.run("job.wait(progress=True)")
    expect(bar.locator(".widget-html").first).to_contain_text("totals: FINISHED, 8 of 8 splits, 60,000 rows")
    expect(bar.locator(".progress-bar-success")).to_have_count(1)
    (shown, status) = notebook.outputs()[2]
    assert "application/vnd.jupyter.widget-view+json" in shown["data"]
    assert status["data"]["text/plain"] == "'FINISHED'"
    expect(notebook.run("job").locator("table")).to_contain_text("8 of 8")
    expect(notebook.run("kit.running()")).to_contain_text("no job runs on Spark")
    app = notebook.run("job.show()").locator(".kit-explorer")
    expect(app.locator(".kit-live")).to_contain_text("finished")
    assert tall(app.locator(".kit-live"))
    assert app.evaluate(WRONG) == []
    page.close()
    assert wrong == []


def tall(part: Locator) -> bool:
    """Return True if a part is tall enough for its content."""
    box = part.bounding_box()
    return box is not None and box["height"] > 200


@pytest.mark.soak
@pytest.mark.spark
def test_a_job_on_spark_is_followed_loses_a_worker_and_is_stopped(
    address: str, browser: Browser, tmp_path: Path
) -> None:
    wrong: list[str] = []
    page = new_page(browser, wrong)
    page.set_viewport_size({"width": 1440, "height": 2200})
    notebook = Notebook(page, address, "spark.ipynb")
    notebook.run_all()
    app = notebook.shown(0).locator(".kit-explorer")
    now = app.locator(".kit-live").last

    def seen(what: str) -> None:
        app.screenshot(path=picture_file(tmp_path, "job on spark", what))
        assert tall(now)
        assert app.evaluate(WRONG) == []

    with expect_patience(90_000):
        expect(now).to_contain_text("last complete checkpoint: 2")
        seen("1 running")
        app.get_by_role("button", name="Kill worker").click()
        expect(now).to_contain_text("epoch 2 · 1 restart ·")
        expect(now).to_contain_text(re.compile("last complete checkpoint: [3-9]"))
        seen("2 restarted")
        app.get_by_role("spinbutton", name="Parallelism").fill("3")
        app.get_by_role("button", name="Rescale", exact=True).click()
        expect(app.locator(".kit-live").first).to_have_text(re.compile("parallelism 3: done"))
        expect(app.locator('[data-name="t:totals/2:name"]')).to_be_visible()
        expect(now).to_contain_text("3 subtasks, from rows")
        seen("3 rescaled")
        app.get_by_role("button", name="Stop", exact=True).click()
        expect(now).to_contain_text("totals finished")
        expect(app.locator(".kit-head")).to_contain_text("finished")
        seen("4 stopped")
    page.close()
    assert wrong == []


@contextmanager
def expect_patience(timeout_ms: int) -> Iterator[None]:
    """A job on Spark takes its time."""
    expect.set_options(timeout=timeout_ms)
    yield
    expect.set_options(timeout=5_000)
