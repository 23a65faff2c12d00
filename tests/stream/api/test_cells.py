"""A notebook cell that runs again replaces its operators; a script adds the operators of every line."""

from __future__ import annotations

import builtins
import linecache
import queue
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from kit.stream.api import StreamEnvironment
from kit.stream.graph.stream_graph import DuplicateUidError, GraphError

FIRST = """
from kit import CollectSink, CollectionSource, Lab, StreamEnvironment, sum_
env = StreamEnvironment("letters")
stream = env.from_source(CollectionSource([{"letter": "a", "n": 1}, {"letter": "b", "n": 2}]), uid="letters")
"""
TOTALS = """
totals = stream.key_by("letter").aggregate(total=sum_("n")).uid("totals")
totals.sink_to(CollectSink("out"), uid="out")
"""
BARE = """
totals = stream.key_by("letter").aggregate(total=sum_("n"))
totals.sink_to(CollectSink("out"))
"""


class Notebook:
    """Runs cells as a kernel does: a front end's id for the cell if there is one, a number for the execution."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, has_ids: bool = True) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self._shell = SimpleNamespace(user_ns=self.names, execution_count=0, get_parent=lambda: self._parent)
        self._parent: dict[str, Any] = {}
        self._has_ids = has_ids
        monkeypatch.setattr(builtins, "get_ipython", lambda: self._shell, raising=False)

    def run(self, source: str, cell: str = "") -> Notebook:
        self._shell.execution_count += 1
        self._parent = {"header": {"msg_id": f"message-{self._shell.execution_count}"}}
        if self._has_ids:
            self._parent["metadata"] = {"cellId": cell or str(hash(source))}
        file = f"cell-{hash(source)}.py"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), self.names)
        return self

    @property
    def env(self) -> StreamEnvironment:
        env: StreamEnvironment = self.names["env"]
        return env

    @property
    def operators(self) -> list[str]:
        return [node.name for node in self.env.stream_graph().nodes]


@pytest.fixture(params=[True, False], ids=["with ids", "without ids"])
def notebook(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield Notebook(monkeypatch, request.param)


@pytest.mark.parametrize("cell", [TOTALS, BARE])
def test_a_cell_run_again_replaces_what_it_made(notebook: Notebook, cell: str) -> None:
    notebook.run(FIRST).run(cell)
    once = notebook.env.job_graph()
    notebook.run(cell).run(cell)
    assert repr(notebook.env.job_graph().vertices) == repr(once.vertices)
    assert [v.operator_ids for v in notebook.env.job_graph().vertices] == [v.operator_ids for v in once.vertices]
    notebook.run("lab = Lab(env); lab.run(); rows = lab.output('out').to_dict('list')")
    assert notebook.names["rows"] == {"letter": ["a", "b"], "total": [1, 2]}


def test_a_cell_that_was_changed_is_the_same_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = (
        Notebook(monkeypatch).run(FIRST).run(BARE, "b").run(BARE.replace('"n"', '"n", "m"').replace(', "m"', ""), "b")
    )
    notebook.run('stream.filter(lambda row: True).sink_to(CollectSink("all"))', "b")
    assert notebook.operators == ["letters", "filter", "CollectSink"]


def test_a_uid_given_again_on_the_same_input_replaces_without_ids_too(notebook: Notebook) -> None:
    notebook.run(FIRST).run(TOTALS).run(f"# a comment\n{TOTALS}", "another")
    assert notebook.operators == ["letters", "totals", "out"]


def test_a_line_that_is_executed_several_times_in_one_run_means_several_operators(notebook: Notebook) -> None:
    loop = 'for n in range(3):\n    stream.filter(lambda row: True).uid(f"kept-{n}").sink_to(CollectSink(f"out-{n}"))'
    notebook.run(FIRST).run(loop).run(loop)
    assert len(notebook.operators) == 7
    assert notebook.operators.count("kept-1") == 1


def test_functions_of_other_cells_count_for_the_cell_that_calls_them(notebook: Notebook) -> None:
    notebook.run(FIRST).run("def keep(name): stream.filter(lambda row: True).sink_to(CollectSink(name))")
    notebook.run("keep('a')").run("keep('b')").run("keep('a')")
    assert notebook.operators == ["letters", "filter", "CollectSink", "filter", "CollectSink"]


def test_a_source_that_is_made_again_takes_with_it_what_hung_on_it_and_that_is_said(notebook: Notebook) -> None:
    env, source = FIRST.split("stream =")
    notebook.run(env).run(f"stream ={source}").run(TOTALS).run(f"stream ={source}")
    with pytest.warns(
        UserWarning, match=r"no longer in the job:\n  'totals', made by In \[3\], line 2: totals = stream"
    ):
        assert notebook.operators == ["letters"]
    notebook.run(TOTALS)
    assert notebook.operators == ["letters", "totals", "out"]


def test_a_stream_whose_operator_was_made_again_says_which_line_to_run_first(notebook: Notebook) -> None:
    env, source = FIRST.split("stream =")
    kept = "kept = stream.filter(lambda row: True)"
    notebook.run(env).run(f"stream ={source}").run(kept).run(f"stream ={source}")
    for _ in range(2):
        with pytest.raises(
            GraphError, match=r"'filter', made by In \[3\], line 1: kept = stream\.filter.*run|Run the line"
        ):
            notebook.run("kept.sink_to(CollectSink('kept'))")
    notebook.run(kept).run("kept.sink_to(CollectSink('kept'))")
    assert notebook.operators == ["letters", "filter", "CollectSink"]


def test_a_cell_that_goes_on_from_its_own_work_says_which_line_to_run_first(notebook: Notebook) -> None:
    env, source = FIRST.split("stream =")
    again = "stream = stream.filter(lambda row: True)"
    notebook.run(env).run(f"stream ={source}").run(again)
    before = notebook.operators
    for _ in range(2):
        with pytest.raises(
            GraphError, match=r"Run this first, then this cell again:\n  In \[2\], line 1: stream = env"
        ):
            notebook.run(again)
        assert notebook.operators == before
    notebook.run(f"stream ={source}").run(again)
    assert notebook.operators == before


def test_a_cell_that_failed_half_way_is_run_again(notebook: Notebook) -> None:
    notebook.run(FIRST)
    wrong = 'stream.filter(lambda row: True).select("m")'
    for _ in range(2):
        with pytest.raises(ValueError, match="there is no column 'm'"):
            notebook.run(wrong, "c")
    assert notebook.operators == ["letters", "filter"]


def test_in_a_script_every_line_means_an_operator_and_a_taken_uid_adds_none() -> None:
    names: dict[str, Any] = {}
    for source in (FIRST, TOTALS):
        exec(source, names)
    env: StreamEnvironment = names["env"]
    for _ in range(2):
        with pytest.raises(DuplicateUidError, match=r"'totals' is given to 'aggregate' \(#2\) and 'aggregate' \(#4\)"):
            exec(TOTALS, names)
        assert [node.name for node in env.stream_graph().nodes] == ["letters", "totals", "out"]
    again = names["stream"].filter(lambda row: True)
    with pytest.raises(DuplicateUidError):
        again.uid("totals")
    again.uid("kept")
    assert [node.name for node in env.stream_graph().nodes] == ["letters", "totals", "out", "kept"]


def test_in_a_real_kernel() -> None:
    manager, client = start_new_kernel(startup_timeout=120)

    def run(source: str, cell: str) -> str:
        content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = client.session.msg("execute_request", content | {"stop_on_error": False}, metadata={"cellId": cell})
        client.shell_channel.send(message)
        said = ""
        while True:
            try:
                reply = client.get_iopub_msg(timeout=120)
            except queue.Empty:  # the kernel is gone
                return said
            if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            said += reply["content"].get("text", "") + "".join(reply["content"].get("traceback", []))
            if reply["msg_type"] == "status" and reply["content"]["execution_state"] == "idle":
                return said

    try:
        for cell in (FIRST, TOTALS, TOTALS, f"{TOTALS}# changed"):
            assert run(cell, cell[:8]) == ""
        assert run("lab = Lab(env); lab.run(); print(lab.output()['total'].tolist(), env)", "run") == (
            "[1, 2] StreamEnvironment('letters', 3 operators)\n"
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
