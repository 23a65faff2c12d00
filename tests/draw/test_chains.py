"""What is chained and why, from the graph's own rules."""

from __future__ import annotations

from xml.etree import ElementTree

from kit.draw.chains import chains, chains_svg
from tests.draw.labs import letters


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_every_edge_says_whether_and_why_not() -> None:
    table = chains(letters().stream_graph())
    assert table[["source", "target", "chained"]].values.tolist() == [
        ["letters", "totals", False],
        ["totals", "out", True],
    ]
    assert table.reason[0] == "records change subtask: hash(letter)"


def test_the_picture_frames_each_chain() -> None:
    shown = texts(chains_svg(letters().stream_graph()))
    assert "letters: 3 operators in 2 chains" in shown
    assert {"letters x 2", "totals x 2", "chained", "not chained"} <= set(shown)


def test_without_chaining_every_operator_has_a_frame() -> None:
    env = letters()
    env.chaining = False
    shown = texts(chains_svg(env.stream_graph()))
    assert "letters: 3 operators in 3 chains" in shown
    assert "chained" not in shown
