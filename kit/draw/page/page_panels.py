"""The panels of an exported page: tabs below the stage, one for each view and each table.

A view is drawn in advance, at the milestones of the run: its beginning and end, the beginning and end of each
checkpoint, failures and restores. The page shows the last picture before its cursor, never a later one, and gives its
time. The number of milestones and the size of their pictures are bounded.
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
"""The largest total size of the pictures of one view; the first and the last are always included."""

FEWEST = 2
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """A picture, the number of records from which it is valid, and its time in words (`as_of`)."""

    n: int
    html: str
    as_of: str


@dataclass(frozen=True, slots=True)
class PagePanel:
    """One panel: its question, and its pieces in order, the first valid from the beginning of the run."""

    name: str
    title: str
    question: str
    pieces: tuple[Piece, ...] = ()


def milestones(film: Mapping[str, Any], at: int) -> dict[int, int]:
    """Return the milestones of a film, a bounded number of them: by number of records, the time.

    They include the first frame, the last, and the one shown after `at` records.
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
    """Draw the view for each of these subjects, keyed by number of records; `at` gives their times."""
    drawn = [
        Piece(n, view.draw(subjects[n])._repr_html_(), f"as it stood at {duration(at_ms)}") for n, at_ms in at.items()
    ]
    pieces = [drawn[0], *(piece for before, piece in pairwise(drawn) if piece.html != before.html)]
    while len(pieces) > FEWEST and sum(len(piece.html) for piece in pieces) > MOST_BYTES:
        pieces = [*pieces[:-1:2], pieces[-1]] if len(pieces) > FEWEST + 1 else [pieces[0], pieces[-1]]
    return PagePanel(view.name, view.title, view.question, tuple(pieces))


def panels_html(panels: Sequence[PagePanel], styles: set[str]) -> str:
    """Return the tabs and the panels. The style sheets of pictures are moved into `styles`, each once."""
    tabs = "".join(_tab(panel) for panel in panels)
    return (
        f'<div class="kit-tabs" role="tablist" aria-label="Look closer">{tabs}</div>'
        f"{''.join(_panel(panel, styles) for panel in panels)}"
    )


def _tab(panel: PagePanel) -> str:
    return (
        f'<button type="button" role="tab" id="tab-{panel.name}" aria-controls="panel-{panel.name}" '
        f'aria-selected="false" title="{escape(panel.question)}">{escape(panel.title)}</button>'
    )


def _panel(panel: PagePanel, styles: set[str]) -> str:
    pieces = ""
    for piece in panel.pieces:
        styles.update(_STYLE.findall(piece.html))
        as_of = f'<p class="kit-as-of">{escape(piece.as_of)}</p>'
        pieces += f'<template data-n="{piece.n}">{as_of}{_STYLE.sub("", piece.html)}</template>'
    return (
        f'<section role="tabpanel" id="panel-{panel.name}" aria-labelledby="tab-{panel.name}" hidden>'
        f'<p class="kit-question">{escape(panel.question)}</p><div class="kit-piece"></div>{pieces}</section>'
    )
