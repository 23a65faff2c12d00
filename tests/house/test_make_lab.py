"""`make lab`, in a real browser: JupyterLab comes up without a question, and nothing leaves the machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.house.files import ROOT

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab\S*")


class Outside:
    """A proxy that hears of every request that would leave the machine, and lets none through."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                asking, _ = self._listening.accept()
            except OSError:
                return
            self.requests.append(asking.recv(1_000).decode(errors="replace").partition("\r\n")[0])
            asking.close()

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def outside() -> Iterator[Outside]:
    made = Outside()
    yield made
    made.close()


@pytest.fixture
def address(tmp_path: Path, outside: Outside) -> Iterator[str]:
    """The address of JupyterLab that `make lab` prints, for a user who has never used Jupyter.

    Setup runs before, because it may download missing packages.
    """
    subprocess.run(["scripts/setup.sh", "java"], cwd=ROOT, check=True)
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), outside.address)
    home = {"HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    server = subprocess.Popen(
        ["make", "lab", "ARGS=--no-browser --ServerApp.port=0 --ServerApp.ip=127.0.0.1"],
        cwd=ROOT,
        env=os.environ | proxies | home | {"no_proxy": "127.0.0.1,localhost"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert server.stderr is not None
    try:
        yield next(found.group() for line in server.stderr if (found := ADDRESS.search(line)))
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.stderr.close()
        server.wait()


def test_jupyterlab_asks_nothing_and_sends_nothing(browser: Browser, address: str, outside: Outside) -> None:
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    page.get_by_text("00-tour.ipynb").first.wait_for(timeout=60_000)
    with page.expect_response(re.compile("/lab/api/settings"), timeout=60_000):
        page.reload()
    page.get_by_text("00-tour.ipynb").first.wait_for(timeout=60_000)
    page.wait_for_load_state("networkidle")
    assert page.locator(".jp-Dialog, .Toastify__toast").all_inner_texts() == []
    assert len(requests) > 10
    local = re.compile(r"(http|ws)://127\.0\.0\.1:\d+/|data:|blob:")
    assert [url for url in requests if not local.match(url)] == []
    assert [url for url in requests if "/lab/api/news" in url or "/lab/api/update" in url] == []
    assert outside.requests == []
    settings = json.loads(page.locator("#jupyter-config-data").inner_text() or "{}")
    assert settings["extensionManager"]["can_install"] is False  # it would ask the package index for extensions
    page.goto(re.sub("/lab.*", "/lab/tree/02-barriers-and-alignment.ipynb", address))
    picture = page.locator(".jp-OutputArea .kit-view svg").first  # as the notebook came, before any cell was run
    picture.wait_for(timeout=60_000)
    page.close()
