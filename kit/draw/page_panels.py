"""The panels of an exported page: below the stage one for each view and each table, of which one is seen.

A view is drawn beforehand, at the milestones of the run: when a checkpoint begins or ends, at failures and restores, at
the end. The page shows the one that is nearest before its cursor. How many milestones there are, and how much all their
pictures weigh, is bounded; what follows nothing is drawn once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from kit.draw.view import Subject, View

MOST_MILESTONES = 10
MOST_BYTES = 1_500_000
"""The pictures of one view weigh no more than this together; the last one is always there."""

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PagePanel:
    """One panel: `pieces` are HTML, each with the number of records from which on it holds."""

    name: str
    title: str
    pieces: tuple[tuple[int, str], ...]
    lead: str = ""


def milestones(film: Mapping[str, Any]) -> list[int]:
    """The numbers of records at which something turned in a film, the last frame's too; not too many."""
    frames = film["frames"]
    found = sorted({frame["n"] for frame in frames if frame.get("mark")} | {frames[-1]["n"]})
    if len(found) <= MOST_MILESTONES:
        return found
    gaps = MOST_MILESTONES - 1
    return sorted({found[number * (len(found) - 1) // gaps] for number in range(gaps + 1)})


def view_panel(view: View, thing: Any, at: Sequence[int]) -> PagePanel:
    """The view at these numbers of records."""
    drawn = [(n, _drawn(view, thing, n)) for n in (at if view.follows else at[-1:])]
    pieces = [drawn[0], *((n, html) for (_, before), (n, html) in pairwise(drawn) if html != before)]
    while len(pieces) > 1 and sum(len(html) for _, html in pieces) > MOST_BYTES:
        pieces = [*pieces[:-1:2], pieces[-1]] if len(pieces) > 2 else pieces[-1:]
    first = (0, pieces[0][1])
    return PagePanel(view.name, view.title, (first, *pieces[1:]), view.question)


def _drawn(view: View, thing: Any, n: int) -> str:
    return view.draw(Subject(thing, n))._repr_html_()


def panels_html(panels: Sequence[PagePanel], styles: set[str]) -> str:
    """The tabs and the panels; style sheets that pictures bring with them go into `styles`, each once."""
    tabs = "".join(_tab(panel) for panel in panels)
    return (
        f'<div class="kit-tabs" role="tablist" aria-label="Look closer">{tabs}</div>'
        f"{''.join(_panel(panel, styles) for panel in panels)}"
    )


def _tab(panel: PagePanel) -> str:
    return (
        f'<button type="button" role="tab" id="tab-{panel.name}" aria-controls="panel-{panel.name}" '
        f'aria-selected="false" title="{escape(panel.lead or panel.title)}">{escape(panel.title)}</button>'
    )


def _panel(panel: PagePanel, styles: set[str]) -> str:
    lead = f'<p class="kit-question">{escape(panel.lead)}</p>' if panel.lead else ""
    pieces = "".join(f'<template data-n="{n}">{html}</template>' for n, html in _without_styles(panel.pieces, styles))
    return (
        f'<section role="tabpanel" id="panel-{panel.name}" aria-labelledby="tab-{panel.name}" hidden>{lead}'
        f'<div class="kit-piece"></div>{pieces}</section>'
    )


def _without_styles(pieces: Iterable[tuple[int, str]], styles: set[str]) -> Iterator[tuple[int, str]]:
    for n, html in pieces:
        styles.update(_STYLE.findall(html))
        yield n, _STYLE.sub("", html)
