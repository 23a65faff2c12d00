"""A browser, started once for all tests that look at pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.house.files import ROOT

SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium."""
    path = shutil.which("chromium") or str(ROOT / ".venv" / "bin" / "chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=SWITCHES.split())
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page that is not allowed to make an error or a request."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(request.url))
    yield page
    page.close()
    assert wrong == []
