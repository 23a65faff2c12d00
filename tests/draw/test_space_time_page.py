"""The space-time pane in a browser: its colours and movement, and that no two items overlap."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from kit import Lab
from kit.draw import journeys
from kit.draw.space_time.space_time_page import export_space_time
from tests.draw.labs import lab_of


@pytest.fixture(scope="module")
def lab() -> Lab:
    """A lab whose unaligned checkpoint 1 keeps records in flight, and that is killed after it."""
    lab = lab_of(2, unaligned=True)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(checkpoint=2)
    return lab


@pytest.fixture(scope="module")
def exported(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its diagram as a page."""
    return export_space_time(lab, tmp_path_factory.mktemp("space-time") / "run.html")


def opened(page: Page, exported: Path, width: int = 1280) -> Locator:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(exported.as_uri())
    page.wait_for_function("() => window.pane?.drawMs !== undefined")
    return page.locator(".kit-st-view")


COUNTS = """
() => {
  const { run, chosen } = pane;
  const found = {};
  run.elements.look.forEach((look, i) => {
    const side = run.lookOf("elements", i, chosen);
    if (side in run.table.crossings) found[side] = (found[side] ?? 0) + 1;
  });
  return found;
}
"""
"""The number of buffers on each side of the chosen cut, by the names of `Crossing`."""


def test_it_colours_what_lies_so_to_the_cut(page: Page, lab: Lab, exported: Path) -> None:
    opened(page, exported)
    for checkpoint in sorted(journeys(lab).cuts):
        page.get_by_label("Checkpoint whose cut sorts the records").select_option(str(checkpoint))
        table = journeys(lab).to_pandas(checkpoint)
        sides = Counter(table[(table["kind"] == "buffer") & (table["crossing"] != "")]["crossing"])
        assert page.evaluate(COUNTS) == sides
        page.wait_for_timeout(50)
        assert f"Checkpoint {checkpoint}" in page.inner_text(".kit-st-said")
        assert ("in flight" in page.inner_text(".kit-st-legend")) == (sides["IN_FLIGHT"] > 0)


def test_the_ruler_moves_the_cursor_and_keys_step_it(page: Page, lab: Lab, exported: Path) -> None:
    view = opened(page, exported)
    page.get_by_role("button", name="whole run").click()
    box = view.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 8, steps=4)
    page.mouse.up()
    went = page.evaluate("window.went")
    assert abs(went - len(lab.trace) / 2) < 0.05 * len(lab.trace)
    page.keyboard.press("ArrowRight")
    assert page.evaluate("window.went") == went + 1
    page.keyboard.press("Home")
    assert page.evaluate("[window.went, pane.n]") == [0, 0]
    assert "Checkpoint 1 has not begun at the cursor" in page.inner_text(".kit-st-said")
    assert "It begins later" in page.inner_text(".kit-st-went")
    page.keyboard.press("End")
    page.locator(".kit-st-live", has_text=f"record {len(lab.trace)} of").wait_for(state="attached")


def test_dragging_and_the_wheel_move_what_is_seen(page: Page, exported: Path) -> None:
    view = opened(page, exported)
    begin, end = page.evaluate("pane.window")
    view.hover(position={"x": 300, "y": 200})
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    near = page.evaluate("pane.window")
    assert begin < near[0] < near[1] < end
    box = view.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + box["height"] - 4)
    page.mouse.down()
    page.mouse.move(box["x"] + 420, box["y"] + box["height"] - 4, steps=3)
    page.mouse.up()
    panned = page.evaluate("pane.window")
    assert panned[0] < near[0]
    assert panned[1] - panned[0] == pytest.approx(near[1] - near[0])
    assert page.evaluate("window.went") is None, "a drag sets no cursor"


def test_pointing_tells_and_a_click_names(page: Page, lab: Lab, exported: Path) -> None:
    view = opened(page, exported)
    page.get_by_label("Checkpoint whose cut sorts the records").select_option("1")
    page.get_by_role("button", name="checkpoint", exact=True).click()
    page.wait_for_timeout(50)
    found = page.evaluate(
        """() => {
          const each = pane.drawing.arrows.find((e) => e.lookName === "IN_FLIGHT" && e.over - e.received > 30);
          return { x: (each.received + each.over) / 2, y: each.to, channel: pane.run.elements.pick[each.i] };
        }"""
    )
    at = {"x": found["x"], "y": found["y"]}
    view.hover(position=at)
    tip = page.inner_text(".kit-st-tip")
    source, target = lab.look.stages[0].ends()[found["channel"]]
    assert f"{source} → {target}" in tip
    assert "crosses the cut: sent before it, taken after it" in tip
    view.click(position=at)
    assert page.evaluate("window.selected") == f"channel:{found['channel']}"
    page.get_by_role("button", name="totals/1", exact=True).click()
    assert page.evaluate("window.selected") == "task:totals/1"


def test_it_follows_the_theme(page: Page, exported: Path) -> None:
    opened(page, exported)
    assert page.evaluate("pane.pen.inks.paper") == "#ffffff"
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_function("() => pane.pen.inks.paper !== '#ffffff'")
    corner = page.evaluate("() => [...pane.pen.ctx.getImageData(2, pane.canvas.height - 3, 1, 1).data]")
    assert sum(corner[:3]) < 200
    assert page.evaluate("getComputedStyle(document.querySelector('.kit-st')).backgroundColor") == "rgb(20, 24, 31)"


BOXES = """
() => {
  const wrong = [];
  const root = document.querySelector(".kit-st").getBoundingClientRect();
  const all = [...document.querySelectorAll(".kit-st button, .kit-st select, .kit-st p, .kit-st-legend span")]
    .filter((node) => node.textContent && node.getClientRects().length && !node.closest(".kit-st-tip"));
  const boxes = all.map((node) => ({ node, text: node.textContent, box: node.getBoundingClientRect() }));
  for (const { text, box } of boxes) {
    if (box.right > root.right + 1 || box.left < root.left - 1) wrong.push(`out: ${text}`);
  }
  for (const { node, text } of boxes) {
    if (parseFloat(getComputedStyle(node).fontSize) < 10) wrong.push(`small: ${text}`);
    if (node.scrollWidth > node.clientWidth + 1 && !node.title) wrong.push(`cut: ${text}`);
  }
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    const nested = a.node.contains(b.node) || b.node.contains(a.node);
    if (wide > 1.5 && high > 2.5 && !nested) wrong.push(`${a.text} | ${b.text}`);
  }));
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is wider than its window");
  return wrong;
}
"""


@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_nothing_lies_on_anything_else(page: Page, exported: Path, width: int) -> None:
    opened(page, exported, width)
    assert page.evaluate(BOXES) == []


HIDDEN_WHILE_THE_THEME_CHANGES = """
async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  document.documentElement.dataset.theme = "light";
  await frame();
  await frame();
  const before = pane.pen.inks.paper;
  await new Promise((done) => setTimeout(done)); // as a style sheet that has come: between two frames
  pane.ask();
  document.documentElement.dataset.theme = "dark";
  document.body.style.display = "none";
  requestAnimationFrame(() => { document.body.style.display = ""; });
  for (let n = 0; n < 3; n++) await frame();
  return [before, pane.pen.inks.paper];
}
"""


def test_a_theme_that_changes_while_all_is_hidden_for_a_moment_is_seen(page: Page, exported: Path) -> None:
    opened(page, exported)
    assert page.evaluate(HIDDEN_WHILE_THE_THEME_CHANGES) == ["#ffffff", "#14181f"]


def test_many_subtasks_share_a_band_until_it_is_opened(page: Page, tmp_path: Path) -> None:
    lab = lab_of(1, rows=40, parallelism=12)
    lab.run_until(record="SnapshotWritten")
    opened(page, export_space_time(lab, tmp_path / "many.html"))
    assert page.evaluate("document.querySelectorAll('.kit-st-tasks button').length") == 2
    page.get_by_role("button", name="totals ×12").click()
    page.wait_for_function("() => document.querySelectorAll('.kit-st-tasks button').length === 14")
    assert page.evaluate(BOXES) == []


LANES = """
([sizes, opened]) => {
  const groups = [], lanes = ["JobMaster"];
  sizes.forEach((size, k) => {
    groups.push({ name: `v${k}`, lanes: [...Array(size).keys()].map((i) => lanes.length + i) });
    for (let i = 0; i < size; i++) lanes.push(`v${k}/${i}`);
  });
  const cut = lanes.map(() => -1);
  const { table } = pane.run;
  const { labels, height } = new pane.lanes.constructor({ groups, lanes, table }, new Set(opened), cut, 586);
  return { height, labels: labels.length, apart: Math.min(...labels.slice(1).map(({ y }, k) => y - labels[k].y)) };
}
"""


def test_a_job_of_many_vertices_or_subtasks_is_seen_whole(page: Page, exported: Path) -> None:
    opened(page, exported)
    for sizes, lines in ([2] * 30, 30), ([50] * 4, 4), ([2] * 3, 6), ([40, 40, 1], 3):
        found = page.evaluate(LANES, [sizes, []])
        assert found["labels"] == lines
        assert found["height"] <= 586
        assert found["apart"] >= 16
    assert page.evaluate(LANES, [[2] * 30, ["v7"]])["labels"] == 32


def test_a_run_that_goes_on_is_followed(page: Page, tmp_path: Path) -> None:
    from kit.draw.space_time.space_time_data import SpaceTimeFeed

    lab = lab_of(3)
    lab.run_until(record="BarrierAligned")
    feed = SpaceTimeFeed(lab)
    feed.changes()
    opened(page, export_space_time(lab, tmp_path / "live.html"))
    assert "not finished" in page.inner_text(".kit-st-legend")
    lab.run_until(checkpoint=1)
    page.evaluate("(data) => pane.take(data)", feed.changes())
    assert page.evaluate("[pane.n, pane.run.n]") == [len(lab.trace), len(lab.trace)]
    assert "Complete after" in page.inner_text(".kit-st-went")
    assert sum(page.evaluate(COUNTS).values()) > 0


GLIDE = """
async () => {
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const read = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  [read.canvas.width, read.canvas.height] = [pane.canvas.width, pane.canvas.height];
  const pixels = () => {
    read.drawImage(pane.canvas, 0, 0);
    return read.getImageData(0, 0, pane.canvas.width, pane.canvas.height).data;
  };
  pane.drawing.arrows.length = 0;
  for (let k = 0; k < 300; k += 1) pane.drawing.arrows.push({ leaves: false });
  const exact = pane.pen.begin.bind(pane.pen);
  let draws = 0;
  pane.pen.begin = (width, height) => { draws += 1; exact(width, height); };
  const before = pixels();
  for (const px of [30, 25, 40, -20]) { pane.pan(px); await drawn(); }
  const [moved, glided] = [pixels(), draws];
  await new Promise((done) => setTimeout(done, 400));
  const [settled, after] = [pixels(), draws];
  const differs = (one, other) => one.filter((value, k) => Math.abs(value - other[k]) > 40).length;
  const apart = (one, other) => differs(one, other) / one.length;
  return { glided, after, off: apart(moved, settled), moved: apart(before, settled), shift: pane.drawing.shift };
}
"""


def test_while_it_is_moved_it_is_shifted_and_then_drawn_as_it_is(page: Page, exported: Path) -> None:
    opened(page, exported)
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_timeout(100)
    found = page.evaluate(GLIDE)
    assert found["glided"] == 0
    assert found["after"] == 1
    assert found["shift"] == 0
    assert found["off"] < found["moved"] / 5
    assert found["off"] < 0.02
