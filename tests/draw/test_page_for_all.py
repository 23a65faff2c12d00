"""An exported page on a phone, and for those who use it without eyes or without a mouse."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from kit.course.missions.mission_page import export_mission
from kit.course.missions.missions import MISSIONS
from tests.draw.accessible import barriers
from tests.draw.looks import THEMES, photograph


@pytest.fixture(scope="module")
def mission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a mission: the run, all its views, hints and code."""
    return Path(export_mission(MISSIONS["lost-checkpoint"], str(tmp_path_factory.mktemp("page") / "mission.html")))


@pytest.mark.parametrize("theme", THEMES)
def test_all_of_a_page_fits_a_phone_and_is_reached_without_a_mouse(mission: Path, page: Page, theme: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(mission.as_uri())
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    for fold in page.locator(".kit-mission summary").all():
        fold.click()
    for key in ("c", *["ArrowRight"] * 7):
        page.locator(".kit-player").press(key)
    page.locator('.kit-viewport [data-name^="t:"]').first.dispatch_event("click")
    found = {f"details: {each}" for each in barriers(page)}
    for tab in page.locator(".kit-tabs [role=tab]").all():
        tab.click()
        found |= {f"{tab.inner_text()}: {each}" for each in barriers(page, "[role=tabpanel]:not([hidden])")}
        photograph(page, "phone", theme, tab.inner_text(), full_page=True)
        if page.evaluate("document.documentElement.scrollWidth") > 390:
            found.add(f"{tab.inner_text()}: wider than the screen")
    assert found == set()
