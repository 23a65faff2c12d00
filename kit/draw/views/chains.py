"""One job in three layers: the program, the chains, and the deployed subtasks.

The *stream graph* has the operators. In the *job graph*, the operators in one frame are chained: they run in the same
task, and records pass between them by a call. Between frames records travel through channels. The label on such an edge
says why the two operators were not chained, in the words of the chaining rules. The *execution graph* is drawn by
`kit.draw.views.execution_graph`.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import pandas as pd

from kit.core.trace.shape import ShapeEdge
from kit.draw.graphs import Edge, Graph, Group, Node
from kit.draw.graphviz_objects import Dot
from kit.draw.picture import Svg
from kit.draw.view_html import fold, graph_html, legend, view_html
from kit.draw.views.execution_graph import ExecutionGraphPicture
from kit.draw.views.view import View
from kit.run.run import shape_of
from kit.run.sizes import counted
from kit.run.stage import Stage
from kit.run.subject import Subject

LABEL_WIDTH = 30
TITLE = "Chains"
QUESTION = "Which operators share a task, which do not and why, and what is deployed?"


@dataclass(frozen=True)
class Chains:
    """A job in three layers. A notebook shows them all; `svg` and `dot` return the job graph."""

    stage: Stage

    @property
    def execution_graph(self) -> ExecutionGraphPicture:
        """Return the layer of subtasks, gates and channels."""
        return ExecutionGraphPicture(self.stage)

    def stream_graph(self) -> Graph:
        """Return the operators, with the partitioning on each edge."""
        nodes = self._nodes()
        edges = tuple(Edge(f"o{each.source}", f"o{each.target}", (each.shipping,)) for each in self.stage.edges)
        caption = f"{self.stage.job}: {counted(len(nodes), 'operator')}, {counted(len(edges), 'edge')}"
        return Graph("stream_graph", caption, nodes, edges, from_sides=True)

    def job_graph(self) -> Graph:
        """Return the operators in their chains; each edge says whether it is chained, or why not."""
        groups = tuple(
            Group(
                vertex.name,
                f"{vertex.name} x {vertex.parallelism}",
                tuple(f"o{at}" for at, each in enumerate(self.stage.operators) if each.vertex == vertex.name),
                f"vertex {vertex.name}: parallelism {vertex.parallelism}, maximum {vertex.max_parallelism}",
            )
            for vertex in self.stage.vertices
        )
        edges = tuple(
            Edge(f"o{each.source}", f"o{each.target}", _why(each), "dashed" if each.reason else "good")
            for each in self.stage.edges
        )
        return Graph("job_graph", self.caption, self._nodes(), edges, groups, from_sides=True)

    @property
    def caption(self) -> str:
        """A description of the picture."""
        operators, vertices = len(self.stage.operators), len(self.stage.vertices)
        return f"{self.stage.job}: {counted(operators, 'operator')} in {counted(vertices, 'chain')}"

    def _nodes(self) -> tuple[Node, ...]:
        return tuple(
            Node(
                f"o{at}",
                (each.name, f"uid {each.uid}" if each.uid else "no uid"),
                tip="" if each.uid else f"{each.name} has no uid: its state is lost if the job changes",
            )
            for at, each in enumerate(self.stage.operators)
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per edge: source, target, shipping (its partitioning), chained, reason (why not)."""
        names = [each.name for each in self.stage.operators]
        rows = [[names[e.source], names[e.target], e.shipping, not e.reason, e.reason] for e in self.stage.edges]
        return pd.DataFrame(rows, columns=["source", "target", "shipping", "chained", "reason"])

    def svg(self) -> Svg:
        """Return the job graph as a picture of its own."""
        return self.job_graph().svg()

    def dot(self) -> Dot:
        """Return the job graph as an object of the `graphviz` package; use `stream_graph().dot()` and
        `execution_graph.dot()` for the other layers.
        """
        return self.job_graph().dot()

    def _repr_html_(self) -> str:
        written, chained, deployed = self.stream_graph(), self.job_graph(), self.execution_graph
        looks = (("line good", "chained: a call, in the same task"), ("line dashed", "through channels"))
        key = legend(looks[apart] for apart in sorted({bool(edge.reason) for edge in self.stage.edges}))
        layers = self.caption.partition(": ")[2]
        return view_html(
            f"{TITLE} of {self.stage.job}",
            fold("Stream graph", f"what was written: {written.caption.partition(': ')[2]}", graph_html(written)),
            fold("Job graph", f"what is chained: {layers}", graph_html(chained) + key, is_open=True),
            fold("Execution graph", f"what is deployed: {deployed.facts}", deployed.body(), is_open=True),
        )

    def __repr__(self) -> str:
        return f"Chains({self.caption})"


def chains(job: Any) -> Chains:
    """Return the layers of a StreamEnvironment, one of its graphs, a Lab, a SparkJob or a Trace."""
    return Chains(shape_of(job))


def chains_svg(job: Any) -> Svg:
    """Return the job graph as a picture alone; see `chains` for the argument."""
    return chains(job).svg()


def draw_chains(subject: Subject) -> Chains:
    """Draw the view: the layers of the epoch that ran then."""
    return Chains(subject.stage)


VIEW = View("chains", TITLE, QUESTION, draw_chains)


def _why(edge: ShapeEdge) -> tuple[str, ...]:
    if not edge.reason:
        return ("chained",)
    shipping = () if edge.shipping in edge.reason else (edge.shipping,)
    return ("not chained", *wrap(edge.reason, LABEL_WIDTH), *shipping)
