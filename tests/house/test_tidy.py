"""Sizes, leftovers and foreign names: what a reader should not have to meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.flink_data import checkpoint_versions
from tests.house.files import read, shipped, tracked
from tests.house.rules import covers, names_in

MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_WITHOUT_A_WORD = 15
"""A public method that is longer says what it does; a shorter one may leave that to its class or its contract."""

LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.-])/(work|root|home)/")
REGISTRY_HOST = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|npmjs\.(org|com)|anaconda\.(org|com)|maven\.org|maven\.apache\.org|crates\.io"
    r"|(deb|security)\.debian\.org|archive\.ubuntu\.com|proxy\.golang\.org|jsdelivr\.net|unpkg\.com)\b"
)
# The lock names where each package was found.
NAMES_REGISTRIES = {"uv.lock"}

# A checkpoint from a stranger cannot run code, so nothing is ever unpickled or evaluated.
RUNS_WHAT_IT_READS = {
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "cloudpickle.load",
    "cloudpickle.loads",
    "pyspark.cloudpickle.load",
    "pyspark.cloudpickle.loads",
    "pandas.read_pickle",
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "builtins.eval",
    "builtins.exec",
}
RUNS_STUDENTS_CODE = {"kit/course/grading/child.py"}
"""The program of a student's process: running their cells is its purpose, and it has limits of its own."""


def untidy(path: str, source: str) -> Iterator[str]:
    """Say what is wrong with the shape of one Python file."""
    lines = source.splitlines()
    tree = ast.parse(source)
    if not (ast.get_docstring(tree) or "").strip():
        yield f"{path}: no docstring that says what the file is about"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_shipped = path.startswith(("kit/", "widgets/")) and not node.name.startswith("_")
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_LINES_OF_A_FUNCTION:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {MOST_LINES_OF_A_FUNCTION}"
            elif is_shipped and length > MOST_LINES_WITHOUT_A_WORD and not ast.get_docstring(node):
                yield f"{path}:{node.lineno}: {node.name} has {length} lines and no docstring"
    for number, line in enumerate(lines, 1):
        if LEFTOVER.search(line):
            yield f"{path}:{number}: left over: {line.strip()}"
    if path in RUNS_STUDENTS_CODE:
        return
    names = names_in(path, source)
    for line, name in names.imported + names.used:
        if _runs_what_it_reads(name):
            yield f"{path}:{line}: {name} runs what it reads"


@cache
def _runs_what_it_reads(name: str) -> bool:
    return any(covers(bad, name) for bad in RUNS_WHAT_IT_READS)


def foreign(path: str, text: str) -> Iterator[str]:
    """Say where a text names a machine's own path or a package registry."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := MACHINE_PATH.search(line) or REGISTRY_HOST.search(line):
            yield f"{path}:{number}: names {found.group()}"


def test_files_are_tidy() -> None:
    assert [found for path in shipped() for found in untidy(path, read(path))] == []


def test_no_test_names_a_version_of_flinks_data() -> None:
    """Another folder may hold others: a test runs for the versions that there are."""
    versions = checkpoint_versions()
    assert versions
    tests = [path for path in tracked() if path.startswith("tests/") and path.endswith(".py")]
    named = [f"{path} names {version}" for path in tests for version in versions if version in read(path)]
    assert named == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in sorted(set(tracked()) - NAMES_REGISTRIES):
        try:
            found += foreign(path, read(path))
        except UnicodeDecodeError:
            continue  # a binary file
    assert found == []


UNTIDY = {
    "a long function": ('"""Doc."""\ndef f():\n' + "    x = 1\n" * 60, "f has 61 lines"),
    "a long method": ('"""Doc."""\nclass C:\n    async def m(self):\n' + "        x = 1\n" * 60, "m has 61 lines"),
    "a method without a word": (
        '"""Doc."""\nclass C:\n    def m(self):\n' + "        x = 1\n" * 15,
        "and no docstring",
    ),
    "no docstring": ("x = 1\n", "no docstring"),
    "an empty docstring": ('""" """\n', "no docstring"),
    "a leftover": ('"""Doc."""\nx = 1  # TO' + "DO: more\n", "left over"),
    "pickle": ('"""Doc."""\nimport pickle\npickle.loads(b"")\n', "pickle.loads runs"),
    "pickle by name": ('"""Doc."""\nfrom pickle import loads as read\n', "pickle.loads runs"),
    "Spark's pickle": ('"""Doc."""\nfrom pyspark import cloudpickle\ncloudpickle.loads(b"")\n', "runs what it reads"),
    "eval": ('"""Doc."""\neval("1")\n', "builtins.eval runs"),
}


@pytest.mark.parametrize(("source", "why"), UNTIDY.values(), ids=UNTIDY)
def test_untidiness_is_found(source: str, why: str) -> None:
    (found,) = untidy("kit/stream/backend/heap.py", source)
    assert why in found


@pytest.mark.parametrize("text", ["cd /ho" + "me/me/kit", "path='/wo" + "rk/main'", "https://py" + "pi.org/simple"])
def test_foreign_names_are_found(text: str) -> None:
    (found,) = foreign("README.md", text)
    assert found.startswith("README.md:1: names")


@pytest.mark.parametrize("text", ["the network/work/path", "https://example.org/work/", "/workshop/", "homework/x"])
def test_like_names_are_not(text: str) -> None:
    assert list(foreign("README.md", text)) == []
