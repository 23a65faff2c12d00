"""Widgets whose module comes late: a place that is asked twice shows a model once."""

from __future__ import annotations

from playwright.sync_api import Browser

from widgets.base.listening import listening

MODULE = """
const render = ({ el }) => {
  el.append(document.createElement("p"));
  return () => { window.ended = (window.ended ?? 0) + 1; };
};
export default { render };
"""


def test_a_place_shows_a_model_once(browser: Browser) -> None:
    script = listening(MODULE).replace("export default ", "const made = ")
    show = "await made.render({ el: document.body }); await made.render({ el: document.body });"
    page = browser.new_page()
    found = page.evaluate(
        f"async () => {{ {script} {show} return [document.querySelectorAll('p').length, window.ended]; }}"
    )
    page.close()
    assert found == [1, 1]
