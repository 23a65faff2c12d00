"""The text alternative of each static picture: it describes the picture, and does not only repeat its title."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

from kit import draw
from kit.hosts.lab import Lab
from tests.draw.labs import lab_of

PICTURES: dict[str, Callable[[Lab], Any]] = {
    "stage": draw.moment_svg,
    "chart": draw.gantt,
    "charts over time": draw.over_time,
    "graphviz object": lambda lab: draw.barriers(lab).dot(),
    "redistribution": lambda lab: draw.rescaling(lab).dot(),
}


@pytest.fixture(scope="module")
def lab() -> Lab:
    made = lab_of(1, rows=40)
    made.run_until(checkpoint=1)
    made.faults.kill(0)
    made.run_until(record="StateAssigned")
    return made


def forms(picture: Any) -> list[str]:
    """Both forms of a picture as a notebook has them."""
    if hasattr(picture, "_repr_mimebundle_"):
        bundle = picture._repr_mimebundle_()
        return [bundle["image/svg+xml"], bundle["text/html"]]
    return [picture._repr_svg_(), picture._repr_html_()]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_says_what_it_shows(name: str, lab: Lab) -> None:
    for form in forms(PICTURES[name](lab)):
        (head,) = re.findall(r"<svg[^>]*>", form)
        (told,) = re.findall(r'role="img" aria-label="([^"]*)"', head)
        assert len(unescape(told).split()) > 4, told


def test_the_stage_says_how_the_job_is(lab: Lab) -> None:
    told = re.findall(r'aria-label="([^"]*)"', str(draw.moment_svg(lab)))[0]
    assert "subtasks of letters with 2, totals with 2" in told
    assert "checkpoint 1 completed" in told
    assert re.search(r"The job at 1,1\d\d ms", told)
