"""Notebooks check what they claim to check, and each is a lesson of the same form.

nbval compares nothing in a cell without an execution count, not even if it is strict. So a cell with the tag
`nbval-check-output` that was never run, or was stripped, would always pass. Of a picture it compares the words and the
number of shapes, and of a chart of measured times what stays the same (`notebooks/conftest.py`). A picture without
words cannot be compared.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kit.draw import gantt, over_time
from kit.draw.picture import Chart
from tests.house.files import ROOT
from tests.house.test_chart_outline import measured
from tests.words import words

CHECKED, KEPT = "nbval-check-output", "keep_output"
FEWEST_COMPARED = 8
NOTEBOOKS = ROOT / "notebooks"
OF_THIS_MACHINE = re.compile(r"/(?:tmp|home|root|work|Users|var|opt|mnt)/[\w.-]+|\b[A-Z]:\\\w|\b0x[0-9a-f]{6,}\b")
"""Paths and addresses that are another on another machine. The lab's own directories are /checkpoints and the like."""
METADATA = {"kernelspec", "language_info"}


def text_of(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def said_by(output: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the content of an output as (kind, text); for pictures and tables, their words."""
    if output["output_type"] == "stream":
        yield "stream", text_of(output.get("text", ""))
    for kind, value in output.get("data", {}).items():
        if kind in ("image/svg+xml", "text/html"):
            yield kind, "\n".join(words(value))
        elif kind.startswith("text/"):
            yield kind, text_of(value)
    yield from (("error", line) for line in output.get("traceback", []))


def faults_of_cell(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the reasons why a cell would pass unchecked, and content that should not be committed."""
    tags, outputs = cell["metadata"].get("tags", []), cell["outputs"]
    if CHECKED in tags:
        if cell["execution_count"] is None:
            yield "is to be compared and has no execution count: run it, and strip with --keep-count"
        if not outputs:
            yield "is to be compared and has no output"
        if KEPT not in tags:
            yield f"is to be compared and is not tagged {KEPT}: stripping would empty it"
        for output in outputs:
            kinds = output.get("data", {})
            if "image/svg+xml" in kinds and not words(kinds["image/svg+xml"]):
                yield "is to be compared and shows a picture without a word: give it a title"
            if any(kind in kinds for kind in ("image/png", "image/jpeg")):
                yield "is to be compared and shows a bitmap, of which nothing can be compared: show it as SVG"
    if outputs and KEPT not in tags:
        yield "has an output that nothing compares: strip it (nbstripout --keep-count)"
    if any(output["output_type"] == "error" for output in outputs) and "raises-exception" not in tags:
        yield "ends in an error"
    for output in outputs:
        for kind, text in said_by(output):
            if found := OF_THIS_MACHINE.search(text):
                yield f"shows {found.group()!r} ({kind}), which is another on another machine"


def faults(path: str, notebook: dict[str, Any]) -> Iterator[str]:
    """Say what is wrong with a notebook's cells and what it carries along."""
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            yield from (f"{path}, cell {number}: {fault}" for fault in faults_of_cell(cell))
    ids = [cell.get("id") for cell in notebook["cells"]]
    if None in ids or len(set(ids)) < len(ids):
        yield f"{path}: each cell needs an id of its own"
    if others := set(notebook["metadata"]) - METADATA:
        yield f"{path}: carries {sorted(others)} along: strip it (nbstripout --keep-count)"


def faults_of_lesson(path: str, notebook: dict[str, Any]) -> Iterator[str]:
    """Say how a notebook of the course differs from the shape of a lesson."""
    prose = [text_of(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    titles = [line for text in prose for line in text.splitlines() if line.startswith("# ")]
    sections = [line for text in prose for line in text.splitlines() if line.startswith("## ")]
    opening = text_of(notebook["cells"][0]["source"])
    if len(titles) != 1 or not opening.startswith("# "):
        yield f"{path}: begins with its title, and has one"
    if "?" not in opening.partition("\n")[2]:
        yield f"{path}: the first cell asks no question"
    if not sections or sections[-1] != "## Try":
        yield f"{path}: the last section is called Try"
    for number, cell in enumerate(notebook["cells"]):
        if cell.get("outputs") and CHECKED not in cell["metadata"].get("tags", []):
            yield f"{path}, cell {number}: has an output that nothing compares: tag it {CHECKED}"
    compared = sum(CHECKED in cell["metadata"].get("tags", []) for cell in notebook["cells"])
    if compared < FEWEST_COMPARED:
        yield f"{path}: {compared} cells are compared, fewer than {FEWEST_COMPARED}"


def read(path: Path) -> tuple[str, dict[str, Any]]:
    return path.relative_to(ROOT).as_posix(), json.loads(path.read_text(encoding="utf-8"))


def test_notebooks_check_what_they_say_they_check() -> None:
    paths = [path for path in sorted(NOTEBOOKS.rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts]
    assert paths
    assert [fault for path in paths for fault in faults(*read(path))] == []


def test_notebooks_of_the_course_are_lessons() -> None:
    assert [fault for path in sorted(NOTEBOOKS.glob("*.ipynb")) for fault in faults_of_lesson(*read(path))] == []


# --- each rule finds its violations -----------------------------------------------------------------------------------


def cell(*tags: str, count: int | None = 1, outputs: tuple[str, ...] = ("stream",), **data: str) -> dict[str, Any]:
    shown = [{"output_type": kind} for kind in outputs]
    if data:
        kinds = {"svg": "image/svg+xml", "png": "image/png", "html": "text/html", "plain": "text/plain"}
        shown = [{"output_type": "display_data", "data": {kinds[name]: text for name, text in data.items()}}]
    return {
        "cell_type": "code",
        "execution_count": count,
        "metadata": {"tags": list(tags)},
        "outputs": shown,
        "source": "",
    }


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def notebook(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"cells": [{"id": str(n), **cell} for n, cell in enumerate(cells)], "metadata": metadata}


def faults_of(*cells: dict[str, Any]) -> list[str]:
    return list(faults("n.ipynb", notebook(*cells)))


def test_a_cell_that_would_pass_unchecked_is_found() -> None:
    (fault,) = faults_of(cell(CHECKED, KEPT, count=None))
    assert "no execution count" in fault
    (fault,) = faults_of(cell(CHECKED, KEPT, outputs=()))
    assert "no output" in fault
    (fault,) = faults_of(cell(CHECKED, KEPT, svg="<svg><path d='M0 0'/><style>a</style></svg>"))
    assert "without a word" in fault
    (fault,) = faults_of(cell(CHECKED, KEPT, png="iVBOR"))
    assert "bitmap" in fault


def test_a_cell_that_stripping_would_empty_is_found() -> None:
    assert any(KEPT in fault for fault in faults_of(cell(CHECKED)))


def test_an_output_nobody_compares_and_an_error_are_found() -> None:
    (fault,) = faults_of(cell())
    assert "nothing compares" in fault
    (fault,) = faults_of(cell(KEPT, outputs=("error",)))
    assert "error" in fault


def test_what_is_another_on_another_machine_is_found() -> None:
    for text in ("in /Users/me/flights", "PosixPath('/tmp/x1')", "<Lab object at 0x7f12ab34>", r"C:\Users"):
        (fault,) = faults_of(cell(KEPT, plain=text))
        assert "another machine" in fault
    assert faults_of(cell(KEPT, plain="/checkpoints/abc/chk-1, and either/or")) == []
    assert faults_of(cell(KEPT, html="<p style='/tmp/x'>well</p>")) == []


def test_an_id_twice_and_metadata_that_came_along_are_found() -> None:
    (fault,) = faults("n.ipynb", {"cells": [cell(KEPT) | {"id": "a"}, cell(KEPT) | {"id": "a"}], "metadata": {}})
    assert "id of its own" in fault
    (fault,) = faults("n.ipynb", notebook(cell(KEPT), widgets={}))
    assert "'widgets'" in fault


def test_a_good_notebook_passes() -> None:
    raising = cell(CHECKED, KEPT, "raises-exception", outputs=("error",))
    assert faults_of(markdown(""), cell(CHECKED, KEPT), cell(count=2, outputs=()), raising) == []


def test_a_notebook_that_is_no_lesson_is_found() -> None:
    compared = [cell(CHECKED, KEPT)] * FEWEST_COMPARED
    opening, last = markdown("# A title\n\nWhy is that so?"), markdown("## Try\n\n- this")

    def lesson_faults(*cells: dict[str, Any]) -> list[str]:
        return list(faults_of_lesson("n", notebook(*cells)))

    assert lesson_faults(opening, *compared, last) == []
    assert lesson_faults(markdown("# A title?"), *compared, last) == ["n: the first cell asks no question"]
    assert lesson_faults(markdown("Why\n# T\n\nSo?"), *compared, last) == ["n: begins with its title, and has one"]
    assert lesson_faults(opening, last, *compared, markdown("## On")) == ["n: the last section is called Try"]
    assert lesson_faults(opening, *compared[1:], last) == ["n: 7 cells are compared, fewer than 8"]
    (fault,) = lesson_faults(opening, *compared, cell(KEPT), last)
    assert "n, cell 9: has an output that nothing compares" in fault


# --- and nbval compares what pictures say -----------------------------------------------------------------------------


def nbval_comparison(*tags: str) -> Callable[[list[Any], list[Any]], bool]:
    """Return nbval's own comparison of what a cell shows now and once, as `notebooks/conftest.py` lets it compare."""
    from nbval.plugin import IPyNbCell, nocolors  # not at the top: it takes seconds, in each process of a test run

    spec = importlib.util.spec_from_file_location("notebooks_conftest", NOTEBOOKS / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    hook = SimpleNamespace(pytest_assertrepr_compare=lambda **_: [])
    skipped = ("metadata", "output_type", "execution_count", "application/vnd.jupyter.widget-view+json")
    parent = SimpleNamespace(skip_compare=skipped, sanitize_patterns={})
    cell = SimpleNamespace(parent=parent, colors=nocolors, ihook=hook, config=None, sanitize=str)
    cell.cell = SimpleNamespace(metadata={"tags": list(tags)})
    cell.format_output_compare = partial(IPyNbCell.format_output_compare, cell)
    cell.compare_outputs = partial(IPyNbCell.compare_outputs, cell)
    conftest.pytest_itemcollected(cell)
    return cell.compare_outputs


@pytest.fixture(scope="module")
def nbval_compares() -> Callable[[list[Any], list[Any]], bool]:
    return nbval_comparison()


def shown(
    *,
    x: int,
    label: str = "one buffer",
    text: str = "3 rows",
    row: str = "7",
    app: str = "an app",
    arrows: tuple[str, ...] = ("good", "good", "bad"),
) -> list[Any]:
    """Return the outputs of a cell that leaves a picture, a widget and a table, drawn at `x`."""
    paths = "".join(f'<path class="{arrow}" d="M{x} {x}"/>' for arrow in arrows)
    svg = f'<svg aria-label="{label}"><style>a {{ left: {x}px }}</style>{paths}<text x="{x}">{text}</text></svg>'
    html = f'<table><td style="left:{x}px">{row}</td></table>'
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": str(x)}, "text/plain": app}
    from nbformat.v4 import new_output

    return [
        new_output("display_data", {"image/svg+xml": svg, "text/plain": "a picture"}),
        new_output("display_data", view),
        new_output("execute_result", {"text/html": html, "text/plain": "a table"}),
    ]


def test_a_picture_is_compared_by_what_it_says_and_by_its_shapes(nbval_compares: Any) -> None:
    once = shown(x=10)
    assert nbval_compares(shown(x=20), once)
    for other in ({"label": "two buffers"}, {"text": "4 rows"}, {"row": "8"}, {"app": "another app"}):
        assert not nbval_compares(shown(x=10, **other), once), other
    for arrows in (("good", "bad"), ("good", "bad", "bad"), ()):
        assert not nbval_compares(shown(x=10, arrows=arrows), once), arrows
    assert nbval_compares(shown(x=20, arrows=("bad", "good", "good")), once)
    assert not nbval_compares(once[1:], once)


def charted(chart: Chart) -> list[Any]:
    """Return the output of a cell that ends in this chart."""
    from nbformat.v4 import new_output

    forms = {"image/svg+xml": chart._repr_svg_(), "text/html": chart._repr_html_(), "text/plain": repr(chart)}
    return [new_output("execute_result", forms)]


def test_charts_of_measured_times_are_compared_by_what_stays_the_same(nbval_compares: Any) -> None:
    lab = measured(1)
    once, again, other = gantt(lab), gantt(measured(2)), over_time(lab)
    stable = nbval_comparison("measured-times")
    assert not nbval_compares(charted(again), charted(once)), "the times differ"
    assert stable(charted(again), charted(once))
    assert not stable(charted(other), charted(once))


def test_the_words_of_a_picture_are_in_its_order() -> None:
    svg = """<svg aria-label="A job"><style>text { x: 1 }</style><title>It</title><rect/><text>a<tspan> b</tspan></text>
        <!-- 0.5 --><g title='more &amp; more'><text>  </text></g></svg>"""
    assert words(svg) == ["A job", "It", "a", "b", "0.5", "more & more"]
    assert words(["<p>one\n", "line</p>"]) == ["one line"]
