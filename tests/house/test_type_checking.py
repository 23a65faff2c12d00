"""A name that is imported for type checkers only does not exist when a program runs: nothing but annotations use it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.files import read, shipped

Imports = ast.Import | ast.ImportFrom


def imported(nodes: list[ast.AST]) -> set[str]:
    lines = [node for node in nodes if isinstance(node, Imports)]
    return {(alias.asname or alias.name).partition(".")[0] for line in lines for alias in line.names}


def missing_when_run(source: str) -> Iterator[str]:
    """Say which names are used, outside of annotations, that only type checkers have."""
    if "TYPE_CHECKING" not in source:
        return iter(())
    tree = ast.parse(source)
    guards = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    guarded = imported([line for guard in guards for line in guard.body])
    annotations = [
        part for node in ast.walk(tree) for field in ("annotation", "returns") if (part := getattr(node, field, None))
    ]
    annotated = {id(each) for part in annotations for each in ast.walk(part)}

    def visit(node: ast.AST, known: set[str]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known = known | imported(list(ast.walk(node)))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name) and child.id in guarded - known and id(child) not in annotated:
                yield f"line {child.lineno}: {child.id} is imported for type checkers only"
            yield from visit(child, known)

    return visit(tree, set())


def test_what_is_used_is_imported() -> None:
    assert [(path, *found) for path in shipped() if (found := list(missing_when_run(read(path))))] == []


GUARDED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas as pd\n"


def test_a_name_that_is_missing_is_found() -> None:
    told = ["line 5: pd is imported for type checkers only"]
    assert list(missing_when_run(f"{GUARDED}def f(x: pd.Series) -> pd.DataFrame:\n    return pd.DataFrame(x)")) == told
    assert (
        list(missing_when_run(f"{GUARDED}def f(x: pd.Series) -> pd.DataFrame:\n    import pandas as pd\n    pd")) == []
    )
