"""A job written in a real JupyterLab: cells run again, changed or not, and the display of the job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook

FIRST = """
from kit import CollectSink, CollectionSource, Lab, StreamEnvironment, sum_
env = StreamEnvironment("letters", parallelism=2)
"""
SOURCE = 'stream = env.from_source(CollectionSource([{"letter": "a", "n": 1}, {"letter": "b", "n": 2}]), uid="letters")'
TOTALS = """
totals = stream.key_by("letter").aggregate(total=sum_("n"))
totals.sink_to(CollectSink("out"))
"""
SHOWN = {"env": ".kit-picture svg", "stream": "table", "stream.key_by('letter')": "table", "CollectSink('x')": "b"}
AGAIN = """
async ([number, source]) => {
  const { content } = window.panel;
  content.model.sharedModel.cells[number].setSource(source);
  content.activeCellIndex = number;
  await window.jupyterapp.commands.execute("notebook:run-cell");
}
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Notebook]:
    """The notebook, run from top to bottom."""
    folder = tmp_path_factory.mktemp("jupyter")
    write_notebook(folder / "notebooks" / "job.ipynb", [FIRST, SOURCE, TOTALS, *SHOWN])
    with jupyter_lab(folder) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        notebook = Notebook(page, address, "job.ipynb")
        notebook.run_all()
        yield notebook
        page.close()


def said(notebook: Notebook, source: str) -> str:
    return notebook.run(source).inner_text().strip()


@pytest.mark.parametrize("number", range(len(SHOWN)), ids=list(SHOWN))
def test_what_a_cell_made_is_seen(notebook: Notebook, number: int) -> None:
    place = list(SHOWN.values())[number]
    expect(notebook.shown(3 + number).locator(place).first).to_be_visible()


def test_a_cell_run_again_changed_or_not_replaces_what_it_made(notebook: Notebook) -> None:
    for source in (TOTALS, TOTALS, TOTALS.replace("total=", "sum="), f"# a comment\n{TOTALS}"):
        notebook.page.evaluate(AGAIN, [2, source])
        assert said(notebook, "print(env)") == "StreamEnvironment('letters', 3 operators)"
    assert said(notebook, "lab = Lab(env); lab.run(); print(sorted(lab.output()['total']))") == "[1, 2]"


def test_a_source_made_again_says_what_is_no_longer_there_until_that_is_run_again(notebook: Notebook) -> None:
    notebook.page.evaluate(AGAIN, [2, TOTALS])
    notebook.page.evaluate(AGAIN, [1, SOURCE])
    warned = said(notebook, "graph = env.stream_graph()")
    assert "'aggregate', made by In [" in warned
    assert "UserWarning: the operators that these depend on were replaced" in warned
    assert "interactiveshell" not in warned
    assert "Run these lines again" in warned
    notebook.page.evaluate(AGAIN, [2, TOTALS])
    assert said(notebook, "print(len(env.stream_graph().nodes))") == "3"
