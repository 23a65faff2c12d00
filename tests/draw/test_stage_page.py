"""The stage of an exported page in a browser: sizes, themes, camera, details."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from kit import CheckpointConfig, CollectionSource, CollectSink, StreamEnvironment
from kit.draw.page.page import export_html
from kit.draw.stage.facts import MOST_MISSING
from kit.hosts.lab import Lab, ready_job
from kit.stream.graph.slot_sharing import in_gangs
from kit.stream.operators.aggregates import sum_
from tests.draw.labs import lab_of
from tests.draw.looks import JOBS, KEEP_TEXTS, SETTLED, THEMES, WIDTHS, WRONG, picture_file, run_of_job
from tests.draw.script import story

HARDEST = ("30 stages, 60 subtasks", "200 subtasks")
"""The jobs that are hardest to draw."""
CELLS = [(name, width, theme) for name in JOBS for width in WIDTHS for theme in THEMES]
CHEAP = (("30 stages, 60 subtasks", 390, "dark"),)
"""Looked at in every run of the tests; the others in the longer run, and by `make looks`."""
Pages = Callable[[str], Path]

WRONG_HERE = f"() => ({WRONG})(document.body)"
"""What is wrong on the page as it is seen."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The page of a job, in the middle of a checkpoint; each is written once."""
    folder = tmp_path_factory.mktemp("jobs")

    @cache
    def page_of(name: str) -> Path:
        return export_html(run_of_job(name), folder / f"{len(name)}.html", name)

    return page_of


@pytest.fixture(params=HARDEST)
def job(request: pytest.FixtureRequest, pages: Pages) -> Path:
    """The page of one of the jobs that are hardest to draw."""
    return pages(request.param)


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


@pytest.mark.parametrize(
    ("name", "width", "theme", "views"),
    [
        *(pytest.param(*cell, slice(1), id=f"first view of {cell[0]}") for cell in CHEAP),
        *(pytest.param(*cell, slice(None), marks=pytest.mark.soak) for cell in CELLS),
    ],
)
def test_everything_can_be_read(
    pages: Pages, page: Page, name: str, width: int, theme: str, views: slice, tmp_path: Path
) -> None:
    page.add_init_script(KEEP_TEXTS)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(pages(name).as_uri())
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    page.evaluate(SETTLED)
    page.screenshot(path=picture_file(tmp_path, "page", name, width, theme, "first look"))
    found: list[str] = []
    for part in (0, 0.6, 1):
        at(page, part)
        page.evaluate(SETTLED)
        found += [f"at {part}: {each}" for each in page.evaluate(WRONG_HERE)]
    page.locator('.kit-viewport [data-name^="t:"]').first.dispatch_event("click")
    tabs = page.locator(".kit-tabs [role=tab]")
    for tab in tabs.all()[views]:
        tab.click()
        page.evaluate(SETTLED)
        title = tab.inner_text()
        found += [f"{title}: {each}" for each in page.evaluate(WRONG_HERE)]
        page.screenshot(path=picture_file(tmp_path, "page", name, width, theme, title), full_page=True)
    assert found == []
    assert page.evaluate(CONTRASTS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("html", "what"),
    [
        ('<p style="width: 4px; overflow-wrap: anywhere">148</p>', "a letter in a line: 148"),
        ('<p title="payments" style="width: 20px; overflow: hidden">payments</p>', "cut off without a sign of it"),
        ('<p style="width: 20px; overflow: hidden; text-overflow: ellipsis">payments</p>', "cut off: payments"),
        ("<canvas></canvas><script>draw(-10, '12px serif')</script>", "cut off: payments"),
        ("<canvas></canvas><script>draw(10, '7px serif')</script>", "7.0 px: payments"),
        ("<canvas></canvas><script>draw(10, '12px serif'); draw(20, '12px serif')</script>", "payments | payments"),
    ],
)
def test_the_measure_finds_what_is_wrong(page: Page, tmp_path: Path, html: str, what: str) -> None:
    page.add_init_script(KEEP_TEXTS)
    pen = "const canvas = document.querySelector('canvas').getContext('2d'); canvas.font = font;"
    draw = f"<script>function draw(x, font) {{ {pen} canvas.fillText('payments', x, 30); }}</script>"
    (tmp_path / "page.html").write_text(f"<!doctype html><body>{draw}{html}</body>", encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    (found,) = page.evaluate(WRONG_HERE)
    assert found.startswith(what)


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


def test_tasks_and_channels_are_reached_and_chosen_by_keyboard(opened: Page) -> None:
    details = opened.locator(".kit-details b").first
    for label, name in (("count/0", "count/0"), ("from source/0 to count/0", "source/0 → count/0")):
        item = opened.locator(".kit-viewport").get_by_role("button", name=label, exact=True)
        item.focus()
        assert opened.evaluate("document.activeElement.tabIndex") == 0
        for key in ("Enter", "Escape", "Space"):
            opened.keyboard.press(key)
            if key != "Escape":
                expect(details).to_have_text(name)
                item.focus()
    expect(opened.get_by_role("button", name="Play")).to_have_count(1)


def test_the_reason_of_an_abort_is_said_in_words(page: Page, tmp_path: Path) -> None:
    lab = Lab(ready_job("keyed-sum", rows=40, restart=3), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint()
    lab.run_until(record="CheckpointTriggered")
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    page.goto(export_html(lab, tmp_path / "lab.html").as_uri())
    page.keyboard.press("End")
    expect(page.locator(".kit-chip")).to_have_text("✗ 1: the job was restarted")


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


def test_only_tasks_that_take_part_are_still_to_come(page: Page, tmp_path: Path) -> None:
    env = StreamEnvironment("uneven", parallelism=4, checkpoint=CheckpointConfig(interval_ms=50))
    short, long = (
        env.from_source(CollectionSource([{"k": n % 8, "n": n} for n in range(rows)], batch_rows=1), uid=name)
        for name, rows in (("short", 4), ("long", 200))
    )
    short.union(long).key_by("k").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env, seed=1)
    lab.run_until(lambda lab: any(len(each.expected) == 8 for each in lab.moment().pending))
    (pending,) = lab.moment().pending
    assert not any(task.startswith("short") for task in pending.missing), "its tasks have finished"
    assert len(pending.missing) > MOST_MISSING
    page.goto(export_html(lab, tmp_path / "lab.html").as_uri())
    page.keyboard.press("End")
    page.locator(".kit-pendings .kit-flag").click()
    named = page.locator(".kit-details tbody tr td:first-child").all_inner_texts()
    assert named == [*pending.missing]
    lab.run_until(lambda lab: any(len(each.acked) == 8 for each in lab.moment().pending))
    page.goto("about:blank")
    page.goto(export_html(lab, tmp_path / "lab.html").as_uri())
    page.keyboard.press("End")
    page.locator(".kit-pendings .kit-flag").click()
    expect(page.locator(".kit-details")).to_contain_text("8 of 8")
    expect(page.locator(".kit-details")).not_to_contain_text("Still to come")


def test_a_task_is_on_the_worker_of_its_slot(page: Page, tmp_path: Path) -> None:
    env = StreamEnvironment("regions", chaining=False, failover="region")
    for name in ("one", "other"):
        env.from_source(CollectionSource([{"n": 1}]), uid=name).sink_to(CollectSink(name), uid=f"{name}-out")
    workers = {}
    for job in (env.job_graph(), in_gangs(env.job_graph())):
        lab = Lab(job)
        lab.run()
        page.goto(export_html(lab, tmp_path / "lab.html").as_uri())
        page.keyboard.press("End")
        for task in ("one/0", "other/0"):
            touch(page, f"t:{task}")
            facts = page.locator(".kit-details dl").first
            workers[len(lab.look.stages[-1].slots), task] = facts.locator("dt:text-is('worker') + dd").inner_text()
    everywhere, in_region = (
        "with the same subtask of every other vertex",
        "with the same subtask of its region's other vertices",
    )
    assert workers == {
        (0, "one/0"): f"0, {everywhere}",
        (0, "other/0"): f"0, {everywhere}",
        (2, "one/0"): f"0, {in_region}",
        (2, "other/0"): f"1, {in_region}",
    }


def test_a_page_counts_the_steps_of_its_lab(page: Page, tmp_path: Path) -> None:
    lab = lab_of(seed=1)
    lab.run_until(checkpoint=1)
    page.goto(export_html(lab, tmp_path / "lab.html").as_uri())
    page.keyboard.press("End")
    expect(page.locator(".kit-count")).to_contain_text(f"step {lab.position} of {lab.position}, ")


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
    assert page.evaluate(WRONG_HERE) == []
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert page.evaluate(WRONG_HERE) == []


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
    expect(opened.locator(".kit-announcer")).not_to_have_text("")
