"""The import rule holds for every file, and it can be broken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.files import ROOT, read, shipped
from tests.house.rules import DOORS, FLOORS, FREE, violations


def test_arrows_point_down_and_the_protocol_is_pure() -> None:
    assert [found for path in shipped() for found in violations(path, read(path))] == []


def test_each_floor_says_what_it_may_touch() -> None:
    assert set(FREE) == set(FLOORS)


def test_doors_are_files_there_are() -> None:
    assert [path for path in DOORS if not (ROOT / path).is_file()] == []


HEAVY = (
    "pyspark",
    "py4j",
    "pygraphviz",
    "graphviz",
    "matplotlib",
    "ipywidgets",
    "IPython",
    "pandas",
    "kit.why.questions",
)


@pytest.mark.parametrize(
    ("statement", "without"),
    [
        (
            "import kit",
            (*HEAVY, "numpy", "pyarrow", "kit.stream.api", "kit.stream.graph", "kit.hosts.lab", "kit.hosts.spark"),
        ),
        ("from kit import open_checkpoint", (*HEAVY, "kit.draw", "kit.hosts.lab", "kit.hosts.spark")),
        ("from kit import StreamEnvironment", (*HEAVY, "kit.draw", "kit.hosts.lab", "kit.hosts.spark")),
        (
            "import kit.advice, pyarrow; kit.advice.plan_parallelism(pyarrow.array([1, 2]), [2])._repr_html_()",
            ("kit.restore_check", "kit.snapshots"),
        ),
        (
            "from kit import Lab",
            (
                *HEAVY,
                "kit.draw",
                "kit.hosts.lab.scenarios.scenario",
                "kit.verify",
                "kit.hosts.spark",
                "widgets",
            ),
        ),
    ],
)
def test_importing_needs_no_more_than_it_has_to(statement: str, without: tuple[str, ...]) -> None:
    check = f"import sys; {statement}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, check=True, text=True)
    assert "kit" in ran.stdout.split()
    assert set(without) & set(ran.stdout.split()) == set()


ALONE = """
import os, sys
import numpy, pandas, pyarrow.acero, pyarrow.compute, pyarrow.parquet  # once, for all
for package in sys.argv[1:]:
    child = os.fork()
    if not child:
        __import__(package)
        assert not hasattr(sys.modules[package], "no_such_name")
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(package)
"""


def test_each_package_can_be_imported_first() -> None:
    packages = sorted({path.removesuffix("/__init__.py").replace("/", ".") for path in shipped() if "__init__" in path})
    assert {"kit", "kit.draw", "kit.machines.restore", "widgets"} <= set(packages)
    ran = subprocess.run([sys.executable, "-c", ALONE, *packages], cwd=ROOT, capture_output=True, check=True, text=True)
    assert ran.stdout == "", ran.stderr


BREACHES = {
    "an arrow up": ("kit/stream/backend/heap.py", "from kit.machines.task import StreamTask", "which is above it"),
    "an arrow up, module by module": (
        "kit/stream/backend/heap.py",
        "import kit.hosts.lab.world.world",
        "which is above it",
    ),
    "an arrow up, relative": (
        "kit/stream/backend/heap.py",
        "from ...machines.job import JobMaster",
        "which is above it",
    ),
    "an arrow up, by the top": ("kit/stream/backend/heap.py", "from kit import Lab", "which is above it"),
    "an arrow up, among the names that a package offers": (
        "kit/stream/graph/__init__.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kit.hosts.lab.lab import Lab as Lab",
        "which is above it",
    ),
    "an arrow up, inside a function": (
        "kit/stream/graph/job.py",
        "def f():\n    import kit.machines.restore",
        "which is above it",
    ),
    "an arrow up, for types only": (
        "kit/stream/graph/job.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kit.hosts.spark import Driver",
        "which is above it",
    ),
    "an unplaced package": ("kit/misc/things.py", "", "is on no floor"),
    "an unplaced module": ("kit/things.py", "", "is on no floor"),
    "tests": ("kit/hosts/lab/world/world.py", "from tests.flink_data import vectors", "is not shipped"),
    "Spark": ("kit/machines/job/master.py", "from pyspark.sql import SparkSession", "without Spark"),
    "Spark in the lab": ("kit/hosts/lab/world/world.py", "def f():\n    import pyspark", "without Spark"),
    "a thread": ("kit/machines/task/task.py", "from concurrent.futures import ThreadPoolExecutor", "without threads"),
    "a socket": ("kit/machines/channel/buffers.py", "import socket", "without sockets"),
    "a clock": ("kit/machines/task/task.py", "from time import monotonic", "without clocks"),
    "a clock in a date": ("kit/machines/task/task.py", "import datetime as dt\ndt.datetime.now()", "without clocks"),
    "a clock in a date, by name": (
        "kit/machines/job/m.py",
        "from datetime import datetime\ndatetime.utcnow()",
        "without clocks",
    ),
    "a random id": ("kit/core/state/handles.py", "import uuid\nuuid.uuid4()", "without chance"),
    "a random id, by name": ("kit/core/state/handles.py", "from uuid import uuid4 as new", "without chance"),
    "numpy's chance": ("kit/stream/backend/heap.py", "import numpy as np\nnp.random.default_rng()", "without chance"),
    "numpy's chance, by name": ("kit/stream/backend/heap.py", "from numpy import random", "without chance"),
    "a process": ("kit/glossary.py", "import subprocess", "without processes"),
    "a widget": ("kit/run/stage.py", "import anywidget", "without widgets"),
    "a picture": ("kit/machines/task/task.py", "import matplotlib.pyplot as plt", "without pictures"),
    "a file": ("kit/core/metadata/reader.py", "def f(path):\n    return open(path).read()", "without files"),
    "a file, by Path": ("kit/core/metadata/reader.py", "from pathlib import Path", "without files"),
    "a file, by pathlib": (
        "kit/core/metadata/reader.py",
        "import pathlib\npathlib.Path('x').read_bytes()",
        "without files",
    ),
    "a file, by Arrow": (
        "kit/stream/backend/heap.py",
        "import pyarrow as pa\npa.fs.LocalFileSystem()",
        "without files",
    ),
    "a file, by Arrow's module": ("kit/stream/backend/heap.py", "from pyarrow import fs", "without files"),
    "the environment": ("kit/stream/backend/heap.py", "import os\nos.environ['X']", "without files"),
    "a connector, past the file layer": ("kit/stream/connectors/found_files.py", "import os", "without files"),
    "a machine, through the file layer": (
        "kit/machines/task/stream_task.py",
        "from kit.filesystems.places import open_path",
        "without the file layer",
    ),
    "a way round": ("kit/stream/backend/heap.py", "__import__('socket')", "without imports at run time"),
    "another way round": (
        "kit/stream/backend/heap.py",
        "from importlib import import_module",
        "without imports at run time",
    ),
}


@pytest.mark.parametrize(("path", "source", "why"), BREACHES.values(), ids=BREACHES)
def test_a_breach_is_found(path: str, source: str, why: str) -> None:
    found = list(violations(path, source))
    assert found
    assert all(why in line for line in found)


ALLOWED = {
    "an arrow down": (
        "kit/machines/task/task.py",
        "from kit.core.state import heap\nfrom kit.machines.channel.buffers import Buffer",
    ),
    "a neighbour": (
        "kit/machines/task/task.py",
        "from kit.machines.task.gates import InputGate\nfrom .gates import InputGate as G",
    ),
    "an instant handed in": (
        "kit/machines/task/task.py",
        "import datetime as dt\ndt.datetime.fromtimestamp(0, dt.UTC)",
    ),
    "an id handed in": ("kit/machines/task/task.py", "from uuid import UUID\nUUID(int=1)"),
    "a pure path": (
        "kit/core/state/handles.py",
        "from pathlib import PurePosixPath\nfrom urllib.parse import urlsplit",
    ),
    "a door": ("kit/core/trace/json_lines.py", "from pathlib import Path"),
    "a connector, through the file layer": (
        "kit/stream/connectors/found_files.py",
        "from kit.filesystems.places import open_path",
    ),
    "a method of the same name": (
        "kit/stream/backend/heap.py",
        "def f(clock, np):\n    return clock.time() + np.random",
    ),
    "our own module of a refused name": (
        "kit/machines/task/task.py",
        "from kit.machines.channel import queue\nqueue.push(1)",
    ),
    "the host": ("kit/hosts/spark/wire/wire.py", "import socket, threading, time, pyspark"),
    "the lab": ("kit/hosts/lab/world/world.py", "import random\nfrom kit.machines.job import JobMaster"),
    "widgets": ("widgets/pictures/stepper.py", "import anywidget\nfrom kit.hosts.lab import Lab"),
}


@pytest.mark.parametrize(("path", "source"), ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_passes(path: str, source: str) -> None:
    assert list(violations(path, source)) == []
