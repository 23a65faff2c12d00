"""One job in three layers: the operators, the chains with the reasons against chaining, and the deployed tasks."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from kit.core.trace.shape import EpochShape
from kit.draw.views.chains import chains, chains_svg, draw_chains
from kit.draw.views.execution_graph import execution_graph
from kit.hosts.lab import ready_job
from kit.hosts.lab.jobs.ready_jobs import ready_jobs
from kit.run.stage import Stage
from kit.run.subject import Subject
from tests.draw.geometry import crossings
from tests.draw.labs import lab_of, letters


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_every_edge_says_whether_and_why_not() -> None:
    table = chains(letters().stream_graph()).to_pandas()
    assert table[["source", "target", "chained"]].values.tolist() == [
        ["letters", "totals", False],
        ["totals", "out", True],
    ]
    assert table.reason[0] == "records change subtask: hash(letter)"


def test_the_picture_frames_each_chain() -> None:
    drawing = chains_svg(letters().stream_graph())
    assert drawing.caption == "letters: 3 operators in 2 chains"
    assert {"letters x 2", "totals x 2", "chained", "not chained", "hash(letter)"} <= set(texts(drawing))


def test_without_chaining_every_operator_has_a_frame() -> None:
    env = letters()
    env.chaining = False
    drawing = chains_svg(env.stream_graph())
    assert drawing.caption == "letters: 3 operators in 3 chains"
    assert "chained" not in texts(drawing)


def test_the_three_layers_are_on_the_page_and_the_legend_has_what_is_there() -> None:
    layers = chains(letters())
    page = layers._repr_html_()
    for text in ("Stream graph", "Job graph", "Execution graph", "4 subtasks, 4 channels", "totals: 128 key groups"):
        assert text in page
    assert page.count("chained: a call") == 1
    alone = letters()
    alone.chaining = False
    assert "chained: a call" not in chains(alone)._repr_html_()
    assert repr(layers) == "Chains(letters: 3 operators in 2 chains)"
    assert [each.name for each in (layers.stream_graph(), layers.job_graph())] == ["stream_graph", "job_graph"]
    assert texts(layers.stream_graph().svg()).count("hash(letter)") == 1


def test_the_view_shows_the_epoch_that_ran_then() -> None:
    lab = lab_of()
    lab.run_until(checkpoint=1)
    before = len(lab.trace)
    lab.faults.kill(1)
    lab.run()
    assert draw_chains(Subject(lab, n=before)).stage.epoch == 1
    assert draw_chains(Subject(lab)).stage.epoch == 2


def test_each_subtask_has_its_gates_and_key_groups() -> None:
    table = execution_graph(letters()).to_pandas().set_index("task")
    assert table.loc["totals/1", ["first_key_group", "last_key_group", "gates", "inputs", "outputs"]].tolist() == [
        64,
        127,
        1,
        2,
        0,
    ]
    assert table.loc["letters/0", ["gates", "inputs", "outputs"]].tolist() == [0, 0, 2]
    assert table.loc["letters/0", ["first_key_group", "last_key_group"]].isna().all()
    shown = texts(execution_graph(letters()).svg())
    assert {"totals/0", "key groups 0–63 of 128", "gate 0: 2 channels from letters, hash(letter)"} <= set(shown)


def test_many_subtasks_are_one_box_and_the_bar_has_each_of_them() -> None:
    many = execution_graph(letters(parallelism=50))
    shown = texts(many.svg())
    assert {"letters x 50", "totals x 50", "2,500 channels", "2 or 3 of 128 key groups each"} <= set(shown)
    assert many.body().count('title="totals/') == 50
    assert 'title="totals/49: key groups 126–127"' in many.body()
    assert len(many.to_pandas()) == 100
    assert len(many.channels()) == 2500
    assert many.dot().source.count("label=") < 12


def test_gates_are_told_apart_and_subtasks_stand_in_order() -> None:
    graph = execution_graph(ready_job("two-inputs"))
    assert {"gate 0: 1 channel from left, hash(k)", "gate 1: 1 channel from right, hash(k)"} <= set(texts(graph.svg()))
    six = execution_graph(letters(parallelism=6)).graph()
    heights = [box.y for node, box in zip(six.nodes, six.placed.nodes) if node.name.startswith("totals/")]
    assert heights == sorted(heights)


def test_a_shape_without_operators_has_gates_as_well() -> None:
    whole = Stage.of(lab_of().look.stages[0])
    bare = Stage.of(EpochShape(whole.epoch, whole.vertices, whole.channels))
    assert [gate.shipping for gate in execution_graph(bare).gates["totals"]] == ["hash"]
    assert list(execution_graph(bare).key_groups) == ["totals"]


@pytest.mark.parametrize("name", [*ready_jobs().name, "letters x 6", "letters x 50"])
def test_no_label_lies_on_an_edge_in_any_layer(name: str) -> None:
    many = name.rpartition(" x ")[2]
    layers = chains(letters(parallelism=int(many)) if many.isdigit() else ready_job(name))
    for graph in (layers.stream_graph(), layers.job_graph(), layers.execution_graph.graph()):
        assert crossings(graph) == []
        assert crossings(graph.turned()) == []
