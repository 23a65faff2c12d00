"""The browser of a checkpoint with a kernel: its answers, and its display."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

import kit
from kit.draw.page.checkpoint_page import export_checkpoint
from tests.draw.test_checkpoint_browser import HOSTILE, rows, seen
from tests.snapshots.written import lists, longs
from widgets.pictures.checkpoint_browser import CheckpointBrowser

MODEL = """
window.said = [];
const model = {
  get: () => JSON.parse(document.getElementById("state").textContent),
  send: (content) => window.said.push(content),
  on: (name, act) => { window.tell = act; },
  off: () => {},
};
browser.render({ model, el: document.getElementById("place") });
"""


@pytest.fixture
def sums(tmp_path: Path) -> CheckpointBrowser:
    shown = kit.show(kit.open_checkpoint(longs(tmp_path / "sums", np.arange(3_000))))
    assert isinstance(shown, CheckpointBrowser)
    return shown


def test_a_search_goes_over_the_whole_state(sums: CheckpointBrowser) -> None:
    asked = {"ask": "values", "operator": "sums", "state": "total", "query": "2999"}
    found, html = [], ""
    while True:
        html = sums.answer(asked)
        found += [row for row in rows(html) if row]
        more = re.search(r'data-at="([^"]*)">More', html)
        if more is None:
            break
        asked["at"] = more[1]
    assert [row[1:] for row in found] == [["2999", "-2999"]]


def test_pages_go_on_and_back(sums: CheckpointBrowser) -> None:
    asked = {"ask": "values", "operator": "sums", "state": "total"}
    first = sums.answer(asked)
    assert "Back" not in first
    (more,) = re.findall(r'data-at="([^"]*)">More', first)
    second = sums.answer({**asked, "at": more})
    assert rows(second) != rows(first)
    (back,) = re.findall(r'data-at="([^"]*)">Back', second)
    assert sums.answer({**asked, "at": back}) == first
    only = rows(sums.answer({**asked, "key_groups": "3, 5-6"}))
    assert {"3"} < {row[0] for row in only if row} <= {"3", "5", "6"}


def test_a_key_is_found_with_one_request(sums: CheckpointBrowser) -> None:
    asked = {"ask": "values", "operator": "sums", "state": "total", "key": " 2999 "}
    html = sums.answer(asked)
    assert [row[1:] for row in rows(html) if row] == [["2999", "-2999"]]
    assert "More" not in html
    assert [row for row in rows(sums.answer({**asked, "key": "3000"})) if row] == []


def test_it_checks_compares_and_accounts(sums: CheckpointBrowser, tmp_path: Path) -> None:
    check = sums.checkpoint.check(sums.checkpoint, 4, max_parallelism=64)
    assert check.verdict in seen(sums.answer({"ask": "check", "parallelism": "4", "max_parallelism": "64"}))
    other = longs(tmp_path / "other", np.arange(1, 3_001))
    assert "1 added, 1 removed, 0 changed" in seen(sums.answer({"ask": "diff", "path": str(other)}))
    assert re.search("sums total .*3,?000", seen(sums.answer({"ask": "storage"})))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"ask": "diff", "path": ""}, "the path of the other checkpoint is missing"),
        ({"ask": "diff", "path": "/nowhere"}, "'/nowhere'"),
        ({"ask": "check", "parallelism": "0"}, "0"),
        ({"ask": "values", "operator": "sums", "state": "total", "key_groups": "x-3"}, "'x-3' is no key group"),
        ({"ask": "values", "operator": "sums", "state": "total", "key": "<b>"}, "'<b>' is no key of type Long"),
        ({"ask": "values", "operator": "<b>", "state": "total"}, "there is no operator '<b>'; there are sums"),
        ({"ask": "values", "operator": "sums", "state": "total", "at": "-4.x"}, "-4.x"),
        ({"ask": "everything"}, "'everything' cannot be asked"),
    ],
)
def test_a_wrong_request_is_answered_with_a_sentence(sums: CheckpointBrowser, asked: dict[str, str], says: str) -> None:
    html = sums.answer(asked)
    assert says in seen(html)
    assert html.startswith('<p class="b-problem" role="alert">')
    assert html.count("<p") == 1


def test_a_closed_notebook_keeps_the_page(sums: CheckpointBrowser, tmp_path: Path) -> None:
    bundle = sums._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "kit-browser" in data["text/html"]
    assert 'data-ask="check"' not in data["text/html"]
    assert sums.export(tmp_path / "page.html").read_text(encoding="utf-8").count("kit-browser") > 1


def test_a_person_searches_with_and_without_a_kernel(browser: Browser, tmp_path: Path) -> None:
    checkpoint = kit.open_checkpoint(
        lists(
            tmp_path, {(HOSTILE, "first"): [b"%d" % each for each in range(60)], ("second", HOSTILE): [b"one", b"two"]}
        )
    )
    live = CheckpointBrowser(checkpoint)
    script = (live._esm if isinstance(live._esm, str) else str(live._esm)).replace(
        "export default ", "const browser = "
    )
    data = json.dumps(live.page).replace("</", "<\\/")
    with browser.new_page() as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a name was run: {dialog.message}"))
        page.set_content(
            f'<div id="place"></div><script type="application/json" id="state">{data}</script>'
            f'<script type="module">{script}{MODEL}</script>'
        )
        tabs = page.get_by_role("tablist", name="Operators").get_by_role("tab")
        expect(tabs).to_have_count(2)
        page.get_by_role("searchbox").first.fill(b"59".hex())
        page.wait_for_function("window.said.length > 0")
        asked = page.evaluate("window.said.pop()")
        assert "35" + "39" in live.answer(asked)
        page.evaluate("(told) => window.tell(told)", {"place": asked["place"], "html": live.answer(asked)})
        expect(page.locator("section:not([hidden]) .b-answer tbody tr").first).to_contain_text("3539")
        tabs.first.press("ArrowDown")
        expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
        page.goto(export_checkpoint(checkpoint, tmp_path / "page.html").as_uri())
        page.get_by_role("searchbox").first.fill(b"19".hex())
        expect(page.locator("section:not([hidden]) .b-answer tbody tr:visible")).to_have_count(1)
        expect(page.locator(".b-found").first).to_contain_text("1 of the 20 rows")
