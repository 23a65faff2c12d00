"""Bars on a common axis: each is where its times are, cut off at the ends of the axis."""

from __future__ import annotations

import re

from kit.draw.charts.timeline import Bar, Row, timeline


def test_bars_ticks_and_marks_are_at_their_times() -> None:
    first = Row("first", (Bar(100, 150), Bar(150, 300, "open")), "two bars", (250, 120, 120))
    second = Row("second", (Bar(50, 500, "bad"),), "cut off at both ends")
    html = timeline([first, second], 100, 300)
    assert re.findall(r'<em style="left:([\d.]+)%">([\d,]+)</em>', html) == [
        (f"{ms / 2:g}", str(ms)) for ms in (0, 50, 100, 150, 200)
    ]
    bars = re.findall(r"left:min\(([\d.]+)%, 100% - 3px\);width:([\d.]+)%", html)
    assert bars == [("0", "25"), ("25", "75"), ("0", "100")]
    assert re.findall(r"left:min\(([\d.]+)%, 100% - 2px", html) == ["10", "75"]
    assert re.findall(r'class="t-name">(\w+)<', html) == ["first", "second"]
    assert "an acknowledgement" in html
    assert "time that is left" not in html
    assert timeline([], 0, 1) == ""


def test_an_axis_without_length_is_drawn_as_one_ms() -> None:
    html = timeline([Row("now", (Bar(7, 7),), "")], 7, 7)
    assert re.findall(r"left:min\(([\d.]+)%", html) == ["0"]
    assert 'left:100%">1<' in html
