"""Pages of the exported kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page


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
