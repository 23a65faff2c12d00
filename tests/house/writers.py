"""The writers of a field: only the module of its class may write it."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def foreign_writes(source: str) -> Iterator[str]:
    """The assignments to a field of an object whose class this module does not define, as `line: target`."""
    tree = ast.parse(source)
    own = set(_own_fields(tree))
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For):
            continue
        for target in (part for each in targets if each is not None for part in _parts(each)):
            if isinstance(target, ast.Attribute) and not _is_self(target.value) and target.attr not in own:
                yield f"{target.lineno}: {ast.unparse(target)}"


def _own_fields(tree: ast.AST) -> Iterator[str]:
    """The fields of the classes defined here: declared in their bodies, or assigned by their methods."""
    for klass in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(klass):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                yield node.attr


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _parts(element)
    else:
        yield target


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"
