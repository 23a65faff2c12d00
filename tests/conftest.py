"""Settings every test shares.

Hypothesis has three profiles. `kit` (default) searches at random and remembers what failed; `ci` (`make test`) tries
the same examples on every machine, so a red run is red again; `soak` (`make soak`) searches long.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from playwright.sync_api import Browser, sync_playwright

from tests.house.files import ROOT
from tests.properties import IN_CI
from tests.zookeeper import ZooKeeper

# Times depend on the machine, so tests have no deadline, and a slow generator does not fail a test.
COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("kit", **COMMON)
settings.register_profile("ci", **COMMON, derandomize=True, database=None, max_examples=IN_CI)
settings.register_profile("soak", **COMMON, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kit"))


gc.set_threshold(20_000)
"""The number of new objects between two collections. With Python's 700 they take 8 % of the time, among all that was
collected and imported.
"""

LONGEST_FIRST = (
    "tests/widgets/test_jupyterlab",
    "tests/widgets/test_explorer_in_jupyterlab",
    "tests/widgets/test_missions_in_jupyterlab",
    "tests/hosts/spark/test_two_drivers",
    "tests/benchmarks/",
    "tests/hosts/spark/test_cluster",
    "tests/unaligned/test_matrix",
    "tests/hosts/lab/test_swarm",
    "tests/draw/test_stage_page",
    "tests/verify/explore/",
    "tests/unaligned/",
    "tests/stories/",
    "tests/hosts/lab/",
    "tests/widgets/",
    "tests/hosts/spark/",
)
"""Where the longest files are. Workers take whole files, so that a JupyterLab is started once for its tests; with those
first no worker is left with the longest at the end. The first three mostly wait; others have the processor meanwhile.
"""


OWN_PROCESSES = ("spark", "signals")
"""The marks of tests that `make test` runs in processes of their own, from the files that contain `mark.<name>`."""


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, in the same order otherwise; reject a mark that the Makefile's search does not find."""
    for item in items:
        for name in OWN_PROCESSES:
            if item.get_closest_marker(name) and f"mark.{name}" not in _text(item.path):
                raise pytest.UsageError(f"`make test` does not run {item.nodeid}: write pytest.mark.{name} in its file")

    def place(item: pytest.Item) -> int:
        return next((place for place, path in enumerate(LONGEST_FIRST) if item.nodeid.startswith(path)), 99)

    items.sort(key=place)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A ZooKeeper that runs while tests do; there is one clear error when it is not installed."""
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper")).start()
    yield server
    server.stop()


SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started once for all tests that look at pages."""
    path = shutil.which("chromium") or str(ROOT / ".venv" / "bin" / "chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=SWITCHES.split())
        yield started
        started.close()
