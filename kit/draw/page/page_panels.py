"""The panels of an exported page: below the stage one for each view and each table, of which one is seen.

A view is drawn beforehand, at the milestones of the run: at its beginning, when a checkpoint begins or ends, at
failures and restores, at the end. The page shows the one that is nearest before its cursor, never one that comes after
it, and says of which time it is. How many milestones there are, and how much all their pictures weigh, is bounded; what
follows nothing is drawn once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from kit.draw.views.view import View
from kit.run.durations import duration
from kit.run.subject import Subject

MOST_MILESTONES = 10
MOST_BYTES = 1_500_000
"""The pictures of one view weigh no more than this together; the first and the last are always there."""

FEWEST = 2

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """A picture, and from which number of records on it holds. `told` says of which time it is; "" for any."""

    n: int
    html: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class PagePanel:
    """One panel: its pieces in order, the first of them from the run's beginning on."""

    name: str
    title: str
    pieces: tuple[Piece, ...]
    lead: str = ""


def milestones(film: Mapping[str, Any], at: int = 0) -> dict[int, int]:
    """The numbers of records at which something turned in a film, not too many, and the times; the first frame, the
    last and the one that is shown after `at` records are among them.
    """
    frames = film["frames"]
    turns = [frames[0], *(frame for frame in frames if frame.get("mark")), frames[-1]]
    found = sorted({frame["n"]: frame["at"] for frame in turns}.items())
    if len(found) > MOST_MILESTONES:
        gaps = MOST_MILESTONES - 1
        found = [found[number * (len(found) - 1) // gaps] for number in range(gaps + 1)]
    opens = [(frame["n"], frame["at"]) for frame in frames if frame["n"] <= at][-1:]
    return dict(sorted({*found, *opens}))


def view_panel(view: View, subjects: Mapping[int, Subject], at: Mapping[int, int]) -> PagePanel:
    """The view of a run after so many records as these subjects are of, whose times are given."""
    if not view.follows:
        return PagePanel(view.name, view.title, (Piece(0, _drawn(view, subjects[max(at)])),), view.question)
    drawn = [Piece(n, _drawn(view, subjects[n]), f"as it stood at {duration(at_ms)}") for n, at_ms in at.items()]
    pieces = [drawn[0], *(piece for before, piece in pairwise(drawn) if piece.html != before.html)]
    while len(pieces) > FEWEST and sum(len(piece.html) for piece in pieces) > MOST_BYTES:
        pieces = [*pieces[:-1:2], pieces[-1]] if len(pieces) > FEWEST + 1 else [pieces[0], pieces[-1]]
    return PagePanel(view.name, view.title, tuple(pieces), view.question)


def _drawn(view: View, subject: Subject) -> str:
    return view.draw(subject)._repr_html_()


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
    pieces = "".join(_template(piece, styles) for piece in panel.pieces)
    return (
        f'<section role="tabpanel" id="panel-{panel.name}" aria-labelledby="tab-{panel.name}" hidden>{lead}'
        f'<div class="kit-piece"></div>{pieces}</section>'
    )


def _template(piece: Piece, styles: set[str]) -> str:
    styles.update(_STYLE.findall(piece.html))
    told = f'<p class="kit-as-of">{escape(piece.told)}</p>' if piece.told else ""
    return f'<template data-n="{piece.n}">{told}{_STYLE.sub("", piece.html)}</template>'
