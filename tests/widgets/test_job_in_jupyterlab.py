"""A job on the Spark host, as a real JupyterLab shows it: its table, its bar, and what runs."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook

START = """
from pathlib import Path
import tempfile, kit
from kit.spark import SparkJob
from tests.spark.jobs import ThreadGang, generator, totals_job
folder = tempfile.TemporaryDirectory()
job = SparkJob(totals_job(Path(folder.name), generator(rows_per_second=30_000)), launch=ThreadGang).start()
job.trigger_checkpoint()
job
"""


def test_a_job_is_seen(browser: Browser, tmp_path: Path) -> None:
    write_notebook(tmp_path / "notebooks" / "job.ipynb", [START, "kit.running()"])
    with jupyter_lab(tmp_path) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        notebook = Notebook(page, address, "job.ipynb")
        notebook.run_all()
        expect(notebook.shown(0).locator("table")).to_contain_text("totals")
        expect(notebook.shown(0).locator("table")).to_contain_text("RUNNING")
        expect(notebook.shown(1).locator("table")).to_contain_text("kit.running()[0].cancel()")
        bar = notebook.run("job.wait(progress=True)")
        expect(bar.locator(".widget-html").first).to_contain_text("totals: FINISHED, 8 of 8 splits, 60,000 rows")
        expect(bar.locator(".progress-bar-success")).to_have_count(1)
        (shown, status) = notebook.outputs()[2]
        assert "application/vnd.jupyter.widget-view+json" in shown["data"]
        assert status["data"]["text/plain"] == "'FINISHED'"
        expect(notebook.run("job").locator("table")).to_contain_text("8 of 8")
        expect(notebook.run("kit.running()")).to_contain_text("no job runs on Spark")
        page.close()
