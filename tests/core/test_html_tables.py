"""The one builder of tables: rows and DataFrames as HTML, escaped, aligned, and cut where a table is long."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from kit.core.html_tables import LONGEST, ROWS, cell_text, frame_html, notebook_html, rows_html
from kit.core.markup import element

HOSTILE = "<script>alert(1)</script>"


def cells(html: str) -> list[tuple[str, str]]:
    """Return the class and the content of each cell of the body."""
    return re.findall(r'<td(?: class="([^"]*)")?>(.*?)</td>', html)


def test_text_is_escaped_and_markup_is_kept() -> None:
    shown = rows_html((HOSTILE,), [(HOSTILE,), (element("b", "a & b"),)], labels=[HOSTILE, "x"])
    shown += frame_html(pd.DataFrame({HOSTILE: [HOSTILE, [HOSTILE]]}, index=[HOSTILE, "x"]), are_labelled=True)
    shown += notebook_html(HOSTILE, shown)
    assert "<script" not in shown
    assert "<b>a &amp; b</b>" in shown


def test_numbers_are_at_the_right_and_what_is_missing_is_empty() -> None:
    frame = pd.DataFrame(
        {
            "name": ["a", None],
            "n": pd.array([1234, None], dtype="Int64"),
            "share": [0.1 + 0.2, np.nan],
            "at": [pd.Timestamp(0), pd.NaT],
            "is": [True, False],
        }
    )
    first, second = cells(frame_html(frame))[:5], cells(frame_html(frame))[5:]
    right = "kit-number"
    assert first == [("", "a"), (right, "1234"), (right, "0.3"), ("", "1970-01-01 00:00:00"), ("", "True")]
    assert second == [("", ""), (right, ""), (right, ""), ("", ""), ("", "False")]
    assert cells(rows_html(("a", "n", "none"), [("x", 1234, None), ("y", None, None)])) == [
        ("", "x"),
        (right, "1,234"),
        ("", ""),
        ("", "y"),
        (right, ""),
        ("", ""),
    ]


def test_sizes_are_grouped_and_keys_are_not() -> None:
    frame = pd.DataFrame({"key": [1_234_567], "bytes": [1_234_567], "written_bytes": [1_234_567]})
    frame["written_bytes"] = frame["written_bytes"].astype("Int64")
    assert [text for _, text in cells(frame_html(frame))] == ["1234567", "1,234,567", "1,234,567"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x01\xff", "01ff"),
        ({"n": 1, "inside": {"m": None}}, "n 1, inside m "),
        ([1, "a", [b"\x02"]], "[1, 'a', [02]]"),
        (1e20, "1e+20"),
        (pd.NA, ""),
    ],
)
def test_values_are_written_in_words(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_a_long_table_counts_the_rows_that_it_leaves_out() -> None:
    frame = pd.DataFrame({"n": range(1_100)})
    shown = frame_html(frame, all_in=".to_pandas()")
    assert len(cells(shown)) == ROWS
    assert shown.endswith('<p class="kit-more-rows">… and 1,080 more: .to_pandas() has all</p>')
    assert "more" not in frame_html(frame, 1_100)
    assert rows_html(("n",), [(1,)], count=3).endswith('<p class="kit-more-rows">… and 2 more</p>')


def test_a_long_value_is_cut() -> None:
    ((_, text),) = cells(frame_html(pd.DataFrame({"text": ["x" * 1_000]})))
    assert text == "x" * LONGEST + "…"


def test_an_empty_frame_has_its_columns_and_no_rows_are_no_table() -> None:
    assert "<th>n</th>" in frame_html(pd.DataFrame({"n": ["x"]}).head(0))
    assert rows_html(("n",), []) == ""


def test_a_table_drops_no_row_whose_mark_is_missing() -> None:
    shown = rows_html(["task"], [["a"], ["b"]], marks=["bad", ""])
    assert '<tr class="bad"><td>a</td></tr><tr><td>b</td></tr>' in shown
    with pytest.raises(ValueError, match="shorter"):
        rows_html(["task"], [["a"], ["b"]], marks=["bad"])
