"""Pages of the site, one of each kind, as a phone and a screen reader get them, in both themes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scripts.site import api, course, notebooks, pages
from scripts.site.__main__ import WRITTEN, Site, static_files
from scripts.site.api import ROOT
from tests.draw.accessible import barriers
from tests.draw.looks import THEMES, photograph

NARROW = {"width": 390, "height": 844}
CHAPTER = "02-barriers-and-alignment"
SOURCES: dict[str, Callable[[], str]] = {
    "index.md": (WRITTEN / "index.md").read_text,
    "notebooks/index.md": lambda: course.index(sorted((ROOT / "notebooks").glob("*.ipynb"))),
    "scenarios/index.md": lambda: pages.gallery(dict(pages.documents())["scenarios/index"], has_pictures=False),
    "scenarios/late-ack.md": lambda: dict(pages.scenarios_as_stored())["late-ack"],
    "api/kit.core.arguments.md": lambda: api.page("kit.core.arguments"),
    "reference/terms.md": lambda: dict(pages.documents())["reference/terms"],
    "reference/glossary.md": lambda: dict(pages.documents())["reference/glossary"],
    "guide/settings.md": pages.settings,
    f"notebooks/{CHAPTER}.ipynb": lambda: notebooks.as_shown(ROOT / "notebooks" / f"{CHAPTER}.ipynb"),
}
"""Pages of each kind, and what makes them; the small ones first."""
SMALL = tuple(SOURCES)[:5]
TOO_WIDE = """
() => [...document.querySelectorAll("body *")]
  .filter((node) => node.getBoundingClientRect().right > innerWidth + 1 && node.checkVisibility())
  .filter((node) => {
    for (let at = node.parentElement; at; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible" || getComputedStyle(at).position === "fixed") return false;
    }
    return getComputedStyle(node).position !== "fixed";
  })
  .map((node) => node.outerHTML.slice(0, 160))
"""
"""What makes a page wider than the screen: its parts that reach beyond it, outside of everything that scrolls."""


def site_of(folder: Path, names: Iterable[str]) -> Path:
    """Build these pages, and nothing else, with the site's own theme. Returns the folder of the HTML."""
    source = folder / "source"
    shutil.copytree(WRITTEN / "_static", source / "_static")
    for name in ("conf.py", "scorer.js"):
        shutil.copyfile(WRITTEN / name, source / name)
    for picture in (ROOT / "docs").glob("explorer-*.png"):
        shutil.copyfile(picture, source / picture.name)
    for name, text in (static_files() | {name: SOURCES[name]() for name in names}).items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    made = Site(folder, is_quick=False)
    made.build()
    return made.html


@pytest.mark.filterwarnings("ignore")  # of Sphinx's extensions among each other
@pytest.mark.parametrize("names", [SMALL, pytest.param(tuple(SOURCES), marks=pytest.mark.soak)], ids=["small", "all"])
def test_pages_fit_a_phone_and_a_screen_reader(browser: Browser, names: tuple[str, ...], tmp_path: Path) -> None:
    html, found = site_of(tmp_path, names), []
    page = browser.new_page(viewport=NARROW)
    for name in (each.rpartition(".")[0] for each in names):
        page.goto((html / f"{name}.html").as_uri())
        for look in THEMES:
            page.evaluate("(theme) => { document.body.dataset.theme = theme; }", look)
            photograph(page, "site", name, look, full_page=True)
            found += [f"{name}, {look}: {each}" for each in barriers(page)]
        found += [f"{name}, wider than the screen: {each}" for each in page.evaluate(TOO_WIDE)]
        if page.evaluate("document.documentElement.scrollWidth") > NARROW["width"]:
            found.append(f"{name} is wider than the screen")
    page.close()
    assert found == []
