"""The figures of ideas: few kinds of elements, texts that fit and do not touch, alt text, and facts from the tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from xml.etree import ElementTree

import pytest

from kit.core.state.key_groups import operator_index_for_key_group
from kit.draw.graphs import text_width
from kit.draw.ideas import ideas
from kit.draw.picture import Svg
from tests.words import words

FIGURES = [getattr(ideas, name) for name in ideas.__all__]
SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"small": 11.0, "head": 15.0}


def boxes(svg: str) -> list[tuple[float, float, float, str]]:
    """The left and right edge and the baseline of each text, with its words; bold texts count as bold."""
    found = []
    for node in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        look, text = node.get("class", ""), node.text or ""
        width = text_width(text, SIZES.get(look, 13.0), bold=look not in ("", "quiet", "small")) * 0.92
        shift = {"middle": 0.5, "end": 1.0}.get(node.get("text-anchor", ""), 0.0)
        left = float(node.get("x", 0)) - shift * width
        found.append((left, left + width, float(node.get("y", 0)), text))
    return found


@pytest.mark.parametrize("figure", FIGURES, ids=lambda each: each.__name__)
def test_texts_are_within_the_picture_and_apart(figure: Callable[[], Svg]) -> None:
    found = boxes(str(figure()))
    assert found
    for left, right, _, text in found:
        assert 0 <= left < right <= ideas.WIDTH, text
    for one, two in combinations(found, 2):
        apart = abs(one[2] - two[2]) >= 12 or one[1] <= two[0] or two[1] <= one[0]
        assert apart, f"{one[3]!r} touches {two[3]!r}"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda each: each.__name__)
def test_a_figure_says_what_it_shows(figure: Callable[[], Svg]) -> None:
    drawn = figure()
    assert len(drawn.caption.split()) > 10
    assert words(str(drawn))[0] == drawn.caption
    assert "var(--kit-paper)" in drawn._repr_html_()
    assert not re.search(r'(?:fill|stroke)="#(?!ffffff)', str(drawn)), "a colour outside the theme"


def test_the_groups_that_move_are_those_of_the_code() -> None:
    moved = sum(operator_index_for_key_group(16, 4, n) != operator_index_for_key_group(16, 5, n) for n in range(16))
    drawn = ideas.key_groups(4, 5, 16)
    assert f"{moved} of them change" in drawn.caption
    assert str(drawn).count('class="moved"') == 2 * moved
    with pytest.raises(ValueError, match="parallelism"):
        ideas.key_groups(4, 20, 16)


def test_a_checkpoint_can_be_aborted_until_it_is_stored() -> None:
    assert "aborted until STORING" in ideas.lifetime().caption
    assert str(ideas.lifetime()).count('class="safe"') == 2
