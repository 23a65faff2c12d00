"""A real JupyterLab in a real browser: a server of its own, notebooks to open in it, a mouse and a keyboard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Locator, Page

from tests.house.files import ROOT
from tests.ports import free_port

TOKEN = "lesson"
START_S = 180
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"windowingMode": "none"},
}

# Everything is awaited in one go: an idle kernel's light is on before there is a session.
OPEN = """
async ([path, most_ms]) => {
  const open = async () => {
    const app = window.jupyterapp;
    await app.restored;
    app.shell.collapseLeft();
    const panel = await app.commands.execute("docmanager:open", { path, factory: "Notebook" });
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    window.panel = panel;
  };
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error("no kernel has answered")), most_ms));
  await Promise.race([open(), late]);
}
"""
RUN_ALL = "async () => { await window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
RUN = """
async (source) => {
  const { content, sessionContext } = window.panel;
  const number = content.model.sharedModel.cells.length;
  content.model.sharedModel.addCell({ cell_type: "code", source });
  content.activeCellIndex = number;
  await window.jupyterapp.commands.execute("notebook:run-cell");
  return number;
}
"""
SOURCES = "() => window.panel.content.model.sharedModel.cells.map((cell) => cell.getSource())"
OUTPUTS = """
() => window.panel.content.model.sharedModel.cells.map((cell) => cell.toJSON().outputs ?? [])
"""
ERRORS = """
() => window.panel.content.model.sharedModel.cells.flatMap((cell) => cell.toJSON().outputs ?? [])
  .filter((output) => output.output_type === "error")
"""
BEGIN_AGAIN = """
(sources) => {
  const model = window.panel.content.model.sharedModel;
  model.insertCells(0, sources.map((source) => ({ cell_type: "code", source })));
  model.deleteCellRange(sources.length, model.cells.length);
}
"""
THEME = "async (theme) => { await window.jupyterapp.commands.execute('apputils:change-theme', { theme }); }"


@contextmanager
def jupyter_lab(folder: Path) -> Iterator[str]:
    """A server of the notebooks in `folder/notebooks`; returns its address. The user's own set-up is not read."""
    home = folder / "home"
    for name, values in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA")}
    places |= {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": str(ROOT),
    }
    port = free_port()
    options = [
        "--no-browser",
        "--allow-root",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={folder / 'notebooks'}",
        f"--IdentityProvider.token={TOKEN}",
        "--KernelManager.transport=ipc",
        "--LabApp.expose_app_in_browser=True",
    ]
    # A kernel's ports are chosen before it has them, and one that finds its own taken hangs: kernels use files instead.
    # The path of such a file may have a hundred characters only, so the directory is a short one.
    with TemporaryDirectory(prefix="jupyter") as runtime, (folder / "server.log").open("w") as log:
        places["JUPYTER_RUNTIME_DIR"] = runtime
        command = [sys.executable, "-m", "jupyterlab", *options]
        server = subprocess.Popen(command, env={**os.environ, **places}, stdout=log, stderr=log, cwd=folder)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(f"{address}/api?token={TOKEN}", server, folder / "server.log")
            yield address
        finally:
            server.terminate()
            server.wait(30)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s and server.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"JupyterLab did not start: {log.read_text()[-2000:]}")


def write_notebook(path: Path, sources: Sequence[str]) -> None:
    """A notebook of these code cells, never run."""
    cells = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for n, source in enumerate(sources)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))


class Notebook:
    """An open notebook, as a person has it before them."""

    def __init__(self, page: Page, address: str, path: str) -> None:
        self.page = page
        page.goto(f"{address}/lab?token={TOKEN}&reset")
        page.wait_for_function("() => window.jupyterapp !== undefined")
        page.evaluate(OPEN, [path, START_S * 1_000])

    def run_all(self) -> None:
        """Run all cells; a cell that raises fails the test."""
        self.page.evaluate(RUN_ALL)
        self._no_errors()

    def begin_again(self, sources: Sequence[str]) -> None:
        """Replace all cells by these, and run them; the kernel keeps its variables."""
        self.page.evaluate(BEGIN_AGAIN, sources)
        self.run_all()

    def run(self, source: str) -> Locator:
        """Run one more cell, and return its output."""
        number = self.page.evaluate(RUN, source)
        self._no_errors()
        return self.shown(number)

    def _no_errors(self) -> None:
        assert self.page.evaluate(ERRORS) == []

    def outputs(self) -> list[list[dict[str, Any]]]:
        """The outputs of each cell as the notebook's file has them."""
        found: list[list[dict[str, Any]]] = self.page.evaluate(OUTPUTS)
        return found

    def sources(self) -> list[str]:
        """The text of each cell."""
        found: list[str] = self.page.evaluate(SOURCES)
        return found

    def shown(self, cell: int) -> Locator:
        """The output area of a cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea-output")

    def theme(self, name: str) -> None:
        """Change the theme: Light or Dark."""
        self.page.evaluate(THEME, f"JupyterLab {name}")
        self.page.wait_for_function("(name) => document.body.dataset.jpThemeName === name", arg=f"JupyterLab {name}")
