"""The views as a browser lays them out: nothing overlaps, is cut off or too small, on a phone and on a wall, by day and
by night.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from kit.draw.views.barriers import barriers
from kit.draw.views.chains import chains
from kit.draw.views.checkpoint_life import checkpoint_life
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from tests.draw.labs import lab_of, letters
from tests.draw.test_barriers import played

WIDTHS = (390, 880, 2560)
MEASURE = """() => {
  const wrong = [];
  const shown = (e) => e.getClientRects().length > 0;
  if (document.documentElement.scrollWidth > window.innerWidth) wrong.push("the page is wider than the window");
  const colour = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const linear = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const bright = (c) => { const [r, g, b] = c.map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => {
    const both = [bright(a), bright(b)];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  };
  for (const e of document.querySelectorAll(".kit-view *")) {
    if (!shown(e) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    if (["STYLE", "title"].includes(e.tagName)) continue;
    const size = parseFloat(getComputedStyle(e).fontSize);
    if (size < 10) wrong.push(`${size} px: ${e.textContent}`);
  }
  for (const svg of document.querySelectorAll(".kit-view svg")) {
    if (!shown(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((e) => [e, e.getBoundingClientRect()]);
    for (const [e, box] of texts) {
      if (box.left < frame.left - 1 || box.right > frame.right + 1) wrong.push(`outside: ${e.textContent}`);
      const rect = e.parentNode.querySelector(":scope > rect");
      if (!rect || !e.parentNode.classList.contains("g-node")) continue;
      const around = rect.getBoundingClientRect();
      if (box.left < around.left || box.right > around.right) wrong.push(`wider than its box: ${e.textContent}`);
      const seen = contrast(colour(getComputedStyle(e).fill), colour(getComputedStyle(rect).fill));
      if (seen < 4.5) wrong.push(`contrast ${seen.toFixed(1)}: ${e.textContent}`);
    }
    texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
      const meet = p.left + 1 < q.right && q.left + 1 < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom;
      if (meet) wrong.push(`${a.textContent} | ${b.textContent}`);
    }));
  }
  if (innerWidth >= 880) {
    for (const box of document.querySelectorAll(".kit-scroll, .kit-graph")) {
      if (box.scrollWidth > box.clientWidth + 1) wrong.push(`scrolls: ${box.textContent.slice(0, 60)}`);
    }
  }
  return wrong;
}"""


def drawn() -> dict[str, Any]:
    """Small and large jobs, each view at a moment that has something to say."""
    large = lab_of(1, rows=400, parallelism=50)
    large.run_until(record="CheckpointTriggered")
    for _ in range(300):
        large.step()
    aligning: Lab = played("alignment", 2)
    return {
        "chains": chains(letters()),
        "chains of two inputs": chains(ready_job("two-inputs")),
        "chains, large": chains(large),
        "barriers": barriers(aligning),
        "barriers, large": barriers(large),
        "life": checkpoint_life(aligning),
        "life, large": checkpoint_life(large),
        "life, aborted": checkpoint_life(played("late-ack", 2)),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one page, everything open."""
    views = "".join(view._repr_html_() for view in drawn().values()).replace("<details>", "<details open>")
    target = tmp_path_factory.mktemp("views") / "views.html"
    target.write_text(f'<!doctype html><meta charset="utf-8"><body>{views}</body>', encoding="utf-8")
    return target


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_views_are_readable_at_every_width(page: Page, path: Path, theme: str) -> None:
    page.goto(path.as_uri())
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1000})
        found[width] = page.evaluate(MEASURE)
    assert found == {width: [] for width in WIDTHS}


def test_the_measure_finds_what_is_wrong(page: Page, tmp_path: Path) -> None:
    view = barriers(played("alignment", 2))._repr_html_()
    small = view.replace("font: 11px var(--kit-font)", "font: 9px var(--kit-font)").replace("right/0", "left/0" * 12)
    target = tmp_path / "views.html"
    target.write_text(f'<!doctype html><meta charset="utf-8"><body>{small}</body>', encoding="utf-8")
    page.goto(target.as_uri())
    found = page.evaluate(MEASURE)
    assert any(each.startswith("9 px") for each in found)
    assert any(each.startswith("wider than its box") for each in found)
    assert any(" | " in each for each in found)
