"""Graphs described once: placed without overlaps, drawn in the theme, and as objects of the graphviz package."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import graphviz
import pytest

from kit.draw.assets import light_colours
from kit.draw.graphs import Edge, Graph, Group, Node, text_width
from kit.draw.graphviz_objects import Dot, drawn_in_process
from kit.draw.panel import panel
from tests.draw.geometry import crossings

GRAPH = Graph(
    "waits",
    "Who waits for whom",
    (
        Node("task:a/0", ("a/0", "key groups 0–63"), tip="the first"),
        Node("b", ("<b> & co",), "lit"),
        Node("c", ("the end",), "root", ends=True),
    ),
    (
        Edge("task:a/0", "b", ("not chained", "records change subtask:", "hash(letter)"), "bad dashed"),
        Edge("task:a/0", "c", ("waits",), "waits"),
        Edge("c", "task:a/0", ("back",)),
        Edge("b", "b", ("again",)),
    ),
    (Group("g", "letters x 2", ("task:a/0", "b")),),
)


def texts(drawing: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def test_no_label_lies_on_an_arrow_a_box_or_another_label() -> None:
    assert crossings(GRAPH) == []


def random_graph(seed: int) -> Graph:
    random = Random(seed)
    count = random.randint(4, 8)
    edges = []
    for _ in range(random.randint(count, 2 * count)):
        one, other = random.sample(range(count), 2)
        lines = ("a label of some width", "and two lines") if random.random() < 0.6 else ("short",)
        edges.append(Edge(f"n{one}", f"n{other}", lines))
    return Graph("g", "g", tuple(Node(f"n{each}", (f"node {each}",)) for each in range(count)), tuple(edges))


@pytest.mark.parametrize("seed", [27, 35, 98, 107, 118, 139, 150, 257])
def test_boxes_move_apart_as_far_as_an_arrow_crosses_a_label(seed: int) -> None:
    """Of these graphs some need more space, some less, and some much: at each other distance a label is crossed."""
    assert [each for each in crossings(random_graph(seed)) if "crosses label" in each] == []


def test_the_measure_finds_what_overlaps() -> None:
    nodes = tuple(Node(f"n{i}", (f"node {i}",)) for i in range(2))
    graph = Graph("g", "g", nodes, (Edge("n0", "n1", ("label",)),))
    placed = graph.placed
    wrong = type(placed)(placed.width, placed.height, (placed.nodes[0],) * 2, (), placed.ways, (placed.nodes[0],))
    graph.__dict__["placed"] = wrong
    assert {found.split()[0] for found in crossings(graph)} == {"boxes", "label"}


def test_every_text_is_in_the_drawing_and_in_the_document_that_stands_alone() -> None:
    said = {line for node in GRAPH.nodes for line in node.lines} | {line for edge in GRAPH.edges for line in edge.lines}
    assert said | {"letters x 2"} == set(texts(GRAPH.drawing())) == set(texts(GRAPH.svg()))
    assert GRAPH.svg().caption == "Who waits for whom"


def test_a_fragment_carries_its_theme_and_a_document_only_the_light_one() -> None:
    fragment = panel("waits", GRAPH.drawing(), styles=("graphs.css",))
    assert fragment.startswith('<div class="kit-picture" role="group" aria-label="waits">')
    assert "kit-dark" in fragment
    assert "kit-dark" not in GRAPH.svg()
    assert "--kit-ink: #1b2430" in GRAPH.svg()
    assert light_colours()["ink"] == "#1b2430"


def test_a_dot_is_graphviz_own_object_and_says_what_is_drawn() -> None:
    dot = GRAPH.dot()
    assert isinstance(dot, graphviz.Digraph)
    assert repr(dot) == "Dot('Who waits for whom')"
    for line in ('"task.a/0" -> c [label=<', 'label="letters x 2"', "records change subtask:"):
        assert line in dot.source


def test_a_dot_is_drawn_where_no_program_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    dot = GRAPH.dot()
    forms = dot._repr_mimebundle_()
    assert {"waits", "not chained", "<b> & co"} <= set(texts(forms["image/svg+xml"]))
    assert light_colours()["line"] in forms["image/svg+xml"]
    assert "var(--kit-line)" in forms["text/html"]
    assert not re.search("#[0-9a-f]{6}", forms["text/html"].partition("<svg")[2])
    assert dot.pipe("png").startswith(b"\x89PNG")
    drawn = Path(dot.render(tmp_path / "waits", format="svg", cleanup=True))
    assert drawn.name == "waits.svg"
    assert ElementTree.parse(drawn).getroot().tag.endswith("svg")
    assert [path.name for path in tmp_path.iterdir()] == ["waits.svg"]
    with pytest.raises(ValueError, match="needs Graphviz installed"):
        dot.render(tmp_path / "waits", view=True)
    with pytest.raises(ValueError, match="cannot draw the format 'tif'"):
        dot.pipe("tif")
    with pytest.raises(ValueError, match="cannot read"):
        drawn_in_process("digraph {", "svg")
    assert "Fontconfig" not in capfd.readouterr().err


def test_an_installed_program_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\n/bin/cat >/dev/null\necho drawn by the program\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Dot("g").pipe("svg", encoding="utf-8") == "drawn by the program\n"


@pytest.mark.parametrize("text", ["WWWW mm %%", "Zusammenfassung 0123456789", "iiii llll", "key groups 0–63 → hash"])
def test_a_text_has_room_in_the_widest_font(text: str) -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    for bold in (False, True):
        font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
        measured = TextPath((0, 0), text.replace(" ", "n"), size=12, prop=font).get_extents().width
        assert text_width(text.replace(" ", "n"), 12, bold=bold) >= measured * 0.98
