"""The one builder of elements: text is escaped, and markup is kept."""

from __future__ import annotations

import pytest

from kit.core.markup import Markup, element, markup
from kit.draw import shapes


def test_text_is_escaped_and_markup_is_kept() -> None:
    assert element("p", "a < b", element("b", "c & d")) == "<p>a &lt; b<b>c &amp; d</b></p>"
    assert markup(markup("<")) == "&lt;"
    assert Markup("<br>") + "<" == "<br>&lt;"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"class_": "a b"}, ' class="a b"'),
        ({"text_anchor": "end"}, ' text-anchor="end"'),
        ({"title": 'say "x"'}, ' title="say &quot;x&quot;"'),
        ({"x": 1.23456, "y": 2.0, "r": 0}, ' x="1.23" y="2" r="0"'),
        ({"x": 1_234_567.5}, ' x="1234567.5"'),
        ({"class_": "", "style": None}, ""),
    ],
)
def test_attributes_are_escaped_and_numbers_are_short(given: dict[str, str | float | None], written: str) -> None:
    assert element("i", **given) == f"<i{written}></i>"


def test_shapes_have_a_tooltip_where_there_is_something_to_say() -> None:
    assert shapes.rect("bar", 1, 2, 3, 4, "a < b", rx=2) == (
        '<rect class="bar" x="1" y="2" width="3" height="4" rx="2"><title>a &lt; b</title></rect>'
    )
    assert shapes.path("line", "M0 0") == '<path class="line" d="M0 0"></path>'
    assert shapes.text(1.04, 2, "note", "<") == '<text class="note" x="1" y="2">&lt;</text>'
