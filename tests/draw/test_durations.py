"""A length of time is written in one way, in Python and in a page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from kit.draw.assets import asset
from kit.run.durations import duration

TOLD = {
    0: "0 ms",
    153: "153 ms",
    9_999: "9,999 ms",
    10_000: "10 s",
    59_960: "59.96 s",
    600_102: "10 min 0.102 s",
    7_500_000: "2 h 5 min",
    -1_317: "-1,317 ms",
}


@pytest.mark.parametrize("ms", TOLD)
def test_nothing_of_a_time_is_lost(ms: int) -> None:
    assert duration(ms) == TOLD[ms]


def test_what_is_measured_finer_or_not_at_all() -> None:
    assert (duration(2.5), duration(12_345.678), duration(None)) == ("2.5 ms", "12.346 s", "…")


def test_a_page_writes_it_in_the_same_way(page: Page) -> None:
    told = page.evaluate(f"(times) => {{ {asset('durations.js')}; return times.map(duration); }}", list(TOLD))
    assert told == list(TOLD.values())
