"""The pages on which a scenario is stepped through."""

from __future__ import annotations

from kit.draw.page.page import page_html
from kit.hosts.lab.scenarios.scenario import Scenario


def scenario_pages(scenario: Scenario) -> list[str]:
    """Return a page of HTML for each run of a scenario that has been run to its end."""
    return [page_html(run, scenario.text.title, intro=scenario.text.question) for run in scenario.runs]
