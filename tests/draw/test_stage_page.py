"""The stage of an exported page under eyes and hands: sizes, themes, camera, details."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from kit import Lab
from kit.api.environment import StreamEnvironment
from kit.connectors.memory_sources import CollectionSource
from kit.connectors.sink import CollectSink
from kit.draw.page import export_html
from kit.graph.settings import CheckpointConfig
from kit.operators.aggregates import sum_
from tests.draw.labs import lab_of
from tests.draw.script import story

WIDTHS = (390, 1280, 2560)


def chain(vertices: int, parallelism: int, **checkpoint: bool) -> StreamEnvironment:
    """Vertices one after the other, with all channels between two of them."""
    settings = CheckpointConfig(interval_ms=40, **checkpoint)
    env = StreamEnvironment("chain", parallelism=parallelism, checkpoint=settings)
    stream = env.from_source(
        CollectionSource([{"k": "abcd"[n % 4], "n": n} for n in range(40)], batch_rows=1), uid="in"
    )
    for number in range(vertices - 1):
        stream = stream.key_by("k").aggregate(n=sum_("n")).uid(f"sum of what came {number}")
    stream.sink_to(CollectSink("out"), uid="out")
    return env


ALWAYS = ("30 stages", "200 subtasks")
"""The jobs that are hardest to draw; the others are in the longer run of the tests."""
JOBS = {
    "2 subtasks": (2, 1, 150),
    "20 subtasks, unaligned": (4, 5, 600),
    "30 stages": (30, 2, 900),
    "200 subtasks": (4, 50, 1_200),
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.soak]) for name in JOBS],
)
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one of the jobs, in the middle of a checkpoint, as a page."""
    vertices, parallelism, steps = JOBS[request.param]
    lab = Lab(chain(vertices, parallelism, unaligned="unaligned" in request.param), seed=1)
    for _ in range(steps):
        lab.step()
    lab.trigger_checkpoint()
    for _ in range(steps // 2):
        lab.step()
    return export_html(lab, tmp_path_factory.mktemp("job") / "job.html", "A job")


WRONG = """
() => {
  const wrong = [];
  const view = document.querySelector(".kit-viewport").getBoundingClientRect();
  const seen = ({ left, right, top, bottom }) =>
    right > view.left && left < view.right && bottom > view.top && top < view.bottom;
  const texts = [...document.querySelectorAll(".kit-viewport text")]
    .filter((node) => node.textContent && node.getClientRects().length);
  for (const node of texts) {
    const px = parseFloat(getComputedStyle(node).fontSize) * node.getScreenCTM().a;
    if (px < 9.99) wrong.push(`${node.textContent}: ${px} px`);
  }
  const boxes = texts.filter((node) => !node.closest("[data-layer=elements]"))
    .map((node) => ({ text: node.textContent, box: node.getBoundingClientRect() })).filter(({ box }) => seen(box));
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (wide > 1 && high > 4) wrong.push(`${a.text} | ${b.text}`);
  }));
  for (const node of document.querySelectorAll(".kit-player *")) {
    if (!node.getClientRects().length || node.closest("svg") || node.closest(".kit-live")) continue;
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (own && parseFloat(getComputedStyle(node).fontSize) < 10) wrong.push(`small: ${node.textContent}`);
    if (own && node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflow === "hidden" && !node.title)
      wrong.push(`cut and not told: ${node.textContent}`);
    const box = node.getBoundingClientRect();
    if (own && box.right > innerWidth + 1) wrong.push(`out of the page: ${node.textContent}`);
  }
  const blocks = [...document.querySelectorAll(".kit-player > *:not([hidden]):not(.kit-tip):not(.kit-live)")]
    .map((node) => node.getBoundingClientRect());
  blocks.slice(1).forEach((box, i) => {
    if (box.top < blocks[i].bottom - 1) wrong.push(`block ${i + 1} lies on the one above`);
  });
  return wrong;
}
"""

CONTRASTS = """
() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (c) => parse(c).slice(0, 3).map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (parse(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll(".kit-player :is(button, p, span, label, dt, dd, td, th, summary)")]
    .filter((node) => node.getClientRects().length && node.textContent.trim() && !node.closest("svg"))
    .map((node) => [light(getComputedStyle(node).color), light(ground(node)), node.textContent])
    .map(([a, b, text]) => [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), text])
    .filter(([ratio]) => ratio < 4.5);
}
"""


def at(page: Page, part: float) -> None:
    """Go to this part of the way."""
    page.evaluate(
        "(part) => { const s = document.querySelector('.kit-slider input');"
        " s.value = Math.round(part * s.max); s.dispatchEvent(new Event('input')); }",
        part,
    )


def test_everything_can_be_read_at_each_width_and_in_both_themes(page: Page, job: Path) -> None:
    page.goto(job.as_uri())
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(true), 60)))")
        for theme in ("light", "dark"):
            page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
            for part in (0, 0.6, 1):
                at(page, part)
                assert page.evaluate(WRONG) == [], (width, theme, part)
            assert page.evaluate(CONTRASTS) == [], (width, theme)
        assert page.evaluate("document.querySelector('.kit-player').scrollWidth <= innerWidth")


@pytest.fixture
def opened(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The story, in the middle of a checkpoint."""
    page.goto(export_html(story(), tmp_path_factory.mktemp("stage") / "run.html").as_uri())
    for key in ("c", *["ArrowRight"] * 7):
        page.keyboard.press(key)
    return page


def touch(page: Page, sprite: str) -> None:
    page.locator(f'[data-name="{sprite}"]').dispatch_event("click")


def test_a_click_tells_of_a_task_its_channels_and_what_is_in_them(opened: Page) -> None:
    details = opened.locator(".kit-details")
    expect(details).to_be_hidden()
    touch(opened, "t:count/0")
    expect(details.locator("b").first).to_have_text("count/0")
    expect(details).to_contain_text("running")
    expect(details.locator(".kit-events li").first).to_contain_text("count/0")
    details.get_by_role("button", name="source/0").first.click()
    expect(details.locator("b").first).to_have_text("source/0 → count/0")
    expect(details).to_contain_text("What is in it")
    opened.keyboard.press("Escape")
    expect(details).to_be_hidden()


def test_details_follow_the_steps_and_lead_to_other_moments(opened: Page) -> None:
    touch(opened, "t:source/0")
    details = opened.locator(".kit-details")
    expect(details).to_contain_text("In checkpoints")
    count = opened.locator(".kit-count")
    before = count.inner_text()
    details.locator(".kit-events button").last.click()
    expect(count).not_to_have_text(before)
    opened.keyboard.press("Home")
    expect(details).to_contain_text("not started")


def test_a_checkpoint_says_who_acknowledged_when(page: Page, tmp_path: Path) -> None:
    lab = lab_of(seed=1)
    lab.run_until(checkpoint=1)
    page.goto(export_html(lab, tmp_path / "lab.html").as_uri())
    page.keyboard.press("End")
    page.locator(".kit-chip").first.click()
    details = page.locator(".kit-details")
    expect(details.locator("dd").first).to_have_text("completed")
    rows = details.locator("tbody tr").all_inner_texts()
    assert len(rows) == 4
    assert all(re.search(r"\d+ ms", row) for row in rows)


def transform(page: Page) -> str:
    return page.locator(".kit-world").get_attribute("transform") or ""


def scale(page: Page) -> float:
    found = re.search(r"scale\(([\d.]+)\)", transform(page))
    assert found
    return float(found[1])


def test_what_has_no_room_is_panned_to_not_made_small(page: Page, job: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(job.as_uri())
    assert scale(page) >= 1
    expect(page.locator(".kit-map")).to_be_visible()
    before = transform(page)
    page.locator(".kit-viewport").hover()
    page.mouse.down()
    page.mouse.move(60, 420, steps=4)
    page.mouse.up()
    assert transform(page) != before
    expect(page.locator(".kit-details")).to_be_hidden()
    page.get_by_role("button", name="fit").click()
    assert scale(page) < 1
    assert page.evaluate(WRONG) == []
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert page.evaluate(WRONG) == []


def test_the_wheel_zooms_with_control_and_leaves_the_page_its_own(opened: Page) -> None:
    before = scale(opened)
    opened.locator(".kit-viewport").hover()
    opened.mouse.wheel(0, -200)
    assert scale(opened) == before
    opened.keyboard.down("Control")
    opened.mouse.wheel(0, -200)
    opened.keyboard.up("Control")
    opened.wait_for_function(
        "(before) => !document.querySelector('.kit-world').getAttribute('transform').includes(`scale(${before})`)",
        arg=before,
    )
    assert scale(opened) > before


def test_the_task_that_acts_is_kept_in_view(page: Page, job: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(job.as_uri())
    for part in (0.3, 0.7, 1):
        at(page, part)
        box = page.locator(".kit-viewport .acting").first
        if box.count():
            view, acting = page.locator(".kit-viewport").bounding_box(), box.bounding_box()
            assert view is not None
            assert acting is not None
            assert acting["x"] >= view["x"] - 1
            assert acting["x"] + acting["width"] <= view["x"] + view["width"] + 1


def test_the_legend_has_what_is_on_the_picture_and_no_more(opened: Page) -> None:
    legend = opened.locator(".kit-legend")
    expect(legend).to_contain_text("barrier of checkpoint n")
    expect(legend).not_to_contain_text("recovered")
    opened.keyboard.press("Home")
    expect(legend).to_have_text("")


NAMELESS = """
() => [...document.querySelectorAll(".kit-player :is(button, input, select, [role=button], [tabindex])")]
  .filter((node) => !node.textContent.trim() && !node.getAttribute("aria-label"))
  .filter((node) => !node.closest("label")?.textContent.trim())
  .map((node) => node.outerHTML)
"""


def test_every_control_has_a_name(opened: Page) -> None:
    touch(opened, "t:count/0")
    assert opened.evaluate(NAMELESS) == []
    opened.keyboard.press("Escape")
    opened.keyboard.press("ArrowRight")
    expect(opened.locator(".kit-live")).not_to_have_text("")
