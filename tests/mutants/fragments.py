"""A fragment of Python, an expression or some statements, that is looked for in a function by its syntax.

Layout, quotes and comments do not count. A name that the function's module does not have is a local one; it stands for
any local name, the same one throughout the fragment, so that a mutant survives when a variable is renamed. `...` as the
body of a statement stands for any statements.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Found = tuple[ast.AST, str, int, int]
"""Where a fragment was found: a node, the name of a field, and from which to which of the nodes in it."""


@dataclass
class Fragment:
    """`text`, to be looked for in a function whose module has the names of `known`."""

    text: str
    known: Mapping[str, object]
    _locals: dict[str, str] = field(default_factory=dict)
    _bodies: list[list[ast.stmt]] = field(default_factory=list)

    def places(self, within: ast.AST) -> list[Found]:
        """Every place below `within` that reads like the fragment."""
        return [place for place in _runs(within, len(_parsed(self.text))) if self._fits(place)]

    def replace(self, place: Found, new: str) -> None:
        """Put `new` in the place where this was found, with the function's own local names and what `...` stood for."""
        assert self._fits(place)
        owner, name, start, end = place
        adapted = [_Adapted(self._locals, self._bodies).visit(node) for node in _parsed(new)]
        old = getattr(owner, name)
        if not isinstance(old, list):
            setattr(owner, name, adapted[0])
            return
        statements = isinstance(old[start], ast.stmt)
        old[start:end] = [ast.Expr(each) if statements and isinstance(each, ast.expr) else each for each in adapted]

    def _fits(self, place: Found) -> bool:
        self._locals, self._bodies = {}, []
        return all(self._alike(mine, theirs) for mine, theirs in zip(_parsed(self.text), _nodes(place), strict=True))

    def _alike(self, mine: Any, theirs: Any) -> bool:
        if isinstance(theirs, ast.Expr) and isinstance(mine, ast.expr):
            theirs = theirs.value
        if isinstance(mine, list):
            if _is_any_body(mine) and isinstance(theirs, list):
                self._bodies.append(theirs)
                return True
            return (
                isinstance(theirs, list)
                and len(mine) == len(theirs)
                and all(self._alike(*pair) for pair in zip(mine, theirs, strict=True))
            )
        if type(mine) is not type(theirs):
            return False
        if isinstance(mine, ast.Name):
            return self._same_name(mine.id, theirs.id)
        if isinstance(mine, ast.AST):
            names = [name for name in mine._fields if name not in ("ctx", "kind", "type_comment")]
            return all(self._alike(getattr(mine, name), getattr(theirs, name)) for name in names)
        return bool(mine == theirs)

    def _same_name(self, mine: str, theirs: str) -> bool:
        if mine in self.known or hasattr(builtins, mine) or mine in ("self", "cls"):
            return mine == theirs
        return self._locals.setdefault(mine, theirs) == theirs and theirs not in self.known


class _Adapted(ast.NodeTransformer):
    def __init__(self, locals_: Mapping[str, str], bodies: list[list[ast.stmt]]) -> None:
        self._locals = locals_
        self._bodies = bodies

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._locals.get(node.id, node.id)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and _is_any_body(value):
                setattr(node, name, self._bodies[0])
        return super().generic_visit(node)


def _parsed(text: str) -> list[ast.AST]:
    """The nodes of one expression, or of statements."""
    statements = ast.parse(text).body
    if len(statements) == 1 and isinstance(statements[0], ast.Expr):
        return [statements[0].value]
    return [*statements]


def _is_any_body(nodes: list[Any]) -> bool:
    return (
        len(nodes) == 1
        and isinstance(nodes[0], ast.Expr)
        and isinstance(nodes[0].value, ast.Constant)
        and nodes[0].value.value is ...
    )


def _runs(within: ast.AST, length: int) -> Iterator[Found]:
    """Yield each node below `within`, and each sequence of `length` adjacent nodes."""
    for owner in ast.walk(within):
        for name, value in ast.iter_fields(owner):
            if isinstance(value, list):
                yield from ((owner, name, start, start + length) for start in range(len(value) - length + 1))
            elif isinstance(value, ast.AST) and length == 1 and not isinstance(owner, ast.Expr):
                yield owner, name, 0, 1


def _nodes(place: Found) -> list[Any]:
    owner, name, start, end = place
    value = getattr(owner, name)
    return value[start:end] if isinstance(value, list) else [value]
