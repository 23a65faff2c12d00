"""Circles of imports: modules that cannot be understood one after another.

Every import counts: at the top, inside a function, under `TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping


def imports(module: str, source: str, modules: frozenset[str]) -> set[str]:
    """Those of `modules` that this one imports."""
    package = module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            below = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (below, node.module)))
            named = {f"{base}.{alias.name}" for alias in node.names}
            found |= named & modules or {base}
    return (found & modules) - {module}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that each lead back to itself (Tarjan's strongly connected components)."""
    return [sorted(group) for group in _components(graph) if len(group) > 1]


def _components(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        numbers[node] = lowest[node] = len(numbers)
        open_.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in numbers:
                yield from visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in open_:
                lowest[node] = min(lowest[node], numbers[target])
        if lowest[node] == numbers[node]:
            at = open_.index(node)
            yield open_[at:]
            del open_[at:]

    for node in sorted(graph):
        if node not in numbers:
            yield from visit(node)
