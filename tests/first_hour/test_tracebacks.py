"""The display of an error in a notebook, with a real kernel: the user's own lines and the message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from tests.first_hour.test_mistakes import MISTAKES, Mistake
from tests.house.files import ROOT

PATIENCE_S = 120
LEFT_OUT = re.compile(r"^\[(1 frame is|\d+ frames are) left out, outside your code; %tb shows all\]$", re.MULTILINE)
MOST_LINES = 16
"""The lines of an error whose one frame of the user's takes two lines, its message of six, and what IPython adds."""
BEGIN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import kit
from kit import *
from tests.first_hour.test_mistakes import MISTAKES
env = StreamEnvironment("a")
stream = env.from_source(CollectionSource([{{"letter": "a", "n": n}} for n in range(9)]), uid="rows")
"""


class Notebook:
    """A kernel, and what its cells show."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def run(self, cell: str) -> str:
        """Run a cell; return its error as shown, without colours, "" if there is none."""
        shown: list[str] = []

        def hook(message: dict[str, dict[str, list[str]]]) -> None:
            if message["msg_type"] == "error":
                shown.append(re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(message["content"]["traceback"])))

        self._client.execute_interactive(cell, output_hook=hook, timeout=PATIENCE_S)
        return "\n".join(shown)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        notebook = Notebook(client)
        assert notebook.run(BEGIN) == ""
        yield notebook
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def has_frames_of_the_kit(shown: str) -> bool:
    return f"File {ROOT}/kit" in shown or f"File {ROOT}/widgets" in shown


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed.__name__)
def test_a_mistake_shows_the_users_line_and_the_message(notebook: Notebook, mistake: Mistake) -> None:
    shown = notebook.run(f"MISTAKES[{MISTAKES.index(mistake)}].typed()")
    assert f"MISTAKES[{MISTAKES.index(mistake)}].typed()" in shown
    assert LEFT_OUT.search(shown)
    assert not has_frames_of_the_kit(shown)
    for words in mistake.says:
        assert words in shown


def test_an_error_in_a_cell_is_a_few_lines_and_the_full_traceback_is_a_magic_away(notebook: Notebook) -> None:
    shown = notebook.run("stream.key_by('leter')")
    assert len(shown.splitlines()) <= MOST_LINES
    assert "----> 1 stream.key_by('leter')" in shown
    assert shown.endswith("SchemaError: key_by: there is no column 'leter'; the columns are 'letter', 'n'")
    full = notebook.run("%tb")
    assert has_frames_of_the_kit(full)
    assert not LEFT_OUT.search(full)
    assert full.splitlines()[-1] == shown.splitlines()[-1]


def test_the_frames_of_user_functions_that_the_kit_has_called_are_shown(notebook: Notebook) -> None:
    notebook.run("def a_condition(lab):\n    return lab.no_such_thing")
    notebook.run("def invert(row):\n    return {'x': 1 // (row['n'] - 3)}")
    notebook.run("stream.map(invert).sink_to(CollectSink('out'))\nlab = Lab(env)")
    shown = notebook.run("lab.run_until(a_condition)")
    assert "----> 1 lab.run_until(a_condition)" in shown
    assert "----> 2     return lab.no_such_thing" in shown
    assert not has_frames_of_the_kit(shown)
    shown = notebook.run("lab.run()")
    assert "----> 2     return {'x': 1 // (row['n'] - 3)}" in shown, "the frames of the cause"
    assert "----> 1 lab.run()" in shown
    assert not has_frames_of_the_kit(shown)


def test_the_causes_of_an_error_are_short_too(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"what is this")
    shown = notebook.run(f"open_checkpoint({str(tmp_path)!r})")
    assert "MetadataError" in shown
    assert shown.splitlines()[-1].startswith("CheckpointError")
    assert not has_frames_of_the_kit(shown)
    assert has_frames_of_the_kit(notebook.run("%tb"))


def test_an_interrupt_shows_where_the_user_was(notebook: Notebook) -> None:
    notebook.run("import signal\nfrom kit.verify.swarm import swarm")
    shown = notebook.run("swarm(range(9), faults=map(signal.raise_signal, [signal.SIGINT]))")
    assert "----> 1 swarm(range(9)" in shown
    assert "KeyboardInterrupt" in shown
    assert not has_frames_of_the_kit(shown)


def test_an_error_that_nothing_foresaw_is_shown_in_full(notebook: Notebook) -> None:
    notebook.run("import kit.displays\nreal, kit.displays.show = kit.displays.show, None")
    try:
        shown = notebook.run("kit.show(env)")
    finally:
        notebook.run("kit.displays.show = real")
    assert has_frames_of_the_kit(shown)
    assert "TypeError: 'NoneType' object is not callable" in shown


def test_other_errors_are_shown_as_ever(notebook: Notebook) -> None:
    shown = notebook.run("import json\njson.loads('{')")
    assert "json/decoder.py" in shown
    assert not LEFT_OUT.search(shown)
    assert "SyntaxError" in notebook.run("1 +")


def test_a_handler_of_the_users_own_stays(notebook: Notebook) -> None:
    notebook.run("def mine(shell, kind, error, traceback, tb_offset=None):\n    seen.append(error)\nseen = []")
    try:
        notebook.run("get_ipython().set_custom_exc((ValueError,), mine)\nkit.tracebacks.install()")
        assert notebook.run("CheckpointConfig(interval_ms=3)") == ""
        assert notebook.run("assert [type(each).__name__ for each in seen] == ['SettingError']") == ""
    finally:
        notebook.run("get_ipython().set_custom_exc((), None)\nkit.tracebacks.install()")
