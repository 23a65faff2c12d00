"""The views of state and files in a browser: no texts over each other, none cut off, none too small, at three sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from kit.draw import at_risk, rescale_plan, rescaling, shared_state, snapshot_contents
from kit.hosts.lab import Lab
from kit.hosts.lab.jobs.ready_jobs import ready_job
from tests.draw.labs import letters
from tests.flink_data import checkpoint_versions, checkpoints, value_cases, values

LEAST_PX = 10
MEASURE = """
() => {
  const wrong = [];
  for (const svg of document.querySelectorAll(".kit-panel svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text, text.getBoundingClientRect()]);
    const scale = frame.width / svg.viewBox.baseVal.width;
    for (const [text, box] of boxes) {
      const said = text.textContent;
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < LEAST) wrong.push(`${said}: ${size.toFixed(1)} px`);
      const out = [frame.left - box.left, box.right - frame.right, box.bottom - frame.bottom];
      if (Math.max(...out) > 1) wrong.push(`${said}: cut off`);
    }
    boxes.sort((one, other) => one[1].top - other[1].top);
    boxes.forEach(([text, box], place) => {
      for (const [other, its] of boxes.slice(place + 1)) {
        if (its.top > box.bottom - 3) break;
        const over = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        if (over > 1.5) wrong.push(`"${text.textContent}" and "${other.textContent}" overlap`);
      }
    });
  }
  if (innerWidth >= 880) {
    for (const box of document.querySelectorAll(".kit-scroll, .kit-graph")) {
      if (box.scrollWidth > box.clientWidth + 1) wrong.push(`scrolls: ${box.textContent.slice(0, 60)}`);
    }
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) wrong.push("the page is wider than the window");
  return wrong;
}
"""


def _run(before: int, after: int) -> Lab:
    """A job that was rescaled, in the middle of its run."""
    settings: dict[str, Any] = {"interval_ms": 20, "rows": 60, "memory_threshold_bytes": 0, "unaligned": True}
    lab = Lab(ready_job("keyed-sum", parallelism=before, max_parallelism=128, **settings), seed=1)
    lab.run_until(checkpoint=2)
    path = lab.checkpoints().path[0]
    job = ready_job("keyed-sum", parallelism=after, max_parallelism=128, **settings)
    other = Lab(job, seed=1, restore_path=path, after=lab)
    other.run_until(checkpoint=3)
    return other


def _wide() -> Lab:
    lab = Lab(letters(rows=120, parallelism=8, memory_threshold_bytes=0), seed=1)
    lab.run_until(checkpoint=1)
    other = Lab(letters(rows=120, parallelism=32), seed=1, restore_path=lab.checkpoints().path[0], after=lab)
    other.run_until(record="AllTasksRunning")
    return other


NEWEST_VALUES = next(
    values(version) / case for version, case in reversed(value_cases()) if case == "savepoint-canonical"
)
NEWEST_INCREMENTAL = checkpoints(checkpoint_versions()[-1]) / "rocksdb-incremental"
VIEWS: dict[str, Callable[[Lab, Lab], Any]] = {
    "snapshot": lambda lab, wide: snapshot_contents(lab),
    "snapshot under way": lambda lab, wide: snapshot_contents(lab, n=len(lab.trace) * 2 // 3),
    "Flink's snapshot": lambda lab, wide: snapshot_contents(NEWEST_VALUES),
    "at risk": lambda lab, wide: at_risk(lab),
    "64 tasks at risk": lambda lab, wide: at_risk(wide),
    "redistribution": lambda lab, wide: rescaling(lab, key="c"),
    "redistribution to 32": lambda lab, wide: rescaling(wide, key="b"),
    "files": lambda lab, wide: shared_state(NEWEST_INCREMENTAL),
    "plan": lambda lab, wide: rescale_plan([f"carrier-{n}" for n in range(300)], 6, 8, before=4),
    "plan for 200": lambda lab, wide: rescale_plan(range(3000), 200, 1000),
}


@pytest.fixture(scope="module")
def runs() -> tuple[Lab, Lab]:
    return _run(2, 3), _wide()


def test_views_are_readable_at_every_size(page: Page, runs: tuple[Lab, Lab]) -> None:
    wrong: dict[tuple[str, int], list[str]] = {}
    for name, draw in VIEWS.items():
        html = draw(*runs)._repr_html_()
        for width in (390, 880, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            page.set_content(f'<body style="margin: 8px">{html}</body>')
            found = page.evaluate(MEASURE.replace("LEAST", str(LEAST_PX)))
            if found:
                wrong[name, width] = found[:6]
    assert wrong == {}


def test_the_measure_finds_what_is_wrong(page: Page) -> None:
    text = '<text x="{}" y="20" style="font-size: {}px">letters</text>'
    for inside, what in (
        (text.format(0, 12) + text.format(10, 12), "overlap"),
        (text.format(180, 12), "cut off"),
        (text.format(0, 7), "7.0 px"),
    ):
        svg = f'<svg viewBox="0 0 200 40" width="200">{inside}</svg>'
        page.set_content(f'<div class="kit-panel">{svg}</div>')
        assert any(what in each for each in page.evaluate(MEASURE.replace("LEAST", str(LEAST_PX))))
