"""The kit in a real JupyterLab, as a user sees it: pictures, both themes, the stepper with mouse and keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.draw.labs import letters
from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook

LAB = """
from kit import Lab, SparkJob
from kit.draw import *
from tests.draw.labs import letters
from widgets import Stepper

env = letters()
lab = Lab(env, seed=2)
lab.run_until(checkpoint=1)
lab.faults.kill(1)
lab.run_until(record="AllTasksRunning")
lab
"""
PICTURES = {
    "env": "StreamEnvironment('letters', 3 operators)",
    "lab": "Lab(letters, step ",
    "gantt(lab)": "Chart('Checkpoint 1: complete after",
    "gantt(lab.trace)": "Chart('Checkpoint 1: complete after",
    "chains_svg(lab)": "Svg('letters: 3 operators in 2 chains')",
    "rescaling(lab).svg()": "Svg('Checkpoint 1 was given to the tasks of epoch 2')",
    "moment_svg(lab, 200)": "Svg(",
    "last_frame(lab.trace)": "Frame(",
    "lab.look.stages[-1]": "Stage(epoch 2: letters x2 -> totals x2, 4 channels)",
}
TABLES = (
    "lab.checkpoints()",
    "lab.statistics",
    "lab.trace",
    "SparkJob(env)",
    "lab.moment()",
    "lab.look.master.checkpoints.store.latest",
    "chains(lab).to_pandas()",
    "phases(lab)",
    "redistribution(lab)",
)
CARDS = {"Light": "rgb(255, 255, 255)", "Dark": "rgb(20, 24, 31)"}
AFTERWARDS = ("lab.run()", "lab.position")
INLINE = "%matplotlib inline\ngantt(lab)"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One JupyterLab for the tests of this file."""
    folder = tmp_path_factory.mktemp("jupyter")
    write_notebook(folder / "notebooks" / "shown.ipynb", [LAB, *PICTURES, *TABLES, INLINE, "Stepper(lab)", *AFTERWARDS])
    for name in ("touched", "impatient"):
        write_notebook(folder / "notebooks" / f"{name}.ipynb", ["from widgets import Stepper"])
    write_notebook(folder / "notebooks" / "foreign.ipynb", ["env"])
    notebook = json.loads((folder / "notebooks" / "foreign.ipynb").read_text())
    shown = {"output_type": "display_data", "metadata": {}, "data": {"text/html": letters()._repr_html_()}}
    notebook["cells"][0]["outputs"] = [shown]
    (folder / "notebooks" / "foreign.ipynb").write_text(json.dumps(notebook))
    with jupyter_lab(folder) as address:
        yield address


IMPATIENT = """
const wait = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = (ms) => wait(ms === 2000 ? 0 : ms);
"""
"""anywidget gives up at once on a module, as it does after two seconds."""


@pytest.fixture(scope="module")
def shown(address: str, browser: Browser) -> Iterator[Notebook]:
    """A notebook with each kind of picture and table, run from top to bottom."""
    yield from opened(address, browser, "shown.ipynb")


@pytest.fixture(scope="module")
def with_stepper(address: str, browser: Browser) -> Iterator[Notebook]:
    """The page and the kernel of `touched`."""
    yield from opened(address, browser, "touched.ipynb")


@pytest.fixture
def touched(with_stepper: Notebook) -> Notebook:
    """A notebook with a lab and its stepper, both new; the page and the kernel are those of the test before."""
    with_stepper.begin_again([LAB, "stepper = Stepper(lab)\nstepper"])
    return with_stepper


@pytest.fixture
def foreign(address: str, browser: Browser) -> Iterator[Notebook]:
    """Open a notebook with a picture that somebody else's run has stored."""
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    yield Notebook(page, address, "foreign.ipynb")
    page.close()


def opened(address: str, browser: Browser, path: str, script: str = "") -> Iterator[Notebook]:
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    page.add_init_script(script)
    notebook = Notebook(page, address, path)
    notebook.run_all()
    yield notebook
    page.close()


@pytest.mark.parametrize("number", range(len(PICTURES)), ids=list(PICTURES))
def test_a_picture_is_seen_as_a_picture(shown: Notebook, number: int) -> None:
    (output,) = shown.outputs()[1 + number]
    assert set(output["data"]) == {"text/html", "image/svg+xml", "text/plain"}
    assert "".join(output["data"]["text/plain"]).startswith(list(PICTURES.values())[number])
    picture = shown.shown(1 + number).locator(".kit-picture > div > svg")
    expect(picture).to_be_visible()
    box = picture.bounding_box()
    assert box is not None
    assert (box["width"], box["height"]) > (500, 100)
    expect(shown.shown(1 + number).locator(".kit-untrusted")).to_be_hidden()


def test_of_a_notebook_that_is_not_trusted_a_picture_says_so_and_nothing_else(foreign: Notebook) -> None:
    shown = foreign.shown(0)
    told = re.compile("^letters: 3 operators in 2 chains: to see the picture, run the cell or trust the notebook")
    expect(shown).to_have_text(told, use_inner_text=True)
    expect(shown.get_by_text("uid letters")).to_be_hidden()


@pytest.mark.parametrize("number", range(len(TABLES)), ids=TABLES)
def test_a_table_is_seen_as_a_table(shown: Notebook, number: int) -> None:
    area = shown.shown(1 + len(PICTURES) + number)
    expect(area.locator("table").first).to_be_visible()
    assert area.locator("tbody tr").count() > 0


def test_a_chart_is_shown_once_when_matplotlib_is_inline(shown: Notebook) -> None:
    cell = 1 + len(PICTURES) + len(TABLES)
    assert len(shown.outputs()[cell]) == 1
    assert shown.shown(cell).locator(".kit-chart").count() == 1


def test_a_stepper_follows_cells_that_run_at_once(shown: Notebook) -> None:
    expect(headline(shown)).to_have_text(present(shown))
    expect(shown.page.get_by_role("button", name="Now")).to_have_text("")


CONTRAST = """
(node) => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const over = ([r, g, b, a = 1], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const grounds = [];
  for (let at = node; at; at = at.parentElement) grounds.unshift(channels(getComputedStyle(at).backgroundColor));
  const ground = grounds.reduce((below, above) => over(above, below), [255, 255, 255]);
  const text = over(channels(getComputedStyle(node).color), ground);
  const linear = (v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = (colour) => colour.map(linear)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const [low, high] = [light(text), light(ground)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
"""


TOO_WIDE_OR_SMALL = """
(areas) => areas.filter((area) => area.checkVisibility()) // not the picture that stays when its widget is gone
  .flatMap((area) => [...area.querySelectorAll(".kit-picture[hidden] svg")].flatMap((svg) => {
    const box = svg.parentElement, texts = [...svg.querySelectorAll("text")];
    const px = (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    const least = Math.min(99, ...texts.map(px));
    return box.clientWidth <= area.clientWidth && least > 9.95 ? [] : [[box.clientWidth, area.clientWidth, least]];
  }))
"""


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("Light", 1440),
        ("Dark", 900),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in [("Light", 900), ("Dark", 1440)]),
    ],
)
def test_both_themes_can_be_read(shown: Notebook, theme: str, width: int) -> None:
    shown.page.set_viewport_size({"width": width, "height": 1000})
    shown.theme(theme)
    player = shown.page.locator(".kit-player")
    player.scroll_into_view_if_needed()
    texts = player.locator("button:visible, select, label, .kit-count, .kit-help summary")
    assert texts.count() == 19
    contrasts = {each.inner_text()[:12]: each.evaluate(CONTRAST) for each in texts.all()}
    assert min(contrasts.values()) >= 4.5, contrasts
    areas = shown.page.locator(".jp-Notebook .jp-OutputArea-output")
    pictures = areas.locator(".kit-picture[hidden] svg")
    assert pictures.count() > len(PICTURES)
    assert areas.evaluate_all(TOO_WIDE_OR_SMALL) == []
    assert pictures.first.evaluate("(svg) => getComputedStyle(svg.querySelector('rect')).fill") == CARDS[theme]
    boxes = [each.bounding_box() for each in player.locator("button:visible, select, label, .kit-count").all()]
    room = player.bounding_box()
    assert room is not None
    for n, box in enumerate(boxes):
        assert box is not None
        assert box["x"] >= room["x"]
        assert box["x"] + box["width"] <= room["x"] + room["width"] + 1
        assert not any(overlap(box, other) for other in boxes[n + 1 :])


def overlap(a: dict[str, float] | None, b: dict[str, float] | None) -> bool:
    """Return True if two boxes share more than an edge."""
    assert a is not None
    assert b is not None
    wide = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
    high = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
    return wide > 1 and high > 1


def count(notebook: Notebook) -> tuple[int, int]:
    """Return the number of the step that is shown, and the number of steps."""
    found = re.match(r"step (\d+) of (\d+)", notebook.page.locator(".kit-count").inner_text())
    assert found is not None
    return int(found[1]), int(found[2])


def headline(notebook: Notebook) -> Locator:
    return notebook.page.locator(".kit-player [data-says=what]")


def present(notebook: Notebook) -> str:
    """Return the lab's own description of its last step."""
    return notebook.run("print(last_frame(lab).words.what)").inner_text()


def test_the_stepper_opens_at_the_present_and_follows_the_lab(touched: Notebook) -> None:
    expect(headline(touched)).to_have_text("All tasks of epoch 2 are running")
    before = count(touched)
    assert before[0] == before[1]
    touched.run("lab.run()")
    expect(headline(touched)).to_have_text(present(touched))
    after = count(touched)
    assert after[0] == after[1] > before[1]
    touched.run("lab.goto(40)")
    expect(touched.page.locator(".kit-count")).not_to_have_text(re.compile(rf"of {after[1]}\b"))
    now = count(touched)
    assert now[0] == now[1] < before[1]


@pytest.fixture
def impatient(address: str, browser: Browser) -> Iterator[Notebook]:
    """A notebook with a lab and its stepper, on a machine so busy that the widgets' modules come late."""
    for notebook in opened(address, browser, "impatient.ipynb", IMPATIENT):
        notebook.begin_again([LAB, "stepper = Stepper(lab)\nstepper"])
        yield notebook


def test_a_stepper_whose_module_came_late_follows_the_lab_all_the_same(impatient: Notebook) -> None:
    impatient.begin_again([LAB, "stepper = Stepper(lab)\nstepper"])
    impatient.run("lab.run()")
    expect(impatient.page.locator(".kit-player")).to_have_count(1)
    expect(headline(impatient)).to_have_text(present(impatient))


def test_a_person_who_went_back_stays_there_and_is_told_of_more(touched: Notebook) -> None:
    page = touched.page
    page.locator(".kit-player").get_by_role("button", name="Start").click()
    page.keyboard.press("ArrowRight")
    told = headline(touched).text_content()
    more = page.get_by_role("button", name="Now")
    before = more.inner_text()
    touched.run("lab.run()")
    expect(more).not_to_have_text(before)
    expect(more).to_have_class(re.compile("kit-more"))
    now, last = count(touched)
    expect(more).to_have_text(str(last - now))
    assert headline(touched).text_content() == told
    assert touched.run("stepper.frame.words.what").inner_text() == repr(told)
    more.click()
    expect(headline(touched)).to_have_text(present(touched))
    expect(more).to_have_text("")


def test_keys_do_not_leak_into_the_notebook(touched: Notebook) -> None:
    page = touched.page
    sources = touched.sources()
    page.locator(".kit-words .what").click()
    for key in (
        "x",
        "a",
        "b",
        "d",
        "d",
        "m",
        "y",
        "z",
        "0",
        "0",
        "Enter",
        "Escape",
        "Shift+Enter",
        "ArrowUp",
        "PageDown",
    ):
        page.keyboard.press(key)
    assert touched.sources() == sources
    assert page.evaluate("() => window.panel.content.mode") == "command"
    assert "kit-player" in page.evaluate("() => document.activeElement.className")
    page.keyboard.press("Home")
    expect(headline(touched)).to_have_text("Nothing has happened yet")
    page.keyboard.press("ArrowRight")
    assert count(touched)[0] == 1
    page.keyboard.press("c")
    expect(headline(touched)).to_contain_text("heckpoint 1")


def test_tab_and_combinations_go_on(touched: Notebook) -> None:
    page = touched.page
    page.locator(".kit-words .what").click()
    page.keyboard.press("Tab")
    assert "Start" in page.evaluate("() => document.activeElement.ariaLabel")
    page.keyboard.press("Space")
    expect(headline(touched)).to_have_text("Nothing has happened yet")
    touched.page.evaluate("() => { window.panel.content.model.sharedModel.cells[0].setSource('lab'); }")
    assert page.evaluate("() => window.panel.context.model.dirty")
    page.keyboard.press("Control+s")
    page.wait_for_function("() => !window.panel.context.model.dirty")


def test_the_picture_outside_the_stepper_leaves_the_notebook_its_keys(touched: Notebook) -> None:
    page = touched.page
    before = touched.sources()
    touched.shown(0).locator(".kit-picture svg").click()
    page.keyboard.press("b")
    page.wait_for_function("(n) => window.panel.content.model.sharedModel.cells.length === n", arg=len(before) + 1)
