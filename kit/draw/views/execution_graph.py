"""The execution graph: every subtask with its gates and key groups, and the channels between them.

A vertex with many subtasks is one box, and the channels between two boxes are one arrow with their number. A bar for
each keyed vertex shows which subtask owns which key groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import pandas as pd

from kit.core.html_tables import rows_html
from kit.core.protocol.tasks import vertex_of
from kit.core.state.key_groups import key_group_partitions
from kit.core.state.keyed_handles import KeyGroupRange
from kit.core.trace.shape import ShapeVertex
from kit.draw.graphs import Edge, Graph, Node
from kit.draw.graphviz_objects import Dot
from kit.draw.picture import Svg
from kit.draw.stage.layout import place_of, ranks_of
from kit.draw.view_html import graph_html, view_html, words
from kit.run.run import shape_of
from kit.run.sizes import counted
from kit.run.stage import Stage

COLUMNS = ["task", "vertex", "subtask", "first_key_group", "last_key_group", "gates", "inputs", "outputs"]
HASH = "hash"
NO_GATE = "a source: no gate"
MOST_ROWS = 60


@dataclass(frozen=True, slots=True)
class Gate:
    """An input of a vertex: the sending vertex, and the partitioning of its records."""

    index: int
    source: str
    shipping: str


@dataclass(frozen=True)
class ExecutionGraphPicture:
    """The tasks and channels of one epoch, drawn."""

    stage: Stage

    @cached_property
    def gates(self) -> dict[str, tuple[Gate, ...]]:
        """Return the input gates of each vertex's subtasks."""
        operators = self.stage.operators
        found: dict[str, list[tuple[str, str]]] = {vertex.name: [] for vertex in self.stage.vertices}
        for edge in self.stage.edges:
            if edge.reason:
                found[operators[edge.target].vertex].append((operators[edge.source].vertex, edge.shipping))
        if not self.stage.edges:  # this shape does not list operators
            for channel in self.stage.channels:
                pair = vertex_of(channel.source), channel.partitioner
                inputs = found[vertex_of(channel.target)]
                if pair not in inputs:
                    inputs.append(pair)
        return {name: tuple(Gate(at, *pair) for at, pair in enumerate(pairs)) for name, pairs in found.items()}

    @cached_property
    def key_groups(self) -> dict[str, list[KeyGroupRange]]:
        """Return the key group ranges of the subtasks of each vertex with a keyed input."""
        return {
            vertex.name: key_group_partitions(vertex.max_parallelism, vertex.parallelism)
            for vertex in self.stage.vertices
            if any(gate.shipping.startswith(HASH) for gate in self.gates[vertex.name])
        }

    @cached_property
    def _between(self) -> Counter[tuple[str, str]]:
        """Return the number of channels between each two boxes of the picture."""
        channels = self.stage.channels
        return Counter((place_of(self.stage, each.source), place_of(self.stage, each.target)) for each in channels)

    @property
    def facts(self) -> str:
        """The numbers of subtasks and channels, in words."""
        tasks = sum(vertex.parallelism for vertex in self.stage.vertices)
        return f"{counted(tasks, 'subtask')}, {counted(len(self.stage.channels), 'channel')}"

    def graph(self) -> Graph:
        """Return boxes of subtasks, those of a vertex below one another; arrows are channels."""
        made = {vertex.name: tuple(self._nodes(vertex)) for vertex in self.stage.vertices}
        rows: dict[int, list[str]] = {}
        for vertex, rank in ranks_of(self.stage).items():
            rows.setdefault(rank, []).extend(node.name for node in made[vertex])
        edges = tuple(
            Edge(source, target, (f"{count:,} channels",) if count > 1 else (), tip=f"{source} → {target}")
            for (source, target), count in self._between.items()
        )
        caption = f"{self.stage.job}, epoch {self.stage.epoch}: {self.facts}"
        return Graph(
            "execution_graph",
            caption,
            tuple(node for nodes in made.values() for node in nodes),
            edges,
            rows=tuple(map(tuple, rows.values())),
            rank_gap=110.0,
            node_gap=16.0,
            from_sides=True,
        )

    def _nodes(self, vertex: ShapeVertex) -> Iterator[Node]:
        ranges = self.key_groups.get(vertex.name, [])
        if vertex.name in self.stage.closed_at_first():
            lines = [f"{vertex.name} x {vertex.parallelism}"]
            if ranges:
                lines.append(f"{_sizes(ranges)} of {vertex.max_parallelism} key groups each")
            lines += [self._gate(vertex, gate, "each ") for gate in self.gates[vertex.name]] or [NO_GATE]
            yield Node(vertex.name, tuple(lines), tip=" → ".join(vertex.operators))
            return
        for subtask in range(vertex.parallelism):
            name = f"{vertex.name}/{subtask}"
            lines = [name, *([f"{_range(ranges[subtask])} of {vertex.max_parallelism}"] if ranges else [])]
            lines += [self._gate(vertex, gate) for gate in self.gates[vertex.name]] or [NO_GATE]
            yield Node(name, tuple(lines), tip=" → ".join(vertex.operators))

    def _gate(self, vertex: ShapeVertex, gate: Gate, each: str = "") -> str:
        senders = next(other.parallelism for other in self.stage.vertices if other.name == gate.source)
        count = f"{senders}"
        if gate.shipping.startswith(("forward", "rescale")):
            least = max(1, senders // vertex.parallelism)
            uneven = senders > vertex.parallelism and senders % vertex.parallelism
            count = f"{least} or {least + 1}" if uneven else f"{least}"
        many = "s" * (count != "1")
        return f"gate {gate.index}: {count} channel{many} {each}from {gate.source}, {gate.shipping}"

    def body(self) -> str:
        """Return the picture and the key groups as HTML."""
        bars = "".join(self._bar(vertex) for vertex in self.stage.vertices if vertex.name in self.key_groups)
        return graph_html(self.graph()) + bars

    def _bar(self, vertex: ShapeVertex) -> str:
        ranges = self.key_groups[vertex.name]
        head = f"{vertex.name}: {vertex.max_parallelism} key groups, {_sizes(ranges)} a subtask"
        cells = ""
        for subtask, each in enumerate(ranges):
            fits = _size(each) / vertex.max_parallelism >= 0.03 * len(str(subtask))  # on a small screen
            cells += (
                f'<span class="{"odd" if subtask % 2 else ""}" style="flex-grow:{_size(each)}" '
                f'title="{escape(vertex.name)}/{subtask}: {_range(each)}">{subtask if fits else ""}</span>'
            )
        return f'<h4>{escape(head)}</h4><div class="v-groups">{cells}</div>'

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per subtask: task, vertex, subtask, first_key_group and last_key_group (Int64, missing if no
        input is keyed), gates, inputs and outputs (numbers of channels).
        """
        inputs = Counter(channel.target for channel in self.stage.channels)
        outputs = Counter(channel.source for channel in self.stage.channels)
        rows = []
        for vertex in self.stage.vertices:
            ranges = self.key_groups.get(vertex.name)
            for subtask in range(vertex.parallelism):
                task = f"{vertex.name}/{subtask}"
                groups = (None, None) if ranges is None else (ranges[subtask].start, ranges[subtask].end)
                counts = len(self.gates[vertex.name]), inputs[task], outputs[task]
                rows.append([task, vertex.name, subtask, *groups, *counts])
        frame = pd.DataFrame(rows, columns=COLUMNS)
        return frame.astype(dict.fromkeys(("first_key_group", "last_key_group"), "Int64"))

    def channels(self) -> pd.DataFrame:
        """Return one row per channel: number, source, target, shipping."""
        rows = [[each.number, each.source, each.target, each.partitioner] for each in self.stage.channels]
        return pd.DataFrame(rows, columns=["number", "source", "target", "shipping"])

    def svg(self) -> Svg:
        """Return the picture alone, in light colours."""
        return self.graph().svg()

    def dot(self) -> Dot:
        """Return the picture as an object of the `graphviz` package."""
        return self.graph().dot()

    def _repr_html_(self) -> str:
        channels = [[*row] for row in self.channels().itertuples(index=False)][:MOST_ROWS]
        heads = ("channel", "from", "to", "shipping")
        listed = rows_html(heads, channels, count=len(self.stage.channels), all_in=".channels()")
        return view_html(
            f"Execution graph of {self.stage.job}",
            words(f"What is deployed in epoch {self.stage.epoch}: {self.facts}."),
            self.body(),
            f"<details><summary>Channels by number</summary>{listed}</details>",
        )

    def __repr__(self) -> str:
        return f"ExecutionGraphPicture({self.stage.job}, epoch {self.stage.epoch}: {self.facts})"


def execution_graph(job: Any) -> ExecutionGraphPicture:
    """Return the tasks, gates, channels and key groups of a StreamEnvironment, one of its graphs, a Lab, a SparkJob or
    a Trace. For a run, they are those of its newest epoch.
    """
    return ExecutionGraphPicture(shape_of(job))


def _size(each: KeyGroupRange) -> int:
    return each.end - each.start + 1


def _sizes(ranges: list[KeyGroupRange]) -> str:
    sizes = sorted({_size(each) for each in ranges})
    return " or ".join(map(str, sizes)) if len(sizes) <= 2 else f"{sizes[0]} to {sizes[-1]}"


def _range(each: KeyGroupRange) -> str:
    if _size(each) < 1:
        return "no key group"
    return f"key group {each.start}" if _size(each) == 1 else f"key groups {each.start}–{each.end}"
