"""axe-core on a page: it finds what a screen reader or a keyboard cannot use, and texts with too little contrast."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from playwright.sync_api import Page

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
"""The rules that are checked, by axe's tags: all for WCAG 2.2, levels A and AA. Rules of taste are left out."""
ALSO = ("label-title-only",)
"""Other rules: a tooltip does not name a field, because it is not seen."""

RUN = """
async ([part, tags, also]) => {
  const rules = Object.fromEntries(also.map((rule) => [rule, { enabled: true }]));
  const options = { resultTypes: ["violations"], runOnly: { type: "tag", values: tags }, rules };
  const { violations } = await axe.run(part ?? document, options);
  const told = (text, most) => text.replace(/\\s+/g, " ").slice(0, most);
  return violations.flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html, target, failureSummary }) =>
    `${id}, one of ${nodes.length}: ${target.join(" ")}: ${told(html, 160)} (${told(failureSummary, 240)})`));
}
"""


@cache
def _axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def barriers(page: Page, part: str | None = None) -> list[str]:
    """Return axe's violations in a part of the page, given by its selector, or in all of it."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_axe())
    found: list[str] = page.evaluate(RUN, [part, RULES, ALSO])
    return found
