"""The pages on which a play is stepped through."""

from __future__ import annotations

from kit.draw.page.page import page_html
from kit.hosts.lab.scenarios.play import Play


def play_pages(play: Play) -> list[str]:
    """Return a page of HTML for each run of a play that has been played to its end."""
    return [page_html(run, play.text.title, intro=play.text.question) for run in play.runs]
