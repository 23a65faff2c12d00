"""The comparison of notebooks by nbval: a picture counts by its words and its shapes, not by its coordinates.

nbval compares the exact text of each output. That includes the coordinates of a picture and the markup of a table, which
change although a reader sees no difference. Here both sides are reduced first (`tests.words`), to their words and to
the numbers of boxes, arrows and other shapes: a picture, a table, and the picture that an app leaves in the notebook. A
widget's model id differs each time, and nbval ignores it. A cell with the tag `measured-times` shows a chart of a job
on Spark, which takes another time in each run: what stays the same in it is compared (`tests.chart_outline`).

No progress bar is shown, and what goes to standard error is not compared (a line that Spark is slow to start): whether
it appears is a matter of time. Notebooks that start Spark take longest and go
first: the last worker is then not alone for long.

A kernel's ports are looked for before it has them, so of two that start at once one may find its own taken and die, or
hang while it ends: it is started again.
"""

from __future__ import annotations

import os
from typing import Any

import nbval.kernel
import pytest

from tests.chart_outline import outline, without_times
from tests.words import shapes, words

collect_ignore = ["labs"]  # each answer to a lab is tried by tests/course/classroom
os.environ.setdefault("TQDM_DISABLE", "1")  # the kernels inherit it

SHOWN = ("image/svg+xml", "text/html")
MEASURED = "measured-times"
SLOW = ("SparkJob", "create_session", "SparkSession")


KERNEL_STARTS = 3


def _start_again(*arguments: Any, **named: Any) -> Any:
    for _ in range(KERNEL_STARTS - 1):
        try:
            return _start(*arguments, **named)
        except RuntimeError as error:
            if not any(sign in str(error) for sign in ("died before", "didn't respond")):
                raise
    return _start(*arguments, **named)


_start = nbval.kernel.start_new_kernel
nbval.kernel.start_new_kernel = _start_again


def in_words(output: Any, *, is_measured: bool) -> Any:
    """An output whose pictures and tables are replaced by what they say, and by how many shapes they draw."""
    if "data" not in output:
        return output
    reduced = _stable if is_measured else _said_and_drawn
    return type(output)({**output, "data": {kind: reduced(kind, value) for kind, value in output["data"].items()}})


def _said_and_drawn(kind: str, value: Any) -> Any:
    return "\n".join(words(value) + shapes(value)) if kind in SHOWN else value


def _stable(kind: str, value: Any) -> Any:
    if kind in SHOWN:
        return "\n".join(outline(value))
    return without_times(value) if kind == "text/plain" else value


def pytest_itemcollected(item: Any) -> None:
    """Compare a cell's outputs by their words, and say in a difference how to store new ones."""
    compare = getattr(item, "compare_outputs", None)
    if compare is None:
        return
    is_measured = MEASURED in item.cell.metadata.get("tags", [])

    def in_words_only(test: list[Any], ref: list[Any]) -> bool:
        shown, stored = (
            [in_words(each, is_measured=is_measured) for each in outputs if each.get("name") != "stderr"]
            for outputs in (test, ref)
        )
        is_same = bool(compare(shown, stored))
        if not is_same:
            item.comparison_traceback.append("If the new output is right, store it with `make notebooks ARGS=<file>`.")
        return is_same

    item.compare_outputs = in_words_only


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the notebooks that start Spark first; cells of one notebook stay together, in their order."""
    is_slow = {
        item.path: item.path.suffix == ".ipynb" and any(word in item.path.read_text("utf-8") for word in SLOW)
        for item in items
    }
    items.sort(key=lambda item: not is_slow[item.path])
