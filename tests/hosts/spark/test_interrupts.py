"""Ctrl-C: a script ends with its job, a notebook's cell says that the job continues; neither leaves anything behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from kit.hosts.spark import SparkJob
from kit.hosts.spark.console import waiting
from kit.hosts.spark.running_jobs import running
from tests.hosts.spark.interrupted import interrupt_in
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, generator, totals_job
from tests.hosts.spark.test_spark_job import alive
from tests.house.files import ROOT

PROMPT = "Ctrl-C again leaves at once"


@pytest.fixture(autouse=True)
def interrupts_count() -> Iterator[None]:
    """A shell has what it starts in the background ignore interrupts; Python then has no KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def endless(directory: Path) -> SparkJob:
    return SparkJob(totals_job(directory, generator(10**8, rows_per_second=30_000)), launch=ThreadGang)


@pytest.mark.spark
def test_a_script_in_a_terminal(tmp_path: Path) -> None:
    """The signal goes to the whole process group, Java and all, as a terminal sends it."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    script = subprocess.Popen(
        [sys.executable, "-m", "tests.hosts.spark.interrupted", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert script.stdout is not None
    assert script.stderr is not None
    begun, *workers = script.stdout.readline().split()
    assert begun == "runs"
    os.killpg(script.pid, signal.SIGINT)
    assert script.stdout.readline() == "goes on\n"
    os.killpg(script.pid, signal.SIGINT)
    said, complaints = script.communicate(timeout=60)
    assert said == "CANCELED 1\n"  # one epoch
    assert PROMPT in complaints
    assert complaints.rstrip().endswith("KeyboardInterrupt")
    assert script.returncode == -signal.SIGINT
    assert len(workers) == 2
    assert not any(alive(int(worker)) for worker in workers)
    assert os.listdir(temporary) == []


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("progress", [False, True])
def test_an_interrupted_wait_cancels_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], progress: bool
) -> None:
    job = endless(tmp_path).start()
    await_checkpoint(job, 1)
    interrupt_in("wait")
    with pytest.raises(KeyboardInterrupt):
        job.wait(progress=progress)
    assert (job.status, len(job.look.stages), list(running())) == ("CANCELED", 1, [])
    said = capsys.readouterr().err
    assert said.count(f"interrupted: cancelling job totals ({PROMPT})") == 1
    assert "job totals is CANCELED" in said


@pytest.mark.usefixtures("nothing_left")
def test_a_second_interrupt_leaves_at_once(tmp_path: Path) -> None:
    """The worker is in a function that it will not leave so soon."""
    job = SparkJob(totals_job(tmp_path, generator(10**8), function=slow), launch=ThreadGang).start()
    IN_FUNCTION.wait()
    interrupt_in("wait", "close")
    with pytest.raises(KeyboardInterrupt):
        job.wait()
    assert job.status == "CANCELLING"
    LET_GO.set()
    job.close()
    assert (job.status, list(running())) == ("CANCELED", [])


IN_FUNCTION, LET_GO = threading.Event(), threading.Event()


def slow(row: dict[str, int]) -> dict[str, int]:
    IN_FUNCTION.set()
    LET_GO.wait()
    return row


def test_an_interrupt_while_a_wait_begins_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), waiting(lambda: ("", "")):
        pass
    assert [thread.name for thread in threading.enumerate() if thread.name == "kit-waiting"] == []


@pytest.mark.usefixtures("nothing_left")
def test_an_interrupted_with_block_cancels_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), endless(tmp_path) as job:  # noqa: PT012
        job.start()
        raise KeyboardInterrupt
    assert (job.status, list(running())) == ("CANCELED", [])
    assert PROMPT in capsys.readouterr().err


# --- in a notebook ----------------------------------------------------------------------------------------------------

NOTEBOOK = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import os
import re
from pathlib import Path
import kit
from tests.hosts.spark.interrupted import interrupt_in
from tests.hosts.spark.test_interrupts import endless
job = endless(Path(os.environ["TMPDIR"]).parent / "job").start()
"""


class Notebook:
    """A Jupyter kernel with its own directory of temporary files."""

    def __init__(self, directory: Path) -> None:
        self.temporary = directory / "t"
        self.temporary.mkdir()
        self.kernel = KernelManager(kernel_name="python3")
        self.kernel.start_kernel(env=os.environ | {"TMPDIR": str(self.temporary)}, cwd=str(directory))
        self.client: BlockingKernelClient = self.kernel.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.red = ""
        """What its cells wrote to standard error, which a notebook shows in red."""
        self.lines: list[str] = []
        """What was shown below the cells, each text in turn."""

    def run(self, code: str) -> str:
        """Run a cell, and return its output with the name of the error that ended it."""
        cell = self.client.execute(code)
        said = ""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=60)
            except Empty:
                raise AssertionError(f"the cell has not ended: {said}") from None
            if message["parent_header"].get("msg_id") != cell:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                said += content["text"]
                self.red += content["text"] if content["name"] == "stderr" else ""
            elif kind in ("display_data", "update_display_data"):
                self.lines.append(content["data"]["text/plain"])
            elif kind == "execute_result":
                said += content["data"]["text/plain"]
            elif kind == "error":
                said += content["ename"]
            elif kind == "status" and content["execution_state"] == "idle":
                return said

    def left(self) -> list[str]:
        """Our files among its temporary ones."""
        return [name for name in os.listdir(self.temporary) if name.startswith("kit-")]


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    made = Notebook(tmp_path)
    yield made
    made.client.stop_channels()
    made.kernel.shutdown_kernel(now=True)


def test_an_interrupted_cell(notebook: Notebook) -> None:
    assert notebook.run(NOTEBOOK) == ""
    said = notebook.run("job.wait(1, progress=True)")  # a bar, and no complaint of tqdm's
    assert said == "'RUNNING'"
    said = notebook.run("interrupt_in('wait'); job.wait()")
    assert "job totals continues: wait() waits for it again, cancel() ends it" in said
    assert said.endswith("KeyboardInterrupt")
    assert notebook.run("(job.status, len(job.look.stages), len(kit.running()))") == "('RUNNING', 1, 1)"
    said = notebook.run("with job:\n    interrupt_in('wait'); job.wait()")
    assert "continues: wait()" not in said
    assert f"interrupted: cancelling job totals ({PROMPT})" in said
    assert notebook.run("(job.status, len(kit.running()))") == "('CANCELED', 0)"
    assert notebook.red == ""


WAITING = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import threading
from kit.hosts.spark import console
from kit.hosts.spark.console import waiting
console.PATIENCE_S = console.EVERY_S = 0.01
shown, enough = [], threading.Event()
def text():
    shown.append(1)
    if len(shown) == 9:
        enough.set()
    return ("starting Spark" if len(shown) < 6 else "starting workers"), f"{{len(shown)}}"
with waiting(text):
    assert enough.wait(30)
"""


def test_what_is_waited_for_is_a_line_below_the_cell(notebook: Notebook) -> None:
    """Not standard error, which is red there though nothing has failed."""
    assert notebook.run(WAITING) == ""
    assert re.sub(r" \[\d+ s\]", "", "\n".join(notebook.lines)).splitlines()[-1] == "starting workers: done"
    assert "starting Spark: done [0 s]" in notebook.lines
    assert notebook.red == ""


def test_a_kernel_that_is_restarted_and_shut_down(notebook: Notebook) -> None:
    notebook.run(NOTEBOOK)
    assert len(notebook.left()) == 1
    notebook.kernel.restart_kernel()
    notebook.client.wait_for_ready(timeout=60)
    assert notebook.left() == []
    notebook.run(NOTEBOOK)
    assert len(notebook.left()) == 1
    notebook.kernel.shutdown_kernel()
    assert notebook.left() == []
